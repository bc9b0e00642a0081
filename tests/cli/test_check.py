"""`rankdeck check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.user import Shell
from rankdeck_backends.preflight.catalogue import CHECKS

RECORDED = Path(__file__).parents[1] / "preflight/recorded"


def node(name: str, **changes: Any) -> dict[str, Any]:
    """A node that is well, but for what is changed in its system calls."""
    syscalls = {
        "hostname": name,
        "uid": 1000,
        "gid": 1000,
        "rlimit_nofile": 1048576,
        "rlimit_nofile_hard": 1048576,
        "shm_avail_mib": 64000,
        "shm_total_mib": 64000,
        "cpus_allowed": 32,
        "ntp_synchronized": True,
        "clock_offset_s": 0.0,
        **changes,
    }
    return {"node": name, "files": {}, "commands": [], "syscalls": syscalls}


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    """64 recorded nodes: on every eighth the clock is off."""
    paths = []
    for number in range(1, 65):
        path = tmp_path / f"{number:02}.json"
        off = {"clock_offset_s": 47.0} if number % 8 == 0 else {}
        path.write_text(json.dumps(node(f"gpu{number:03}", **off)))
        paths.append(str(path))
    return paths


def test_this_machine_as_text_and_json(rankdeck: Shell) -> None:
    done = rankdeck("check", status=None)
    assert done.returncode in (0, 1), done.stderr
    assert "looking at 1 node" in done.stderr
    assert "pool local, torchrun, 1 node" in done.stdout
    document = json.loads(rankdeck("check", "--json", status=None).stdout)
    assert document["verdict"] in ("pass", "warn", "fail")
    (only,) = document["nodes"]
    assert {finding["id"] for finding in only["findings"]} <= {check.id for check in CHECKS}
    assert set(document) >= {"verdict", "nodes", "pool_findings", "env", "blocked"}


def test_what_is_set_and_what_is_kept_is_told(rankdeck: Shell) -> None:
    files = [str(RECORDED / f"{name}.json") for name in ("stale-env", "ndr-ok-a", "ndr-ok-b")]
    text = rankdeck("check", "--replay", *files, status=1).stdout
    sets, keeps = text.index("a launch sets for the network:"), text.index("set already, and kept as it is:")
    assert "  NCCL_IB_HCA==mlx5_0,mlx5_1  all nodes: the ports" in text[sets:keeps]
    assert "  NCCL_IB_DISABLE=1  stale-env: from /home/user/.nccl.conf" in text[keeps:]
    assert "only the RDMA ports that every node has are used" in text[keeps:]
    markdown = rankdeck("check", "--markdown", "--replay", *files, status=1).stdout
    assert "- `NCCL_IB_HCA==mlx5_0,mlx5_1` on `ndr-ok-a,ndr-ok-b,stale-env`: the ports" in markdown
    assert "- `NCCL_IB_DISABLE=1` on `stale-env`: from /home/user/.nccl.conf" in markdown


def test_this_machine_is_judged_alike_from_its_record(rankdeck: Shell, tmp_path: Path) -> None:
    """A node of the local backend stands for no others, live or recorded."""
    place = str(tmp_path / "kept")
    live = json.loads(rankdeck("check", "--record", place, "--json", status=None).stdout)
    again = json.loads(rankdeck("check", "--replay", place, "--json", status=None).stdout)
    (tmp_path / "kept" / "gpu001.json").write_text("{}")
    said = rankdeck("check", "--record", place, status=None).stderr
    assert f"{place} has other records, too, which --replay of the folder takes in: gpu001.json" in said
    for name in ("env", "keep", "blocked"):
        assert again[name] == live[name]
    first, second = (
        [each for each in told["nodes"][0]["findings"] if each["id"] != "os.cpus"] for told in (live, again)
    )
    assert first == second  # but for how many ranks the node takes: that is the pool's to say


def test_many_nodes_stay_readable(rankdeck: Shell, nodes: list[str]) -> None:
    done = rankdeck("check", "--replay", *nodes, status=1)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 80
    assert lines[0].split()[:2] == ["fail", "clock.skew"]
    assert "gpu[008,016,024,032,040,048,056,064]" in "".join(lines[:3]).replace(" ", "")
    assert lines[-2].startswith("FAIL  recorded nodes, torchrun, 64 nodes")


def test_a_ticket(rankdeck: Shell, nodes: list[str]) -> None:
    done = rankdeck("check", "--replay", *nodes, "--markdown", status=1)
    assert done.stdout.startswith("# Preflight: recorded nodes, torchrun: fail\n")
    assert "### `clock.skew` fail: " in done.stdout


def test_recordings_leave_secrets_out(rankdeck: Shell, tmp_path: Path) -> None:
    rankdeck.environment["HOME"] = str(tmp_path)
    rankdeck.environment["NCCL_AUTH_TOKEN"] = "s3cret-a"
    (tmp_path / ".nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_API_KEY = s3cret-b\n")
    rankdeck("check", "--record", str(tmp_path / "kept"), status=None)
    (file,) = (tmp_path / "kept").glob("*.json")
    text = file.read_text()
    assert "NCCL_DEBUG=INFO" in text
    assert "NCCL_AUTH_TOKEN=***" in text
    assert "NCCL_API_KEY = ***" in text
    assert "s3cret" not in text


def test_no_report_tells_a_secret(rankdeck: Shell, tmp_path: Path) -> None:
    """Findings quote what was read: they are recorded with a run, and pasted into tickets."""
    rankdeck.environment["NCCL_AUTH_KEY"] = "s3cret-a"
    rankdeck.environment["UCX_X_PASSWORD"] = "s3cret-b"
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    words = ["--api-key", "s3cret-c", "--wandb_token=s3cret-d", "https://me:s3cret-e@host/x"]
    listen = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", listen, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        port = f"master_port={int(holder.stdout.readline())}"
        for form in ((), ("--json",), ("--markdown",)):
            done = rankdeck("check", "hello", "--set", port, *form, status=1)
            assert "port.free" in done.stdout
            assert "s3cret" not in done.stdout + done.stderr
        assert "s3cret" not in rankdeck("run", "hello", "--set", port, status=1).stderr
    finally:
        holder.kill()
        holder.communicate()
    rankdeck("run", "hello")
    for path in (rankdeck.folder / "data").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes(), path


def test_a_folder_is_replayed_in_the_order_of_its_nodes(rankdeck: Shell, tmp_path: Path) -> None:
    """The first is the head, whatever the names are."""
    rankdeck.save_pool("two", 'backend = "local"\nnodes = ["127.0.0.2", "127.0.0.1"]\n')
    place = str(tmp_path / "kept")
    live = json.loads(rankdeck("check", "--pool", "two", "--record", place, "--json", status=None).stdout)
    again = json.loads(rankdeck("check", "--replay", place, "--json", status=None).stdout)
    for found in (live, again):
        assert [node["node"] for node in found["nodes"]] == ["127.0.0.2", "127.0.0.1"]


def test_a_recording_is_judged_like_the_node(rankdeck: Shell, tmp_path: Path) -> None:
    live = rankdeck("check", "--json", "--record", str(tmp_path), status=None)
    again = rankdeck("check", "--json", "--replay", str(tmp_path), status=None)
    told = [
        {finding["id"]: finding["verdict"] for finding in json.loads(done.stdout)["nodes"][0]["findings"]}
        for done in (live, again)
    ]
    assert {check for check, verdict in told[0].items() if verdict == "fail"} <= {
        check for check, verdict in told[1].items() if verdict == "fail"
    }
    assert set(told[0]) == set(told[1])


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("ib.portstate", "did you mean ib.port-state"),
        ("", "ids begin with ib, roce, efa, "),
        ("\x1b[31m" + "x" * 4000, "ids begin with ib, "),
    ],
)
def test_an_id_that_is_none(rankdeck: Shell, asked: str, hint: str) -> None:
    said = rankdeck("check", "--explain", asked, status=2).stderr
    assert hint in said
    assert len(said) < 900
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("asked", "rows"),
    [("ib", ["ib.present", "ib.port-state"]), ("IB.*", ["ib.mtu"]), ("bw", ["bw.nccl-pair"])],
)
def test_the_checks_of_one_kind_are_listed(rankdeck: Shell, asked: str, rows: list[str]) -> None:
    listed = rankdeck("check", "--explain", asked).stdout.splitlines()
    assert listed[0].split() == ["CHECK", "WHAT", "IT", "ASKS"]
    for row in rows:
        (line,) = [each for each in listed if each.split()[0] == row]
        assert len(line.split()) > 2
    assert {line.partition(".")[0] for line in listed[1:]} == {asked[:2].lower()}


def test_explanations_as_json(rankdeck: Shell) -> None:
    (one,) = rankdeck.json("check", "--explain", "ib.rate")
    assert one["id"] == "ib.rate"
    assert one["rule"].startswith("fail: ")
    assert {"group", "looks_at", "reads", "symptom", "fix", "source"} <= set(one)
    kind = rankdeck.json("check", "--explain", "ofed")
    assert kind[0]["id"] == "ofed.modules"
    assert rankdeck("check", "--explain", "nosuch", "--json", status=2).stdout == ""


@pytest.mark.parametrize("kind", ["fifo", "huge", "empty"])
def test_what_is_no_recorded_node_is_refused_at_once(rankdeck: Shell, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.json"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate((65 << 20) if kind == "huge" else 0)
    said = rankdeck("check", "--replay", str(path), status=2).stderr
    assert str(path) in said
    assert "--record DIR` makes such files" in said


def test_ids_in_capitals_and_active_tests_are_explained(rankdeck: Shell) -> None:
    assert rankdeck("check", "--explain", "IB.Errors").stdout.startswith("ib.errors\n")
    text = rankdeck("check", "--explain", "bw.nccl-pair").stdout
    assert "active tests; looks at: pair" in text
    assert "less than 90% of the pairs' median" in " ".join(text.split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "no JSON"),
        (b'{"files":' * 50_000, "no JSON"),
        (b'{"schema": 2, "files": {}, "commands": [], "syscalls": {}}', "schema 2; this rankdeck reads 1"),
        (b'{"files": {"/a": "x', "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b'{"verdict": "pass", "nodes": []}', "no recorded node"),
    ],
)
def test_files_that_are_no_records(rankdeck: Shell, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "n1.json"
    path.write_bytes(content)
    done = rankdeck("check", "--replay", str(path), status=2)
    assert f"{path}: " in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_can_t_be_written_is_told_before_any_node_is_asked(
    rankdeck: Shell, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", Path("/proc/none")):
        done = rankdeck("check", "--record", str(place), status=2)
        assert str(place) in done.stderr
        assert "looking at" not in done.stderr


def test_every_check_is_explained(rankdeck: Shell) -> None:
    text = rankdeck("check", "--explain", "port.free").stdout
    assert text.startswith("port.free")
    for word in ("reads:", "rule:", "fix:", "source:"):
        assert word in text
    wrong = rankdeck("check", "--explain", "port.fre", status=2)
    assert "did you mean port.free" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "--markdown"), "exclude each other"),
        (("--replay", "x.json", "--pool", "lab"), "--replay judges files"),
        (("--replay", "no-such.json"), "no-such.json: No such file"),
        (("--framework", "nosuch"), "nosuch"),
        (("--set", "nodes=1"), "--set changes a profile"),
        (("hello", "--framework", "mpi"), "the profile has its framework"),
        (("--record", ""), "a name is expected"),
        (("--replay", " "), "a name is expected"),
        (("--explain", "ib.rate", "--active", "torch"), "--active has no meaning with it"),
        (("--explain", "ib.rate", "--replay", "x", "--markdown"), "--replay, --markdown has no meaning"),
        (("hello", "--explain", "ib.rate"), "PROFILE has no meaning with it"),
    ],
)
def test_what_cannot_be(rankdeck: Shell, words: tuple[str, ...], said: str) -> None:
    rankdeck.save_profile("hello")
    done = rankdeck("check", *words, status=2)
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "text", ["", "[]", '{"hello": 1}', '{"files": 3}', '{"commands": [{"argv": []}]}', "\x00"]
)
def test_files_that_are_no_recordings(rankdeck: Shell, tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    done = rankdeck("check", "--replay", str(path), status=2)
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (("--set", 'workdir="/no/where"'), "/no/where: No such file or directory"),
        (("--set", 'python="/usr/bin/no-python"'), "/usr/bin/no-python"),
        (("--set", 'script="no-such.py"'), "no-such.py"),
        (("--set", 'setup=["module load cuda/99"]'), "module load cuda/99"),
    ],
)
def test_what_a_launch_refuses_is_found_by_the_check_once(
    rankdeck: Shell, tmp_path: Path, changes: tuple[str, ...], named: str
) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    refused = rankdeck("run", "hello", *changes, status=2).stderr
    assert named in refused
    assert "[run.needs]" not in refused
    assert rankdeck.json("runs") == []
    place = str(tmp_path / "kept")
    done = rankdeck("check", "hello", *changes, "--record", place, status=1)
    causes = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("fail ")]
    assert causes[0] == "run.needs", done.stdout
    assert named in done.stdout
    again = rankdeck("check", "hello", "--replay", place, status=1).stdout
    assert named in again


MPI = ("--set", 'framework="mpi"', "--set", "options={allow_root = true}")


@pytest.mark.parametrize(
    ("changes", "cause", "said"),
    [
        ((*MPI[:3], 'options={allow_root = true, mpirun = "/no/mpirun"}'), "sw.mpi", "no mpirun that works"),
        (("--set", 'env={GLOO_SOCKET_IFNAME="no0"}'), "sw.env", "GLOO_SOCKET_IFNAME"),
    ],
)
def test_nodes_that_make_a_plan_impossible_are_judged_all_the_same(
    rankdeck: Shell, changes: tuple[str, ...], cause: str, said: str
) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    done = rankdeck("check", "hello", *changes, status=1)
    causes = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("fail ")}
    assert causes == {cause}, done.stdout
    assert said in " ".join(done.stdout.split())
    assert json.loads(rankdeck("check", "hello", *changes, "--json", status=1).stdout)["verdict"] == "fail"
    # What no nodes could make right is a mistake of the profile's.
    rankdeck("check", "hello", "--set", "process_count=7", "--set", "procs_per_node=2", status=2)


def test_a_pool_is_asked_for_what_a_framework_needs(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    done = rankdeck("check", "--pool", "two", "--framework", "mpi", "--json", status=None)
    found = json.loads(done.stdout)
    asked = [each for node in found["nodes"] for each in node["findings"] if each["id"] == "sw.mpi"]
    assert asked
    assert all("no MPI was asked for" not in each["message"] for each in asked)


def test_nodes_of_which_nothing_is_known_are_no_pass(rankdeck: Shell, tmp_path: Path) -> None:
    path = tmp_path / "n1.json"
    path.write_text('{"syscalls": {"hostname": "n1"}}')
    done = rankdeck("check", "--replay", str(path), status=3)
    assert "NOT KNOWN" in done.stdout
    assert "nothing is known of n1" in done.stdout
    assert "PASS" not in done.stdout
    markdown = rankdeck("check", "--replay", str(path), "--markdown", status=3).stdout
    assert "Nothing is known of `n1`." in markdown
    assert "Nothing stops a launch" not in markdown
    both = rankdeck("check", "--replay", str(path), str(RECORDED / "ndr-ok-a.json"), status=3).stdout
    assert "nothing is known of n1" in both
    assert "n1 has no usable RDMA port" not in both


def test_what_is_handled_or_follows_is_told_and_counted_as_that(rankdeck: Shell, tmp_path: Path) -> None:
    for name in ("ndr-ok-a", "ndr-ok-b"):
        document = json.loads((RECORDED / f"{name}.json").read_text())
        document["syscalls"]["resolve_self"] = ["127.0.1.1"]
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    done = rankdeck("check", "--replay", str(tmp_path), status=0)
    lines = done.stdout.splitlines()
    told, _ = (number for number, line in enumerate(lines) if line.startswith("handled net.hostname"))
    assert "(handled: GLOO_SOCKET_IFNAME is set)" in "".join(lines[told + 1 : told + 4])
    assert not [line for line in lines if line.startswith("fail ")]
    assert " 1 handled by what a launch sets" in done.stdout
    assert " failed" not in lines[-1]
    markdown = rankdeck("check", "--markdown", "--replay", str(tmp_path)).stdout
    assert "| group | fail | warn | follows | handled | pass | skip |" in markdown
    assert "| sockets and rendezvous | 0 | 0 | 0 | 2 |" in markdown
