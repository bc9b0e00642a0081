"""A plan as one rank sees it, for every framework."""

import golden_plans
import pytest
from golden_plans import MPIS, SHAPES, VARIANTS

from rankdeck_profiles import frameworks, render
from rankdeck_profiles.plan import LaunchPlan, ProcessKind
from rankdeck_profiles.rank_view import AT_THE_START, of_rank

CASES = {**{name: (name, {}) for name in frameworks.names()}, **VARIANTS}
EVERY_RANK_HAS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def made(*asked):
    """A golden plan; None where the nodes are refused."""
    answer = golden_plans.made(*asked)
    return None if "refused" in answer else LaunchPlan.from_json(answer)


def views(plan):
    for node in plan.nodes:
        for index, rank in enumerate(node.ranks):
            view = of_rank(plan, node, index)
            assert view.rank == rank
            yield node, index, view, {row.name: row.value for row in view.env}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_every_rank_s_variables_are_there_with_values_and_reasons(case, shape):
    framework, options = CASES[case]
    plan = made(framework, options, SHAPES[shape])
    if plan is None:
        assert shape == "uneven"
        return
    for node, index, view, env in views(plan):
        assert view.process is not None
        assert all(row.why for row in (*view.env, *view.launcher_env)), view
        assert len(env) == len(view.env), "a variable is there twice"
        if case == "lightning":
            assert env["NODE_RANK"] == str(node.node_rank)
            assert "LOCAL_RANK" not in env
            continue
        assert all(name in env for name in EVERY_RANK_HAS)
        assert env["WORLD_SIZE"] == str(plan.world_size)
        assert env["LOCAL_RANK"] == str(index)
        fixed = view.process.fixed_ranks
        assert env["RANK"] == (str(view.rank) if fixed else AT_THE_START)
        assert env["MASTER_PORT"] == (str(plan.head.port) if fixed else AT_THE_START)


@pytest.mark.parametrize("framework", ["mpi", "horovod", "deepspeed"])
@pytest.mark.parametrize("mpi", MPIS)
def test_an_mpirun_is_told_on_every_node(framework, mpi):
    plan = made(framework, {}, SHAPES["2x2"], MPIS[mpi])
    for node, _, view, env in views(plan):
        assert view.process.kind is ProcessKind.MPIRUN
        assert view.starter == "n1"
        assert env["NCCL_DEBUG"] == "INFO"
        assert env["NODE_RANK"] == str(node.node_rank)
        assert any("*" in pattern for pattern in view.also)
        assert bool(view.launcher_env) == (node.node == "n1" and bool(plan.nodes[0].processes[0].env))


def test_tasks_differ_between_ranks():
    plan = made("tensorflow", {"strategy": "ps", "workers": 3, "ps": 2, "evaluator": True}, SHAPES["4x8"])
    configs = {env["TF_CONFIG"] for _, _, _, env in views(plan)}
    assert len(configs) == plan.world_size
    assert len({view.process.role for _, _, view, _ in views(plan)}) == plan.world_size


@pytest.mark.parametrize("framework", ["pytorch", "mpi"])
def test_each_rank_has_the_reasons_of_its_own_node(framework):
    plan = made(framework, {}, SHAPES["2x2"], MPIS["openmpi4"])
    whys = [
        next(row.why for row in view.env if row.name == "NCCL_SOCKET_IFNAME") for _, _, view, _ in views(plan)
    ]
    assert whys[0] == whys[1] == "holds the node's address 10.0.0.1"
    assert whys[2] == whys[3] == "holds the node's address 10.0.0.2"
    assert plan.reasons["NCCL_SOCKET_IFNAME"] == "on n1: holds the node's address 10.0.0.1"
    assert LaunchPlan.from_json(plan.to_json()) == plan
    shown = render.as_text(plan)
    assert "holds the node's address 10.0.0.2" in shown
    assert "on n1:" not in shown


@pytest.mark.parametrize("case", CASES)
def test_the_plan_s_json_and_text_say_all_that_the_view_says(case):
    """Who reads the plan sees what who composes it sees."""
    plan = made(*CASES[case], SHAPES["2x2"])
    data, text = plan.to_json(), render.as_text(plan)
    for node, _, view, env in views(plan):
        starter = next(entry for entry in data["nodes"] if entry["node"] == view.starter)
        process = next(entry for entry in starter["processes"] if view.rank in entry["ranks"])
        place = process["ranks"].index(view.rank)
        own = next(entry for entry in data["nodes"] if entry["node"] == node.node)
        told = own["rank_env"] if process["kind"] == "mpirun" else process["env"]
        told = {**told, **{one["name"]: one["values"][place] for one in process["given"]}}
        assert told == env
        assert all(one["why"] for one in process["given"])
        assert process["also"] == list(view.also)
        assert all(name in text for name in (*env, *view.also[-3:]))
