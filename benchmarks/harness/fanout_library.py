"""The same command by the library parallel-ssh (PyPI), which has libssh2 speak SSH.

    python fanout_library.py PORT KEY NAME...

Prints what fanout_client.py prints, for the one part. The library checks no host keys.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module

COMMAND = "echo up"


def main() -> None:
    client_class = import_module("pssh.clients").ParallelSSHClient
    gevent = import_module("gevent")
    port, key, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    times: list[float] = []
    problems: list[str] = []
    began, used = time.monotonic(), _cpu()
    client = client_class(names, port=port, pkey=key, num_retries=1, allow_agent=False)

    def read(output: object) -> None:
        lines = list(output.stdout) if output.exception is None else []  # type: ignore[attr-defined]
        if lines == ["up"]:
            times.append(time.monotonic() - began)
        else:
            problems.append(f"{output.host}: {output.exception}")  # type: ignore[attr-defined]

    readers = [gevent.spawn(read, output) for output in client.run_command(COMMAND, stop_on_errors=False)]
    gevent.joinall(readers)
    print(json.dumps([{"seconds": times, "cpu": _cpu() - used, "problems": problems}]))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
