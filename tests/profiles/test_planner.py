"""Placement and plan: who runs where, with which environment, and what is refused."""

import copy
import json

import pytest
from plan_samples import FACTS, facts, gpus, pool, profile, ranks

from rankdeck_profiles import environment, frameworks, render
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.masking import is_secret
from rankdeck_profiles.model import BackendKind, OnRankFailure, StopPolicy
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.planner import plan
from rankdeck_profiles.render import as_scripts


def test_pytorch_has_one_process_a_rank_with_its_whole_environment():
    made = plan(profile(procs_per_node=2, args=("--r=$RANK/$WORLD_SIZE", "$$5")), pool("n[1-2]"), FACTS)
    assert (made.world_size, made.head.node, made.head.address, made.head.port) == (
        4,
        "n1",
        "10.0.0.1",
        41000,
    )
    last = made.nodes[1].processes[1]
    assert (last.ranks, last.local_ranks, last.launcher, last.fill) == ((3,), (1,), (), False)
    assert last.program == ("python3", "-u", "t.py", "--r=3/4", "$5")
    assert dict(last.env) == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "41000",
        "WORLD_SIZE": "4",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "GLOO_SOCKET_IFNAME": "eth1",
        "NCCL_SOCKET_IFNAME": "eth1",
        "OMP_NUM_THREADS": "8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    assert set(made.reasons) == set(last.env)
    assert made.assumed == ()


def test_torchrun_has_one_launcher_a_node_with_static_rendezvous():
    made = plan(profile("torchrun", procs_per_node=2, args=("--r=$RANK", "$$5")), pool("n[1-2]"), FACTS)
    process = made.nodes[1].processes[0]
    assert len(made.nodes[1].processes) == 1
    assert (process.ranks, process.local_ranks, process.fill) == ((2, 3), (0, 1), True)
    assert process.launcher == (
        "python3",
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        "--nproc-per-node=2",
        "--node-rank=1",
        "--master-addr=10.0.0.1",
        "--master-port=41000",
        "--local-addr=10.0.0.2",
        "--no-python",
    )
    # torchrun halves double dollars before the shim sees them.
    assert process.program == ("python3", "-u", "t.py", "--r=$RANK", "$$$$5")
    assert not set(process.env) & {"RANK", "MASTER_ADDR", "WORLD_SIZE"}
    assert [(need.kind, need.value, need.by) for need in made.nodes[1].needs] == [
        ("dir", "/w", ""),
        ("program", "python3", ""),
        ("file", "t.py", ""),
        ("module", "torch", "python3"),
    ]


def test_torchrun_takes_an_ipv6_head_in_brackets():
    made = plan(profile("torchrun"), pool("[fe80::1]", "n2", slots=1), None)
    flags = made.nodes[0].processes[0].launcher
    assert "--master-addr=[fe80::1]" in flags
    assert "--local-addr=fe80::1" in flags


def test_a_dollar_in_the_scripts_own_name_is_not_filled_in():
    made = plan(profile("torchrun", script="$RANK.py"), pool("n1", slots=1), None)
    assert made.nodes[0].processes[0].program[2] == "$$$$RANK.py"
    made = plan(profile("pytorch", script="$RANK.py"), pool("n1", slots=1), None)
    assert made.nodes[0].processes[0].program[2] == "$RANK.py"


def test_command_has_one_process_a_node_however_many_slots():
    made = plan(
        profile("command", script=None, command=("./go", "$RANK"), args=("$RANK",)),
        pool("n[1-2]", slots=8),
        None,
    )
    assert ranks(made) == [(0,), (1,)]
    assert made.nodes[1].processes[0].program == ("./go", "$RANK", "1")
    assert made.nodes[1].processes[0].env["NODE_RANK"] == "1"
    assert [(need.kind, need.value) for need in made.nodes[0].needs] == [("dir", "/w"), ("program", "./go")]


def test_a_module():
    made = plan(profile("pytorch", script=None, module="pkg.train"), pool("n1"), None)
    assert made.nodes[0].processes[0].program == ("python3", "-u", "-m", "pkg.train")
    assert ("module", "pkg.train", "python3") in [(n.kind, n.value, n.by) for n in made.nodes[0].needs]


