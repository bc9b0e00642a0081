"""`torchrun`: one torchrun a node, which starts that node's ranks.

The contract, beside what `torch_agent` says, from torch/distributed/run.py and torch/distributed/elastic:

- The static rendezvous (the default once a master port is given) puts node i's ranks where `--node-rank=i`
  says, so that ranks and nodes are known before the start. It never sees that a node left or came back
  (static_tcp_rendezvous.py: `num_nodes_waiting` is 0), so restarts over several nodes need c10d.
- With c10d the ranks are dealt out among the nodes that came (dynamic_rendezvous.py, sorted by address), and
  again after each restart. Who serves the store is guessed by comparing host names unless `is_host` says so.
- Without `--local-addr` a node is known by its fully qualified host name, which other nodes often cannot
  resolve.
- `--no-python` takes the program as it is, so that the rank shim can be put before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.errors import FieldError
from rankdeck_profiles.frameworks import torch_agent
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.model import Profile
from rankdeck_profiles.nodes import bracketed
from rankdeck_profiles.settings import Setting

RESTARTS = Option("count", "how often torchrun starts all ranks again after one failed", 0)
RENDEZVOUS = Option(
    "text",
    "how the nodes find each other: static (ranks known before the start), or c10d (for restarts); "
    "c10d where max_restarts is given, else static",
    None,
    ("static", "c10d"),
)


_OWN_STORE = Setting(
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    "1",
    "max_restarts: else ranks that are started again find addresses of those before them in torchrun's store",
)
"""torchrun keeps one store for all attempts (dynamic_rendezvous.py, `_shared_tcp_store_server`), under the
same names: gloo and NCCL then connect to processes that have gone. With this, rank 0 serves a new one each
time."""


class Torchrun(Framework):
    """One torchrun a node."""

    name = "torchrun"
    summary = "PyTorch scripts made for torchrun: one launcher a node, one rank a GPU; fits most training"
    advice = "The script calls init_process_group() and takes its GPU from LOCAL_RANK."
    options: Mapping[str, Option] = {"max_restarts": RESTARTS, "rdzv": RENDEZVOUS}
    sets_itself = torch_agent.SETS_ITSELF

    def same_count(self, profile: Profile) -> bool:
        """Torchrun deals with one number for all nodes."""
        return True

    def check(self, profile: Profile) -> None:
        """Refuse a rendezvous that cannot restart."""
        super().check(profile)
        if profile.options.get("rdzv") == "static" and self.option(profile, "max_restarts"):
            raise FieldError(
                ("options", "rdzv"),
                'options.rdzv = "static" with max_restarts: nodes would not hear of a restart on another one',
                'leave rdzv out, or set it to "c10d"',
            )

    def work(self, job: NodeJob) -> NodeWork:
        """One torchrun with this node's rank and the head's address."""
        restarts = self.option(job.profile, "max_restarts")
        dynamic = (self.option(job.profile, "rdzv") or ("c10d" if restarts else "static")) == "c10d"
        launcher = (
            job.python,
            "-m",
            "torch.distributed.run",
            *flags(job),
            *(rendezvous(job, restarts) if dynamic else static(job)),
            f"--local-addr={job.address}",
            "--no-python",
        )
        warnings: tuple[str, ...] = ()
        if dynamic and len(job.placement.shares) > 1:
            warnings = (
                "rdzv c10d: torchrun deals out the ranks at the start and after each restart; "
                "the nodes' ranks and MASTER_ADDR may then be others than shown",
            )
        return torch_agent.launcher_work(
            job,
            launcher,
            needs=torch_agent.torch_need(job.python),
            fixed_ranks=not dynamic or len(job.placement.shares) == 1,
            restarts=restarts,
            more=(_OWN_STORE,) if dynamic and restarts else (),
            warnings=warnings,
        )


def flags(job: NodeJob) -> tuple[str, ...]:
    """How many nodes and ranks."""
    return (f"--nnodes={len(job.placement.shares)}", f"--nproc-per-node={len(job.share.ranks)}")


def static(job: NodeJob) -> tuple[str, ...]:
    """Which node this is and where the head listens."""
    return (
        f"--node-rank={job.share.node_rank}",
        f"--master-addr={bracketed(job.head.address)}",
        f"--master-port={job.head.port}",
    )


def rendezvous(job: NodeJob, restarts: int) -> tuple[str, ...]:
    """A c10d rendezvous on the head node, which is told apart by `is_host`, not by its name."""
    return (
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={job.head.endpoint}",
        f"--rdzv-id=rankdeck-{job.head.port}",
        f"--rdzv-conf=is_host={1 if job.is_head else 0}",
        f"--max-restarts={restarts}",
    )
