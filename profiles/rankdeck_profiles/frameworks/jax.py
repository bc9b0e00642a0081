"""`jax`: one process a node with all its GPUs, or several.

The contract (jax/_src/distributed.py, jax/_src/clusters):

- `jax.distributed.initialize()` reads `JAX_COORDINATOR_ADDRESS` and `JAX_LOCAL_DEVICE_IDS`. The number of
  processes and the process's own number have no variable: the script passes them,
  `initialize(num_processes=int(os.environ["WORLD_SIZE"]), process_id=int(os.environ["RANK"]))`, or another
  cluster's variables are found. `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`, which some platforms set and
  scripts read, are set too.
- `slurm_names` makes a bare `initialize()` work: all five names by which the Slurm cluster is detected
  (slurm_cluster.py) are set as for one srun task a rank. It then takes the one device whose number is the
  local one, unless `JAX_LOCAL_DEVICE_IDS` says otherwise.
- Open MPI's and real Slurm's own variables would be found first: they are removed.
- The coordinator is process 0, at the head's address; processes wait 300 s for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import rank_processes
from rankdeck_profiles.model import Profile
from rankdeck_profiles.plan import Need
from rankdeck_profiles.settings import Setting

_SLURM = Option(
    "switch", "set the SLURM_* names by which a bare jax.distributed.initialize() finds its numbers", False
)
_SLURM_WHY = "slurm_names: a bare jax.distributed.initialize() takes its numbers from it"


class Jax(Framework):
    """One process a node by default."""

    name = "jax"
    summary = "JAX: one process a node with all its GPUs"
    advice = (
        "The script calls jax.distributed.initialize() before anything else of jax; without arguments "
        "in it, set options.slurm_names."
    )
    options: Mapping[str, Option] = {"slurm_names": _SLURM}
    per_rank = frozenset(("JAX_PROCESS_ID", "SLURM_PROCID", "SLURM_LOCALID"))

    def default_procs(self, profile: Profile, slots: int) -> int:
        """One: a JAX process uses all GPUs it sees."""
        return 1

    def work(self, job: NodeJob) -> NodeWork:
        """One process a rank, with the coordinator's address and its devices."""
        more = {
            rank: self._settings(job, rank, local)
            for rank, local in zip(job.share.ranks, job.share.local_ranks, strict=True)
        }
        warnings: tuple[str, ...] = ()
        if self.option(job.profile, "slurm_names") and job.found is None:
            warnings = (
                "slurm_names: the GPUs are not known, so JAX_LOCAL_DEVICE_IDS is not set, "
                "and each process takes the one device with its local number",
            )
        work = rank_processes(job, more, needs=(Need("module", "jax", by=job.python, why="framework"),))
        return NodeWork(work.processes, work.reasons, needs=work.needs, warnings=warnings)

    def _settings(self, job: NodeJob, rank: int, local: int) -> Sequence[Setting]:
        world = str(job.placement.world_size)
        settings = [
            Setting(
                "JAX_COORDINATOR_ADDRESS",
                job.head.endpoint,
                f"process 0 listens there, on the head node {job.head.node}",
            ),
            Setting("JAX_NUM_PROCESSES", world, "for scripts that pass it on; jax itself does not read it"),
            Setting("JAX_PROCESS_ID", str(rank), "for scripts that pass it on; jax itself does not read it"),
        ]
        devices = _devices(job, local)
        if devices:
            settings.append(
                Setting(
                    "JAX_LOCAL_DEVICE_IDS", ",".join(map(str, devices)), "this process's share of the GPUs"
                )
            )
        if self.option(job.profile, "slurm_names"):
            hosts = ",".join(job.address_of(share) for share in job.placement.shares)
            settings += [
                Setting("SLURM_JOB_ID", str(job.head.port), _SLURM_WHY),
                Setting("SLURM_STEP_NODELIST", hosts, _SLURM_WHY),
                Setting("SLURM_NTASKS", world, _SLURM_WHY),
                Setting("SLURM_PROCID", str(rank), _SLURM_WHY),
                Setting("SLURM_LOCALID", str(local), _SLURM_WHY),
            ]
        return settings


def _devices(job: NodeJob, local: int) -> range:
    """The node's GPUs in equal parts, by local number; what does not divide stays unused."""
    found = job.found
    each = len(found.gpus) // len(job.share.ranks) if found else 0
    return range(local * each, (local + 1) * each)