def test_offline_says_what_it_assumed():
    made = plan(profile(workdir="~/w", master_port=None), pool("n[1-2]"), None)
    assert (made.head.address, made.head.port) == ("n1", 29500)
    text = "\n".join(made.assumed)
    for word in (
        "slots: 1",
        "master_port: 29500",
        "address:",
        "interface:",
        "OMP_NUM_THREADS",
        "environment of n1, n2",
        "~:",
    ):
        assert word in text
    assert made.nodes[0].processes[0].cwd == "~/w"
    assert "OMP_NUM_THREADS" not in made.nodes[0].processes[0].env
    assert "GLOO_SOCKET_IFNAME" not in made.nodes[0].processes[0].env


def test_a_node_without_facts_is_named():
    made = plan(profile(), pool("n[1-2]"), {"n1": FACTS["n1"]})
    assert all("n2" in text and "n1" not in text for text in made.assumed)
    assert made.assumed


def test_the_profiles_port_comes_first():
    assert plan(profile(master_port=1234), pool("n1"), FACTS).head.port == 1234
    low = plan(profile(master_port=80), pool("n1"), FACTS)
    assert any("master_port = 80" in warning for warning in low.warnings)


def test_home_is_the_nodes_own():
    found = {"n1": facts("n1"), "n2": facts("n2", home="/users/al")}
    made = plan(
        profile("torchrun", workdir="~", script="~/t.py", python="~/v/bin/python", args=("~/data",)),
        pool("n[1-2]"),
        found,
    )
    first, second = (node.processes[0] for node in made.nodes)
    assert (first.cwd, second.cwd) == ("/home/al", "/users/al")
    assert first.program == ("/home/al/v/bin/python", "-u", "/home/al/t.py", "/home/al/data")
    assert second.launcher[0] == "/users/al/v/bin/python"


def test_local_nodes_share_one_machine():
    local = pool("127.0.0.[1-2]", backend=BackendKind.LOCAL, slots=2)
    found = {
        name: facts(name, address=name, interface=None, cpus=8, machine="one")
        for name in ("127.0.0.1", "127.0.0.2")
    }
    env = plan(profile(), local, found).nodes[1].processes[0].env
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["GLOO_SOCKET_IFNAME"] == env["NCCL_SOCKET_IFNAME"] == "lo"
    assert env["MASTER_ADDR"] == "127.0.0.1"


def test_one_node_needs_no_interface():
    assert (
        "GLOO_SOCKET_IFNAME"
        not in plan(profile(), pool("n1", interface="ib0"), FACTS).nodes[0].processes[0].env
    )


def test_the_pools_interface_comes_first():
    made = plan(profile(), pool("n[1-2]", interface="ib0"), FACTS)
    assert made.nodes[0].processes[0].env["NCCL_SOCKET_IFNAME"] == "ib0"
    assert "pool 'lab'" in made.reasons["NCCL_SOCKET_IFNAME"]


def test_threads_are_never_zero():
    env = plan(profile(procs_per_node=40), pool("n1"), FACTS).nodes[0].processes[0].env
    assert env["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("framework", ["pytorch", "torchrun", "command"])
def test_the_users_env_wins_and_says_so(framework):
    made = plan(profile(framework, env={"OMP_NUM_THREADS": "3", "X": "$RANK"}), pool("n[1-2]"), FACTS)
    env = made.nodes[0].processes[0].env
    assert (env["OMP_NUM_THREADS"], env["X"]) == ("3", "$RANK")
    assert made.reasons["OMP_NUM_THREADS"] == "the profile's [env], instead of 16"


def test_odd_things_are_warned_about():
    made = plan(
        profile(
            "torchrun",
            env={"GROUP_RANK": "1", "MY_TOKEN": "x", "D": "~/d", "P": "/b:$PATH", "Q": "costs $5, $x"},
        ),
        pool("n[1-2]", slots=1),
        {"n1": facts("n1", address="127.0.1.1", machine="m"), "n2": facts("n2", machine="m")},
    )
    text = "\n".join(made.warnings)
    for words in (
        "GROUP_RANK in [env] has no effect",
        "MY_TOKEN",
        "`~` is not expanded",
        "P in [env] holds $PATH, which nothing expands there; setup = ['export P=\"...\"'] does",
        "127.0.1.1",
        "n1, n2 are one machine",
    ):
        assert words in text
    assert "Q in [env]" not in text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("^lo,docker,veth", "`^` is NCCL's"),
        ("=eth0", "`=` is NCCL's"),
        ("eth", 'node n1 has no interface "eth", only lo, eth0'),
        ("eth0", 'node n2 has no interface "eth0", only lo, enp35s0f0'),
    ],
)
def test_gloo_takes_names_where_nccl_takes_patterns(value, message):
    interfaces = {"n1": "eth0", "n2": "enp35s0f0"}
    found = {
        name: facts(name, interface=own, raw={"interfaces": [{"name": "lo"}, {"name": own}]})
        for name, own in interfaces.items()
    }
    with pytest.raises(PlanError) as caught:
        plan(profile(env={"GLOO_SOCKET_IFNAME": value}), pool("n[1-2]"), found)
    assert message in caught.value.message
    assert "n1 eth0, n2 enp35s0f0" in caught.value.hint
    plan(profile(env={"NCCL_SOCKET_IFNAME": value}), pool("n[1-2]"), found)


