"""`lightning`: PyTorch Lightning, one process a node, which starts the node's other ranks itself.

The contract (lightning/fabric/plugins/environments/lightning.py, strategies/launchers/subprocess_script.py,
trainer/connectors/accelerator_connector.py):

- Per node it reads `MASTER_ADDR`, `MASTER_PORT` and `NODE_RANK`; without `MASTER_PORT` each node takes a
  random port of its own and they never meet.
- `LOCAL_RANK` in the environment means that somebody else starts all ranks: it then starts none, and the
  nodes wait for ever. So in this mode there is no RANK, LOCAL_RANK or WORLD_SIZE at all.
- `TORCHELASTIC_RUN_ID`, `SLURM_NTASKS`, LSF's and MPI's variables make it switch to another launcher's mode:
  they are removed.
- How many ranks there are is the script's own word: `Trainer(num_nodes=..., devices=...)`. Its rank is
  node rank x devices + local rank, so every node needs the same number of devices.
- With `launch = "process"` every rank is a process of ours with `LOCAL_RANK`, as under torchrun without
  `TORCHELASTIC_RUN_ID`; the Trainer must then be told `devices` = ranks a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.errors import FieldError, PlanError
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import master, node_rank, rank_processes, rank_settings
from rankdeck_profiles.model import Profile
from rankdeck_profiles.placeholders import fill
from rankdeck_profiles.plan import Need, Process
from rankdeck_profiles.settings import merge

_LAUNCH = Option(
    "text",
    "node: one process a node, Lightning starts the others; process: every rank is started and shown",
    "node",
    ("node", "process"),
)


class Lightning(Framework):
    """One process a node, or one a rank."""

    name = "lightning"
    summary = "PyTorch Lightning: one process a node, its Trainer starts one for every further GPU"
    advice = "Tell its Trainer num_nodes (the nodes used here) and devices (the GPUs of one node)."
    options: Mapping[str, Option] = {"launch": _LAUNCH}
    software = ("lightning", "pytorch-lightning")

    def _per_node(self, profile: Profile) -> bool:
        return bool(self.option(profile, "launch") == "node")

    def default_procs(self, profile: Profile, slots: int) -> int:
        """One, or as many as slots where every rank is ours."""
        return 1 if self._per_node(profile) else slots

    def same_count(self, profile: Profile) -> bool:
        """Lightning multiplies the node's rank by one number of devices."""
        return True

    def starts_more(self, profile: Profile) -> bool:
        """The Trainer starts one process a device."""
        return self._per_node(profile)

    def check(self, profile: Profile) -> None:
        """Refuse several processes a node where Lightning starts them."""
        super().check(profile)
        if self._per_node(profile) and (profile.procs_per_node or 1) > 1:
            raise FieldError(
                ("procs_per_node",),
                f"procs_per_node = {profile.procs_per_node}: lightning has one process a node, "
                "and its Trainer starts the others",
                f"remove it and say Trainer(devices={profile.procs_per_node}); "
                'or set options.launch = "process"',
            )

    def work(self, job: NodeJob) -> NodeWork:
        """One process that knows its node and nothing else, or one process a rank."""
        if not self._per_node(job.profile):
            return rank_processes(job, needs=_needs(job))
        if len(job.share.ranks) > 1:
            raise PlanError(
                f"process_count = {job.profile.process_count} is {len(job.share.ranks)} processes a node: "
                "lightning has one, and its Trainer starts the others",
                'remove it and say Trainer(devices=...), or set options.launch = "process"',
            )
        own = (*master(job), node_rank(job))
        env, reasons = merge((*own, *job.common), job.profile.env)
        rank = job.share.ranks[0]
        values = {setting.name: setting.value for setting in rank_settings(job, rank, 0)}
        process = Process(
            ranks=(rank,),
            local_ranks=(0,),
            launcher=(),
            program=job.program + fill(job.args, values),
            cwd=job.cwd,
            env=env,
            inside=max(0, job.share.slots - 1),
        )
        return NodeWork((process,), reasons, needs=_needs(job), warnings=self._warnings(job))

    def _warnings(self, job: NodeJob) -> tuple[str, ...]:
        slots = {share.slots for share in job.placement.shares if share.slots}
        if len(slots) < 2:
            return ()
        found = ", ".join(f"{share.node.name} {share.slots}" for share in job.placement.shares)
        return (f"lightning needs the same number of devices on every node, and the slots differ: {found}",)


def _needs(job: NodeJob) -> tuple[Need, ...]:
    """It goes by two names, of which a script imports one: asked for where the node says what it has."""
    if job.found is None or not job.found.software:
        return ()
    old = "pytorch-lightning" in job.found.software and "lightning" not in job.found.software
    return (Need("module", "pytorch_lightning" if old else "lightning", by=job.python, why="framework"),)
