"""What people name to be run, as a profile's keys; and the look into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankdeck_tui.program import look_into, program_of


@pytest.mark.parametrize(
    ("words", "keys", "args"),
    [
        ("train.py --lr 1", {"script": "train.py"}, ("--lr", "1")),
        ("python3 train.py", {"script": "train.py"}, ()),
        ("python train", {"script": "train"}, ()),
        ("~/venv/bin/python train.py", {"script": "train.py", "python": "~/venv/bin/python"}, ()),
        ("-m pkg.train 7", {"module": "pkg.train"}, ("7",)),
        ("python -m pkg.train", {"module": "pkg.train"}, ()),
        ("./solver -n 3", {"command": ["./solver"]}, ("-n", "3")),
        ("python -u train.py", {"command": ["python"]}, ("-u", "train.py")),
        ("python3", {"command": ["python3"]}, ()),
        ("-m", {"command": ["-m"]}, ()),
    ],
)
def test_a_command_line_as_keys(words: str, keys: dict[str, object], args: tuple[str, ...]) -> None:
    program = program_of(words.split())
    assert (dict(program.keys), program.args) == (keys, args)


def test_modules_are_found_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg/app").mkdir(parents=True)
    (tmp_path / "pkg/train.py").write_text("import deepspeed\n")
    (tmp_path / "pkg/app/__main__.py").write_text("import lightning\n")
    assert look_into(program_of(["-m", "pkg.train"]), tmp_path).says == "-m pkg.train imports deepspeed"
    assert look_into(program_of(["-m", "pkg.app"]), tmp_path).says == "-m pkg.app imports lightning"


def test_what_is_not_here_may_be_on_the_nodes(tmp_path: Path) -> None:
    seen = look_into(program_of(["train.py"]), tmp_path)
    assert (seen.guess, seen.found) == (None, False)
    assert "fine if it is there on the nodes" in seen.says
    assert look_into(program_of(["hostname"]), tmp_path).says == ""


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    assert not look_into(program_of(["train.py"]), tmp_path).found
    (tmp_path / "odd.py").write_bytes(b"\xff\xfe\0import lightning\n")
    assert look_into(program_of(["odd.py"]), tmp_path).found
    assert not look_into(program_of(["a\0b.py"]), tmp_path).found
