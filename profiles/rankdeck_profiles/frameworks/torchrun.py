"""`torchrun`: one torchrun a node, which starts that node's ranks.

The contract, from torch/distributed/run.py and torch/distributed/elastic:

- torchrun reads its flags, and `PET_*` for flags that are not given; never `MASTER_ADDR`, `NODE_RANK` or
  `WORLD_SIZE`. It sets `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and the like for its ranks, over whatever they
  had.
- The static rendezvous (the default once a master port is given) puts node i's ranks where `--node-rank=i`
  says, so that ranks and nodes are known before the start. With c10d they would be dealt out in the order of
  arrival.
- Without `--local-addr` a node is known by its fully qualified host name, which other nodes often cannot
  resolve.
- `--no-python` takes the program as it is, so that the rank shim can be put before it.
- All words after the program's first pass `string.Template.safe_substitute` (elastic/utils/api.py, `macros`),
  which makes `$$` a `$` and fills in `${local_rank}`: dollars that are meant to arrive are doubled here.
- If `OMP_NUM_THREADS` is not set and a node has several ranks, it is set to 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles import placeholders
from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.plan import Need, Process
from rankdeck_profiles.settings import Setting, merge


class Torchrun:
    """One torchrun a node, static rendezvous."""

    name = "torchrun"
    options: Mapping[str, str] = {}
    same_count_everywhere = True
    sets_itself = frozenset(
        (
            "GROUP_RANK",
            "GROUP_WORLD_SIZE",
            "ROLE_RANK",
            "ROLE_NAME",
            "ROLE_WORLD_SIZE",
            "TORCHELASTIC_RESTART_COUNT",
            "TORCHELASTIC_MAX_RESTARTS",
            "TORCHELASTIC_RUN_ID",
            "TORCHELASTIC_USE_AGENT_STORE",
            "TORCHELASTIC_ERROR_FILE",
            "PET_NNODES",
            "PET_NPROC_PER_NODE",
            "PET_NODE_RANK",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "PET_LOCAL_ADDR",
            "PET_NO_PYTHON",
        )
    )

    def default_procs(self, slots: int) -> int:
        """A rank for every slot."""
        return slots

    def needs(self, python: str) -> tuple[Need, ...]:
        """Torch, for the interpreter that runs torchrun."""
        return (Need("module", "torch", by=python, why="framework"),)

    def processes(self, job: NodeJob) -> tuple[tuple[Process, ...], Mapping[str, str]]:
        """One torchrun with this node's rank and the head's address."""
        node_rank = str(job.share.node_rank)
        # torchrun calls it GROUP_RANK; here so that $NODE_RANK means the same with every framework.
        own = Setting("NODE_RANK", node_rank, "counts the nodes from 0, the head node")
        env, reasons = merge((own, *job.common), job.profile.env)
        launcher = (
            job.python,
            "-m",
            "torch.distributed.run",
            f"--nnodes={len(job.placement.shares)}",
            f"--nproc-per-node={len(job.share.ranks)}",
            f"--node-rank={node_rank}",
            f"--master-addr={_bracketed(job.head.address)}",
            f"--master-port={job.head.port}",
            f"--local-addr={job.address}",
            "--no-python",
        )
        words = (*(placeholders.escape(word) for word in job.program), *job.args)
        process = Process(
            ranks=job.share.ranks,
            local_ranks=job.share.local_ranks,
            launcher=launcher,
            program=tuple(word.replace("$$", "$$$$") for word in words),
            cwd=job.cwd,
            env=env,
            fill=True,
        )
        return (process,), reasons

    def received(self, word: str) -> str:
        """The word after torchrun's own substitution: `$$` has become `$`."""
        return word.replace("$$", "$")

    def sent(self, word: str) -> str:
        """The word with its dollars doubled, so that torchrun's substitution halves them again."""
        return word.replace("$", "$$")


def _bracketed(address: str) -> str:
    """An IPv6 address as `host:port` needs it; torchrun joins the two as text."""
    return f"[{address}]" if ":" in address else address
