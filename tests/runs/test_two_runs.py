"""Two runs of one user on the same nodes: stopping one leaves the other untouched, however often.

Ten times here; `RANKDECK_STOPS=100 pytest tests/runs/test_two_runs.py` for as many as one likes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rankdeck_runs.states import RankState, RunState
from runs.waiting import LIMIT, finished, launched, wait_for

STOPS = int(os.environ.get("RANKDECK_STOPS", "10"))
SOURCE = """
beats = open(f"beats-{os.environ['RANKDECK_RUN_ID']}-{RANK}", "a", buffering=1)
signal.signal(signal.SIGTERM, lambda *_: (beats.write("TERM\\n"), sys.exit(0)))
if os.fork() == 0:  # a data loader in a session of its own
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True: beats.write("beat\\n"); time.sleep(0.1)
"""


def started_at(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


@pytest.mark.timeout(60 + 12 * STOPS)
def test_stopping_one_leaves_the_other_untouched(engine, home, program, pool, tmp_path):
    profile = program(SOURCE)
    script = str(tmp_path / "program.py")
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", script])
    kept = engine.attach(launched(engine, profile, pool))
    running = wait_for(kept, lambda s: s.state is RunState.RUNNING, "running")
    pids = {rank.pid: started_at(rank.pid) for rank in running.ranks}
    try:
        for _ in range(STOPS):
            live = engine.attach(launched(engine, profile, pool))
            wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
            result = engine.stop(live.run_id, grace=5.0).result(LIMIT)
            assert (result.gone, result.left, result.unreached) == (True, (), ())
            assert finished(live).state is RunState.STOPPED
            engine.detach(live.run_id)
            assert {pid: started_at(pid) for pid in pids} == pids
            assert stranger.poll() is None
        snapshot = kept.snapshot()
        assert {rank.state for rank in snapshot.ranks} == {RankState.RUNNING}
        assert snapshot.swept == ()
        beats = [path.read_text() for path in tmp_path.glob(f"beats-{kept.run_id}-*")]
        assert len(beats) == 4
        assert not any("TERM" in text for text in beats)
    finally:
        stranger.kill()
        stranger.wait()
    assert engine.stop(kept.run_id, force=True).result(LIMIT).gone
