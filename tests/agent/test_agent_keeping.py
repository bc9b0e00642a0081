"""What a node tells of a run's logs once it has ended, and how the run's folder goes from it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest
from agent_client import Client, Refused
from agent_runs import Run, is_alive, rank_plan, wait_until

PRINTS = "printf 'some\\0bytes\\377'; echo trouble >&2"


def ended(session: Client, *programs: str) -> Run:
    run = Run(session, rank_plan(*programs))
    assert run.end() == "succeeded"
    return run


def digests(
    session: Client, run: Run, names: list[str], **fields: object
) -> dict[str, tuple[int, str | None]]:
    number = session.send("digest", dir=run.dir, names=names, **fields)
    session.reply(number)
    return {told["name"]: (told["size"], told["sha256"]) for told in session.of(number, "digest")}


def test_sizes_and_hashes_are_those_of_the_files(session: Client) -> None:
    run = ended(session, PRINTS)
    names = ["0.out", "0.err", "0.times", "0.2.out"]
    sizes = {name: size for name, (size, _) in digests(session, run, names).items()}
    assert (sizes["0.out"], sizes["0.err"], sizes["0.2.out"]) == (11, 8, 0)
    told = digests(session, run, names, hash=True)
    for name in names[:3]:
        data = Path(run.dir, "logs", f"rank-0000{name}").read_bytes()
        assert told[name] == (len(data), hashlib.sha256(data).hexdigest())
    assert told["0.2.out"] == (0, hashlib.sha256(b"").hexdigest())


@pytest.mark.parametrize("name", ["../plan.json", "plan.json", 3])
def test_only_logs_are_told_of(session: Client, name: object) -> None:
    run = ended(session, "true")
    with pytest.raises(Refused) as refused:
        session.ask("digest", dir=run.dir, names=[name], hash=True)
    assert refused.value.kind == "bad_request"


def test_a_folder_that_is_no_run_is_missing(session: Client, tmp_path: Path) -> None:
    for op, fields in (("digest", {"names": ["0.out"]}), ("remove", {"run": "run-1"})):
        with pytest.raises(Refused) as refused:
            session.ask(op, dir=str(tmp_path), **fields)
        assert refused.value.kind == "missing"


def test_a_run_that_has_ended_is_removed(session: Client, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    run = ended(session, PRINTS)
    Path(run.dir, "link").symlink_to(elsewhere)
    assert session.ask("remove", dir=run.dir, run="run-1")["bytes"] > 19
    assert not Path(run.dir).exists()
    assert not Path(run.dir).parent.exists()
    assert (elsewhere / "kept").read_text() == "kept"


def test_logs_that_lie_elsewhere_stay(session: Client, tmp_path: Path) -> None:
    logs = tmp_path / "record" / "logs"
    run = Run(session, rank_plan("echo kept", log_dir=str(logs)))
    run.end()
    session.ask("remove", dir=run.dir, run="run-1")
    assert not Path(run.dir).exists()
    assert (logs / "rank-00000.out").read_text() == "kept\n"


def test_another_runs_folder_stays(session: Client) -> None:
    run = ended(session, "true")
    with pytest.raises(Refused, match="of run run-1, not of run-2"):
        session.ask("remove", dir=run.dir, run="run-2")
    assert Path(run.dir, "plan.json").exists()


def test_a_run_that_goes_on_stays(session: Client) -> None:
    run = Run(session, rank_plan("sleep 300"))
    (pid,) = run.pids()
    with pytest.raises(Refused, match=r"supervisor .* has not ended") as refused:
        session.ask("remove", dir=run.dir, run="run-1")
    assert refused.value.kind == "busy"
    assert is_alive(pid)
    assert run.stop(force=True)["gone"]
    session.ask("remove", dir=run.dir, run="run-1")


def test_what_a_killed_supervisor_left_stays(session: Client) -> None:
    """Its ranks may go on, and it has written no end."""
    run = Run(session, rank_plan("sleep 300"))
    run.pids()
    session.ask("unfollow", follow=run.follow)
    os.kill(run.supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(run.supervisor), "the supervisor's end")
    with pytest.raises(Refused, match="not known to have ended"):
        session.ask("remove", dir=run.dir, run="run-1")
    assert json.loads(Path(run.dir, "plan.json").read_text())["run"] == "run-1"
    assert run.stop(force=True)["gone"]
