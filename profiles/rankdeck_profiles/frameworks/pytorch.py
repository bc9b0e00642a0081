"""`pytorch`: rankdeck starts every rank itself, as `torch.distributed`'s `env://` wants it.

The contract: `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK` are all required, an empty one counts as
missing (torch/distributed/rendezvous.py, `_env_rendezvous_handler`). `TORCHELASTIC_USE_AGENT_STORE` must not
be there: it makes rank 0 a client of a store that nobody serves (same file, `_create_c10d_store`).
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.frameworks.per_process import rank_processes
from rankdeck_profiles.plan import Need, Process


class PyTorch:
    """One process a rank, `env://`."""

    name = "pytorch"
    options: Mapping[str, str] = {}
    same_count_everywhere = False
    sets_itself: frozenset[str] = frozenset()

    def default_procs(self, slots: int) -> int:
        """A rank for every slot."""
        return slots

    def needs(self, python: str) -> tuple[Need, ...]:
        """Nothing beside the program: it may well use torch from a place of its own."""
        return ()

    def processes(self, job: NodeJob) -> tuple[tuple[Process, ...], Mapping[str, str]]:
        """One process a rank with its full environment."""
        return rank_processes(job)

    def received(self, word: str) -> str:
        """The word itself: there is no launcher between."""
        return word

    def sent(self, word: str) -> str:
        """The word itself."""
        return word
