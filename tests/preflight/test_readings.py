"""Readings: the recorded form and back, and lookups that never mind what is missing."""

from __future__ import annotations

import re

import pytest

from preflight.recordings import NODES, recorded
from rankdeck_profiles.readings import CommandReading, Readings

READINGS = Readings(
    files={"/a/b/c": "1\n", "/a/b/d/e": " 2 \n", "/a/bc": "3"},
    commands=(
        CommandReading(("/opt/efa/bin/fi_info", "-p", "efa"), 0, "provider: efa\n"),
        CommandReading(("ofed_info",), 127, "", "command not found"),
        CommandReading(("nvidia-smi", "-L"), None),
    ),
    syscalls={"limit": 64, "name": "n1", "yes": True, "list": ["a"], "map": {"x": "ok"}, "inf": "unlimited"},
)


@pytest.mark.parametrize("case", NODES)
def test_the_json_form_and_back(case: str) -> None:
    readings = recorded(case)
    assert Readings.from_json(readings.to_json()) == readings


def test_files() -> None:
    assert READINGS.file("/a/b/c") == "1"
    assert READINGS.file("/a/b") is None
    assert READINGS.under("/a/b") == {"c": "1", "d/e": "2"}
    assert READINGS.names_in("/a/b/") == ("c", "d")
    assert READINGS.names_in("/nowhere") == ()


def test_commands() -> None:
    found = READINGS.command("fi_info", "-p", "efa")
    assert found is not None
    assert found.stdout == "provider: efa\n"
    assert READINGS.command("fi_info") is None
    assert READINGS.command("ofed_info") is None  # 127: not installed
    hung = READINGS.command("nvidia-smi", "-L")
    assert hung is not None
    assert hung.timed_out


def test_syscalls_are_what_they_are_or_nothing() -> None:
    assert READINGS.number("limit") == 64
    assert READINGS.number("yes") is None
    assert READINGS.number("inf") is None
    assert READINGS.text("inf") == "unlimited"
    assert READINGS.flag("yes") is True
    assert READINGS.flag("limit") is None
    assert READINGS.texts("list") == ("a",)
    assert READINGS.mapping("map") == {"x": "ok"}
    assert READINGS.mapping("nothing") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"files": []}, "files: an object expected, found []"),
        ({"files": {"/a": 1}}, "files['/a']: text expected, found 1"),
        ({"commands": {}}, "commands: a list expected"),
        ({"commands": ["ls"]}, "commands[0]: an object expected, found 'ls'"),
        ({"commands": [{"argv": []}]}, "commands[0].argv: a list of words expected, found []"),
        ({"commands": [{"argv": ["ls"], "rc": "0"}]}, "commands[0].rc: a whole number or null expected"),
        ({"commands": [{"argv": ["ls"], "rc": 0, "stdout": None}]}, "commands[0].stdout: text expected"),
    ],
)
def test_a_wrong_form_is_named(data: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Readings.from_json(data)
