"""The rules that have libraries say which network they really take: there alone where the answer matters.

Where nodes have a fabric, a library that can't use it takes sockets without a word, and the run is ten times
slower. NCCL names its network with NCCL_DEBUG=INFO (its default subsystems, INIT, BOOTSTRAP and ENV, are
enough: src/debug.cc, src/init.cc, src/transport/net.cc), in some 50 to 300 lines at the start of each rank's
log; UCX with UCX_LOG_LEVEL=info, in some 10.
"""

from __future__ import annotations

from rankdeck_profiles.fabric.setting import FabricSetting, Pool, Wanted


def nccl(name: str, pool: Pool) -> Wanted:
    """NCCL_DEBUG."""
    if _matters(pool):
        why = f'NCCL says whether it uses the {pool.choice.kind}; NCCL_DEBUG = "WARN" in env keeps it quiet'
        yield FabricSetting("NCCL_DEBUG", "INFO", why, "telling")


def ucx(name: str, pool: Pool) -> Wanted:
    """UCX_LOG_LEVEL, for ranks that an mpirun starts."""
    if _matters(pool) and pool.mpi:
        why = f'UCX says whether it uses the {pool.choice.kind}; UCX_LOG_LEVEL = "warn" in env keeps it quiet'
        yield FabricSetting("UCX_LOG_LEVEL", "info", why, "telling")


def _matters(pool: Pool) -> bool:
    return len(pool.nodes) > 1 and pool.choice.kind is not None
