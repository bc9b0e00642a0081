"""What the benchmarks start: runs on this machine, an SSH server, ranks that write, a client that follows."""
