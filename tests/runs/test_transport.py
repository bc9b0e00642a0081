"""What libraries write of their network, read as it comes.

nccl_logs/ holds what NCCL 2.28.9 wrote on a machine with two H200s: the two as two nodes, and as one. Other
lines have the forms of NCCL 2.4 to 2.30 and of UCX 1.13 to 1.18.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rankdeck_runs.transport import READ_LIMIT, Fabric, Network, Transport, TransportReader, unused

LOGS = Path(__file__).parent / "nccl_logs"
FABRIC = Fabric("InfiniBand", {"n1": ("mlx5_0:1", "mlx5_1:1"), "n2": ("mlx5_0:1",)})


def read(*lines: str) -> TransportReader:
    reader = TransportReader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    return reader


def nccl(*said: str) -> TransportReader:
    return read(*(f"n1:12:34 [0] NCCL INFO {line}" for line in said))


def only(reader: TransportReader) -> Transport:
    (found,) = reader.found()
    return found


def test_real_sockets() -> None:
    reader = TransportReader()
    reader.feed((LOGS / "sockets.log").read_bytes())
    found = only(reader)
    assert (found.library, found.network, found.name) == ("NCCL", Network.SOCKETS, "Socket")
    assert found.devices == ("eth0",)
    assert found.nodes == 2
    assert found.connected
    assert found.reasons == ("NET/IB : No device found.", "Failed to initialize NET plugin IB")
    assert found.words == "sockets over eth0"
    assert reader.settled
    assert unused([found], FABRIC) is found
    assert unused([found], None) is None


def test_real_node_alone() -> None:
    reader = TransportReader()
    reader.feed((LOGS / "one-node.log").read_bytes())
    found = only(reader)
    assert found.network is Network.NONE
    assert found.words == "one node, no network"
    assert unused([found], FABRIC) is None


def test_however_the_bytes_come() -> None:
    data = (LOGS / "sockets.log").read_bytes()
    whole = TransportReader()
    whole.feed(data)
    chance = random.Random(7)
    for _ in range(20):
        reader, at = TransportReader(), 0
        while at < len(data):
            size = chance.randrange(1, 200)
            reader.feed(data[at : at + size])
            at += size
        assert reader.found() == whole.found()
        assert reader.offset == len(data)


IB = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:10.0.0.1<0>"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((IB, "Using network IB"), "InfiniBand mlx5_[0-1]"),
        (
            (IB, "Using network IB", "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA"),
            "InfiniBand mlx5_[0-1], GPU direct",
        ),
        (
            (IB, "Using network IB", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/1(3)/GDRDMA(PCI)/Shared"),
            "InfiniBand mlx5_[0-1], GPU direct",
        ),
        (
            (IB, "Using network IB", "Channel 00/0 : 0[a1000] -> 1[b0000] [send] via NET/IB/0"),
            "InfiniBand mlx5_[0-1], no GPU direct",
        ),
        (("Ring 00 : 7 -> 8 [receive] via NET/Socket/0",), "sockets"),
        (
            ("NET/Socket : Using [0]eno1:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>", "Using network Socket"),
            "sockets over eno1,ib0",
        ),
        (
            (
                "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>",
                "Using network IBext_v8",
            ),
            "RoCE mlx5_[0-1]",
        ),
        (
            (
                "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_an0:1/RoCE ; OOB eth0:10.0.0.4<0>",
                "Using network IB",
            ),
            "RDMA mlx5_0,mlx5_an0",
        ),
        (("NET/OFI Selected Provider is efa (found 4 nics)", "Using network AWS Libfabric"), "Libfabric efa"),
        (
            ("NET/OFI Selected provider is efa, fabric is efa", "Using network Libfabric",
             "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA"),
            "Libfabric efa, GPU direct",
        ),
        (("Using network FasTrak",), "plugin FasTrak"),
    ],
)  # fmt: skip
def test_nccl_says(said: tuple[str, ...], words: str) -> None:
    assert only(nccl(*said)).words == words


def test_one_channel_over_sockets_counts() -> None:
    found = only(
        nccl(
            IB,
            "Using network IB",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Channel 01/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
        )
    )
    assert found.network is Network.SOCKETS


def test_the_reason_is_kept() -> None:
    found = only(
        read(
            "n1:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed",
            "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            "n1:1:2 [0] NCCL INFO Using network Socket",
        )
    )
    assert found.reasons == (
        "Call to ibv_open_device failed",
        "NCCL_IB_DISABLE set by environment to 1.",
    )


def test_what_was_only_chosen_is_no_alarm_until_it_is_in_use() -> None:
    reader = nccl("NET/Socket : Using [0]eno1:10.0.0.1<0>", "Using network Socket")
    assert unused(reader.found(), FABRIC) is None
    reader.feed(b"n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n")
    assert unused(reader.found(), FABRIC) is not None


def test_prefixes_of_launchers_and_carriage_returns() -> None:
    found = only(read("[0]<stdout>:n1:12:34 [0] NCCL INFO Using network IB\r"))
    assert found.name == "IB"


def ucx(*said: str) -> TransportReader:
    return read(*(f"[1795857847.15] [n1:33 :0]  ucp_worker.c:1763 UCX  INFO  {line}" for line in said))


def test_ucx_before_1_14_names_ways_without_saying_where_to() -> None:
    reader = ucx("ep_cfg[0]: tag(self/memory0 cma/memory)", "ep_cfg[1]: tag(sysv/memory cma/memory tcp/eno1)")
    assert reader.found() == ()
    reader.feed(b"[1.2] [n1:33 :0] ucp_worker.c:1763 UCX  INFO  ep_cfg[2]: tag(tcp/eno1 tcp/ib0)\n")
    found = only(reader)
    assert (found.library, found.network, found.devices) == ("UCX", Network.SOCKETS, ("eno1", "ib0"))
    assert unused([found], FABRIC) is found


def test_ucx_since_1_14() -> None:
    found = only(
        ucx(
            "0x252d990 self cfg#1 tag(sysv/memory cma/memory cuda_copy/cuda) rma(sysv/memory)",
            "ucp_context_0 intra-node cfg#4 tag(sysv/memory cma/memory rc_mlx5/mlx5_3:1 cuda_ipc/cuda)",
            "ucp_context_0 inter-node cfg#8 tag(rc_mlx5/mlx5_2:1 rc_mlx5/mlx5_0:1 cuda_copy/cuda)",
        )
    )
    assert (found.network, found.name, found.devices) == (Network.RDMA, "rc_mlx5", ("mlx5_2", "mlx5_0"))
    assert found.words == "RDMA mlx5_[0,2]"


def test_gloo_has_sockets_alone_and_raises_no_alarm() -> None:
    words = "[Gloo] Rank 0 is connected to {} peer ranks. Expected number of connected peer ranks is : {}"
    assert read(words.format(0, 0)).found() == ()
    found = only(read(words.format(1, 1)))
    assert (found.library, found.network) == ("Gloo", Network.SOCKETS)
    assert unused([found], FABRIC) is None


def test_no_more_is_read_than_the_limit() -> None:
    reader = TransportReader()
    reader.feed(b"step\n" * (READ_LIMIT // 5))
    reader.feed(b"steps, and more\n")
    assert reader.settled
    reader.feed(b"n1:1:2 [0] NCCL INFO Using network Socket\n")
    assert reader.found() == ()
    assert reader.offset == READ_LIMIT


def test_a_program_that_writes_about_nccl_is_not_nccl() -> None:
    assert read("our NCCL setup: Using network IB", "NCCL is great", " UCX  INFO nothing").found() == ()


def test_json_and_back() -> None:
    found = only(nccl(IB, "Using network IB", "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA"))
    assert Transport.from_json(found.to_json()) == found
    assert Transport.from_json({"network": "carrier pigeon"}) is None
    assert Fabric.from_json(FABRIC.to_json()) == FABRIC
    for damaged in (None, {}, {"ports": 3}, {"kind": "IB", "ports": {}}, {"ports": {"n1": "x"}}):
        assert Fabric.from_json(damaged) is None
    assert FABRIC.words == "InfiniBand mlx5_[0-1]"
