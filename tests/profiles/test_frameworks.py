"""Each framework's own contract: what it sets, what it must not set, what it refuses."""

import json
import re

import pytest
from plan_samples import facts, gpus, pool, profile

from rankdeck_profiles import frameworks
from rankdeck_profiles.edit import profile_toml
from rankdeck_profiles.errors import FieldError, PlanError
from rankdeck_profiles.files import load_profile
from rankdeck_profiles.model import BackendKind, CommBackend
from rankdeck_profiles.plan import EndsWith, ProcessKind
from rankdeck_profiles.planner import plan
from rankdeck_profiles.render import as_text


def found(*counts, **more):
    return {f"n{n}": facts(f"n{n}", gpus=gpus(count), **more) for n, count in enumerate(counts, 1)}


def made(framework, counts=(2, 2), **more):
    return plan(profile(framework, **more), pool(f"n[1-{len(counts)}]"), found(*counts))


def env_of(plan_made):
    return [dict(process.env) for node in plan_made.nodes for process in node.processes]


def flags(plan_made, node=0):
    return plan_made.nodes[node].processes[0].launcher


def tasks(plan_made):
    return [json.loads(env["TF_CONFIG"]) for env in env_of(plan_made)]


# Lightning


def test_lightning_gets_three_names_and_nothing_that_switches_its_mode():
    plan_made = made("lightning", (4, 4))
    assert plan_made.world_size == 2
    for node, env in enumerate(env_of(plan_made)):
        assert {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} <= set(env)
        assert not {"LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"} & set(env)
        assert env["NODE_RANK"] == str(node)
        # 16 CPUs for the four processes there will be, not for the one that is started.
        assert env["OMP_NUM_THREADS"] == "4"
    assert [node.processes[0].inside for node in plan_made.nodes] == [3, 3]
    assert "which starts 3 more by itself" in as_text(plan_made)


@pytest.mark.parametrize(
    ("software", "wanted"),
    [
        ({}, []),
        ({"pytorch-lightning": "2.5"}, ["pytorch_lightning"]),
        ({"pytorch-lightning": "2.5", "lightning": "2.5"}, ["lightning"]),
        ({"torch": "2.13"}, ["lightning"]),
    ],
)
def test_lightning_is_asked_for_by_the_name_that_the_node_has(software, wanted):
    plan_made = plan(profile("lightning"), pool("n1"), found(1, software=software))
    assert [need.value for need in plan_made.nodes[0].needs if need.kind == "module"] == wanted


def test_lightning_by_process_has_every_rank():
    plan_made = made("lightning", options={"launch": "process"})
    assert [env["LOCAL_RANK"] for env in env_of(plan_made)] == ["0", "1", "0", "1"]


@pytest.mark.parametrize("more", [{"procs_per_node": 2}, {"process_count": 4}])
def test_lightning_refuses_several_processes_a_node(more):
    with pytest.raises(PlanError, match="its Trainer starts the others"):
        made("lightning", **more)


# torchrun and what stands on it


def test_torchrun_restarts_use_c10d_and_name_the_host():
    plan_made = made("torchrun", options={"max_restarts": 3})
    assert "--rdzv-endpoint=10.0.0.1:41000" in flags(plan_made)
    assert "--rdzv-conf=is_host=1" in flags(plan_made)
    assert "--rdzv-conf=is_host=0" in flags(plan_made, 1)
    assert "--max-restarts=3" in flags(plan_made, 1)
    (process,) = plan_made.nodes[1].processes
    assert (process.restarts, process.fixed_ranks) == (3, False)
    assert process.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    (process,) = made("torchrun", options={"rdzv": "c10d"}).nodes[0].processes
    assert process.restarts == 0
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in process.env
    assert not any(word.startswith(("--node-rank", "--master")) for word in flags(plan_made))
    assert not plan_made.nodes[0].processes[0].fixed_ranks
    assert any("deals out the ranks" in text for text in plan_made.warnings)


def test_torchrun_c10d_brackets_ipv6():
    plan_made = plan(
        profile("torchrun", options={"rdzv": "c10d"}), pool("[2001:db8::1]", "n2", slots=1), None
    )
    assert "--rdzv-endpoint=[2001:db8::1]:29500" in flags(plan_made)


