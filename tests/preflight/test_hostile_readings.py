"""Whatever a node answers, a check says something: it never raises."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from preflight.cases import ASKED
from preflight.healthy import healthy
from preflight.recordings import NODES, recorded
from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.finding import Verdict
from rankdeck_backends.preflight.judge import Report, judge
from rankdeck_profiles.readings import CommandReading, Readings

BASES = {**{case: recorded(case) for case in NODES}, **{f"n{number}": healthy(number) for number in (1, 2)}}

TEXTS = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.sampled_from(
        [
            "",
            "\n\n\n",
            "\0" * 50,
            "9" * 5000,
            "-1",
            "0x" + "f" * 400,
            "1e999",
            "nan",
            "٣",  # a digit, not of ASCII
            "²",
            "N/A",
            ", " * 300,
            "\t" * 300,
            ":" * 100,
            "[" * 2000,
            '{"a": ' * 500,
            "[{}]",
            "[[1], null, 3]",
            '[{"ifname": null, "flags": 7, "addr_info": [{"local": 5, "prefixlen": "x"}]}]',
            '[{"ifname": "eth0", "flags": "UP", "addr_info": 3}]',
            "99999999999999999999: ACTIVE",
            "4: ACTIVE: 5: 6",
            "4 Gb/sec (99999999999999999999999X NDR)",
            "fe80::/129",
            "\x1b]0;title\x07\x1b[2J",
        ]
    ),
)

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        TEXTS,
        st.sampled_from([10**400, -(10**400), float("inf"), float("nan"), "ok", "timeout", "unlimited"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)

COUNTERS = "/sys/class/infiniband/mlx5_0/ports/1/counters"
KEYS = sorted(
    {key for each in BASES.values() for key in each.syscalls}
    | {"kfd_open", "imex_channel", "files_again", "patience"}
)


def complete(report: Report) -> None:
    for finding in report.findings:
        assert finding.message
        assert finding.verdict in Verdict
        finding.to_json()
    judged = {check.id for check in catalogue.CHECKS if check.node or len(report.nodes) > 1}
    assert {finding.id for finding in report.findings} == judged


def broken_text(chance: random.Random, text: str, others: Sequence[str]) -> str:
    kind = chance.randrange(7)
    if kind == 0:
        return text[: chance.randrange(len(text) + 1)]
    if kind == 1:
        place = chance.randrange(len(text) + 1)
        return text[:place] + chance.choice(others) + text[place:]
    if kind == 2:
        return chance.choice(others)
    if kind == 3:
        return text * chance.randrange(2, 5)
    if kind == 4:
        return "".join(chance.choice(text or "x") for _ in text[:300])
    if kind == 5:
        return "".join(
            chr(chance.randrange(0x300)) if chance.random() < 0.1 else each for each in text[:3000]
        )
    return "\n".join(chance.sample(lines := text.splitlines(), len(lines)))


def broken(
    chance: random.Random, readings: Readings, others: Sequence[str], values: Sequence[Any]
) -> Readings:
    """Some files, commands and answers of a node are replaced, cut, doubled, shuffled or taken away."""
    share = chance.choice((0.02, 0.2, 0.8))
    files = {
        path: broken_text(chance, text, others) if chance.random() < share else text
        for path, text in readings.files.items()
        if chance.random() > share / 4
    }
    commands = tuple(
        CommandReading(
            each.argv,
            chance.choice((0, 1, None, 127)),
            broken_text(chance, each.stdout, others),
            chance.choice(others),
        )
        if chance.random() < share
        else each
        for each in readings.commands
        if chance.random() > share / 4
    )
    syscalls = {
        key: chance.choice(values) if chance.random() < share else nested(chance, value, values)
        for key, value in readings.syscalls.items()
        if chance.random() > share / 4
    }
    return Readings(files, commands, syscalls)


def nested(chance: random.Random, value: Any, values: Sequence[Any]) -> Any:
    """The same shape with some leaves replaced."""
    if isinstance(value, dict):
        return {key: nested(chance, each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [nested(chance, each, values) for each in value]
    return chance.choice(values) if chance.random() < 0.1 else value


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32),
    first=st.sampled_from(sorted(BASES)),
    second=st.sampled_from(sorted(BASES)),
    texts=st.lists(TEXTS, min_size=1, max_size=5),
    values=st.lists(JSON, min_size=1, max_size=5),
)
def test_broken_answers(seed: int, first: str, second: str, texts: list[str], values: list[Any]) -> None:
    chance = random.Random(seed)
    nodes = {
        "a": broken(chance, BASES[first], texts, values),
        "b": broken(chance, BASES[second], texts, values),
    }
    complete(judge(nodes, ASKED))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(key=st.sampled_from(KEYS), value=JSON)
@example(key="clock_offset_s", value=10**400)
@example(key="cuda_driver", value=float("inf"))
@example(key="files_again", value={f"{COUNTERS}/symbol_error": [7], "/proc/uptime": "9" * 400, "": {}})
@example(key="files_again", value={f"{COUNTERS}/symbol_error": "9" * 18, "/proc/uptime": "1e9 x"})
def test_any_answer_to_one_call(key: str, value: Any) -> None:
    nodes = {f"n{number}": healthy(number) for number in (1, 2)}
    nodes["n1"] = replace(nodes["n1"], syscalls={**nodes["n1"].syscalls, key: value})
    complete(judge(nodes, ASKED))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.integers(0, 10**6), text=TEXTS)
def test_any_text_in_one_file_and_one_command(place: int, text: str) -> None:
    node = BASES["n1"]
    paths = sorted(node.files)
    path, command = paths[place % len(paths)], node.commands[place % len(node.commands)]
    commands = tuple(replace(each, stdout=text) if each is command else each for each in node.commands)
    changed = replace(node, files={**node.files, path: text}, commands=commands)
    complete(judge({"n1": changed, "n2": BASES["n2"]}, ASKED))


def test_a_huge_answer_is_judged_in_seconds_and_shortened() -> None:
    node = BASES["n1"]
    text = "x" * 2_000_000 + "\n" + "GPU 0: [Unknown Error], " * 50_000
    huge = Readings(
        dict.fromkeys(node.files, text[:100_000]),
        tuple(replace(each, stdout=text) for each in node.commands),
        {key: [text] for key in node.syscalls},
    )
    report = judge({"n1": huge}, ASKED)
    complete(report)
    assert all(len(each.value) <= 400 for finding in report.findings for each in finding.evidence)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_nodes_that_answered_nothing_are_not_judged(count: int) -> None:
    report = judge({f"n{number}": Readings() for number in range(count)}, ASKED)
    told = {(finding.id, finding.verdict) for finding in report.findings if finding.verdict != Verdict.SKIP}
    assert not told
