from __future__ import annotations

import resource

import pytest

from rankdeck_runs import mirror
from rankdeck_runs.mirror import GapError, Mirror


@pytest.fixture
def copies(tmp_path):
    made = Mirror(tmp_path)
    yield made
    made.close()


def test_bytes_land_at_their_offset_and_doubles_change_nothing(copies, tmp_path):
    copies.write("a", 0, b"hello ")
    copies.write("a", 6, b"world")
    copies.write("a", 0, b"hello ")
    copies.write("a", 3, b"lo world!")
    assert (tmp_path / "a").read_bytes() == b"hello world!"
    assert copies.size("a") == 12


def test_a_gap_is_refused(copies, tmp_path):
    copies.write("a", 0, b"abc")
    with pytest.raises(GapError, match="bytes from 3 to 5"):
        copies.write("a", 5, b"f")
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_two_writers_of_one_file_agree(tmp_path):
    one, two = Mirror(tmp_path), Mirror(tmp_path)
    data = bytes(range(256)) * 40
    for start in range(0, len(data), 1000):
        one.write("a", start, data[start : start + 1000])
        if start % 3000 == 0:
            two.write("a", two.size("a"), data[two.size("a") : start + 500])
    two.write("a", two.size("a"), data[two.size("a") :])
    assert (tmp_path / "a").read_bytes() == data
    one.close()
    two.close()


def test_files_go_on_beyond_the_open_ones(copies, tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "OPEN_FILES", 4)
    for turn in range(3):
        for number in range(10):
            copies.write(f"log{number}", turn, b"x")
    assert all((tmp_path / f"log{number}").read_bytes() == b"xxx" for number in range(10))


def test_after_a_full_disk_only_what_is_missing_is_asked_for(copies, tmp_path):
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            copies.write("a", 0, b"y" * 150)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert copies.size("a") == 100
    copies.write("a", copies.size("a"), b"y" * 50)
    assert (tmp_path / "a").read_bytes() == b"y" * 150
