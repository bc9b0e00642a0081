"""What holds for the whole catalogue."""

from __future__ import annotations

from dataclasses import fields

import pytest

from preflight import test_fabric_checks, test_gpu_checks, test_software_checks, test_wiring_checks
from preflight.cases import ASKED
from preflight.healthy import healthy
from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.check import Group
from rankdeck_backends.preflight.judge import judge

TABLES = (test_fabric_checks, test_gpu_checks, test_software_checks, test_wiring_checks)
SHOWN = {
    *((case.check, case.verdict) for table in TABLES for case in (*table.NODES, *table.POOLS)),
    ("os.nofile", "fail"),  # needs nine nodes: a test of its own
}
IDS = [check.id for check in catalogue.CHECKS]


@pytest.mark.parametrize("check_id", IDS)
def test_each_check_is_seen_to_pass_to_find_something_and_to_skip(check_id: str) -> None:
    assert (check_id, "pass") in SHOWN
    assert (check_id, "fail") in SHOWN or (check_id, "warn") in SHOWN
    assert (check_id, "skip") in SHOWN


@pytest.mark.parametrize("check_id", IDS)
def test_each_verdict_of_a_rule_is_seen(check_id: str) -> None:
    check = catalogue.find(check_id)
    assert check is not None
    for verdict in ("warn", "fail"):
        assert (f"{verdict}:" in check.rule) == ((check_id, verdict) in SHOWN), verdict


def test_ids_are_unique() -> None:
    assert len(catalogue.EVERY) == len({check.id for check in catalogue.EVERY})


@pytest.mark.parametrize("check", catalogue.EVERY, ids=lambda check: check.id)
def test_each_check_is_told_in_full(check) -> None:
    for each in fields(check):
        value = getattr(check, each.name)
        if isinstance(value, str):
            assert value.strip(), each.name
            assert "\n" not in value
            assert "  " not in value, each.name
    assert check.node or check.pool or check.group is Group.ACTIVE
    for cause in check.explained_by:
        assert catalogue.find(cause), cause
    assert check.title in catalogue.explain(check)


def test_nothing_is_wrong_with_healthy_nodes() -> None:
    report = judge({f"n{number}": healthy(number) for number in (1, 2, 3)}, ASKED)
    wrong = [(each.id, each.message) for each in report.findings if each.verdict in ("warn", "fail")]
    assert not wrong
    assert not report.blocked