def test_a_name_that_gloo_finds_passes():
    raw = {"interfaces": [{"name": "lo"}, {"name": "eth1"}]}
    made = plan(profile(env={"GLOO_SOCKET_IFNAME": "eth1"}), pool("n1"), {"n1": facts("n1", raw=raw)})
    assert made.nodes[0].processes[0].env["GLOO_SOCKET_IFNAME"] == "eth1"


@pytest.mark.parametrize("framework", ["pytorch", "torchrun", "mpi"])
def test_what_no_program_can_be_started_with_is_refused(framework):
    # The limit, measured: A= and 131069 more bytes start, one more gives E2BIG.
    plan(profile(framework, env={"A": "x" * 131069}), pool("n1"), None)
    with pytest.raises(PlanError, match=r"A is 131073 bytes long.*allowed: 131072"):
        plan(profile(framework, env={"A": "x" * 131070}), pool("n1"), None)
    with pytest.raises(PlanError, match="an argument is 140001 bytes long"):
        plan(profile(framework, args=("y" * 140000,)), pool("n1"), None)


def test_a_printed_mpirun_script_says_what_it_cannot_hold():
    made = plan(profile("mpi", env={"A": "x" * 100000, "B": "x" * 40000}), pool("n1"), None)
    with pytest.raises(PlanError, match="too large for a printed script"):
        as_scripts(made)


@pytest.mark.parametrize(
    ("value", "seen"),
    [("0,1", 2), ("GPU-a,GPU-b", 2), ("", 0), ("-1", 0), ("0,-1,2", 1), ("0,1,2,3", None), (None, None)],
)
def test_gpus_that_a_login_hides_are_told(value, seen):
    found = facts("n1", gpus=gpus(4), leftovers={} if value is None else {"CUDA_VISIBLE_DEVICES": value})
    made = plan(profile(), pool("n1"), {"n1": found})
    told = [text for text in made.warnings if "CUDA_VISIBLE_DEVICES" in text]
    assert len(told) == (0 if seen is None else 1)
    assert all(f"its 4 ranks see {seen} of 4 GPUs" in text for text in told)
    assert made.nodes[0].env_removed == ()
    asked = profile(env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    assert plan(asked, pool("n1"), {"n1": found}).warnings == ()


def test_what_stays_of_a_login_is_told_and_what_takes_its_place():
    found = facts(
        "n1",
        gpus=gpus(2),
        leftovers={
            "SLURM_JOB_ID": "7",
            "SLURM_PROCID": "0",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "OMP_NUM_THREADS": "64",
            "NCCL_DEBUG": "WARN",
            "NCCL_IB_HCA": "mlx5_0",
            "PYTORCH_TOKEN": "hush",
            "PYTHONPATH": "/site",
        },
    )
    asked = profile("pytorch", env={"NCCL_DEBUG": "INFO"}, env_from=("PYTHONPATH",))
    made = plan(asked, pool("n1"), {"n1": found})
    node = made.nodes[0]
    assert {v.name: v.value for v in node.env_kept} == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_IB_HCA": "mlx5_0",
        "PYTORCH_TOKEN": "***",
        "SLURM_JOB_ID": "7",
    }
    assert all(v.why for v in node.env_kept)
    assert [v.name for v in node.env_removed] == ["SLURM_PROCID"]
    assert made.reason(node, "OMP_NUM_THREADS").endswith(", instead of the login's 64")
    assert made.reason(node, "NCCL_DEBUG") == "the profile's [env], instead of the login's WARN"
    assert "instead" not in made.reason(node, "RANK")
    assert "kept SLURM_JOB_ID=7  (of the scheduler's job" in render.as_text(made)
    assert LaunchPlan.from_json(made.to_json()) == made


