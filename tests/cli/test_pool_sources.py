"""`rankdeck pools new NAME --from ...`: host files, allocations and the ssh config, as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.on_terminal import Terminal
from cli.user import COMMAND, LIMIT, Shell


def nodes(pool: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(node["name"], node["slots"]) for node in pool["nodes"]]


def test_a_hostfile_is_shown_as_understood_and_saved(rankdeck: Shell) -> None:
    path = rankdeck.write("hosts", "")
    raw = b"\xef\xbb\xbf# lab\r\nbob@a01 slots=4 port=2222\r\na02 slots=2  # old\r\n\r\na03 slots=2"
    path.write_bytes(raw)
    done = rankdeck("pools", "new", "lab", "--from", "hosts")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["NODE", "USER", "PORT", "SLOTS", "LINE"],
        ["a01", "bob", "2222", "4", "2"],
        ["a02", "-", "-", "2", "3"],
        ["a03", "-", "-", "2", "5"],
    ]
    for said in ("read as openmpi", "Windows line ends", "byte order mark", "3 nodes, 8 slots", "saved "):
        assert said in done.stderr
    assert nodes(rankdeck.json("pools", "show", "lab")) == [("a01", 4), ("a02", 2), ("a03", 2)]
    saved = (rankdeck.folder / "config/pools/lab.toml").read_text()
    assert 'nodes = ["bob@a01:2222 slots=4", "a[02-03] slots=2"]' in saved
    assert path.read_bytes() == raw
    assert rankdeck("pools").stdout.splitlines()[1].split()[:4] == ["lab", "ssh", "3", "2-4"]


def test_a_source_without_nodes_is_named(rankdeck: Shell) -> None:
    empty = rankdeck.write("empty", "# nothing yet\n")
    rankdeck.write("home/.ssh/config", "Host *\n  User bob\n")
    for source, said in ((str(empty), str(empty)), ("-", "standard input"), ("ssh-config", "the ssh config")):
        done = rankdeck("pools", "new", "lab", "--from", source, status=2)
        assert f"rankdeck: {said}: it names no node" in done.stderr


def test_the_same_as_json(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01\na02\na01\n")
    found = rankdeck.json("pools", "new", "lab", "--from", "hosts")
    assert (found["format"], found["slots"], found["source"]) == ("pbs", 3, "hosts")
    assert found["nodes"][0] == {
        "name": "a01", "host": "a01", "user": None, "port": None, "slots": 2, "lines": [1, 3],
    }  # fmt: skip
    assert Path(found["saved"]).is_file()


def test_odd_lines_are_named_and_nothing_is_saved(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01 slots=4\na02 slots=four\na03 fast\n")
    done = rankdeck("pools", "new", "lab", "--from", "hosts", status=2)
    assert 'line 2: `a02 slots=four`: slots "four"; allowed: a whole number from 1 to 4096' in done.stderr
    assert 'line 3: `a03 fast`: "fast" is not known here' in done.stderr
    assert not (rankdeck.folder / "config/pools/lab.toml").exists()


def test_a_conflict_stops_unless_a_way_is_chosen(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01 slots=4\na02 slots=1\na01 slots=2\n")
    done = rankdeck("pools", "new", "lab", "--from", "hosts", status=2)
    assert "lines 1 and 3: a01 is there 2 times, with slots 4 and 2" in done.stderr
    assert "--duplicates sum" in done.stderr
    added = rankdeck.json("pools", "new", "lab", "--from", "hosts", "--duplicates", "sum")
    assert nodes(added) == [("a01", 6), ("a02", 1)]
    kept = rankdeck.json("pools", "new", "first", "--from", "hosts", "--duplicates", "first")
    assert nodes(kept) == [("a01", 4), ("a02", 1)]


def test_a_person_is_asked_about_a_conflict(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01 slots=4\na01 slots=2\n")

    def answered(name: str, *answers: str) -> int:
        terminal = Terminal(rankdeck, "pools", "new", name, "--from", "hosts", NO_COLOR="1")
        try:
            for answer in answers:
                terminal.until("or stop [stop]: ")
                terminal.type(answer + "\r")
            return terminal.end()
        finally:
            terminal.close()

    assert answered("lab", "add", "sum") == 0
    assert nodes(rankdeck.json("pools", "show", "lab")) == [("a01", 6)]
    assert answered("none", "") == 2
    assert not (rankdeck.folder / "config/pools/none.toml").exists()


def test_json_may_stand_before_the_verb(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01\n")
    assert (
        json.loads(rankdeck("pools", "--json", "new", "lab", "--from", "hosts").stdout)["format"] == "plain"
    )
    assert json.loads(rankdeck("pools", "--json", "show", "lab").stdout)["name"] == "lab"


def test_standard_input_is_read(rankdeck: Shell) -> None:
    done = subprocess.run(
        [COMMAND, "pools", "new", "lab", "--from", "-", "--json"],
        cwd=rankdeck.folder, env=rankdeck.environment, input=b"w0:2,w1:2\n",
        capture_output=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["format"], nodes(found)) == ("horovod", [("w0", 2), ("w1", 2)])


def test_a_commands_output_is_read_and_a_named_pipe_is_refused(rankdeck: Shell) -> None:
    script = f"{COMMAND} pools new lab --from <(echo w0:2,w1:2) --json"
    done = subprocess.run(
        ["bash", "-c", script], cwd=rankdeck.folder, env=rankdeck.environment,
        capture_output=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    assert nodes(json.loads(done.stdout)) == [("w0", 2), ("w1", 2)]
    os.mkfifo(rankdeck.folder / "pipe")
    refused = rankdeck("pools", "new", "other", "--from", "pipe", status=2)
    assert "pipe: cannot be read: it is a named pipe (FIFO); allowed: a regular file" in refused.stderr


@pytest.mark.parametrize(
    ("source", "variables", "expected"),
    [
        (
            "slurm",
            {"SLURM_JOB_NODELIST": "g[1-2],n7", "SLURM_TASKS_PER_NODE": "8(x2),4"},
            [("g1", 8), ("g2", 8), ("n7", 4)],
        ),
        ("slurm", {"SLURM_JOB_NODELIST": "g[1-2]"}, [("g1", None), ("g2", None)]),
        ("lsf", {"LSB_MCPU_HOSTS": "batch01 1 a01 4 a02 4 "}, [("a01", 4), ("a02", 4)]),
        ("pbs", {"PBS_NODEFILE": "nodefile"}, [("a01.x.edu", 2), ("a02.x.edu", 1)]),
        (
            "lsf",
            {"LSB_DJOB_HOSTFILE": "nodefile", "LSB_MCPU_HOSTS": "x 9"},
            [("a01.x.edu", 2), ("a02.x.edu", 1)],
        ),
        ("sge", {"PE_HOSTFILE": "pe"}, [("a01", 4), ("a02", 2)]),
    ],
)
def test_the_allocation_we_are_inside_of(
    rankdeck: Shell, source: str, variables: dict[str, str], expected: list[tuple[str, int | None]]
) -> None:
    rankdeck.write("nodefile", "a01.x.edu\na01.x.edu\na02.x.edu\n")
    rankdeck.write("pe", "a01 4 all.q@a01 UNDEFINED\na02 2 all.q@a02 UNDEFINED\n")
    rankdeck("pools", "new", "job", "--from", source, **variables)
    assert nodes(rankdeck.json("pools", "show", "job")) == expected


@pytest.mark.parametrize("source", ["slurm", "pbs", "lsf", "sge"])
def test_outside_of_a_job_it_is_said(rankdeck: Shell, source: str) -> None:
    assert "not inside a job" in rankdeck("pools", "new", "job", "--from", source, status=2).stderr


def test_the_host_names_of_the_ssh_config_and_its_includes(rankdeck: Shell) -> None:
    rankdeck.write(
        "home/.ssh/config", "Include more/*.conf nowhere\nHost gpu3 login *.org\n  User bob\nHost *\n"
    )
    rankdeck.write("home/.ssh/more/b.conf", 'Host "gpu2"\n')
    rankdeck.write("home/.ssh/more/a.conf", "Host=gpu1 !gpu9\nMatch all\nHost gpu1 gpu?\n")
    everything = rankdeck.json("pools", "new", "all", "--from", "ssh-config")
    assert [node["name"] for node in everything["nodes"]] == ["gpu1", "gpu2", "gpu3", "login"]
    rankdeck("pools", "new", "lab", "gpu*", "--from", "ssh-config", "--slots", "8")
    assert nodes(rankdeck.json("pools", "show", "lab")) == [("gpu1", 8), ("gpu2", 8), ("gpu3", 8)]
    done = rankdeck("pools", "new", "none", "x*", "--from", "ssh-config", status=2)
    assert "names no node" in done.stderr
    rankdeck.write("home/.ssh/config", "Include loop\n")
    rankdeck.write("home/.ssh/loop", "Include loop\n")
    done = rankdeck("pools", "new", "x", "--from", "ssh-config", status=2)
    assert "more than 16 levels deep" in done.stderr


def test_what_does_not_go_together_is_refused(rankdeck: Shell) -> None:
    rankdeck.write("hosts", "a01\n")
    assert "both given" in rankdeck("pools", "new", "x", "n1", "--from", "hosts", status=2).stderr
    assert "--from FILE" in rankdeck("pools", "new", "x", "n1", "--format", "pbs", status=2).stderr
    assert "ssh-config, slurm" in rankdeck("pools", "new", "x", "--from", "nowhere", status=2).stderr
    rankdeck("pools", "new", "x", "--from", "hosts")
    assert "there already" in rankdeck("pools", "new", "x", "--from", "nowhere", status=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("x", "--slots", "2", "n1", "n2"),
        ("--slots", "2", "x", "n1", "n2"),
        ("x", "n1", "--slots", "2", "n2"),
        ("x", "n1", "n2", "--slots=2"),
    ],
)
def test_nodes_may_stand_anywhere_among_the_options(rankdeck: Shell, words: tuple[str, ...]) -> None:
    rankdeck("pools", "new", *words)
    assert nodes(rankdeck.json("pools", "show", "x")) == [("n1", 2), ("n2", 2)]
    assert "unrecognized" in rankdeck("pools", "new", "y", "n1", "--slot", "2", status=2).stderr


def test_some_nodes_and_some_gpus_of_a_pool(rankdeck: Shell) -> None:
    rankdeck.save_pool("lab", 'backend = "ssh"\nnodes = ["w[0-3].x.org"]\nslots = 4\n')
    rankdeck.save_profile("it", pool="lab", nodes=1)

    def planned(*options: str) -> dict[str, int]:
        plan = rankdeck.json("plan", "it", "--offline", *options)
        return {node["node"]: sum(len(p["ranks"]) for p in node["processes"]) for node in plan["nodes"]}

    assert planned() == {"w0.x.org": 4}
    assert planned("--nodes", "w[2-3]") == {"w2.x.org": 4, "w3.x.org": 4}
    assert planned("--nodes", "w3,w2", "--set", "nodes=1") == {"w3.x.org": 4}
    assert planned("--include", "w0@w1:0,2") == {"w0.x.org": 4, "w1.x.org": 2}
    rankdeck.save_profile("many", pool="lab", nodes=4, procs_per_node=4)
    plan = rankdeck.json("plan", "many", "--offline", "--include", "w1:0,2")
    assert (plan["world_size"], len(plan["nodes"])) == (2, 1)
    done = rankdeck("plan", "many", "--offline", "--include", "w1:0,2", "--set", "procs_per_node=4", status=2)
    assert "4 ranks on node w1.x.org, which takes 2 (GPUs 0,2 chosen)" in done.stderr
    assert planned("--exclude", "w0", "--set", "nodes=3") == {"w1.x.org": 4, "w2.x.org": 4, "w3.x.org": 4}
    done = rankdeck("plan", "it", "--offline", "--nodes", "w9", status=2)
    assert "\"w9\" is no node of pool 'lab'" in done.stderr
    done = rankdeck("plan", "it", "--offline", "--include", "w0:7", status=2)
    assert "slot 7 is not on w0.x.org (0-3)" in done.stderr
    assert "both given" in rankdeck("plan", "it", "--include", "w0", "--exclude", "w1", status=2).stderr


def test_a_run_on_chosen_nodes_is_repeated_on_them(rankdeck: Shell) -> None:
    rankdeck.save_pool("four", 'backend = "local"\nnodes = ["127.0.0.[1-3]"]\nslots = 2\n')
    rankdeck.save_profile("it", pool="four")
    done = rankdeck("run", "it", "--nodes", "127.0.0.3", "--skip-checks")
    assert "rank 1 of 2 says hello" in done.stdout
    (run,) = rankdeck.json("runs")
    assert [node["name"] for node in rankdeck.json("show", run["id"])["nodes"]] == ["127.0.0.3"]
    record = rankdeck.folder / "data/runs" / run["id"] / "run.toml"
    again = rankdeck.json("plan", str(record), "--offline")
    assert [node["node"] for node in again["nodes"]] == ["127.0.0.3"]
    rankdeck("run", "it", "--include", "127.0.0.2:1", "--skip-checks")
    last = rankdeck.json("show", "last")
    assert (last["world_size"], [node["name"] for node in last["nodes"]]) == (1, ["127.0.0.2"])
    (row,) = (rankdeck.folder / "data/runs" / last["id"] / "pool.toml").read_text().splitlines()[1:2]
    assert row == 'nodes = ["127.0.0.2 slots=1 gpus=1"]'


def test_check_and_gpus_take_the_choice_too(rankdeck: Shell) -> None:
    rankdeck.save_pool("four", 'backend = "local"\nnodes = ["127.0.0.[1-4]"]\n')
    checked = json.loads(
        rankdeck("check", "--pool", "four", "--nodes", "127.0.0.[2-3]", "--json", status=None).stdout
    )
    assert [node["node"] for node in checked["nodes"]] == ["127.0.0.2", "127.0.0.3"]
    done = rankdeck("gpus", "--pool", "four", "--exclude", "127.0.0.[2-4]")
    assert "127.0.0.2" not in done.stdout + done.stderr
    assert "a run and nodes were given" in rankdeck("gpus", "last", "--nodes", "n1", status=2).stderr
