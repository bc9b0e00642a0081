"""What all of torchrun's faces share: torchrun, torch.distributed.launch, accelerate launch.

From torch/distributed/run.py and torch/distributed/elastic:

- torchrun reads its flags, and `PET_*` for flags that are not given; never `MASTER_ADDR`, `NODE_RANK` or
  `WORLD_SIZE`. It sets `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and the like for its ranks, over whatever they
  had.
- All words after the program's first pass `string.Template.safe_substitute` (elastic/utils/api.py, `macros`),
  which makes `$$` a `$` and fills in `${local_rank}`: dollars that are meant to arrive are doubled here.
- If `OMP_NUM_THREADS` is not set and a node has several ranks, it is set to 1.
- Every node must have the same number of ranks (run.py, notice 5).
"""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles import placeholders
from rankdeck_profiles.frameworks.base import NodeJob, NodeWork
from rankdeck_profiles.frameworks.identity import node_rank
from rankdeck_profiles.plan import Need, Process, ProcessKind, RankSource
from rankdeck_profiles.settings import Setting, merge

SETS_ITSELF = frozenset(
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
        "PET_RDZV_BACKEND",
        "PET_RDZV_ENDPOINT",
        "PET_RDZV_ID",
        "PET_RDZV_CONF",
        "PET_MAX_RESTARTS",
    )
)

RANKS = RankSource("RANK", "LOCAL_RANK", "WORLD_SIZE")


def received(word: str) -> str:
    """A word as a rank gets it, after torchrun's own substitution: `$$` has become `$`."""
    return word.replace("$$", "$")


def sent(word: str) -> str:
    """A word as torchrun must be handed it so that the rank gets it as it is: undoes `received`."""
    return word.replace("$", "$$")


def launcher_work(
    job: NodeJob,
    launcher: Sequence[str],
    *,
    needs: tuple[Need, ...],
    args: tuple[str, ...] = (),
    more: Sequence[Setting] = (),
    fixed_ranks: bool = True,
    restarts: int = 0,
    warnings: tuple[str, ...] = (),
) -> NodeWork:
    """One launcher for all of a node's ranks.

    Args:
        job: the node.
        launcher: its words up to the program.
        needs: what must be on the node beside the program.
        args: further arguments of the program.
        more: variables beside those that every framework's ranks get.
        fixed_ranks: whether node i's ranks are known before the start.
        restarts: how often it starts all ranks again after one failed.
        warnings: what to tell the user.
    """
    # torchrun calls it GROUP_RANK; here so that $NODE_RANK means the same with every framework.
    env, reasons = merge((node_rank(job), *more, *job.common), job.profile.env)
    words = (*(placeholders.escape(word) for word in job.program), *job.args, *args)
    process = Process(
        ranks=job.share.ranks,
        local_ranks=job.share.local_ranks,
        launcher=tuple(launcher),
        program=tuple(sent_dollars(word) for word in words),
        cwd=job.cwd,
        env=env,
        fill=True,
        kind=ProcessKind.LAUNCHER,
        rank_from=RANKS,
        macros=True,
        fixed_ranks=fixed_ranks,
        restarts=restarts,
    )
    return NodeWork((process,), reasons, needs=needs, warnings=warnings)


def sent_dollars(word: str) -> str:
    """A word of ours, in which `$$` is a dollar, so that `$$` is what arrives; names stay as they are."""
    return word.replace("$$", "$$$$")


def torch_need(python: str) -> tuple[Need, ...]:
    """Torch, for the interpreter that runs torchrun."""
    return (Need("module", "torch", by=python, why="framework"),)
