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
