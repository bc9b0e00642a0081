"""Libraries are asked to name their network where nodes have a fabric, and nowhere else."""

from __future__ import annotations

from preflight.recordings import changed, recorded
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.rules import compute
from rankdeck_profiles.fabric.telling import telling
from rankdeck_profiles.readings import Readings

PAIR = ("ndr-ok-a", "ndr-ok-b")


def asked(*nodes: str | Readings, framework: str = "torchrun", **env: str) -> dict[str, str]:
    read = [recorded(each) if isinstance(each, str) else each for each in nodes]
    variables = compute({f"n{number}": NodeFabric(each) for number, each in enumerate(read)})
    found = telling(variables, "n0", framework=framework, profile_env=env)
    return {setting.name: setting.value for setting in found}


def test_where_there_is_a_fabric() -> None:
    assert asked(*PAIR) == {"NCCL_DEBUG": "INFO"}
    assert asked(*PAIR, framework="mpi") == {"NCCL_DEBUG": "INFO", "UCX_LOG_LEVEL": "info"}


def test_nowhere_else() -> None:
    for nodes in (("eth-only", "eth-only"), ("ndr-ok-a", "eth-only"), ("ndr-ok-a",)):
        assert asked(*nodes, framework="mpi") == {}


def test_what_somebody_set_stays() -> None:
    assert asked(*PAIR, NCCL_DEBUG="WARN") == {}
    quiet = [changed(recorded(case), files={"/etc/nccl.conf": "NCCL_DEBUG=WARN\n"}) for case in PAIR]
    assert asked(*quiet) == {}
