"""The pieces of logs that one event of a node holds."""

from __future__ import annotations

import pytest

from rankdeck_runs.mirror import GapError
from rankdeck_runs.node_session import log_parts


def test_each_file_gets_its_own_bytes() -> None:
    parts = log_parts([["0.out", 10, 3], ["1.err", 0, 0], ["launcher-0.out", 7, 2]], b"abc\0\xff")
    assert [(name, offset, bytes(data)) for name, offset, data in parts] == [
        ("0.out", 10, b"abc"),
        ("1.err", 0, b""),
        ("launcher-0.out", 7, b"\0\xff"),
    ]


@pytest.mark.parametrize(
    "told",
    [
        [["0.out", 0, 2]],
        [["0.out", 0, 4]],
        None,
        [["0.out", 0]],
        [["0.out", -1, 3]],
        [[0, 0, 3]],
        [["0.out", 0, "3"]],
    ],
)
def test_what_does_not_fit_its_bytes_is_refused(told: object) -> None:
    with pytest.raises(GapError):
        log_parts(told, b"abc")
