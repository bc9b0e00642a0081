"""Some nodes of a pool, and some GPUs of a node."""

from __future__ import annotations

import pytest

from rankdeck_profiles import edit
from rankdeck_profiles.errors import PlanError, PoolError
from rankdeck_profiles.facts import GpuFacts, NodeFacts
from rankdeck_profiles.files import load_pool
from rankdeck_profiles.matching import Nodes, UnknownNodeError
from rankdeck_profiles.model import BackendKind, Pool, Profile
from rankdeck_profiles.nodes import entries_of, expand
from rankdeck_profiles.placement import place
from rankdeck_profiles.planner import plan
from rankdeck_profiles.selection import Choice, select, spans

PROFILE = Profile("p", "pytorch", script="t.py", workdir="/w")


def pool(*entries: str, slots: int | None = None) -> Pool:
    return Pool("lab", BackendKind.SSH, expand(entries), slots)


def facts(name: str, gpus: int) -> NodeFacts:
    listed = tuple(GpuFacts(index, "H100", f"GPU-{index}", 81559) for index in range(gpus))
    return NodeFacts(name, name, "/root", f"{name}.example", None, 64, 1000, listed)


def slots(chosen: Pool) -> dict[str, list[int]]:
    return {
        node.name: list(node.gpus if node.gpus is not None else range(node.slots or chosen.slots or 0))
        for node in chosen.nodes
    }


@pytest.mark.parametrize(
    ("entries", "choice", "result"),
    [
        ("w[0-1] slots=4", Choice(include="w0@w1:0,2"), {"w0": [0, 1, 2, 3], "w1": [0, 2]}),
        ("w[0-1] slots=4", Choice(exclude="w0:0,1@w1:3"), {"w0": [2, 3], "w1": [0, 1, 2]}),
        ("w[0-1] slots=4", Choice(exclude="w1"), {"w0": [0, 1, 2, 3]}),
        ("w0 slots=4", Choice(include="w0:1,1"), {"w0": [1]}),
        ("w0 slots=4", Choice(include="w0:1@w0:0,1"), {"w0": [0, 1]}),
        ("w0 slots=4", Choice(include="w0:1@w0"), {"w0": [0, 1, 2, 3]}),
        ("w[0-3] slots=2", Choice(include="w[1-2]:1"), {"w1": [1], "w2": [1]}),
        ("w[0-3] slots=2", Choice(exclude="w[1-2],w0"), {"w3": [0, 1]}),
        ("w[0-4] slots=1", Choice(nodes="w[4,0-2]!w1"), {"w4": [0], "w0": [0], "w2": [0]}),
        ("w[0-3] slots=1", Choice(exclude="w[0-2]&w[1-3]"), {"w0": [0], "w3": [0]}),
        ("w[0-1] slots=2", Choice(exclude="w0:0-1"), {"w1": [0, 1]}),
        ("w[0-1] gpus=4,6 slots=2", Choice(include="w0:6"), {"w0": [6]}),
        ("w[0-3] slots=1", Choice(nodes="w3,w[0-1]", exclude="w0"), {"w3": [0], "w1": [0]}),
        ("localhost:[1-2] slots=2".replace("[1-2]", "22"), Choice(include="localhost:0"), {"localhost": [0]}),
        ("[fe80::1] slots=2", Choice(include="[fe80::1]:1"), {"fe80::1": [1]}),
    ],
)
def test_what_is_chosen(entries, choice, result):
    chosen = select(pool(entries), choice)
    assert slots(chosen) == result
    assert place(PROFILE, chosen, None).world_size == sum(map(len, result.values()))
    assert expand(entries_of(chosen.nodes)) == chosen.nodes


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (Choice(include="w0:4"), "slot 4 is not on w0 (0-3)"),
        (Choice(include="w0:2,9"), "slot 9 is not on w0 (0-3)"),
        (Choice(include="jeff"), '"jeff" is no node of pool'),
        (Choice(exclude="w7@w0:1@5"), '"w7" is no node of pool'),
        (Choice(exclude="w0:1@5"), '"5" is no node of pool'),
        (Choice(include="w0:x"), '"x" behind w0: is no list of GPUs'),
        (Choice(include="w0@"), "a name is missing"),
        (Choice(include=""), "a name is missing"),
        (Choice(include="w0", exclude="w1"), "are both given"),
        (Choice(exclude="w[0-1]"), "no node of pool 'lab' is left"),
        (Choice(nodes=""), "no node is named"),
        (Choice(nodes="w[1-"), "not closed"),
        (Choice(nodes="w9"), "did you mean w"),
        (Choice(nodes="2"), "--set nodes=2"),
    ],
)
def test_what_can_not_be_is_refused(choice, says):
    with pytest.raises(PoolError) as caught:
        select(pool("w[0-1] slots=4"), choice)
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_a_node_that_operators_leave_and_the_pool_does_not_have_is_named():
    with pytest.raises(UnknownNodeError, match='"w9"'):
        select(pool("w[0-3]"), Choice(nodes="w[0-1,9]!w1"))
    with pytest.raises(UnknownNodeError, match='"w7"'):
        select(pool("w[0-3]"), Choice(nodes="w[0-3]!w7"))
    with pytest.raises(PoolError, match="found beside an operator"):
        select(pool("w[0-3]"), Choice(nodes="w[0-1]!"))


def test_the_first_node_named_is_the_head():
    assert plan(PROFILE, select(pool("w[0-3]"), Choice(nodes="w2,w0")), None).head.node == "w2"


