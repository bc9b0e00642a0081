"""Says which rank it is and what the launcher told it. No torch needed: the quickest way to try a pool."""

import os
import platform
import sys

NAMES = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
]
"""What PyTorch's launchers set; torchrun says GROUP_RANK for the node's rank."""


def main() -> int:
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    print(f"hello from rank {rank} of {world} on {platform.node()}, pid {os.getpid()}")
    print(
        f"python {platform.python_version()} at {sys.executable}, in {os.getcwd()}, arguments {sys.argv[1:]}"
    )
    for name in NAMES:
        if name in os.environ:
            print(f"{name}={os.environ[name]}")
    if rank is None or world is None:
        print("RANK or WORLD_SIZE is not set: this was not started by a launcher", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
