"""Following: every byte once, in order; what changes while it goes on; samples."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_client import Client, Refused
from agent_runs import Run, rank_plan, wait_until

TALK = "i=0; while [ ! -e $RANKDECK_RANK_DIR/go ]; do i=$((i+1)); echo line $i; sleep 0.02; done"


def test_only_what_is_asked_for_is_sent_and_the_rest_is_summed_up(session: Client) -> None:
    run = Run(session, rank_plan("echo seen; sleep 1.5", "echo unseen; sleep 1.5"), logs=["0.out"])
    assert run.end() == "succeeded"
    assert (run.log("0.out"), run.log("1.out")) == (b"seen\n", b"")
    sizes = {}
    for header in session.of(run.follow, "sizes"):
        sizes.update(header["sizes"])
    assert "0.out" not in sizes
    assert sizes["1.out"][0] == 7
    assert sizes["1.out"][1] >= 0


def test_watch_changes_what_is_sent(session: Client) -> None:
    run = Run(session, rank_plan(TALK, TALK), logs=["0.out"])
    run.wait_log("0.out", b"line 3\n")
    session.ask("watch", follow=run.follow, logs=["1.out"], offsets={"1.out": 5})
    session.wait_for(lambda: b"3\n" in session.log(run.follow, "1.out", 5), "rank 1's lines")
    seen = len(run.log("0.out"))
    session.ask("watch", follow=run.follow, logs=["0.out", "1.out"], offsets={"0.out": seen})
    Path(run.dir, "go").touch()
    assert run.end() == "succeeded"
    for name, start in (("0.out", 0), ("1.out", 5)):
        whole = Path(run.dir, "logs", f"rank-0000{name}").read_bytes()
        assert session.log(run.follow, name, start) == whole[start:]


def test_a_log_that_goes_on_being_watched_keeps_its_place(session: Client) -> None:
    run = Run(session, rank_plan(TALK, TALK), logs=["0.out"])
    run.wait_log("0.out", b"line 3\n")
    session.ask("watch", follow=run.follow, logs="all", offsets={})
    Path(run.dir, "go").touch()
    assert run.end() == "succeeded"
    for rank in (0, 1):
        assert run.log(f"{rank}.out") == Path(run.dir, f"logs/rank-0000{rank}.out").read_bytes()


def test_unfollow(session: Client) -> None:
    run = Run(session, rank_plan(TALK))
    run.wait_log("0.out", b"line 2\n")
    assert session.ask("unfollow", follow=run.follow)["ok"]
    assert session.reply(run.follow)[0]["state"] is None
    with pytest.raises(Refused, match="no follow"):
        session.ask("watch", follow=run.follow, logs=[], offsets={})
    assert run.stop(force=True)["gone"]


def test_nothing_is_lost_under_load(session: Client) -> None:
    program = "import sys\nfor i in range(40000): print('rank', sys.argv[1], 'line', i, 'x' * 60)"
    run = Run(session, rank_plan(*[[sys.executable, "-c", program, str(rank)] for rank in range(8)]))
    assert run.end(110) == "succeeded"
    for rank in range(8):
        expected = b"".join(b"rank %d line %d %s\n" % (rank, i, b"x" * 60) for i in range(40000))
        assert run.log(f"{rank}.out") == expected


def test_a_quiet_rank_is_heard_beside_a_loud_one(session: Client) -> None:
    loud = [sys.executable, "-c", "while 1: print('x' * 100)"]
    run = Run(session, rank_plan(loud, TALK))
    run.wait_log("1.out", b"line 20\n")
    assert run.stop(force=True)["gone"]


def test_an_unread_session_stays_small_and_goes_on_later(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable)
    run = Run(client, rank_plan(["head", "-c", "60000000", "/dev/zero"]), logs=[])
    run.event("rank_ended")
    slow = connect(python=sys.executable)
    pid = slow.hello()["pid"]
    os.kill(pid, 0)
    slow.pause.clear()
    follow = slow.send("follow", dir=run.dir, since=0, logs="all", offsets={}, samples=0)
    time.sleep(1.0)
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 60_000
    slow.pause.set()
    assert slow.reply(follow)[0]["state"] == "succeeded"
    assert slow.log(follow, "0.out") == bytes(60_000_000)


def test_samples(session: Client) -> None:
    program = "import os\nif os.fork() == 0:\n    blob = bytearray(50 << 20)\n    while 1: pass\nos.wait()"
    run = Run(session, rank_plan([sys.executable, "-c", program], "sleep 600"), samples=0.3)

    def full() -> list[dict[str, object]]:
        samples = [header["sample"] for header in session.of(run.follow, "sample")]
        return [
            s for s in samples if len(s["ranks"]) == 2 and s["ranks"]["0"]["cpu"] and s["cpu"] is not None
        ]

    session.wait_for(lambda: len(full()) > 2, "samples of both ranks")
    sample = full()[-1]
    assert 0 < sample["cpu"] <= 100
    assert sample["ranks"]["0"]["cpu"] > sample["ranks"]["1"]["cpu"]
    assert sample["ranks"]["0"]["rss_mib"] > 50 > sample["ranks"]["1"]["rss_mib"] > 0
    assert 0 < sample["mem_used_mib"] < sample["mem_total_mib"]
    assert (sample["gpus"] == []) == bool(sample["gpu_note"])
    assert run.stop(force=True)["gone"]


FAKE_SMI = """#!/bin/sh
case "$*" in
*query-compute-apps*) while :; do echo "GPU-b, 4711"; sleep 0.2; done;;
*loop-ms*) while :; do
  echo "0, GPU-a, NVIDIA H100 80GB HBM3, 17, 1024, 81559, 41, 88.25"
  echo "1, GPU-b, NVIDIA H100 80GB HBM3, [N/A], [N/A], 81559, 40, [Not Supported]"
  sleep 0.2; done;;