def test_short_and_full_names_are_one_where_that_is_clear():
    known = Nodes(expand(["gpu-17", "a.x.org", "a.y.org", "b.x.org", "10.0.0.1", "10.0.0.2"]), "pool 'lab'")
    assert known.find("gpu-17.cluster.example.org").name == "gpu-17"
    assert known.find("b").name == "b.x.org"
    assert known.find("a.y.org").name == "a.y.org"
    with pytest.raises(UnknownNodeError, match=r"several nodes of pool 'lab': a\.x\.org, a\.y\.org"):
        known.find("a")
    for name in ("a.z.org", "10", "gpu-1"):
        with pytest.raises(UnknownNodeError, match="is no node of pool 'lab'"):
            known.find(name)


def test_one_host_with_several_ports_is_named_with_its_port():
    known = Nodes(expand(["h:2201", "h:2202"]), "pool 'lab'")
    assert known.find("h:2202").port == 2202
    with pytest.raises(UnknownNodeError, match="several nodes"):
        known.find("h")


def test_ranks_see_the_chosen_gpus_only():
    chosen = select(pool("w[0-1]"), Choice(include="w0:1,3@w1"))
    made = plan(PROFILE, chosen, {"w0": facts("w0", 4), "w1": facts("w1", 4)})
    assert made.world_size == 6
    seen = [{p.env.get("CUDA_VISIBLE_DEVICES") for p in node.processes} for node in made.nodes]
    assert seen == [{"1,3"}, {None}]
    assert made.reasons["CUDA_VISIBLE_DEVICES"] == "the GPUs chosen of this node"


def test_gpus_left_out_are_counted_when_the_node_has_told_how_many_there_are():
    chosen = select(pool("w0"), Choice(exclude="w0:1"))
    assert chosen.nodes[0].hidden_gpus == (1,)
    made = plan(PROFILE, chosen, {"w0": facts("w0", 4)})
    assert made.world_size == 3
    assert made.nodes[0].processes[0].env["CUDA_VISIBLE_DEVICES"] == "0,2,3"
    assert plan(PROFILE, chosen, None).world_size == 1
    with pytest.raises(PlanError, match="all GPUs of w0 are left out"):
        plan(PROFILE, select(chosen, Choice(exclude="w0:0")), {"w0": facts("w0", 2)})


@pytest.mark.parametrize("choice", [Choice(include="w0:6"), Choice(exclude="w0:6")])
def test_a_gpu_that_the_node_does_not_have_is_named(choice):
    with pytest.raises(PlanError, match="GPU 6 is not on w0, which has 0, 1, 2, 3"):
        plan(PROFILE, select(pool("w0"), choice), {"w0": facts("w0", 4)})


def test_gpus_chosen_twice_are_refused():
    profile = Profile("p", "pytorch", script="t.py", workdir="/w", env={"CUDA_VISIBLE_DEVICES": "0"})
    with pytest.raises(PlanError, match="CUDA_VISIBLE_DEVICES, and GPUs of node w0 are chosen"):
        plan(profile, select(pool("w0 slots=4"), Choice(include="w0:1")), None)


def test_a_pool_file_chooses_too(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text('backend = "ssh"\nnodes = ["w[0-1]"]\nslots = 4\ninclude = "w0@w1:0,2"\n')
    assert slots(load_pool(path)) == {"w0": [0, 1, 2, 3], "w1": [0, 2]}
    path.write_text('backend = "ssh"\nnodes = ["w[0-1]"]\nslots = 4\nexclude = "w0:9"\n')
    with pytest.raises(PoolError, match=r"lab.toml:4: exclude: slot 9 is not on w0 \(0-3\)"):
        load_pool(path)
    with pytest.raises(PoolError, match="both given"):
        edit.write_pool(path, {"exclude": "w0", "include": "w1"})


def test_numbers_in_few_words():
    assert spans((0, 1, 2, 3, 6)) == "0-3,6"
    assert spans(()) == ""


@pytest.mark.parametrize(
    "text", ["w[0-3].example.org!w3", "w[0-3]!w3.example.org", "w[0-3]&w[0-2].example.org"]
)
def test_operators_take_a_node_by_any_of_its_names(text):
    chosen = select(pool("w[0-3].example.org"), Choice(nodes=text)).nodes
    assert [node.name for node in chosen] == ["w0.example.org", "w1.example.org", "w2.example.org"]


def test_a_group_of_the_site_stands_for_those_of_its_nodes_that_the_pool_has(tmp_path, monkeypatch):
    (tmp_path / "groups.conf").write_text(
        "[Main]\ndefault: lab\n[lab]\nmap: sed -n 's/^$GROUP:\\(.*\\)/\\1/p' $CFGDIR/groups\n"
    )
    (tmp_path / "groups").write_text("some: w[2-9]\nother: x[1-3]\n")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path))
    whole = pool("w[0-3].example.org slots=2")
    assert [node.name for node in select(whole, Choice(nodes="@some")).nodes] == [
        "w2.example.org",
        "w3.example.org",
    ]
    assert [node.name for node in select(whole, Choice(exclude="@some")).nodes] == [
        "w0.example.org",
        "w1.example.org",
    ]
    assert len(select(whole, Choice(nodes="w0,@some")).nodes) == 3
    assert [node.name for node in select(whole, Choice(nodes="@some!w3")).nodes] == ["w2.example.org"]
    with pytest.raises(UnknownNodeError, match="no node of group @other is in the pool"):
        select(whole, Choice(nodes="@other"))
    with pytest.raises(PoolError, match="no such group"):
        select(whole, Choice(include="@nothing"))
