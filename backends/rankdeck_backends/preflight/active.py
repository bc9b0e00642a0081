"""What is said of active tests: pairs of nodes that send data to each other, where a person asks for it.

They are ordinary runs, so the login side makes and judges them; here are their words.
"""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group

PAIR_LIMIT = 60.0
"""Seconds for one pair, from its start to its result."""
GOOD_SHARE = 0.9
"""Of the other pairs' median: less is a warning (46 to 48 GB/s are usual for a port of 400 Gbit/s, and pairs
of one pool differ by a few percent: nccl-tests issue 290)."""
LINK_SHARE = 0.7
"""Of a port's rate: less over RDMA is a warning. A test of one rank a node uses one port at least."""

_RULE = (
    f"fail: no result within {PAIR_LIMIT:.0f} s, or sockets beside a usable fabric; warn: less than "
    f"{GOOD_SHARE:.0%} of the pairs' median (3 pairs and more), or over RDMA less than {LINK_SHARE:.0%} of "
    "what one port carries"
)

NCCL_PAIR = Check(
    id="bw.nccl-pair",
    group=Group.ACTIVE,
    title="pairs of nodes send by torch",
    reads="with --active torch: an all-reduce of 256 MiB over NCCL, without GPUs of 16 MiB over Gloo, "
    "the best of 10; NCCL's own lines about the network it uses",
    rule=_RULE,
    symptom="a hang in the first collective, or a run at a fraction of its speed",
    fix="see ib.rate, ib.errors, gdr.path and gdr.affinity on both nodes, and try each with another one",
    source="torch.distributed.all_reduce; nccl-tests doc/PERFORMANCE.md (bus bandwidth), issue 290",
    pair=True,
)
MPI_PAIR = Check(
    id="bw.mpi-pair",
    group=Group.ACTIVE,
    title="pairs of nodes send by MPI",
    reads="with --active mpi: 16 MiB there and back between two nodes by mpi4py, the best of 10; UCX's lines "
    "about the network it uses",
    rule=_RULE,
    symptom="mpirun hangs, or a run at a fraction of its speed",
    fix="see ssh.any-to-any, sw.mpi, ib.rate and ib.errors on both nodes, and try each with another one",
    source="mpi4py Comm.Send; OSU micro-benchmarks osu_latency (half the round trip)",
    pair=True,
)
CHECKS = (NCCL_PAIR, MPI_PAIR)
