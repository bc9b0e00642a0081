"""A look does no harm, as the kernel sees it: what it writes, which modules it loads, where it sends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rankdeck_backends.package import agent_zip

LOOK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from rankdeck_agent import look
own = sys.argv[2]
request = {"op": "look", "python": sys.executable, "folder": own, "cwd": own, "peers": ["localhost"],
           "paths": [{"path": own, "purpose": "cwd"}]}
sys.stdout.buffer.write(look.answer(request, None)[1])
"""
CHANGES = (
    "init_module,finit_module,delete_module,mount,umount2,pivot_root,swapon,swapoff,reboot,sethostname,"
    "setdomainname,settimeofday,clock_settime,kexec_load,bpf"
)
"""System calls that change a node."""
FILES = (
    "openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,truncate,chmod,chown,"
    "link,symlink"
)
"""System calls that name a file and may change it."""
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder that a look may write into, and the system calls that it and its children made."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    own = tmp_path_factory.mktemp("node")
    (own / "agent.zip").write_bytes(agent_zip())
    trace = own.parent / "calls"
    traced = f"trace={CHANGES},{FILES},connect,sendto,sendmsg,sendmmsg"
    argv = [strace, "-f", "-yy", "-s", "256", "-o", str(trace), "-e", traced]
    done = subprocess.run(
        [*argv, sys.executable, "-c", LOOK, str(own / "agent.zip"), str(own)],
        env={**os.environ, "TMPDIR": str(own), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    if b"PTRACE" in done.stderr or b"ptrace" in done.stderr:
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["syscalls"]["hostname"]
    return own, [line.partition(" ")[2].lstrip() for line in trace.read_text("utf-8", "replace").splitlines()]


def test_it_changes_nothing_in_the_kernel(calls: tuple[Path, list[str]]) -> None:
    names = {line.partition("(")[0] for line in calls[1]}
    assert not names & set(CHANGES.split(","))
    assert "openat" in names  # it was traced


def test_it_writes_into_its_own_folder_alone(calls: tuple[Path, list[str]]) -> None:
    own, lines = calls
    written = []
    for line in lines:
        name = line.partition("(")[0]
        opens = name in ("open", "openat")
        if name not in FILES.split(",") or (opens and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", line)):
            continue
        if "ENOENT" not in line:
            written += QUOTED.findall(line)
    assert [path for path in written if path.startswith(str(own))]  # whether there is room was tried
    others = [path for path in written if not path.startswith((str(own), "/dev/null", "/dev/tty"))]
    assert not others


def test_it_connects_to_nobody(calls: tuple[Path, list[str]]) -> None:
    """But for the name service, which asks by datagram or a socket of this machine."""
    lines = [line for line in calls[1] if line.startswith(("connect(", "sendto(", "sendmsg(", "sendmmsg("))]
    assert not [line for line in lines if "<TCP" in line]
    addressed = [line for line in lines if not line.startswith("connect(") and "sin_port=htons" in line]
    assert not [line for line in addressed if "sin_port=htons(53)" not in line]