def test_a_step_of_srun_in_env_is_warned_of():
    made = plan(profile("lightning", env={"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"}), pool("n1"), None)
    assert made.warnings == (
        "SLURM_NTASKS in [env]: of an srun step; frameworks take their rank and world from it",
    )


def test_a_framework_that_leaves_another_launcher_its_variables_says_so():
    found = facts("n1", leftovers={"MASTER_ADDR": "x", "OMPI_COMM_WORLD_RANK": "3", "SLURM_NTASKS": "4"})
    removes = frameworks.get("command").removes
    node = plan(profile("command", command=("true",), script=None), pool("n1"), {"n1": found}).nodes[0]
    said = {v.name for v in (*node.env_removed, *node.env_kept)} | set(node.processes[0].env)
    assert set(found.leftovers) <= said, removes


def test_leftovers_are_removed_with_a_reason_and_secrets_masked():
    found = facts(
        "n1",
        leftovers={
            "SLURM_PROCID": "3",
            "OMPI_COMM_WORLD_RANK": "1",
            "PET_NNODES": "2",
            "RANK": "7",
            "AZUREML_RUN_TOKEN": "abc",
            "HOME": "/x",
            "SLURM_JOB_ID": "9",
            "PMI_KEEP": "1",
        },
    )
    removed = plan(profile(env_from=("PMI_KEEP",)), pool("n1"), {"n1": found}).nodes[0].env_removed
    assert [(v.name, v.value) for v in removed] == [
        ("AZUREML_RUN_TOKEN", "***"),
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("PET_NNODES", "2"),
        ("RANK", "7"),
        ("SLURM_PROCID", "3"),
    ]
    assert all(v.why for v in removed)


def test_leftover_patterns_do_not_take_what_a_run_needs():
    for name in (
        "PATH",
        "HOME",
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG",
        "LD_LIBRARY_PATH",
        "SLURM_JOB_ID",
        "RANKDECK_NODE_DIR",
    ):
        assert environment.leftover(name) is None


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("WANDB_API_KEY", True),
        ("hf_token", True),
        ("DB_PASSWORD", True),
        ("AWS_SECRET_ACCESS", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("RANK", False),
        ("TOKENIZER_KEY", True),
    ],
)
def test_secret_names(name, secret):
    assert is_secret(name) is secret


@pytest.mark.parametrize("framework", ["pytorch", "torchrun", "command"])
def test_plan_is_pure(framework):
    given = (
        profile(framework, args=("$RANK",), env={"A": "1"}, stop=StopPolicy("INT", 5.0, OnRankFailure.KEEP)),
        pool("n[1-2]", slots=2),
        {name: facts(name, leftovers={"RANK": "1"}) for name in ("n2", "n1")},
    )
    before = copy.deepcopy(given)
    first, second = plan(*given), plan(*given)
    assert given == before
    assert first == second
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())


@pytest.mark.parametrize("framework", ["pytorch", "torchrun", "command"])
def test_json_holds_the_whole_plan(framework):
    made = plan(
        profile(framework, args=("$RANK",), setup=("true",), env_from=("X",)), pool("n[1-2]", slots=2), FACTS
    )
    data = json.loads(json.dumps(made.to_json()))
    assert LaunchPlan.from_json(data) == made
    assert {"framework", "world_size", "head", "nodes", "reasons", "warnings"} <= set(data)
    assert {"ranks", "argv", "cwd", "env"} <= set(data["nodes"][0]["processes"][0])
    assert data["env_from"] == ["X"]


def test_facts_survive_json():
    found = facts("n1", gpus=gpus(2), leftovers={"RANK": "1"}, raw={"a": [1]})
    assert NodeFacts.from_json(json.loads(json.dumps(found.to_json()))) == found