def test_torchrun_static_cannot_restart():
    with pytest.raises(FieldError, match="static") as caught:
        made("torchrun", options={"max_restarts": 1, "rdzv": "static"})
    assert caught.value.where == ("options", "rdzv")


def test_launch_says_use_env():
    plan_made = made("launch", options={"legacy_local_rank": True})
    assert flags(plan_made)[2:4] == ("torch.distributed.launch", "--use-env")
    assert plan_made.nodes[0].processes[0].program[-1] == "--local_rank=$LOCAL_RANK"


def test_transformers_by_process_with_the_old_argument_and_its_backend():
    plan_made = made(
        "transformers",
        options={"launch": "process", "legacy_local_rank": True},
        communication_backend=CommBackend.GLOO,
    )
    assert plan_made.nodes[1].processes[1].program[-2:] == ("--local_rank=1", "--ddp_backend=gloo")
    with pytest.raises(FieldError, match="torchrun that would use it"):
        made("transformers", options={"launch": "process", "rdzv": "c10d"})


def test_accelerate_counts_all_ranks_and_numbers_machines():
    words = flags(made("accelerate", (4, 4), options={"mixed_precision": "bf16"}), 1)
    for word in (
        "--multi_gpu",
        "--num_machines=2",
        "--num_processes=8",
        "--machine_rank=1",
        "--main_process_ip=10.0.0.1",
        "--main_process_port=41000",
        "--mixed_precision=bf16",
        "--no_python",
    ):
        assert word in words
    config = flags(made("accelerate", options={"config_file": "/w/fsdp.yaml"}))
    assert "--config_file=/w/fsdp.yaml" in config
    assert not any(word.startswith(("--multi_gpu", "--mixed_precision", "--dynamo")) for word in config)
    at_home = made("accelerate", options={"config_file": "~/fsdp.yaml"})
    assert "--config_file=/home/al/fsdp.yaml" in flags(at_home)
    assert ("file", "/home/al/fsdp.yaml") in [(need.kind, need.value) for need in at_home.nodes[1].needs]


def test_a_world_of_one_under_accelerate_has_its_identity_from_us():
    plan_made = made("accelerate", (1,))
    assert "--multi_gpu" not in flags(plan_made)
    assert env_of(plan_made)[0]["RANK"] == "0"


# TensorFlow


def test_tensorflow_workers_one_a_node():
    plan_made = made("tensorflow", (8, 8))
    cluster = {"worker": ["10.0.0.1:41000", "10.0.0.2:41000"]}
    assert tasks(plan_made) == [
        {"cluster": cluster, "task": {"type": "worker", "index": index}} for index in (0, 1)
    ]
    assert ("port", "10.0.0.2:41000") in [(need.kind, need.value) for need in plan_made.nodes[1].needs]


def roles(plan_made):
    """The roles of each node's processes."""
    return [[process.role for process in node.processes] for node in plan_made.nodes]


@pytest.mark.parametrize(
    ("nodes", "options", "expected"),
    [
        (2, {"chief": True}, [["chief 0"], ["worker 0"]]),
        (2, {"chief": True, "evaluator": True}, [["chief 0", "evaluator 0"], ["worker 0"]]),
        (2, {"evaluator": True}, [["worker 0", "evaluator 0"], ["worker 1"]]),
        (2, {"strategy": "ps"}, [["chief 0", "worker 0"], ["worker 1", "ps 0"]]),
        (2, {"strategy": "ps", "chief": False}, [["worker 0", "ps 0"], ["worker 1"]]),
        (
            2,
            {"strategy": "ps", "evaluator": True},
            [["chief 0", "worker 0", "ps 0"], ["worker 1", "evaluator 0"]],
        ),
        (3, {"strategy": "ps", "workers": 1}, [["chief 0"], ["worker 0"], ["ps 0"]]),
    ],
)
def test_tensorflow_each_node_keeps_a_task_that_trains(nodes, options, expected):
    plan_made = made("tensorflow", (1,) * nodes, options=options)
    assert roles(plan_made) == expected
    evaluators = [task for task in tasks(plan_made) if task["task"]["type"] == "evaluator"]
    assert len(evaluators) == bool(options.get("evaluator"))
    assert all("evaluator" not in task["cluster"] for task in tasks(plan_made))


