"""Who a rank is: the variables that most frameworks read, and processes that have them from the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdeck_profiles import placeholders
from rankdeck_profiles.frameworks.base import NodeJob, NodeWork
from rankdeck_profiles.plan import Need, Process
from rankdeck_profiles.settings import Setting, merge

PER_RANK = ("RANK", "LOCAL_RANK")
"""Those that differ between the ranks of one node."""


def master(job: NodeJob) -> tuple[Setting, Setting]:
    """Where rank 0 listens."""
    return (
        Setting(
            "MASTER_ADDR", job.head.address, f"address of the head node {job.head.node}, which hosts rank 0"
        ),
        Setting("MASTER_PORT", str(job.head.port), "port on the head node where rank 0 listens"),
    )


def node_rank(job: NodeJob) -> Setting:
    """Which node it is."""
    return Setting("NODE_RANK", str(job.share.node_rank), "counts the nodes from 0, the head node")


def rank_settings(job: NodeJob, rank: int, local_rank: int) -> tuple[Setting, ...]:
    """Who a rank is and where rank 0 listens.

    The first four are all that `torch.distributed`'s `env://` reads (torch/distributed/rendezvous.py,
    `_env_rendezvous_handler`); the last three are what scripts made for torchrun expect beside them.
    """
    nodes = len(job.placement.shares)
    return (
        *master(job),
        Setting(
            "WORLD_SIZE",
            str(job.placement.world_size),
            f"ranks in all, on {nodes} {'node' if nodes == 1 else 'nodes'}",
        ),
        Setting("RANK", str(rank), "counts from 0 over all nodes, node by node"),
        Setting("LOCAL_RANK", str(local_rank), "counts from 0 on each node; chooses the GPU"),
        Setting("LOCAL_WORLD_SIZE", str(len(job.share.ranks)), "ranks on the node"),
        node_rank(job),
    )


def rank_processes(
    job: NodeJob,
    more: Mapping[int, Sequence[Setting]] | None = None,
    *,
    needs: tuple[Need, ...] = (),
    args: tuple[str, ...] = (),
) -> NodeWork:
    """One process for each rank of the node, arguments filled in.

    Args:
        job: the node.
        more: rank -> variables that it has beside those of `rank_settings`.
        needs: what must be on the node beside the program.
        args: further arguments of the program, `$RANK`-like names not yet filled in.
    """
    processes = []
    reasons: dict[str, str] = {}
    for rank, local_rank in zip(job.share.ranks, job.share.local_ranks, strict=True):
        own = rank_settings(job, rank, local_rank)
        extra = tuple((more or {}).get(rank, ()))
        env, why = merge((*own, *extra, *job.common), job.profile.env)
        reasons.update(why)
        values = {setting.name: setting.value for setting in own}
        processes.append(
            Process(
                ranks=(rank,),
                local_ranks=(local_rank,),
                launcher=(),
                program=job.program + placeholders.fill((*job.args, *args), values),
                cwd=job.cwd,
                env=env,
            )
        )
    return NodeWork(tuple(processes), reasons, needs=needs)
