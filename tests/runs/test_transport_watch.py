"""Real runs whose ranks write what NCCL writes: their network is recorded, and told of if it is slow."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.recordings import recorded
from rankdeck_backends.preflight.judge import judge
from rankdeck_runs import events, launching
from rankdeck_runs.states import RunState
from rankdeck_runs.transport import READ_LIMIT, Fabric, Network
from rankdeck_runs.usable_fabric import usable_fabric
from runs.waiting import LIMIT, finished, wait_for

LOGS = Path(__file__).parent / "nccl_logs"
FABRIC = Fabric("InfiniBand", {"127.0.0.1": ("mlx5_0:1",), "127.0.0.2": ("mlx5_0:1",)})
WRITES = """
sys.stdout.buffer.write(b"compiling\\n" + open("nccl.log", "rb").read())
sys.stdout.flush()
while not os.path.exists("go_on"):
    time.sleep(0.02)
"""


@pytest.fixture
def sockets_log(tmp_path):
    shutil.copy(LOGS / "sockets.log", tmp_path / "nccl.log")


@pytest.fixture(params=["shared", "copied"])
def way(request, monkeypatch):
    """How logs come into the record: written there by the ranks, or copied from the node."""
    if request.param == "copied":

        async def never(*_):
            return False

        monkeypatch.setattr(launching, "_is_shared", never)


def launched(engine, profile, pool, fabric):
    prepared = engine.prepare(profile, pool).result(LIMIT)
    return engine.launch(replace(prepared, fabric=fabric)).result(LIMIT)


@pytest.mark.usefixtures("sockets_log", "way")
def test_sockets_beside_a_fabric_are_told_of_while_the_run_goes_on(engine, home, program, pool, tmp_path):
    live = engine.attach(launched(engine, program(WRITES), pool, FABRIC))
    snapshot = wait_for(
        live, lambda now: all(r.transports for r in now.ranks) and now.fabric_unused, "networks are known"
    )
    assert snapshot.state is RunState.RUNNING
    assert snapshot.fabric == FABRIC
    assert re.fullmatch(
        r"NCCL of rank [0-3] uses sockets over eth0; "
        r"the nodes' InfiniBand mlx5_0 is not used \(NET/IB : No device found\)",
        snapshot.fabric_unused,
    )
    assert {rank.transports[0].network for rank in snapshot.ranks} == {Network.SOCKETS}
    (tmp_path / "go_on").touch()
    finished(live)
    record = home.find(live.run_id)
    told = [event["ev"] for event in events.read(record.events_path)]
    assert told.count("fabric_unused") == 1
    shape = record.snapshot().to_json()
    assert shape["ranks"][3]["transports"][0]["devices"] == ["eth0"]
    assert shape["fabric"]["ports"]["127.0.0.2"] == ["mlx5_0:1"]
    assert "InfiniBand mlx5_0" in shape["fabric_unused"]


@pytest.mark.usefixtures("sockets_log")
def test_sockets_without_a_fabric_are_no_alarm(engine, program, pool, tmp_path):
    (tmp_path / "go_on").touch()
    snapshot = finished(engine.attach(launched(engine, program(WRITES), pool, None)))
    assert snapshot.fabric_unused == ""
    assert all(rank.transports[0].words == "sockets over eth0" for rank in snapshot.ranks)


@pytest.mark.usefixtures("way")
def test_what_a_short_run_wrote_last_is_read_before_it_is_complete(engine, program, pool):
    source = "print('x' * 100000)\nfor _ in range(3):\n    print('y' * 65000)\n"
    source += "print('n1:1:2 [0] NCCL INFO Using network IB')"
    snapshot = finished(engine.attach(launched(engine, program(source), pool, FABRIC)))
    assert [rank.transports[0].name for rank in snapshot.ranks] == ["IB"] * 4


def test_nothing_is_read_beyond_the_limit(engine, home, program, pool):
    source = f"print('x' * {READ_LIMIT})\nprint('n1:1:2 [0] NCCL INFO Using network IB')"
    live = engine.attach(launched(engine, program(source), pool, FABRIC))
    assert all(rank.transports == () for rank in finished(live).ranks)
    assert "transport_found" not in [event["ev"] for event in events.read(home.find(live.run_id).events_path)]


def test_the_fabric_of_recorded_nodes():
    def found(*cases):
        nodes = {f"n{number}": recorded(case) for number, case in enumerate(cases, start=1)}
        return usable_fabric(judge(nodes).variables)

    pair = found("ndr-ok-a", "ndr-ok-b")
    assert pair is not None
    assert pair.kind == "InfiniBand"
    assert set(pair.ports) == {"n1", "n2"}
    assert all(pair.ports.values())
    assert found("ndr-ok-a") is None
    assert found("ndr-ok-a", "eth-only") is None
