"""Nodes that end a user's processes at log-out: known, and left where systemd lets us.

No login manager runs where tests do: `busctl` is a stand-in here, the files and the control group are real.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankdeck_backends.agent import staying

BUSCTL = """#!/bin/sh
printf '%s\\n' "$*" >> {said}
case "$*" in
get-property*) echo "b {kills}" ;;
*StartTransientUnit*) {move} ;;
esac
"""


@pytest.fixture
def session() -> Iterator[Path]:
    """A control group named as logind names that of a login session."""
    for root in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup"):
        group = Path(root, f"session-rankdeck{os.getpid()}.scope")
        with contextlib.suppress(OSError):
            group.mkdir()
            break
    else:
        pytest.skip("no control group can be made here")
    yield group
    with contextlib.suppress(OSError):
        group.rmdir()


def leave(tmp_path: Path, group: Path, *, kills: str = "true", move: str, linger: bool = True) -> str:
    """What a process in a session's control group says of its staying, as another user than root."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "busctl").write_text(BUSCTL.format(said=tmp_path / "said", kills=kills, move=move))
    (tools / "busctl").chmod(0o755)
    lingering = tmp_path / "linger"
    lingering.mkdir()
    code = (
        "import os, sys\n"
        f"open({os.fspath(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "from rankdeck_backends.agent import identity, staying\n"
        "os.getuid = lambda: 1000\n"
        f"staying._BOOTED, staying._LINGER = '/', {os.fspath(lingering)!r}\n"
        f"if {linger}: open(os.path.join(staying._LINGER, identity.user_name()), 'w').close()\n"
        "print(staying.leave_session('demo-1'), '|', staying.session_of())\n"
    )
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def out_of(group: Path) -> str:
    """Moves the process that the call names, as systemd does: it is the word before the last."""
    return f"eval pid=\\${{$(($#-1))}}; echo $pid > {group.parent}/cgroup.procs"


def test_a_supervisor_goes_into_a_scope_of_its_users_own(tmp_path: Path, session: Path) -> None:
    assert leave(tmp_path, session, move=out_of(session)) == "| None"
    (call,) = [line for line in (tmp_path / "said").read_text().splitlines() if "StartTransient" in line]
    assert call.startswith("--user call org.freedesktop.systemd1 ")
    assert " rankdeck-demo_1-" in call
    assert " fail 1 PIDs au 1 " in call


def test_without_linger_the_person_is_told(tmp_path: Path, session: Path) -> None:
    said = leave(tmp_path, session, move=out_of(session), linger=False)
    assert "KillUserProcesses=yes" in said
    assert "loginctl enable-linger" in said
    assert said.endswith("| None")


def test_where_no_scope_is_to_be_had_the_person_is_told(tmp_path: Path, session: Path) -> None:
    said = leave(tmp_path, session, move="echo 'Failed to connect to bus' >&2; exit 1")
    assert "Failed to connect to bus" in said
    assert said.endswith(f"| {session.name}")


def test_where_nothing_is_ended_nothing_is_done(tmp_path: Path, session: Path) -> None:
    assert leave(tmp_path, session, kills="false", move="exit 1") == f"| {session.name}"
    assert "StartTransientUnit" not in (tmp_path / "said").read_text()


def test_drop_ins_of_logind(tmp_path: Path) -> None:
    root = os.fspath(tmp_path)
    assert staying.configured(root) is None
    etc = tmp_path / "etc/systemd"
    etc.mkdir(parents=True)
    (etc / "logind.conf").write_text("[Login]\n#KillUserProcesses=yes\nKillUserProcesses=no\n")
    assert staying.configured(root) is False
    for folder, value in (("usr/lib", "no"), ("run", "yes")):
        place = tmp_path / folder / "systemd/logind.conf.d"
        place.mkdir(parents=True)
        (place / "50-site.conf").write_text(f"[Login]\nKillUserProcesses = {value}\n")
    assert staying.configured(root) is True
    (etc / "logind.conf.d").mkdir()
    (etc / "logind.conf.d/50-site.conf").symlink_to("/dev/null")  # masks the others
    assert staying.configured(root) is False
