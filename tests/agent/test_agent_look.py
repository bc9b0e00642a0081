"""What preflight reads on a node: all of it on this machine, and on one that is out to hinder it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client, Refused

from rankdeck_backends.agent import there
from rankdeck_profiles.readings import Readings

QUERY = "index,uuid,pci.bus_id,name,driver_version"
NVIDIA_SMI = """#!/bin/sh
case "$*" in
*--query-gpu=*vbios_version*)
  for word in fabric.cliqueId fabric.clusterUuid clocks_event_reasons.active; do
    case "$1" in *$word*) echo "Field \\"$word\\" is not a valid field to query."; exit 2;; esac
  done
  echo "index, vbios_version"; echo "0, 96.00";;
*--query-gpu=*) echo "index, uuid"; echo "0, GPU-1";;
*-L*) echo "GPU 0: Test (UUID: GPU-1)";;
*) exit 6;;
esac
"""


def look(client: Client, **asked: Any) -> Readings:
    """Asks for everything; `cwd` is / unless said otherwise."""
    fields = {"python": sys.executable, "setup": [], "cwd": "/", "remove": [], "env": {}, **asked}
    _, body = client.reply(client.send("look", **fields))
    return Readings.from_json(json.loads(body))


def program(folder: Path, name: str, text: str) -> Path:
    """Puts a program into a folder that is made if need be."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


# -- this machine --


def test_files_and_calls_are_this_machines(session: Client) -> None:
    found = look(session)
    for path in ("/proc/modules", "/proc/cmdline", "/proc/sys/kernel/osrelease", "/sys/class/net/lo/mtu"):
        own = Path(path).read_text().strip() if Path(path).exists() else None
        assert found.file(path) == own
    assert found.syscall("hostname") == socket.gethostname()
    assert found.syscall("uid") == os.getuid()
    assert found.syscall("cpus_allowed") == len(os.sched_getaffinity(0))
    assert found.syscall("tmp_writable") == "ok"
    assert found.number("shm_total_mib")
    assert found.flag("ntp_synchronized") in (True, False)
    assert found.syscall("rlimit_memlock") == "unlimited" or found.number("rlimit_memlock") is not None
    command = found.command("ip", "-json", "addr")
    assert command is not None
    assert "127.0.0.1" in [
        address["local"] for each in json.loads(command.stdout) for address in each["addr_info"]
    ]