*) echo "0, NVIDIA H100 80GB HBM3, GPU-a, 81559"; echo "1, NVIDIA GB10, GPU-b, [N/A]";;
esac
"""


@pytest.fixture
def fake_smi(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Puts a stand-in for nvidia-smi first in PATH."""

    def make(text: str) -> dict[str, str]:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/nvidia-smi").write_text(text)
        (tmp_path / "bin/nvidia-smi").chmod(0o755)
        return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    return make


def test_gpu_samples(connect: Callable[..., Client], fake_smi: Callable[[str], dict[str, str]]) -> None:
    client = connect(python=sys.executable, env=fake_smi(FAKE_SMI))
    run = Run(client, rank_plan("sleep 600"), samples=0.3)

    def complete() -> dict[str, object] | None:
        for header in client.of(run.follow, "sample"):
            gpus = header["sample"]["gpus"]
            if len(gpus) == 2 and gpus[1]["pids"]:
                return header["sample"]
        return None

    sample = client.wait_for(complete, "both GPUs")
    assert sample["gpu_note"] is None
    assert sample["gpus"][0] == {
        "index": 0,
        "uuid": "GPU-a",
        "name": "NVIDIA H100 80GB HBM3",
        "util": 17.0,
        "mem_used_mib": 1024,
        "mem_total_mib": 81559,
        "temp_c": 41.0,
        "power_w": 88.25,
        "pids": [],
    }
    second = sample["gpus"][1]
    assert (second["util"], second["mem_used_mib"], second["power_w"]) == (None, None, None)
    assert second["pids"] == [4711]
    assert run.stop(force=True)["gone"]
    facts = client.ask("probe", leftovers=[])["facts"]
    assert [(gpu["uuid"], gpu["memory_mib"]) for gpu in facts["gpus"]] == [("GPU-a", 81559), ("GPU-b", None)]


