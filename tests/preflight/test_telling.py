"""Libraries are asked to name their network where nodes have a fabric, and nowhere else."""

from __future__ import annotations

from preflight.recordings import recorded
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.rules import compute


def variables(*cases: str, **asked: object) -> dict[str, str]:
    nodes = {f"n{number}": NodeFabric(recorded(case)) for number, case in enumerate(cases)}
    settings = compute(nodes, **asked).nodes["n0"].settings  # type: ignore[arg-type]
    return {setting.name: setting.value for setting in settings}


def test_where_there_is_a_fabric() -> None:
    found = variables("ndr-ok-a", "ndr-ok-b")
    assert found["NCCL_DEBUG"] == "INFO"
    assert "UCX_LOG_LEVEL" not in found
    assert variables("ndr-ok-a", "ndr-ok-b", framework="mpi")["UCX_LOG_LEVEL"] == "info"


def test_nowhere_else() -> None:
    for cases in (("eth-only", "eth-only"), ("ndr-ok-a", "eth-only"), ("ndr-ok-a",)):
        found = variables(*cases, framework="mpi")
        assert "NCCL_DEBUG" not in found
        assert "UCX_LOG_LEVEL" not in found


def test_what_the_profile_says_stays() -> None:
    assert "NCCL_DEBUG" not in variables("ndr-ok-a", "ndr-ok-b", profile_env={"NCCL_DEBUG": "WARN"})
