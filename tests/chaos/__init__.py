"""Random faults on the test cluster, over many short runs, and what must hold whatever happens.

``python -m chaos --help``, from the folder ``tests``, as root. docs/reliability.md has what it found.
"""