def test_a_hung_nvidia_smi_blocks_nothing(
    connect: Callable[..., Client], fake_smi: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    client = connect(python=sys.executable, env=fake_smi("#!/bin/sh\ntrap '' TERM\nsleep 600\n"))
    facts = client.ask("probe", leftovers=[])["facts"]
    assert facts["gpus"] == []
    assert "did not answer" in facts["gpu_note"]
    run = Run(client, rank_plan(f"echo hi; until [ -e {tmp_path}/go ]; do sleep 0.1; done"), samples=0.3)
    client.wait_for(lambda: len(client.of(run.follow, "sample")) >= 2, "two samples")
    (tmp_path / "go").write_text("")
    assert run.end() == "succeeded"
    samples = [header["sample"] for header in client.of(run.follow, "sample")]
    assert all(sample["gpus"] == [] and sample["gpu_note"] for sample in samples)


def test_a_failing_nvidia_smi_is_quoted(
    connect: Callable[..., Client], fake_smi: Callable[[str], dict[str, str]]
) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    client = connect(python=sys.executable, env=fake_smi(f'#!/bin/sh\necho "{said}"\nexit 9\n'))
    assert said in client.ask("probe", leftovers=[])["facts"]["gpu_note"]


@pytest.mark.parametrize(
    ("op", "fields", "kind", "said"),
    [
        ("dance", {}, "bad_request", "allowed: check"),
        ("follow", {}, "bad_request", "dir is missing"),
        ("follow", {"dir": "/no/such/run", "logs": []}, "missing", "no run is there"),
        (
            "read",
            {"dir": "/no/such/run", "name": "0.out", "offset": 0, "length": 1},
            "missing",
            "no run is there",
        ),
        ("start", {"run": "r"}, "bad_request", "plan is missing"),
        ("start", {"plan": rank_plan("true", run="../up")}, "bad_request", "names a folder"),
        ("start", {"plan": rank_plan("true", stop={"signal": "PANIC"})}, "bad_request", "PANIC"),
        ("start", {"plan": rank_plan("true"), "dir": "/proc/nowhere/run"}, "folder", "/proc/nowhere"),
        ("unfollow", {"follow": 99}, "missing", "no follow 99"),
        ("check", {"needs": [{"kind": "luck", "value": "x"}]}, "bad_request", "allowed: file"),
    ],
)
def test_wrong_requests(session: Client, op: str, fields: dict[str, object], kind: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        session.ask(op, **fields)
    assert (refused.value.kind, said in refused.value.message) == (kind, True), refused.value.message
    assert session.ask("ping")["ok"]


def test_wrong_names_of_logs(session: Client) -> None:
    run = Run(session, rank_plan("sleep 600"), logs=[])
    for name in ("../plan.json", "0.log", "x.out", 7):
        with pytest.raises(Refused) as refused:
            session.ask("watch", follow=run.follow, logs=[name], offsets={})
        assert refused.value.kind == "bad_request"
    with pytest.raises(Refused, match=r"such as 3\.out"):
        session.ask("read", dir=run.dir, name="../plan.json", offset=0, length=9)
    assert run.stop(force=True)["gone"]


def test_noise_in_place_of_frames_ends_the_session(session: Client) -> None:
    session.hello()
    assert session.process.stdin is not None
    session.process.stdin.write(b"GET / HTTP/1.1\r\n\r\n")
    session.process.stdin.flush()
    session.wait_for(lambda: any(h.get("ev") == "protocol_error" for h, _ in session.frames), "the reason")
    assert session.process.wait(20) == 0


def test_a_session_ends_with_its_input_and_takes_its_jobs_along(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable)
    pid = client.hello()["pid"]
    client.send("check", needs=[], setup=["sleep 321"])
    wait_until(lambda: "sleep 321" in everything(), "the setup line")
    client.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "end of the session")
    wait_until(lambda: "sleep 321" not in everything(), "end of the setup line")


def everything() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip())
        except OSError:
            continue
    return "\n".join(lines)


def test_ping_is_answered_while_a_job_works(session: Client) -> None:
    number = session.send("check", needs=[], setup=["sleep 2"])
    began = time.monotonic()
    session.ask("ping")
    assert time.monotonic() - began < 2
    assert session.reply(number)[0]["problems"] == []


def test_shared(session: Client, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")
    assert session.ask("shared", path=str(tmp_path / "token"), token="secret-1")["shared"] is True
    assert session.ask("shared", path=str(tmp_path / "token"), token="secret-2")["shared"] is False
    assert session.ask("shared", path=str(tmp_path / "none"), token="secret-1")["shared"] is False
    assert [path.name for path in tmp_path.glob("token*")] == ["token"]


def test_what_can_only_be_read_is_not_shared(session: Client) -> None:
    """Home folders are exported read-only to compute nodes here and there: ranks could write no log there."""
    path = Path("/proc/sys/kernel/random/boot_id")
    assert session.ask("shared", path=str(path), token=path.read_text().strip())["shared"] is False


def test_the_plan_on_disk_is_the_plan_that_came(session: Client) -> None:
    plan = rank_plan("true")
    run = Run(session, plan)
    assert run.end() == "succeeded"
    assert json.loads(Path(run.dir, "plan.json").read_text()) == plan