def test_tensorflow_parameter_servers_end_with_the_chief_and_ports_differ():
    plan_made = made("tensorflow", (1, 1), options={"strategy": "ps", "workers": 3, "ps": 2})
    processes = [process for node in plan_made.nodes for process in node.processes]
    assert [process.role for process in processes] == [
        "chief 0",
        "worker 0",
        "ps 0",
        "worker 1",
        "worker 2",
        "ps 1",
    ]
    cluster = tasks(plan_made)[0]["cluster"]
    assert cluster["chief"] == ["10.0.0.1:41000"]
    assert cluster["ps"] == ["10.0.0.1:41002", "10.0.0.2:41002"]
    everyone = [entry for kind in cluster.values() for entry in kind]
    assert len(set(everyone)) == len(everyone) == 6
    ends = [process.ends_with for process in processes]
    assert ends[0] is None
    assert set(ends[1:]) == {EndsWith((0,))}
    hidden = [process.env.get("CUDA_VISIBLE_DEVICES") for process in processes]
    assert hidden == ["", None, "", None, None, ""]


def test_tensorflow_1_servers_end_with_the_workers():
    plan_made = made("tensorflow", (1, 1), options={"strategy": "ps", "chief": False})
    processes = [process for node in plan_made.nodes for process in node.processes]
    assert [process.role for process in processes] == ["worker 0", "ps 0", "worker 1"]
    assert [process.ends_with and process.ends_with.ranks for process in processes] == [None, (0, 2), None]


def test_tensorflow_nodes_at_one_address_get_ports_of_their_own():
    local = pool("127.0.0.1", "n2", backend=BackendKind.SSH)
    shared = {
        "127.0.0.1": facts("127.0.0.1", address="10.0.0.1"),
        "n2": facts("n2", address="10.0.0.1"),
    }
    workers = tasks(plan(profile("tensorflow"), local, shared))[0]["cluster"]["worker"]
    assert workers == ["10.0.0.1:41000", "10.0.0.1:41001"]


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({"ps": 1}, {}, 'options.ps = 1 with strategy = "mwms"'),
        ({"strategy": "ps", "ps": 0}, {}, 'options.ps = 0 with strategy = "ps"'),
        ({"strategy": "pss"}, {}, 'options.strategy = "pss"'),
        ({"workers": 0}, {}, "options.workers = 0"),
        ({"workers": True}, {}, "options.workers = true"),
        ({"workers": 1}, {}, "1 worker: 1 in all, fewer than the 2 nodes"),
        ({"workers": 3}, {"procs_per_node": 1}, "3 workers: 3 in all, but there are 2 processes"),
        ({"strategy": "ps"}, {"procs_per_node": 1}, "1 worker, 1 ps and 1 chief: 3 in all"),
        ({}, {"master_port": 65535, "procs_per_node": 2}, "no port left"),
    ],
)
def test_tensorflow_refuses_tasks_that_do_not_add_up(options, more, message):
    with pytest.raises(PlanError) as caught:
        made("tensorflow", options=options, **more)
    assert message in caught.value.message
    assert caught.value.hint


# JAX


