"""`rankdeck plan`."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from cli.user import LIMIT, Shell
from preflight.recordings import HERE, NODES


def test_offline_plan_as_json_has_the_promised_shape(rankdeck: Shell) -> None:
    rankdeck.save_pool("lab", 'backend = "ssh"\nnodes = ["n[1-2]"]\nslots = 2\n')
    rankdeck.save_profile("hello", pool="lab")
    plan = json.loads(rankdeck("plan", "hello", "--offline", "--format", "json").stdout)
    assert plan["framework"] == "pytorch"
    assert plan["world_size"] == 4
    assert plan["head"] == {"node": "n1", "address": "n1", "port": 29500}
    assert [node["node"] for node in plan["nodes"]] == ["n1", "n2"]
    process = plan["nodes"][1]["processes"][1]
    assert process["ranks"] == [3]
    assert process["env"]["RANK"] == "3"
    assert set(plan["reasons"]) >= {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    assert plan == rankdeck.json("plan", "hello", "--offline")


def test_offline_plan_as_text_says_what_was_assumed(rankdeck: Shell) -> None:
    rankdeck.save_pool("lab", 'backend = "ssh"\nnodes = ["n[1-2]"]\n')
    rankdeck.save_profile("hello", pool="lab")
    text = rankdeck("plan", "hello", "--offline", "--set", "procs_per_node=2").stdout
    assert "4 ranks on 2 nodes" in text
    assert "assumed" in text
    assert "n2" in text


def test_plan_with_facts_names_a_port_that_is_free(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    plan = rankdeck.json("plan", "hello")
    assert plan["head"]["address"] == "127.0.0.1"
    assert plan["head"]["port"] >= 29500
    assert plan["assumed"] == []
    assert not (rankdeck.folder / "data/runs").exists()


def test_scripts_do_what_the_plan_says(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile(
        "hello", "--x", "it's $RANK of $$5", framework="command", command=["echo"], script=None
    )
    listed = rankdeck("plan", "hello", "--format", "sh", "--out", "scripts").stdout.split()
    assert [os.path.basename(path) for path in listed] == ["127.0.0.1.sh", "127.0.0.2.sh"]
    done = subprocess.run(
        ["sh", rankdeck.folder / listed[1]], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert "--x it's 1 of $5" in done.stdout
    printed = rankdeck("plan", "hello", "--format", "sh").stdout
    assert "# ---- 127.0.0.1\n#!/bin/sh\n" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "nosuch"], "no profile named 'nosuch'"),
        (["plan", "./nosuch.toml"], "there is no such file"),
        (["plan", "hello", "--pool", "nosuch"], "no pool named 'nosuch'"),
        (["plan", "hello", "--set", "nods=3"], "nods"),
        (["plan", "hello", "--set", "nodes=9"], "nodes = 9"),
        (["plan", "hello", "--set", "args=['$NOPE']"], "$NOPE"),
        (["plan", "hello", "--json", "--format", "sh"], "exclude each other"),
        (["plan", "hello", "--out", "x", "--format", "json"], "--out writes shell scripts"),
        (["plan", "hello", "--format", "yaml"], "invalid choice: 'yaml'"),
    ],
)
def test_what_is_wrong_is_said_on_stderr_alone(rankdeck: Shell, arguments: list[str], message: str) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    done = rankdeck(*arguments, status=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_empty_pool_is_refused(rankdeck: Shell) -> None:
    rankdeck.save_pool("none", 'backend = "ssh"\nnodes = []\n')
    rankdeck.save_profile("hello", pool="none")
    assert "none" in rankdeck("plan", "hello", "--offline", status=2).stderr


def recording(case: str) -> str:
    return str(HERE / "recorded" / f"{case}.json")


def test_a_plan_for_recorded_nodes_has_the_fabric_s_variables(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello", framework="torchrun")
    files = [recording("azure-ndv4-a"), recording("azure-ndv4-b")]
    plan = rankdeck.json("plan", "hello", "--replay", *files)
    assert [node["node"] for node in plan["nodes"]] == ["azure-ndv4-a", "azure-ndv4-b"]
    assert plan["head"]["address"] == "10.4.0.21"
    assert plan["world_size"] == 16
    for node in plan["nodes"]:
        (process,) = node["processes"]
        for name, value in NODES["azure-ndv4-a"]["env"]["torchrun"].items():
            assert process["env"][name] == value
            assert "fabric: " in plan["reasons"][name]


def test_a_plan_for_the_same_recording_twice_is_one_for_two_such_nodes(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello", framework="torchrun")
    plan = rankdeck.json("plan", "hello", "--replay", recording("eth-only"), recording("eth-only"))
    assert len({node["node"] for node in plan["nodes"]}) == 2
    assert not [text for text in plan["warnings"] if "one machine" in text]
    assert plan["nodes"][1]["processes"][0]["env"]["GLOO_SOCKET_IFNAME"] == "enp3s0"


def test_a_plan_for_recorded_nodes_says_what_would_refuse_it(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello", framework="torchrun")
    done = rankdeck("plan", "hello", "--replay", recording("ndr-ok-a"), recording("ndr-port-down"))
    assert "mlx5_3:1 is DOWN" in done.stderr
    assert "a launch would be refused" in done.stderr
    assert "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_4" in done.stdout


def test_a_replay_and_a_pool_exclude_each_other(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello", framework="torchrun")
    done = rankdeck("plan", "hello", "--pool", "lab", "--replay", recording("eth-only"), status=2)
    assert "--replay plans for the nodes in files" in done.stderr
