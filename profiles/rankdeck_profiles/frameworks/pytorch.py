"""`pytorch`: rankdeck starts every rank itself, as `torch.distributed`'s `env://` wants it.

The contract: `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK` are all required, an empty one counts as
missing (torch/distributed/rendezvous.py, `_env_rendezvous_handler`). `TORCHELASTIC_USE_AGENT_STORE` must not
be there: it makes rank 0 a client of a store that nobody serves (same file, `_create_c10d_store`).

torch is not asked for on the nodes: the program may well use it from a place of its own.
"""

from __future__ import annotations

from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork
from rankdeck_profiles.frameworks.identity import rank_processes


class PyTorch(Framework):
    """One process a rank, `env://`."""

    name = "pytorch"
    summary = (
        "PyTorch, every rank started by itself: any number on each node, and each rank's end seen at once"
    )
    advice = (
        "The script calls init_process_group(), which reads RANK, WORLD_SIZE and MASTER_ADDR, and takes "
        "its GPU from LOCAL_RANK."
    )

    def work(self, job: NodeJob) -> NodeWork:
        """One process a rank with its full environment."""
        return rank_processes(job)
