"""What other launchers and schedulers left in the nodes' logins reaches no rank, in any framework."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from whole.reports import WAYS, Bench, Report, parameters
from whole.site import Site

pytestmark = pytest.mark.timeout(900)

NODES = ("n1", "n2")

LEFT = {
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
    "SLURM_NTASKS": "1",
    "SLURM_NPROCS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEPID": "0",
    "SLURM_TASKS_PER_NODE": "4(x2),1",
    "SLURM_MPI_TYPE": "pmix",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "192.0.2.9",
    "MASTER_PORT": "1",
    "PET_NNODES": "3",
    "PET_RDZV_BACKEND": "etcd",
    "TORCHELASTIC_RUN_ID": "other",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "AZUREML_EXPERIMENT_ID": "other",
    "SM_HOSTS": '["algo-1"]',
    "SM_TRAINING_ENV": "{}",
    "OMPI_COMM_WORLD_RANK": "7",
    "OMPI_COMM_WORLD_SIZE": "9",
    "OMPI_MCA_btl": "self",
    "OMPI_MCA_orte_hnp_uri": "1.0;tcp://192.0.2.9:1",
    "OMPI_MCA_mpi_show_mca_params": "all",
    "PRTE_MCA_prte_hnp_uri": "other",
    "PMI_RANK": "7",
    "PMI_SIZE": "9",
    "PMI_FD": "3",
    "PMIX_NAMESPACE": "other",
    "PMIX_RANK": "7",
    "PMIX_SERVER_URI4": "other.0;tcp4://192.0.2.9:1",
    "HYDRA_LAUNCHER": "slurm",
    "HYDRA_HOST_FILE": "/nowhere",
    "I_MPI_HYDRA_BOOTSTRAP": "slurm",
    "I_MPI_HYDRA_HOST_FILE": "/nowhere",
    "MPI_LOCALRANKID": "7",
    "HOROVOD_RANK": "7",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "192.0.2.9",
    "TF_CONFIG": '{"task": {"type": "worker", "index": 7}}',
    "JAX_COORDINATOR_ADDRESS": "192.0.2.9:1",
    "ACCELERATE_USE_FSDP": "true",
    "FLUX_TASK_RANK": "7",
    "JSM_NAMESPACE_RANK": "7",
    "PALS_RANKID": "7",
    "LSB_JOBINDEX": "7",
    "LSB_MCPU_HOSTS": "elsewhere 4",
}
"""What a login inside an allocation, an image made for a cloud, or a start-up file copied from a job has."""

KEPT = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NODELIST": "elsewhere[1-2]",
    "NCCL_ASYNC_ERROR_HANDLING": "1",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "PBS_JOBID": "77.server",
    "PBS_ENVIRONMENT": "PBS_BATCH",
    "PBS_NODEFILE": "/nowhere/nodes",
    "PE_HOSTFILE": "/nowhere/hosts",
    "JOB_ID": "77",
    "SLURM_JOB_CPUS_PER_NODE": "64(x2)",
    "LS_COLORS": "rs=0:di=01;34:*.tar=01;31",
    "OWN_SETTING": "a b",
}
"""The job it is part of, the user's own settings, and the GPUs that may be used."""

BY_PROFILE = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PET_NNODES")
"""Exported by ~/.profile, which people's own logins read, and rankdeck's and mpirun's don't."""
BY_PAM = ("SM_HOSTS", "PMIX_NAMESPACE", "LOCAL_RANK", "OMPI_MCA_mpi_show_mca_params")
"""Set by PAM for every login. All others are exported by ~/.bashrc."""

FILES = ("/root/.bashrc", "/root/.profile", "/etc/environment")

LOGIN = "bash -lc 'exec sh \"$0\"'"
"""A person's login, in which a script is run."""

OF_A_START = re.compile(
    rb"(RANKDECK|SSH)_.*|MASTER_PORT|JAX_COORDINATOR_ADDRESS|TF_CONFIG|TORCHELASTIC_(RUN_ID|ERROR_FILE)|_|"
    rb"PMIX_(ID|NAMESPACE|DSTORE.*|SERVER.*)|PMI_FD|HYDI_CONTROL_FD|"
    rb"OMPI_(ARGV|FILE_LOCATION|MCA_ess_base_jobid|MCA_orte_.*)"
)
"""Variables whose values are another at each start: ports, numbers of processes and of their sockets."""


