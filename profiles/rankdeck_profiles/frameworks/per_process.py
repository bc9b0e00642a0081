"""What `pytorch` and `command` share: one process a rank, each with the whole `env://` environment."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles import placeholders
from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.plan import Process
from rankdeck_profiles.settings import Setting, merge


def rank_settings(job: NodeJob, rank: int, local_rank: int) -> tuple[Setting, ...]:
    """Who a rank is and where rank 0 listens.

    The first four are all that `torch.distributed`'s `env://` reads (torch/distributed/rendezvous.py,
    `_env_rendezvous_handler`); the last three are what scripts made for torchrun expect beside them.
    """
    nodes = len(job.placement.shares)
    here = len(job.share.ranks)
    return (
        Setting(
            "MASTER_ADDR", job.head.address, f"address of the head node {job.head.node}, which hosts rank 0"
        ),
        Setting("MASTER_PORT", str(job.head.port), "port on the head node where rank 0 listens"),
        Setting(
            "WORLD_SIZE",
            str(job.placement.world_size),
            f"ranks in all, on {nodes} {'node' if nodes == 1 else 'nodes'}",
        ),
        Setting("RANK", str(rank), "counts from 0 over all nodes, node by node"),
        Setting("LOCAL_RANK", str(local_rank), "counts from 0 on each node; chooses the GPU"),
        Setting("LOCAL_WORLD_SIZE", str(here), "ranks on the node"),
        Setting("NODE_RANK", str(job.share.node_rank), "counts the nodes from 0, the head node"),
    )


def rank_processes(job: NodeJob) -> tuple[tuple[Process, ...], Mapping[str, str]]:
    """One process for each rank of the node, arguments filled in."""
    processes = []
    reasons: dict[str, str] = {}
    for rank, local_rank in zip(job.share.ranks, job.share.local_ranks, strict=True):
        own = rank_settings(job, rank, local_rank)
        env, reasons = merge((*own, *job.common), job.profile.env)
        values = {setting.name: setting.value for setting in own}
        processes.append(
            Process(
                ranks=(rank,),
                local_ranks=(local_rank,),
                launcher=(),
                program=job.program + placeholders.fill(job.args, values),
                cwd=job.cwd,
                env=env,
            )
        )
    return tuple(processes), reasons
