"""Placement: how many ranks where, and what does not fit."""

import pytest
from plan_samples import facts, gpus, pool, profile

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.planner import plan


@pytest.mark.parametrize(
    ("more", "slots", "found", "expected"),
    [
        ({}, 2, {}, [2, 2]),
        ({}, None, {}, [1, 1]),
        ({}, None, {"n1": facts("n1", gpus=gpus(4)), "n2": facts("n2", gpus=gpus(4))}, [4, 4]),
        ({}, 2, {"n1": facts("n1", gpus=gpus(4)), "n2": facts("n2", gpus=gpus(4))}, [2, 2]),
        ({}, None, {"n1": facts("n1", gpus=gpus(4)), "n2": facts("n2", gpus=gpus(2))}, [4, 2]),
        ({"procs_per_node": 3}, None, {}, [3, 3]),
        ({"process_count": 6}, 8, {}, [3, 3]),
        ({"process_count": 6, "procs_per_node": 3}, 8, {}, [3, 3]),
        ({"nodes": 1}, 2, {}, [2]),
        ({"nodes": 1, "process_count": 2}, 2, {}, [2]),
    ],
)
def test_how_many_ranks_where(more, slots, found, expected):
    made = plan(profile("pytorch", **more), pool("n[1-2]", slots=slots), found)
    assert [len(node.ranks) for node in made.nodes] == expected
    assert [rank for node in made.nodes for rank in node.ranks] == list(range(sum(expected)))
    for node in made.nodes:
        assert {process.env["LOCAL_WORLD_SIZE"] for process in node.processes} == {str(len(node.ranks))}


@pytest.mark.parametrize(
    ("framework", "more", "slots", "found", "message"),
    [
        ("pytorch", {"nodes": 3}, 1, {}, "nodes = 3, but pool 'lab' has 2: n1, n2"),
        (
            "pytorch",
            {"procs_per_node": 9},
            8,
            {},
            "9 ranks on node n1, which takes 8 (slots = 8 in pool 'lab')",
        ),
        (
            "pytorch",
            {"procs_per_node": 4},
            None,
            {"n1": facts("n1", gpus=gpus(4)), "n2": facts("n2", gpus=gpus(2))},
            "4 ranks on node n2, which takes 2 (2 GPUs found)",
        ),
        ("pytorch", {"process_count": 5}, 8, {}, "process_count = 5 does not divide over 2 nodes"),
        ("pytorch", {"process_count": 1}, 8, {}, "process_count = 1 does not divide over 2 nodes"),
        ("pytorch", {"process_count": 6, "procs_per_node": 2}, 8, {}, "is 3 a node, but procs_per_node = 2"),
        ("command", {"procs_per_node": 9}, 8, {}, "9 ranks on node n1"),
        ("pytorch", {"procs_per_node": 10**9}, None, {}, "1000000000 ranks on node n1"),
        (
            "torchrun",
            {},
            None,
            {"n1": facts("n1", gpus=gpus(4)), "n2": facts("n2", gpus=gpus(2))},
            "torchrun needs the same number of ranks on every node, and the slots differ: n1 4, n2 2",
        ),
        ("mpy", {}, 1, {}, 'framework = "mpy" is not known'),
        ("torchrun", {"options": {"restarts": 1}}, 1, {}, "unknown setting 'restarts' in [options]"),
        ("pytorch", {"env": {"RANK": "0"}}, 1, {}, "RANK in [env]"),
        ("pytorch", {"env": {"MASTER_PORT": "1"}}, 1, {}, "MASTER_PORT in [env]"),
        ("torchrun", {"env_from": ("MASTER_ADDR",)}, 1, {}, "MASTER_ADDR in env_from"),
    ],
)
def test_what_does_not_fit_is_refused_with_numbers(framework, more, slots, found, message):
    with pytest.raises(PlanError) as caught:
        plan(profile(framework, **more), pool("n[1-2]", slots=slots), found)
    assert message in caught.value.message
    assert caught.value.hint


def test_nodes_may_be_chosen_and_the_first_is_the_head():
    made = plan(profile(), pool("n[1-4]", slots=1), None, node_names=["n3", "n1"])
    assert [node.node for node in made.nodes] == ["n3", "n1"]
    assert made.head.node == "n3"
    assert plan(profile(nodes=1), pool("n[1-4]"), None, node_names=["n3", "n1"]).world_size == 1
    for bad in (["n9"], ["n1", "n1"], []):
        with pytest.raises(PlanError, match="choose one or more of pool 'lab', each once: n1, n2, n3, n4"):
            plan(profile(), pool("n[1-4]"), None, node_names=bad)
    with pytest.raises(PlanError, match="nodes = 2, but the choice has 1"):
        plan(profile(nodes=2), pool("n[1-4]"), None, node_names=["n2"])