@pytest.fixture
def bench(site: Site) -> Iterator[Bench]:
    """Logins that PAM gives an environment, with nothing in it yet."""
    for node in NODES:
        site.cluster.run(node, ["sed", "-i", "s/^UsePAM no/UsePAM yes/", "/etc/ssh/sshd_config"])
        site.cluster.fault("no_sshd", node)
        site.cluster.heal("no_sshd", node)
    yield Bench(site)
    write(site, dict.fromkeys(FILES, ""))


def write(site: Site, files: Mapping[str, str]) -> None:
    for node in NODES:
        for path, text in files.items():
            site.cluster.run(node, ["sh", "-c", f"cat >{path}"], stdin=text.encode())


def leave(site: Site) -> None:
    """Lets the logins on both nodes have all of it."""
    by_shell = {**LEFT, **KEPT}
    by_profile = {name: by_shell.pop(name) for name in BY_PROFILE}
    by_pam = {name: by_shell.pop(name) for name in BY_PAM}
    shell = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in by_shell.items())
    profile = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in by_profile.items())
    pam = "".join(f"{name}={value}\n" for name, value in by_pam.items())
    write(site, dict(zip(FILES, (shell, f"{profile}. /root/.bashrc\n", pam), strict=True)))


def differences(before: dict[str, Report], now: dict[str, Report]) -> list[tuple[str, bytes, object, object]]:
    """Rank, variable, what it was and what it is; None: not set."""
    assert before.keys() == now.keys()
    return [
        (rank, name, was, found)
        for rank, report in now.items()
        for name in sorted(report.env.keys() | before[rank].env.keys())
        if (was := before[rank].env.get(name)) != (found := report.env.get(name))
        and not (was is not None and found is not None and OF_A_START.fullmatch(name))
    ]


@pytest.mark.parametrize("name", parameters(WAYS))
def test_the_ranks_environment_is_the_same_as_without_them(bench: Bench, name: str) -> None:
    bench.save(name, replace(WAYS[name], ranks=2))
    launched, by_hand = bench.run(name), bench.by_hand(name, LOGIN)
    leave(bench.site)
    for before, now in ((launched, bench.run(name)), (by_hand, bench.by_hand(name, LOGIN))):
        changed = differences(before, now)
        assert [entry for entry in changed if entry[1].decode() not in KEPT] == []
        assert {(rank, name.decode(), value) for rank, name, _, value in changed} == {
            (rank, name, value.encode()) for rank in before for name, value in KEPT.items()
        }
    bench.site.assert_nothing_runs()


@pytest.mark.parametrize("name", ["pytorch", "mpi"])
def test_a_bash_does_not_bring_them_back(bench: Bench, name: str) -> None:
    # One that was started by way of ssh reads ~/.bashrc by itself: for the setup lines, and as the program.
    words = ["bash", "-c", 'exec /usr/bin/python3 "$0"', str(bench.program)]
    setup = ["export OF_SETUP=yes", "export HYDRA_IFACE=asked-for"]
    bench.save(name, replace(WAYS[name], ranks=2), setup=setup, command=words)
    launched, by_hand = bench.run(name), bench.by_hand(name, LOGIN)
    leave(bench.site)
    for before, now in ((launched, bench.run(name)), (by_hand, bench.by_hand(name, LOGIN))):
        changed = differences(before, now)
        assert [entry for entry in changed if entry[1].decode() not in KEPT] == []
        assert all(report.env[b"OF_SETUP"] == b"yes" for report in now.values())


def test_the_plan_lists_them_with_the_reason(bench: Bench) -> None:
    leave(bench.site)
    bench.save("listed", WAYS["pytorch"])
    told = json.loads(bench.site.shell("plan", "listed", "--format", "json").stdout)
    for node in told["nodes"]:
        removed = {entry["name"]: (entry["value"], entry["why"]) for entry in node["env_removed"]}
        assert removed.keys() == LEFT.keys() - set(BY_PROFILE)
        for name, (value, why) in removed.items():
            assert value == LEFT[name]
            assert why
