"""What a node's kernel tells of a rank's end: real OOM kills in a control group of our own, and its log."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, shim_of, wait_until

from rankdeck_backends.agent import witness
from rankdeck_backends.agent.ranks import Rank
from rankdeck_backends.agent.run_folder import RunFolder

HUNGRY = f"""exec {sys.executable} -c 'x = bytearray(400 << 20)
for i in range(0, len(x), 4096): x[i] = 1'"""
LIMIT = 150 << 20


@pytest.fixture
def small() -> Iterator[Path]:
    """A control group with little memory; processes join by their pid in its `cgroup.procs`."""
    for root, limit in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        group = Path(root, f"rankdeck-test-{os.getpid()}")
        if not Path(root, "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
            (group / limit).write_text(str(LIMIT))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        break
    else:
        pytest.skip("no control group with a memory limit can be made here")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
    group.rmdir()


def join(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def test_the_oom_killer_is_seen_in_the_ranks_group(connect: Callable[..., Client], small: Path) -> None:
    session = connect(python=sys.executable)
    join(small, session.hello()["pid"])
    run = Run(session, rank_plan(HUNGRY))
    ended = run.event("rank_ended")
    assert (ended["signal"], ended["asked"]) == ("KILL", False)
    oom = [seen["text"] for seen in ended["seen"] if seen["what"] == "oom"]
    assert any("oom_kill 0 -> 1" in text and small.name in text for text in oom)
    run.end()


def test_a_rank_whose_shim_was_killed_with_it(connect: Callable[..., Client], small: Path) -> None:
    """As the kernel does where a whole group is to die (memory.oom.group)."""
    session = connect(python=sys.executable)
    join(small, session.hello()["pid"])
    waits = "while [ ! -e $RANKDECK_RANK_DIR/go ]; do sleep 0.05; done; "
    run = Run(session, rank_plan(waits + HUNGRY))
    (pid,) = run.pids()
    os.kill(run.supervisor, signal.SIGKILL)
    os.kill(shim_of(run, 0), signal.SIGKILL)
    run.event("supervisor_resumed")
    Path(run.dir, "go").touch()
    wait_until(lambda: not is_alive(pid), "end of the rank")
    unknown = run.event("rank_unknown")
    assert any(seen["what"] == "oom" for seen in unknown["seen"])
    run.end()


def test_of_an_end_that_was_asked_for_nothing_is_said(session: Client) -> None:
    run = Run(session, rank_plan("sleep 600"))
    run.pids()
    run.stop(force=True)
    assert "seen" not in run.event("rank_ended")


KERNEL = """\
4,1,100000000,-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:323784kB, anon-rss:61056kB
 SUBSYSTEM=memory
4,2,200000000,-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:323784kB, anon-rss:61056kB
4,3,201000000,-;Out of memory: Killed process 47110 (python) total-vm:323784kB, anon-rss:61056kB
3,4,202000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.
3,5,203000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=99, name=python, Ch 00000008
3,6,204000000,-;NVRM: Xid (PCI:0000:86:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected
6,7,205000000,-;python[4711]: segfault at 0 ip 00007f error 4 in libc.so.6[7f0000+1000]
6,8,206000000,-;n3: entered promiscuous mode
"""


def test_the_kernels_log_is_read_by_pid_and_time(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(KERNEL)
    found = witness.kernel_says(4711, 150 * os.sysconf("SC_CLK_TCK"), os.fspath(log))
    assert [(seen["what"], seen["text"].split("] ")[0]) for seen in found] == [
        ("oom", "kernel log [200.000"),
        ("kernel", "kernel log [202.000"),
        ("kernel", "kernel log [204.000"),
        ("kernel", "kernel log [205.000"),
    ]
    assert witness.kernel_says(4711, 0, os.fspath(tmp_path / "none")) == []


def test_where_nothing_could_be_looked_at_that_is_said(tmp_path: Path) -> None:
    log, first, other = tmp_path / "kmsg", tmp_path / "first", Path("/proc/self/ns/net")
    log.write_text(KERNEL)
    hidden = witness.kernel_log_hidden(os.fspath(log), os.fspath(other))
    assert hidden == "the kernel's log has other pids than this container"
    none = witness.kernel_log_hidden(os.fspath(tmp_path / "none"), os.fspath(first))
    assert none == f"{first}: No such file or directory"


def test_a_kill_without_a_counter_is_blind_unless_the_log_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rank = RunFolder(os.fsencode(tmp_path)), Rank(0, 0, 0, False)
    monkeypatch.setattr(witness, "kernel_log_hidden", lambda: "/dev/kmsg: Permission denied")
    (seen,) = witness.of_end(folder, rank, "KILL")["seen"]
    assert seen["what"] == "blind"
    assert seen["text"].endswith("and /dev/kmsg: Permission denied")
    assert witness.of_end(folder, rank, "SEGV") == {}
    monkeypatch.setattr(witness, "kernel_log_hidden", lambda: "")
    assert witness.of_end(folder, rank, "KILL") == {}
    (tmp_path / "ranks").mkdir()
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 0\n")
    record = {"memory": {"file": os.fspath(counter), "oom_kills": 0}}
    (tmp_path / "ranks/0.start.json").write_text(json.dumps(record))
    monkeypatch.setattr(witness, "kernel_log_hidden", lambda: "/dev/kmsg: Permission denied")
    assert witness.of_end(folder, rank, "KILL") == {}


def test_version_2_and_version_1_of_control_groups(tmp_path: Path) -> None:
    of = tmp_path / "cgroup"
    unified = tmp_path / "user.slice" / "memory.events"
    unified.parent.mkdir()
    unified.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n")
    of.write_text("0::/user.slice\n")
    expected = {"file": os.fspath(unified), "oom_kills": 2}
    assert witness.memory_events(os.fspath(tmp_path), os.fspath(of)) == expected
    first = tmp_path / "memory" / "job" / "memory.oom_control"
    first.parent.mkdir(parents=True)
    first.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    of.write_text("7:cpu,cpuacct:/job\n4:memory:/job\n0::/\n")
    expected = {"file": os.fspath(first), "oom_kills": 5}
    assert witness.memory_events(os.fspath(tmp_path), os.fspath(of)) == expected
    first.write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert witness.memory_events(os.fspath(tmp_path), os.fspath(of)) is None
