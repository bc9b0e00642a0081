"""What a node says of networks, ports, MPI and Python distributions."""

from __future__ import annotations

import importlib.metadata
import ipaddress
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client


def probe(session: Client, **asked: Any) -> dict[str, Any]:
    facts: dict[str, Any] = session.ask("probe", 120.0, leftovers=[], **asked)["facts"]
    return facts


def tool(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# -- networks and ports --


def test_each_address_has_its_network(session: Client) -> None:
    interfaces = probe(session)["interfaces"]
    for interface in interfaces:
        assert len(interface["addresses"]) == len(interface["networks"])
        for address, network in zip(interface["addresses"], interface["networks"], strict=True):
            assert ipaddress.ip_address(address) in ipaddress.ip_network(network)
    loopback = next(i for i in interfaces if i["loopback"])
    assert loopback["networks"][loopback["addresses"].index("127.0.0.1")] == "127.0.0.0/8"


def check_port(session: Client, value: str) -> str:
    need = {"kind": "port", "value": value, "why": "master_port"}
    problems = session.ask("check", needs=[need], cwd="/", setup=[])["problems"]
    assert len(problems) < 2
    if problems:
        assert (problems[0]["kind"], problems[0]["value"]) == ("port", value)
    return str(problems[0]["message"]) if problems else ""


def test_a_port_is_free_until_somebody_listens(session: Client) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        found = check_port(session, f"127.0.0.1:{port}")
        assert found == f"port {port} at 127.0.0.1: in use: another program listens there"
        assert "in use" in check_port(session, f":{port}")
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = taken.accept()
            accepted.close()  # our end closes first: the port is left in TIME_WAIT
    assert check_port(session, f"127.0.0.1:{port}") == ""


def test_ports_that_cannot_be(session: Client) -> None:
    assert "no interface of this node has that address" in check_port(session, "203.0.113.9:29500")
    assert check_port(session, "[2001:db8::9]:29500").startswith("port 29500 at 2001:db8::9: ")
    for value in ("29500", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:http"):
        assert "allowed: address:port" in check_port(session, value)


# -- MPI --


@pytest.mark.parametrize(
    ("script", "family", "version", "note"),
    [
        ("echo 'mpirun (Open MPI) 4.1.4'", "openmpi", "4.1.4", ""),
        ("echo 'mpirun (Open MPI) 5.0.3rc1' >&2", "openmpi", "5.0.3rc1", ""),
        ("echo 'orterun (OpenRTE) 2.1.1'", "openmpi", "2.1.1", ""),
        ("echo 'HYDRA build details:'; echo '    Version:      4.2.0'", "mpich", "4.2.0", ""),
        ("echo 'Intel(R) MPI Library for Linux* OS, Version 2021.14 (HYDRA)'", "intel", "2021.14", ""),
        ("echo; echo srun wrapper 1.0", "other", "", "srun wrapper 1.0"),
        ("exit 3", "other", "", "--version says nothing"),
    ],
)
def test_families(session: Client, tmp_path: Path, script: str, family: str, version: str, note: str) -> None:
    tool(tmp_path, "mpirun", script)
    asked = {"mpirun": "mpirun", "python": "/no/such/python", "setup": [f'export PATH="{tmp_path}:$PATH"']}
    found = probe(session, mpi={**asked, "cwd": "/", "remove": []})["mpi"]
    assert (found["family"], found["version"]) == (family, version)
    assert found["path"] == f"{tmp_path}/mpirun"
    assert note in found["note"]
    assert (found["library"], found["library_version"]) == (None, "")


def test_links_to_mpirun_are_not_followed(session: Client, tmp_path: Path) -> None:
    tool(tmp_path, "real", "echo 'mpirun (Open MPI) 4.1.4'")
    (tmp_path / "linked").symlink_to("real")
    found = probe(session, mpi={"mpirun": "./linked", "cwd": str(tmp_path)})["mpi"]
    assert found["family"] == "openmpi"
    assert Path(found["path"]) == tmp_path / "linked"


def test_no_mpirun(session: Client) -> None:
    found = probe(session, mpi={"mpirun": "no-such-mpirun"})["mpi"]
    assert found["family"] == "none"
    assert "no-such-mpirun: not in PATH (" in found["note"]
    found = probe(session, mpi={"mpirun": "/no/such/mpirun"})["mpi"]
    assert found["note"] == "/no/such/mpirun: no such program"
    found = probe(session, mpi={"mpirun": "mpirun", "setup": ["ls /no/such/folder"]})["mpi"]
    assert found["family"] == "none"
    assert "setup line failed with status 2: ls /no/such/folder" in found["note"]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs an mpirun")
def test_the_mpirun_of_this_machine(session: Client) -> None:
    found = probe(session, mpi={"mpirun": "mpirun", "python": sys.executable})["mpi"]
    assert found["path"] == shutil.which("mpirun")
    assert found["family"] in ("openmpi", "mpich", "intel")
    assert found["version"][0].isdigit()


def test_the_library_that_python_loads(session: Client, tmp_path: Path) -> None:
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("class rc: initialize = True\n")
    (package / "MPI.py").write_text(
        "from mpi4py import rc\nassert rc.initialize is False\n"
        "def Get_library_version(): return 'MPICH Version:      4.2.2\\nMPICH Release date: x'\n"
    )
    asked = {"mpirun": "x", "python": sys.executable, "setup": [f'export PYTHONPATH="{tmp_path}"']}
    found = probe(session, mpi=asked)["mpi"]
    assert (found["library"], found["library_version"]) == ("mpich", "4.2.2")


def test_the_library_is_looked_for_with_the_ranks_own_variables(session: Client, tmp_path: Path) -> None:
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("class rc: initialize = True\n")
    (package / "MPI.py").write_text(
        "import os\ndef Get_library_version(): return os.environ['LOADS'] + os.environ['SEVERAL']\n"
    )
    said = tmp_path / "mpirun"
    said.write_text('#!/bin/sh\necho "mpirun (Open MPI) ${LOADS:-4.1.4}"\n')
    said.chmod(0o755)
    env = {"PYTHONPATH": str(tmp_path), "LOADS": "MPICH Version: ", "SEVERAL": "4.0.2"}
    setup = ["export SEVERAL=9.9"]
    found = probe(session, mpi={"mpirun": str(said), "python": sys.executable, "setup": setup, "env": env})[
        "mpi"
    ]
    assert (found["library"], found["library_version"]) == ("mpich", "4.0.2")
    assert (found["family"], found["version"]) == ("openmpi", "4.1.4")


# -- software --


def test_versions_without_an_import(session: Client, tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise SystemExit('imported')\n")
    asked = {"names": ["pytest", "no-such-distribution"], "python": sys.executable, "cwd": str(tmp_path)}
    assert probe(session, software=asked)["software"] == {"pytest": importlib.metadata.version("pytest")}
    assert probe(session, software={**asked, "python": "/no/such/python"})["software"] == {}
    assert "software" not in probe(session)
