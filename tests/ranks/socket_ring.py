"""A rank without torch: the same environment as PyTorch's env://, spoken over plain sockets.

Rank 0 listens on MASTER_ADDR:MASTER_PORT; every rank sends it a number in each step and gets the sum back.
One line a step goes to stdout (``step 3 sum 10 rank 1``), chatter to stderr, and at the end the line
``ring ok world=4 steps=10``. Python 3.6 and up, standard library only.
"""

import argparse
import os
import signal
import socket
import struct
import sys
import time

NUMBER = struct.Struct(">q")
HOSTILE = b"\x1b[2J\x1b]0;owned\x07[bold]markup[/bold] \xff\xfe\x00 tab\there \r over\n"
"""Escape sequences, markup, bytes that are not UTF-8, NUL, and a carriage return."""

PEER_LOSS = 1.0
"""Seconds from a peer's loss to the error: gloo takes 3 to 8. So the rank that failed ends first."""


class Output:
    """Standard output, unbuffered, with an exact copy in a file if asked for."""

    def __init__(self, copy_dir, rank):
        self._copy = None
        if copy_dir:
            os.makedirs(copy_dir, exist_ok=True)
            self._copy = open(os.path.join(copy_dir, f"rank-{rank:05d}.copy"), "wb", buffering=0)  # noqa: SIM115

    def write(self, data):
        os.write(1, data)
        if self._copy is not None:
            self._copy.write(data)


def read_number(connection):
    data = b""
    while len(data) < NUMBER.size:
        part = connection.recv(NUMBER.size - len(data))
        if not part:
            raise ConnectionError("a peer has gone")
        data += part
    return NUMBER.unpack(data)[0]


def gather(address, world, limit):
    """Rank 0: waits for all others, and returns their connections."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(world)
    listener.settimeout(limit)
    peers = {}
    while len(peers) < world - 1:
        connection, _ = listener.accept()
        connection.settimeout(limit)
        peers[read_number(connection)] = connection
    listener.close()
    if sorted(peers) != list(range(1, world)):
        raise RuntimeError(f"ranks {sorted(peers)} came, not 1 to {world - 1}")
    return list(peers.values())


def join(address, rank, limit):
    """Other ranks: connect to rank 0, which may not listen yet."""
    end = time.monotonic() + limit
    while True:
        try:
            connection = socket.create_connection(address, timeout=limit)
            connection.settimeout(limit)
            connection.sendall(NUMBER.pack(rank))
            return [connection]
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def all_reduce(rank, peers, value):
    if rank == 0:
        value += sum(read_number(peer) for peer in peers)
        for peer in peers:
            peer.sendall(NUMBER.pack(value))
        return value
    peers[0].sendall(NUMBER.pack(value))
    return read_number(peers[0])


def arguments():
    parser = argparse.ArgumentParser(description="A rank without torch.")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds between steps")
    parser.add_argument("--fail-rank", type=int, default=-1, help="the rank that fails")
    parser.add_argument("--fail-at", type=int, default=0, help="the step at which it fails")
    parser.add_argument(
        "--exit-code", type=int, default=7, help="its exit status; -N: it kills itself with signal N"
    )
    parser.add_argument("--own-copy", metavar="DIR", help="also write all of stdout to DIR/rank-NNNNN.copy")
    parser.add_argument("--ignore-term", action="store_true", help="SIGTERM and SIGINT have no effect")
    parser.add_argument("--bytes", action="store_true", help="hostile bytes among the lines")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds to wait for a peer")
    return parser.parse_args()


def fail(rank, step, code):
    sys.stderr.write(f"rank {rank} fails at step {step}\nValueError: told to fail at step {step}\n")
    sys.stderr.flush()
    if code < 0:
        os.kill(os.getpid(), -code)
        time.sleep(60)  # a signal that does not end a process
    os._exit(code)


def main():
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        address = (address[0], address[1] + 1)  # torchrun itself listens on MASTER_PORT
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = Output(options.own_copy, rank)
    where = f"on {socket.gethostname()}, master {address[0]}:{address[1]}"
    sys.stderr.write(f"rank {rank} of {world} {where}\n")
    sys.stderr.flush()
    peers = gather(address, world, options.limit) if rank == 0 else join(address, rank, options.limit)
    for step in range(options.steps):
        if rank == options.fail_rank and step == options.fail_at:
            fail(rank, step, options.exit_code)
        try:
            total = all_reduce(rank, peers, rank + step)
        except OSError:
            time.sleep(PEER_LOSS)
            raise
        expected = world * (world - 1) // 2 + world * step
        if total != expected:
            raise RuntimeError(f"the sum of step {step} is {total}, not {expected}")
        output.write(b"step %d sum %d rank %d\n" % (step, total, rank))
        if options.bytes:
            output.write(HOSTILE)
        time.sleep(options.sleep)
    output.write(b"ring ok world=%d steps=%d\n" % (world, options.steps))


if __name__ == "__main__":
    main()