def test_the_programs_own_interpreter_answers(session: Client) -> None:
    found = look(session)
    told = found.mapping("python")
    assert told is not None
    assert told["state"] == "ok"
    assert told["prefix"] == sys.prefix
    assert told["version"] == ".".join(map(str, sys.version_info[:3]))
    torch = found.mapping("torch")
    assert torch is not None
    asked = subprocess.run(
        [sys.executable, "-c", "from importlib.metadata import version as v; print(v('torch'))"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        assert torch["state"] == "ok"
        assert asked.stdout.strip().split("+")[0] in str(torch["version"])
    else:
        assert torch["state"] == "missing"


@pytest.mark.parametrize(
    ("versions", "library", "told"),
    [
        (
            {"cuda": "13.0"},
            b"\x7fELF sm_50 not this\0sm_75 sm_90a compute_120\0rest",
            "sm_75 sm_90a compute_120",
        ),
        ({"cuda": "13.0"}, b"-gencode=arch=compute_75,code=sm_75\0 sm_80\0sm_90 is needed\0", ""),
        ({"hip": "6.4.2"}, b"sm_75\0gfx90a:sramecc+:xnack- gfx942\0", "gfx90a:sramecc+:xnack- gfx942"),
        ({"cuda": "13.0"}, b"", ""),
        ({}, b"\0sm_75\0", ""),
    ],
)
def test_what_torch_is_built_for_is_read_in_its_library(
    tmp_path: Path, versions: dict[str, str], library: bytes, told: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_python.so").write_bytes(library)
    torch = {"path": str(tmp_path), "cuda": None, "hip": None, **versions}
    assert there.architectures(torch) == told.split()
    assert there.architectures({**torch, "path": "/no/such/folder"}) == []


def test_a_setup_line_changes_what_is_found(session: Client, tmp_path: Path) -> None:
    program(tmp_path / "own", "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 9.8.7'\n")
    found = look(session, setup=[f"export PATH={tmp_path}/own:$PATH NCCL_DEBUG=WARN"], mpirun="mpirun")
    mpi = found.mapping("mpi")
    assert mpi is not None
    assert (mpi["family"], mpi["version"]) == ("openmpi", "9.8.7")
    env = found.command("env")
    assert env is not None
    assert "NCCL_DEBUG=WARN" in env.stdout.splitlines()


def test_a_failing_setup_line_is_told(session: Client) -> None:
    told = look(session, setup=["module load cuda-nowhere"]).mapping("python")
    assert told is not None
    assert "module load cuda-nowhere" in str(told["state"])


def test_only_variables_that_matter_are_told(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable, env={"MY_TOKEN": "x1", "UCX_TLS": "tcp", "AWS_SECRET": "x2"})
    env = look(client).command("env")
    assert env is not None
    assert "UCX_TLS=tcp" in env.stdout
    assert "x1" not in env.stdout
    assert "x2" not in env.stdout


def test_the_script_and_its_commit(session: Client, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    code = look(session, cwd=str(tmp_path), script="train.py").mapping("code")
    assert code is not None
    assert code["sha256"] == hashlib.sha256(b"print(1)\n").hexdigest()
    assert (code["git_head"], code["git_dirty"]) == (head.strip(), False)
    script.write_text("print(2)\n")
    changed = look(session, cwd=str(tmp_path), script="train.py").mapping("code")
    assert changed is not None
    assert changed["git_dirty"] is True
    gone = look(session, cwd=str(tmp_path), script="nosuch.py").mapping("code")
    assert gone is not None
    assert gone["state"] == "ENOENT"


def test_folders_and_names(session: Client, tmp_path: Path) -> None:
    found = look(
        session,
        peers=["localhost", "no-such-node.invalid"],
        paths=[
            {"path": str(tmp_path), "purpose": "cwd"},
            {"path": "/no/such/folder", "purpose": "data"},
        ],
    )
    peers = found.mapping("resolve_peers")
    assert peers is not None
    assert "127.0.0.1" in peers["localhost"]
    assert peers["no-such-node.invalid"] == []
    states = {entry["purpose"]: entry for entry in found.syscall("paths")}
    assert states["run"]["path"] == str(tmp_path / "node")
    assert states["cwd"]["state"] == states["run"]["state"] == "ok"
    assert states["run"]["writable"] == "ok"
    assert states["data"]["state"] == "ENOENT"
    assert "writable" not in states["cwd"]


def test_it_leaves_nothing_behind(session: Client, tmp_path: Path) -> None:
    look(session, cwd=str(tmp_path), paths=[{"path": str(tmp_path), "purpose": "cwd"}])
    assert list(tmp_path.glob("*")) == [tmp_path / "node"]
    assert all("agent" in path.name for path in (tmp_path / "node").iterdir())


# -- nvidia-smi --


def test_refused_fields_are_left_out_one_by_one(connect: Callable[..., Client], tmp_path: Path) -> None:
    program(tmp_path / "bin", "nvidia-smi", NVIDIA_SMI)
    client = connect(python=sys.executable, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    found = list(look(client).ran("nvidia-smi"))
    queries = [each for each in found if each.argv[1].startswith("--query-gpu=")]
    assert [each.rc for each in queries] == [0, 0]
    base, further = sorted(queries, key=lambda each: "vbios" in each.argv[1])
    assert base.argv[1].startswith(f"--query-gpu={QUERY}")
    assert "fabric.state" in further.argv[1]
    assert "fabric.cliqueId" not in further.argv[1]
    assert further.argv[1].endswith("clocks_throttle_reasons.active")
    assert [each.rc for each in found if each.argv[1] == "topo"] == [6]


def test_a_hung_nvidia_smi_costs_the_patience_and_no_more(
    connect: Callable[..., Client], tmp_path: Path
) -> None:
    hang = "#!/bin/sh\ntrap '' TERM HUP INT\necho 'half an answer'\nwhile :; do sleep 100; done\n"
    program(tmp_path / "bin", "nvidia-smi", hang)
    client = connect(python=sys.executable, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    began = time.monotonic()
    found = look(client, patience=3.0)
    assert time.monotonic() - began < 15
    asked = list(found.ran("nvidia-smi"))
    assert asked
    assert all(each.rc is None and each.timed_out for each in asked)
    assert asked[0].stdout == "half an answer\n"
    assert found.syscall("hostname")


# -- once more --


def test_counters_are_read_again_as_the_look_read_them(session: Client) -> None:
    first = look(session)
    header, _ = session.reply(session.send("recount"))
    again = header["files"]
    counters = [path for path in first.files if path.endswith("/carrier_changes")]
    assert "/sys/class/net/lo/carrier_changes" in counters
    assert set(counters) <= set(again)
    before, after = (float(each["/proc/uptime"].split()[0]) for each in (first.files, again))
    assert 0 <= after - before < 600


# -- what is out to hinder it --


def test_hostile_files(connect: Callable[..., Client], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with (home / ".nccl.conf").open("wb") as file:
        file.write(b"NCCL_DEBUG=INFO\n\xff\xfe\0\n")
        file.truncate(4 << 30)
    (home / ".openmpi").mkdir()
    os.mkfifo(home / ".openmpi/mca-params.conf")
    client = connect(python=sys.executable, env={"HOME": str(home), "NCCL_CONF_FILE": str(home)})
    began = time.monotonic()
    found = look(client)
    assert time.monotonic() - began < 20
    conf = found.files[f"{home}/.nccl.conf"]
    assert conf.startswith("NCCL_DEBUG=INFO\n\ufffd")
    assert len(conf) <= 64 << 10
    assert found.file(f"{home}/.openmpi/mca-params.conf") in (None, "")
    assert str(home) not in found.files


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("#!/bin/sh\necho 'cannot load libpython' >&2\nexit 1\n", "cannot load libpython"),
        ("#!/bin/sh\nwhile :; do sleep 100; done\n", "timeout"),
        ("#!/bin/sh\nkill -9 $$\n", "status 137"),
    ],
)
def test_a_broken_interpreter(session: Client, tmp_path: Path, text: str, state: str) -> None:
    broken = program(tmp_path / "bin", "python", text)
    found = look(session, python=str(broken), patience=3.0)
    told = found.mapping("python")
    assert told is not None
    assert told["state"] == state
    assert found.texts("nccl_libs") is not None  # looked for by the agent's own


def test_an_interpreter_that_is_not_there(session: Client) -> None:
    told = look(session, python="no-such-python").mapping("python")
    assert told is not None
    assert told["state"] == "missing"


def test_libraries_are_told_in_the_loaders_order(session: Client, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libnccl.so.2").write_bytes(b"no library")
    (tmp_path / "two/libnccl-net-ofi.so").write_bytes(b"no library")
    (tmp_path / "three").symlink_to(tmp_path / "one")
    path = f"{tmp_path}/two:{tmp_path}/one:{tmp_path}/three::/no/such"
    found = look(session, env={"LD_LIBRARY_PATH": path})
    libraries = found.texts("nccl_libs")
    assert libraries is not None
    assert [each for each in libraries if str(tmp_path) in each] == [
        f"{tmp_path}/two/libnccl.so.2 ?",
        f"{tmp_path}/one/libnccl.so.2 ?",
    ]
    plugin = found.syscall("net_plugins")[0]
    assert plugin["name"] == "libnccl-net-ofi.so"
    assert plugin["state"] != "ok"


def test_nonsense_is_refused(session: Client) -> None:
    with pytest.raises(Refused, match="paths"):
        look(session, paths="everything")
    with pytest.raises(Refused, match="patience"):
        look(session, patience="long")