def test_jax_gets_its_coordinator_and_devices():
    first, second = env_of(made("jax", (4, 4)))
    assert first["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:41000"
    assert (second["JAX_NUM_PROCESSES"], second["JAX_PROCESS_ID"]) == ("2", "1")
    assert second["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3"
    assert "SLURM_PROCID" not in first
    split = env_of(made("jax", (4, 4), procs_per_node=2))
    assert [env["JAX_LOCAL_DEVICE_IDS"] for env in split] == ["0,1", "2,3", "0,1", "2,3"]


def test_jax_slurm_names_are_all_five():
    env = env_of(made("jax", options={"slurm_names": True}))[1]
    assert {name: env[name] for name in env if name.startswith("SLURM_")} == {
        "SLURM_JOB_ID": "41000",
        "SLURM_STEP_NODELIST": "10.0.0.1,10.0.0.2",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
    }


# Switches for all


@pytest.mark.parametrize("framework", ["pytorch", "torchrun", "deepspeed", "lightning"])
def test_azure_names_and_communication_backend(framework):
    plan_made = made(framework, azure_names=True, communication_backend=CommBackend.NCCL)
    envs = [dict(node.rank_env) or dict(node.processes[0].env) for node in plan_made.nodes]
    for env in envs:
        assert env["AZ_BATCH_MASTER_NODE"] == "10.0.0.1:41000"
        assert env["AZ_BATCHAI_MPI_MASTER_NODE"] == "10.0.0.1"
        assert env["RANKDECK_COMM_BACKEND"] == "nccl"
    alone = made(framework, (2,), azure_names=True)
    env = dict(alone.nodes[0].rank_env) or dict(alone.nodes[0].processes[0].env)
    assert "AZ_BATCH_MASTER_NODE" not in env
    assert env["AZ_BATCHAI_MPI_MASTER_NODE"] == "10.0.0.1"


def test_horovod_takes_its_backend():
    env = made("horovod", communication_backend=CommBackend.MPI).nodes[1].rank_env
    assert (env["HOROVOD_CONTROLLER"], env["HOROVOD_CPU_OPERATIONS"]) == ("mpi", "mpi")
    env = made("horovod", communication_backend=CommBackend.NCCL).nodes[1].rank_env
    assert "HOROVOD_CPU_OPERATIONS" not in env
    with pytest.raises(FieldError, match="Horovod crashes") as caught:
        made("horovod", communication_backend=CommBackend.GLOO)
    assert caught.value.where == ("communication_backend",)
    assert '"mpi", "nccl"' in caught.value.hint


def test_the_new_keys_survive_a_profiles_own_text(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(
        'framework = "tensorflow"\nscript = "t.py"\ncommunication_backend = "gloo"\nazure_names = true\n'
        '[options]\nstrategy = "ps"\nworkers = 2\n'
    )
    loaded = load_profile(path)
    assert (loaded.communication_backend, loaded.azure_names) == (CommBackend.GLOO, True)
    path.write_text(profile_toml(loaded))
    assert load_profile(path) == loaded


@pytest.mark.parametrize(
    ("framework", "name"), [("jax", "JAX_PROCESS_ID"), ("jax", "SLURM_PROCID"), ("tensorflow", "TF_CONFIG")]
)
def test_what_a_framework_computes_for_each_rank_is_not_taken_from_env(framework, name):
    with pytest.raises(PlanError, match=rf"{name} in \[env\]: framework {framework} computes it"):
        made(framework, env={name: "0"})
    with pytest.raises(PlanError, match=f"{name} in env_from: "):
        made(framework, env_from=(name,))


# Inner launchers


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"command": ("mpirun", "-np", "4", "./a")}, "mpirun"),
        ({"command": ("/opt/ompi/bin/mpiexec", "./a")}, "mpiexec"),
        ({"command": ("env", "A=1", "srun", "./a")}, "srun"),
        ({"command": ("env", "-u", "LD_PRELOAD", "srun", "./a")}, "srun"),
        ({"command": ("nice", "-n", "5", "mpirun", "./a")}, "mpirun"),
        ({"command": ("timeout", "-k", "1", "5", "/usr/bin/mpirun.openmpi", "./a")}, "mpirun.openmpi"),
        ({"command": ("taskset", "-c", "0-3", "torchrun", "t.py")}, "torchrun"),
        ({"command": ("numactl", "-N", "0", "mpiexec", "./a")}, "mpiexec"),
        ({"command": ("python3", "-Wignore", "-mtorch.distributed.run", "t.py")}, "torch.distributed.run"),
        ({"command": ("python3", "-W", "ignore", "-um", "horovod.runner", "t.py")}, "horovod.runner"),
        ({"command": ("python3", "/opt/venv/bin/torchrun", "t.py")}, "torchrun"),
        ({"command": ("/opt/venv/bin/accelerate-launch", "t.py")}, "accelerate-launch"),
        ({"command": ("deepspeed.pt", "t.py")}, "deepspeed.pt"),
        ({"command": ("torchrun --nproc-per-node 4 t.py",)}, "torchrun"),
        ({"module": "horovod.runner"}, "horovod.runner"),
        ({"command": ("nice", "-n5", "deepspeed", "t.py")}, "deepspeed"),
        ({"command": ("bash", "-c", "cd x && A=1 horovodrun -np 4 python t.py")}, "horovodrun"),
        ({"command": ("bash", "-lc", "exec /usr/bin/torchrun t.py")}, "torchrun"),
        ({"command": ("python3", "-m", "torch.distributed.run", "t.py")}, "torch.distributed.run"),
        ({"command": ("accelerate", "launch", "t.py")}, "accelerate launch"),
        ({"command": ("uv", "run", "torchrun", "t.py")}, "torchrun"),
        ({"command": ("conda", "run", "-n", "trl", "accelerate", "launch", "t.py")}, "accelerate launch"),
        ({"command": ("apptainer", "exec", "--nv", "-B", "/data", "a.sif", "mpirun", "./a")}, "mpirun"),
        (
            {"command": ("nsys", "profile", "-o", "x", "python", "-m", "torch.distributed.run", "t.py")},
            "torch.distributed.run",
        ),
        ({"module": "torch.distributed.launch"}, "torch.distributed.launch"),
        ({"script": "/usr/bin/deepspeed"}, "deepspeed"),
    ],
)
@pytest.mark.parametrize("framework", ["mpi", "deepspeed", "torchrun", "pytorch"])
def test_an_inner_launcher_is_refused_with_the_reason(framework, more, named):
    asked = profile(framework, **{"script": None, **more})
    with pytest.raises(FieldError) as caught:
        plan(asked, pool("n1", slots=1), None)
    assert caught.value.message.startswith(f"{named} in {next(iter(more))}")
    assert f"framework {framework} starts the ranks itself" in caught.value.message
    plan(profile("command", **{"script": None, **more}), pool("n1", slots=1), None)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "t.py", "mpirun"),
        ("python", "-W", "ignore", "t.py", "-m", "torch.distributed.run"),
        ("nice", "-n", "5", "./a", "mpirun"),
        ("timeout", "60", "./mpirun.sh"),
        ("timeout",),
        ("",),
        ("bash", "-c", "echo no mpirun here"),
        ("./mpirun_results.sh",),
        ("accelerate", "env"),
        ("env",),
        ("uv", "run", "t.py", "mpirun"),
        ("poetry", "run", "python", "t.py", "mpirun"),
        ("conda", "run"),
        ("apptainer", "exec", "a.sif", "./a", "--with", "b", "c", "mpirun"),
    ],
)
def test_words_that_only_look_like_a_launcher_pass(command):
    plan(profile("mpi", script=None, command=command), pool("n1", slots=1), None)


