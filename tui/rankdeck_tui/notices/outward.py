"""The person's own command and webhook: each in a thread of its own, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from rankdeck_profiles.notify import Notify
from rankdeck_runs.occasions import Occasion
from rankdeck_tui.notices.escapes import cleaned

PREFIX = "RANKDECK_NOTICE_"
WAITING_MOST = 3
"""Things that one run may have to tell at once: `notify.OCCASIONS`."""
SHOWN = 300
"""Characters of a command's error output that are shown."""


class Outward:
    """Runs the command and calls the webhook.

    Args:
        settings: says which.
        on_trouble: told, in one of the threads, why one of them failed; once each.
    """

    def __init__(self, settings: Notify, on_trouble: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_trouble = on_trouble
        self._told: set[str] = set()
        self._newest: dict[str, threading.Thread] = {}

    def tell(self, occasion: Occasion, record: Path) -> None:
        """Start both; returns at once."""
        if self._settings.command:
            self._start("command", lambda: self._command(occasion, record))
        if self._settings.webhook:
            self._start("webhook", lambda: self._webhook(occasion))

    def wait(self) -> None:
        """Until all has been told, or its time is up."""
        deadline = time.monotonic() + WAITING_MOST * (self._settings.time_limit + 1.0)
        for thread in self._newest.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, name: str, work: Callable[[], str]) -> None:
        before = self._newest.get(name)

        def run() -> None:
            if before is not None:
                before.join()  # a failure is told before the end that it brings
            why = work()
            if why and name not in self._told:
                self._told.add(name)
                self._on_trouble(f"the {name} that is to tell of runs failed: {why}")

        thread = threading.Thread(target=run, name=f"notify by {name}", daemon=True)
        self._newest[name] = thread
        thread.start()

    def _command(self, occasion: Occasion, record: Path) -> str:
        """Run it. Returns why it failed, or an empty text."""
        try:
            process = subprocess.Popen(
                [*self._settings.command, cleaned(occasion.message)],
                env={**os.environ, **variables(occasion, record)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return f"{self._settings.command[0]}: {error.strerror}"
        try:
            _, err = process.communicate(timeout=self._settings.time_limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return (
                f"{self._settings.command[0]} took longer than {self._settings.time_limit:g} s and was ended"
            )
        if process.returncode == 0:
            return ""
        said = err.decode("utf-8", "replace").strip()[-SHOWN:]
        return f"{self._settings.command[0]}: exit status {process.returncode}" + (
            f": {said}" if said else ""
        )

    def _webhook(self, occasion: Occasion) -> str:
        """Call it. Returns why it failed, or an empty text; the address's path is a secret, and left out."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        body = json.dumps({**occasion.to_json(), "text": cleaned(occasion.message)}).encode()
        # http and https alone are taken when the settings are read.
        request = Request(
            self._settings.webhook, body, {"Content-Type": "application/json", "User-Agent": "rankdeck"}
        )
        place = place_of(self._settings.webhook)
        try:
            with urlopen(request, timeout=self._settings.time_limit):
                return ""
        except HTTPError as error:
            error.close()
            return f"{place} answered {error.code} {error.reason}".rstrip()
        except OSError as error:
            return f"{place}: {getattr(error, 'reason', None) or error}"
        except (HTTPException, ValueError) as error:
            return f"{place}: {type(error).__name__}"


def place_of(webhook: str) -> str:
    """Host and port of a web address: all of it that is no secret."""
    try:
        parts = urlsplit(webhook)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError as error:  # no such port
        return str(error)
    host = parts.hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def variables(occasion: Occasion, record: Path) -> dict[str, str]:
    """What the command finds in its environment."""
    values = {
        "EVENT": occasion.kind,
        "RUN": occasion.run,
        "STATE": occasion.state,
        "PROFILE": occasion.profile,
        "MESSAGE": cleaned(occasion.message),
        "RANK": "" if occasion.rank is None else str(occasion.rank),
        "NODE": occasion.node,
        "RECORD": str(record),
    }
    return {PREFIX + name: value.replace("\0", "") for name, value in values.items()}
