"""What a node says of itself and of what a plan needs; and getting in at all."""

from __future__ import annotations

import ast
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_client import Client, Refused
from agent_runs import Run, rank_plan

from rankdeck_backends import package

AGENT = Path(package.__file__).parent / "agent"


# -- probe and check --


def test_probe(connect: Callable[..., Client]) -> None:
    env = {
        "SSH_CONNECTION": "10.0.0.1 40000 10.0.0.2 22",
        "PET_NNODES": "2",
        "OMPI_X": os.fsdecode(b"\xff"),
        "PEW": "1",
    }
    client = connect(python=sys.executable, env=env)
    client.hello()
    began = time.monotonic()
    facts = client.ask("probe", leftovers=["PET_*", "OMPI_*"])["facts"]
    assert time.monotonic() - began < 20  # 2 s where the machine has nothing else to do
    assert facts["hostname"] == socket.gethostname()
    assert facts["uid"] == os.getuid()
    assert facts["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["cpus"] == len(os.sched_getaffinity(0))
    assert facts["memory_mib"] > 100
    assert facts["kernel"] == os.uname().release
    assert facts["python"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["ssh_server_address"] == "10.0.0.2"
    assert facts["leftovers"] == {"PET_NNODES": "2", "OMPI_X": "\udcff"}
    assert "free_port" not in facts
    loopback = next(i for i in facts["interfaces"] if i["loopback"])
    assert "127.0.0.1" in loopback["addresses"]
    assert loopback["up"] is True


def test_a_port_in_use_is_passed_over(session: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = {"address": "127.0.0.1", "start": port, "count": 50}
        assert session.ask("probe", leftovers=[], ports=ports)["facts"]["free_port"] > port
        # torch's store listens on all addresses: taken at one is taken for all
        ports["address"] = "127.0.0.2"
        assert session.ask("probe", leftovers=[], ports=ports)["facts"]["free_port"] > port
        ports["count"] = 1
        assert session.ask("probe", leftovers=[], ports=ports)["facts"]["free_port"] is None
    ports = {"address": "192.0.2.77", "start": 40000, "count": 5}
    assert session.ask("probe", leftovers=[], ports=ports)["facts"]["free_port"] is None


def test_nothing_is_missing(session: Client, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "inside.py").write_text("")
    needs = [
        {"kind": "dir", "value": str(tmp_path), "why": "workdir"},
        {"kind": "file", "value": "train.py", "why": "script"},
        {"kind": "program", "value": "sh", "why": "command"},
        {"kind": "program", "value": sys.executable, "why": "python"},
        {"kind": "module", "value": "json.tool", "by": sys.executable, "why": "module"},
        {"kind": "module", "value": "inside", "by": sys.executable, "why": "module"},
    ]
    assert session.ask("check", needs=needs, cwd=str(tmp_path), setup=[])["problems"] == []


@pytest.mark.parametrize(
    ("need", "said"),
    [
        ({"kind": "file", "value": "train.py"}, "({tmp} is there)"),
        ({"kind": "file", "value": "src/deep/train.py"}, "No such file"),
        ({"kind": "file", "value": "."}, "is a folder"),
        ({"kind": "dir", "value": "/etc/passwd"}, "is no folder"),
        ({"kind": "dir", "value": "/no/such/dir"}, "(/ is there)"),
        ({"kind": "program", "value": "no-such-tool"}, "not in PATH"),
        ({"kind": "program", "value": "/etc/passwd"}, "not executable"),
        ({"kind": "module", "value": "no_such_module", "by": sys.executable}, "has no module no_such_module"),
        ({"kind": "module", "value": "no.such", "by": sys.executable}, "could not look for"),
        ({"kind": "module", "value": "torch", "by": "/no/python"}, "/no/python"),
    ],
)
def test_what_is_missing_is_named(session: Client, tmp_path: Path, need: dict[str, str], said: str) -> None:
    reply = session.ask("check", needs=[{**need, "why": "script"}], cwd=str(tmp_path), setup=[])
    [problem] = reply["problems"]
    assert (problem["kind"], problem["value"], problem["why"]) == (need["kind"], need["value"], "script")
    assert said.replace("{tmp}", str(tmp_path)) in problem["message"]


def test_check_sees_what_setup_leaves(session: Client, tmp_path: Path) -> None:
    (tmp_path / "trainer").write_text("#!/bin/sh\n")
    (tmp_path / "trainer").chmod(0o755)
    needs = [{"kind": "program", "value": "trainer", "why": "command"}]
    setup = ["echo noise; echo noise >&2", f"export PATH={tmp_path}:$PATH"]
    assert session.ask("check", needs=needs, cwd="/", setup=setup)["problems"] == []
    [problem] = session.ask("check", needs=needs, cwd="/", setup=["true", "ls /no/such/file"])["problems"]
    assert (problem["kind"], problem["value"]) == ("setup", "ls /no/such/file")
    assert "/no/such/file" in problem["message"]


def test_setup_lines_with_quotes_functions_and_odd_bytes(session: Client) -> None:
    setup = [
        'f() { export "$1=$2"; }',
        'f ODD "it\'s\n two lines"',
        "export BYTES=$(printf '\\377')",
        "unset HOME",
    ]
    run = Run(session, rank_plan("env -0", setup=setup))
    assert run.end() == "succeeded"
    seen = dict(entry.split(b"=", 1) for entry in run.log("0.out").split(b"\0") if entry)
    assert seen[b"ODD"] == b"it's\n two lines"
    assert seen[b"BYTES"] == b"\xff"
    assert b"HOME" not in seen


# -- getting in --


def interpreters() -> list[str]:
    """Every CPython of 3.6 or later on this machine, each version once."""
    found: dict[str, str] = {}
    places = [
        *os.environ["PATH"].split(":"),
        "/usr/bin",
        *map(str, Path.home().glob(".pyenv/versions/*/bin")),
    ]
    for place in [os.path.dirname(sys.executable), *places]:
        for path in sorted(Path(place).glob("python3*")):
            if not path.name.removeprefix("python3").lstrip(".").isdigit() and path.name != "python3":
                continue
            done = subprocess.run([path, "-I", "-S", "-V"], capture_output=True, text=True, check=False)
            version = done.stdout.strip().removeprefix("Python ")
            if done.returncode == 0 and not version.startswith(("3.0", "3.1.", "3.2", "3.3", "3.4", "3.5")):
                found.setdefault(version, str(path))
    return list(found.values())


@pytest.mark.parametrize("python", interpreters())
def test_the_agent_works_under(python: str, connect: Callable[..., Client]) -> None:
    client = connect(python=python)
    assert client.ask(
        "probe", leftovers=["HOME"], ports={"address": "127.0.0.1", "start": 20000, "count": 9000}
    )["facts"]
    assert (
        client.ask("check", needs=[{"kind": "program", "value": "sh"}], cwd="/", setup=["true"])["problems"]
        == []
    )
    fine = Run(
        client, rank_plan("echo $HELLO $RANK", "echo x", run="fine", setup=["export HELLO=hi"]), samples=0.5
    )
    assert fine.end() == "succeeded"
    assert fine.log("0.out") == b"hi 0\n"
    up = "$RANKDECK_RANK_DIR/up"
    stray = f"setsid sh -c 'touch {up}; sleep 600' & while [ ! -e {up} ]; do sleep 0.05; done; exit 9"
    failing = Run(client, rank_plan(stray, "sleep 600", run="failing"))
    assert failing.end() == "failed"
    assert failing.event("stopping")["rank"] == 0
    assert failing.event("swept")
    killed = Run(client, rank_plan("sleep 1; exit 3", run="killed"))
    killed.pids()
    os.kill(killed.supervisor, 9)
    assert killed.end() == "failed"
    assert killed.event("rank_ended")["exit_code"] == 3
    assert client.stderr == b""


@pytest.mark.parametrize("path", sorted(AGENT.glob("*.py")), ids=lambda path: path.name)
def test_it_is_python_3_6(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    assert {name.split(".")[0] for name in names if name} <= set(sys.stdlib_module_names) | {"rankdeck_agent"}


def test_the_zip_is_deterministic_and_complete() -> None:
    first = package.agent_zip()
    package.agent_zip.cache_clear()
    assert package.agent_zip() == first
    assert len(first) < 100_000


def test_the_command_line_suits_every_shell() -> None:
    command = package.bootstrap_command()
    inside = command[len("sh -c '") : -1]
    assert not set(inside) & set("'!\\\n")
    assert len(command) < 1024  # a word of the original csh


SHELLS = {
    "sh": ".profile",
    "dash": ".profile",
    "bash": ".bashrc",
    "zsh": ".zshenv",
    "fish": ".config/fish/config.fish",
    "tcsh": ".cshrc",
    "csh": ".cshrc",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_through_a_login_shell_with_noisy_start_up_files(
    shell: str, connect: Callable[..., Client], tmp_path: Path
) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    start_up = tmp_path / SHELLS[shell]
    start_up.parent.mkdir(parents=True, exist_ok=True)
    start_up.write_text('echo "Welcome to the cluster"\necho RANKDECK-AGENT-1\n')
    # sshd runs commands as `SHELL -c COMMAND`; bash then reads .bashrc since it sees the connection: here, -i
    options = ["-i"] if shell == "bash" else ["-l"] if shell in ("sh", "dash") else []
    env = {"HOME": str(tmp_path), "SHELL": path}
    client = connect(argv=[path, *options, "-c", package.bootstrap_command()], env=env)
    assert client.hello()["home"] == str(tmp_path)
    assert b"Welcome to the cluster" in client.noise
    run = Run(client, rank_plan("echo fine"))
    assert run.end() == "succeeded"


def boot(env: dict[str, str], **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command line with its input, to its end."""
    return subprocess.run(
        ["/bin/sh", "-c", package.bootstrap_command()],
        input=package.bootstrap_input(),
        capture_output=True,
        env=env,
        timeout=60,
        check=False,
    )


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but sh, and no interpreter named by its path."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setattr(package, "PYTHONS", ("python3", "python3.6"))
    return tmp_path / "bin"


def test_no_python(bare: Path) -> None:
    done = boot({"PATH": str(bare)})
    assert done.returncode == 127
    assert done.stdout == b"RANKDECK-NO-PYTHON tried python3 python3.6\n"


def test_a_python_that_is_too_old(bare: Path) -> None:
    (bare / "python3").write_text('#!/bin/sh\ncase "$*" in -V) echo Python 3.4.9;; *) exit 97;; esac\n')
    (bare / "python3").chmod(0o755)
    done = boot({"PATH": str(bare)})
    assert done.returncode == 127
    assert done.stdout.decode() == f"RANKDECK-OLD-PYTHON {bare}/python3 (Python 3.4.9)\n"


def test_a_broken_python_makes_room_for_the_next(bare: Path, tmp_path: Path) -> None:
    (bare / "python3").write_text("#!/bin/sh\necho 'pyenv: python3: command not found' >&2; exit 127\n")
    (bare / "python3").chmod(0o755)
    (bare / "python3.6").symlink_to(sys.executable)
    done = boot({"PATH": str(bare), "RANKDECK_NODE_DIR": str(tmp_path / "node")})
    assert (done.returncode, b"RANKDECK-AGENT-1" in done.stdout) == (0, True)


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = boot({"PATH": os.environ["PATH"], "RANKDECK_NODE_DIR": str(tmp_path / "file/deep/node")})
    assert done.returncode == 98
    assert done.stdout.decode() == f"RANKDECK-NO-FOLDER {tmp_path}/file/deep/node: Not a directory\n"
    (tmp_path / "link").symlink_to(tmp_path)
    done = boot({"PATH": os.environ["PATH"], "RANKDECK_NODE_DIR": str(tmp_path / "link")})
    assert done.stdout.decode() == f"RANKDECK-NO-FOLDER {tmp_path}/link: is not a folder\n"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make another user's folder")
def test_another_users_folder_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    os.chown(tmp_path / "node", 12345, 12345)
    done = boot({"PATH": os.environ["PATH"], "RANKDECK_NODE_DIR": str(tmp_path / "node")})
    assert b"belongs to uid 12345" in done.stdout


def test_the_zip_is_kept_private_and_used_again(connect: Callable[..., Client], folder: Path) -> None:
    connect(python=sys.executable).hello()
    [archive] = folder.glob("agent-*.zip")
    assert archive.read_bytes() == package.agent_zip()
    assert (archive.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    before = archive.stat().st_ino
    connect(python=sys.executable).hello()
    assert archive.stat().st_ino == before
    archive.write_bytes(b"damaged")
    connect(python=sys.executable).hello()
    assert archive.read_bytes() == package.agent_zip()


def test_a_start_without_a_folder_is_refused(connect: Callable[..., Client], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused) as refused:
        connect(python=sys.executable).ask(
            "start", plan=rank_plan("true"), dir=str(tmp_path / "file/deep/run")
        )
    assert refused.value.kind == "folder"
    assert "Not a directory" in refused.value.message