# Counts


def test_process_count_equal_to_uneven_slots_is_dealt_by_slots():
    assert [len(node.ranks) for node in made("pytorch", (4, 2), process_count=6).nodes] == [4, 2]
    assert [len(node.ranks) for node in made("mpi", (4, 2), process_count=4).nodes] == [2, 2]
    with pytest.raises(PlanError, match=r"3 ranks on node n2, which takes 2"):
        made("torchrun", (4, 2), process_count=6)
    with pytest.raises(PlanError, match=r"does not divide over 2 nodes \(their slots are 4 \+ 2\)"):
        made("pytorch", (4, 2), process_count=5)


def test_kinds():
    kinds = {name: made(name).nodes[0].processes[0].kind for name in ("mpi", "torchrun", "jax")}
    assert kinds == {"mpi": ProcessKind.MPIRUN, "torchrun": ProcessKind.LAUNCHER, "jax": ProcessKind.RANK}


@pytest.mark.parametrize("framework", sorted(set(frameworks.names()) - {"mpi", "horovod", "deepspeed"}))
def test_an_ipv6_address_is_bracketed_where_its_port_follows_and_nowhere_else(framework):
    # mpirun's list of hosts can't hold one: test_mpi has its refusal.
    nodes = pool("[2001:db8::11]", "[2001:db8::12]", slots=1)
    plan_made = plan(profile(framework, azure_names=True, master_port=29501), nodes, None)
    for node in plan_made.nodes:
        for process in node.processes:
            assert process.env.get("MASTER_ADDR", "2001:db8::11") == "2001:db8::11"
            text = " ".join((*process.launcher, *process.env.values()))
            assert "[2001:db8::11]" in text
            assert not re.search(r"2001:db8::1[12]:\d", text)
