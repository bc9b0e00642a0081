"""A login side with no screen: launches a run through the engine and follows it when told to.

    python follow_client.py PORT RANKS PROGRAM...

Reads commands, one a line, and answers each with one line of JSON: `attach`, `detach`, `mark` (forget the
arrivals so far), `arrivals`, `stop`. First of all it launches the run and says its id. An arrival is the
moment at which bytes of a log are in the record, where every reader finds them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile, StopPolicy
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
from rankdeck_runs.live import LinkState

LIMIT = 120.0
"""Seconds for anything the engine is asked for."""

_arrivals: list[tuple[float, int, int, int]] = []


def note_arrivals() -> None:
    """Note time, descriptor, offset and length of all that is written into the record at an offset."""
    write = os.pwrite

    def noted(handle: int, data: Any, offset: int) -> int:
        count = write(handle, data, offset)
        _arrivals.append((time.time(), handle, offset, count))
        return count

    os.pwrite = noted


def arrivals() -> list[tuple[float, str, int, int]]:
    """The same with file names; of files that are still open, which with 64 ranks are all."""
    names = {handle: Path(f"/proc/self/fd/{handle}").readlink().name for _, handle, _, _ in _arrivals}
    return [(when, names[handle], offset, count) for when, handle, offset, count in _arrivals]


def main() -> None:
    port, ranks, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    note_arrivals()
    engine = Engine(RunHome(Path(os.environ["RANKDECK_HOME"])))
    pool = Pool("bench", BackendKind.SSH, (PoolNode("node", "127.0.0.1", port=port),), slots=ranks)
    profile = Profile(
        "bench",
        "command",
        command=tuple(program),
        workdir="/",
        procs_per_node=ranks,
        stop=StopPolicy("KILL", 1.0),
    )
    run_id = engine.launch(engine.prepare(profile, pool).result(LIMIT)).result(LIMIT)
    print(json.dumps(run_id), flush=True)
    for line in sys.stdin:
        answer: Any = None
        match line.strip():
            case "attach":
                live = engine.attach(run_id)
                limit = time.monotonic() + LIMIT
                while (
                    not all(link.state is LinkState.CONNECTED for link in live.links.values())
                    or not live.links
                ):
                    if time.monotonic() > limit:
                        raise SystemExit(f"not connected within {LIMIT:g} s: {live.links}")
                    time.sleep(0.05)
            case "detach":
                engine.detach(run_id)
            case "mark":
                _arrivals.clear()
            case "arrivals":
                answer = arrivals()
            case "stop":
                answer = engine.stop(run_id, force=True).result(LIMIT).gone
            case other:
                raise SystemExit(f"unknown command {other!r}")
        print(json.dumps(answer), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
