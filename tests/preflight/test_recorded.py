"""Every recorded node and pool gives exactly the verdicts it must."""

from __future__ import annotations

import pytest

from preflight.recordings import NODES, POOLS, recorded
from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.finding import worst
from rankdeck_backends.preflight.judge import judge
from rankdeck_backends.preflight.subject import Asked

ON_NODES = [
    (case, check, wanted) for case, each in NODES.items() for check, wanted in each["verdict"].items()
]
ON_POOLS = [
    (pool, check, wanted) for pool, each in POOLS.items() for check, wanted in each["verdict"].items()
]


@pytest.mark.parametrize(("case", "check_id", "wanted"), ON_NODES)
def test_node(case: str, check_id: str, wanted: str) -> None:
    check = catalogue.find(check_id)
    assert check is not None, f"no check {check_id}"
    (finding,) = judge({case: recorded(case)}, Asked(recorded=True), checks=[check]).on(case)
    assert finding.verdict == wanted, f"{finding.message} {finding.evidence}"


@pytest.mark.parametrize(("pool", "check_id", "wanted"), ON_POOLS)
def test_pool(pool: str, check_id: str, wanted: str) -> None:
    check = catalogue.find(check_id)
    assert check is not None, f"no check {check_id}"
    readings = {case: recorded(case) for case in POOLS[pool]["nodes"]}
    report = judge(readings, Asked(recorded=True), checks=[check])
    found = report.of_pool or report.findings
    assert worst(finding.verdict for finding in found) == wanted, [finding.message for finding in found]


@pytest.mark.parametrize("case", NODES)
def test_two_such_nodes_are_launched_or_refused(case: str) -> None:
    report = judge({"n1": recorded(case), "n2": recorded(case)}, Asked(recorded=True))
    assert report.blocked == NODES[case]["env"]["blocked"], [each.message for each in report.stopping]


@pytest.mark.parametrize("pool", POOLS)
def test_pools_are_launched_or_refused(pool: str) -> None:
    report = judge({case: recorded(case) for case in POOLS[pool]["nodes"]}, Asked(recorded=True))
    assert report.blocked == POOLS[pool]["env"]["blocked"], [each.message for each in report.stopping]


@pytest.mark.parametrize(
    ("case", "causes"),
    [
        ("vf-null-guid", {"ib.guid"}),
        ("ib-init-no-sm", {"ib.subnet-manager"}),
        ("ofed-half-after-kernel-update", {"ofed.halves"}),
        ("ndr-port-down", {"ib.port-state"}),
        ("gpu-lost", {"gpu.lost"}),
        ("nvml-mismatch", {"gpu.driver"}),
        ("stale-env", {"sw.env"}),
    ],
)
def test_one_cause_is_told_once(case: str, causes: set[str]) -> None:
    report = judge({case: recorded(case)}, Asked(recorded=True))
    assert {finding.id for finding in report.stopping} == causes
