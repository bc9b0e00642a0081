"""Real runs of real frameworks: `make test-frameworks`."""
