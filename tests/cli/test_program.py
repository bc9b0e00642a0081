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
        ("python -u train.py --lr 1", {"script": "train.py"}, ("--lr", "1")),
        ("python -u -m pkg.train", {"module": "pkg.train"}, ()),
        ("python -O train.py", {"command": ["python"]}, ("-O", "train.py")),
        ("python -u", {"command": ["python"]}, ("-u",)),
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


@pytest.mark.parametrize(
    ("main", "says"),
    [
        ("from trainer import fit\nfit()\n", "imports trainer.py, which imports lightning"),
        ("import torch\nimport lib.engine\n", "imports lib/engine.py, which uses torch.distributed"),
        ("from lib import engine\n", "imports lib/engine.py, which uses torch.distributed"),
        ("from lib import engine\nimport trainer\n", "imports trainer.py, which imports lightning"),
        ("import lib\n", "imports lib/__init__.py, which imports mpi4py"),
        ("import torch.distributed\nimport trainer\n", "uses torch.distributed"),
        ("import os, trainer\nos.environ['RANK']\n", "imports trainer.py, which imports lightning"),
        ("import torch, plain\n", "imports torch"),
        ("from .trainer import fit\n", None),
        ("import nothing_of_mine\n", None),
    ],
)
def test_a_script_s_own_modules_are_asked_where_it_tells_little(
    tmp_path: Path, main: str, says: str | None
) -> None:
    app = tmp_path / "app"
    (app / "lib").mkdir(parents=True)
    (app / "trainer.py").write_text("import lightning\n")
    (app / "plain.py").write_text("import torch\n")
    (app / "lib/__init__.py").write_text("import mpi4py\n" if main == "import lib\n" else "")
    (app / "lib/engine.py").write_text("import torch.distributed as dist\ndist.init_process_group()\n")
    (app / "train.py").write_text(main)
    found = look_into(program_of(["app/train.py"]), tmp_path).guess
    assert (found and found.why) == says


def test_a_module_s_relative_imports_are_from_its_package(tmp_path: Path) -> None:
    (tmp_path / "pkg/app").mkdir(parents=True)
    (tmp_path / "pkg/engine.py").write_text("import horovod.torch\n")
    (tmp_path / "pkg/app/parts.py").write_text("import deepspeed\n")
    for module, text, says in (
        ("pkg.app.near", "from . import parts\n", "imports parts.py, which imports deepspeed"),
        ("pkg.app.up", "from ..engine import run\n", "imports engine.py, which imports horovod"),
        ("pkg.app.full", "import pkg.engine\n", "imports pkg/engine.py, which imports horovod"),
    ):
        (tmp_path / f"{module.replace('.', '/')}.py").write_text(text)
        assert look_into(program_of(["-m", module]), tmp_path).says == f"-m {module} {says}"


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
