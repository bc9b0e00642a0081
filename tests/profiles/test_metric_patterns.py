"""A profile's metrics: what gives a number, and what could hold up everything."""

from __future__ import annotations

import time

import pytest

from rankdeck_profiles.metric_patterns import MetricPattern, MetricPatternError


def test_one_group_is_the_metric_of_its_key() -> None:
    pattern = MetricPattern.parse("loss", r"loss[=: ]+([0-9.eE+-]+)")
    assert pattern.groups == {1: "loss"}
    assert pattern.needs == "loss"


def test_named_groups_are_a_metric_each() -> None:
    pattern = MetricPattern.parse("line", r"it (?P<step>\d+) L=(?P<loss>\S+) (?:x|y) T=(?P<tokens>\d+)")
    assert pattern.groups == {1: "step", 2: "loss", 3: "tokens"}


def test_what_a_line_needs_is_not_guessed_where_letters_are_alike() -> None:
    assert MetricPattern.parse("loss", r"(?i)loss (\S+)").needs == ""
    assert MetricPattern.parse("loss", r"(?:loss|cost) (\S+)").needs == " "


@pytest.mark.parametrize(
    "pattern",
    [r"(?:a+)+(b)$", r"(?:\w+\s*)*=(\d)", r"(?:a|ab)*c(\d)", r"(?:(?:.*),)*(\d)", r"(?=(?:a*)*b)(\d)"],
)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(MetricPatternError, match="could take for ever"):
        MetricPattern.parse("m", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"loss (\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)",
        r"\[(?:INFO|WARN)\] loss: ([-+]?[\d.]+)",
        r"(?:x++)+ (\d+)",
        r"(?:ab|cd)* (\d+)",
    ],
)
def test_what_people_write_is_not_refused_and_quick_on_the_worst_line(pattern: str) -> None:
    regex = MetricPattern.parse("m", pattern).regex
    for line in ("1" * 1024, "loss " + "1,111" * 200, "abcd" * 256, "x" * 1024):
        began = time.process_time()
        regex.search(line)
        assert time.process_time() - began < 5


@pytest.mark.parametrize(("pattern", "says"), [("loss", "has 0 groups"), (r"(a)(b)", "has 2 groups")])
def test_a_pattern_without_a_number_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(MetricPatternError, match=says):
        MetricPattern.parse("m", pattern)
