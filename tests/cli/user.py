"""A user who types `rankdeck` commands: real processes, with all files in a folder of the test's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("rankdeck")
LIMIT = 90
"""Seconds that a command may take: the machine may be slow and busy."""

LOCAL_POOL = 'backend = "local"\nnodes = ["127.0.0.1", "127.0.0.2"]\nslots = 2\n'

RANK_SCRIPT = '''\
"""A rank that speaks the launchers' environment and does what its arguments say, without torch."""
import os, signal, sys, time
rank = int(os.environ["RANK"])
print(f"rank {rank} of {os.environ['WORLD_SIZE']} says hello", flush=True)
print(f"rank {rank} warns", file=sys.stderr, flush=True)
for word in sys.argv[1:]:
    what, _, value = word.partition("=")
    if what == "lines":
        for i in range(int(value)):
            print(f"line {i} of rank {rank}", flush=True)
    elif what == "bytes":
        sys.stdout.buffer.write(bytes(range(256)) * int(value))
        sys.stdout.buffer.flush()
    elif what == "until":
        while not os.path.exists(value):
            time.sleep(0.05)
    elif what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ignoring SIGTERM", flush=True)
    elif what == "fail" and rank == int(value):
        print("ValueError: the loss is not a number", file=sys.stderr, flush=True)
        sys.exit(7)
print(f"rank {rank} is done", flush=True)
'''


@dataclass
class Shell:
    """A user with an empty home, who types commands."""

    folder: Path
    environment: dict[str, str]
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self, *arguments: str, status: int | None = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Types a command and waits for its end.

        Args:
            arguments: what follows `rankdeck`.
            status: the exit status it must have; None: any.
            more: variables to set.
        """
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        # Not text=True: it would turn the ranks' carriage returns into line ends.
        out, err = (stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))
        if status is not None:
            told = f"rankdeck {' '.join(arguments)}\n--- stdout\n{out}\n--- stderr\n{err}"
            assert done.returncode == status, told
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def json(self, *arguments: str) -> Any:
        """Types a command with --json; its one document."""
        return json.loads(self(*arguments, "--json").stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Types a command and leaves it running, in a process group of its own."""
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def write(self, name: str, text: str) -> Path:
        """Writes a file in the user's working directory."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def save_pool(self, name: str = "two", text: str = LOCAL_POOL) -> None:
        """Saves a pool; by default of two local nodes."""
        self.write(f"config/pools/{name}.toml", text)

    def save_profile(self, name: str, *arguments: str, pool: str = "two", **keys: object) -> None:
        """Saves a profile that runs the rank script with these arguments."""
        self.write("rank.py", RANK_SCRIPT)
        values = {
            "framework": "pytorch",
            "script": "rank.py",
            "workdir": str(self.folder),
            "python": sys.executable,
            "args": list(arguments),
            "pool": pool,
            **keys,
        }
        self.write(
            f"config/profiles/{name}.toml",
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None),
        )

    def wait_for(self, what: str, condition: Callable[[], Any], seconds: float = LIMIT) -> Any:
        """Looks until `condition()` is true and returns what it gave."""
        limit = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < limit, f"waited {seconds} s in vain: {what}"
            time.sleep(0.05)
        return found

    def end(self) -> None:
        """Ends what is left of commands and runs."""
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        runs = json.loads(self("runs", "--json").stdout)
        for run in runs:
            if not run["complete"]:
                self("stop", run["id"], "--force", status=None)


def environment(folder: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a user whose files are all in `folder`."""
    kept = {k: v for k, v in base.items() if not k.startswith(("RANKDECK_", "VISUAL", "EDITOR", "COLUMNS"))}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "RANKDECK_HOME": str(folder / "data"),
        "RANKDECK_CONFIG": str(folder / "config"),
        "RANKDECK_NODE_DIR": str(folder / "node"),
    }
