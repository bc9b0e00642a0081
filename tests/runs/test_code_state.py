from __future__ import annotations

import os
import subprocess

import pytest

from rankdeck_runs import code_state
from rankdeck_runs.code_state import capture_code
from rankdeck_runs.record import Record


@pytest.fixture
def record(tmp_path):
    folder = tmp_path / "record"
    folder.mkdir()
    return Record(folder)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "work"
    folder.mkdir()

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=60
        )
        return done.stdout

    git("init", "-q")
    (folder / "train.py").write_text("lr = 1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    return folder, git


def kept(record):
    folder = record.path / "code"
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else None


def test_the_commit_and_the_changes_are_kept(record, repository):
    folder, git = repository
    (folder / "train.py").write_text("lr = 2\n")
    (folder / "new.py").touch()
    (folder / "sub").mkdir()
    capture_code(record, str(folder / "sub"))
    code = kept(record)
    assert code["commit"] == git("rev-parse", "HEAD").decode()
    assert "-lr = 1\n+lr = 2\n" in code["diff.patch"]
    assert "new.py" in code["status"]
    assert (record.path / "code").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (record.path / "code").iterdir()} == {0o600}


def test_a_clean_tree_has_a_commit_only(record, repository):
    capture_code(record, str(repository[0]))
    assert set(kept(record)) == {"commit"}


@pytest.mark.parametrize("workdir", ["/nonexistent", "/proc", "~nobody-of-that-name/x", "\0"])
def test_no_repository_no_folder(record, workdir):
    capture_code(record, workdir)
    assert kept(record) is None


def test_no_git_no_folder(record, repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    capture_code(record, str(repository[0]))
    assert kept(record) is None


def test_no_time_left_no_folder(record, repository, monkeypatch):
    monkeypatch.setattr(code_state, "GIT_SECONDS", 0.0)
    capture_code(record, str(repository[0]))
    assert kept(record) is None


def test_a_huge_diff_is_cut(record, repository, monkeypatch):
    monkeypatch.setattr(code_state, "LARGEST", 1000)
    (repository[0] / "train.py").write_text("x = 1\n" * 5000)
    capture_code(record, str(repository[0]))
    assert len(kept(record)["diff.patch"]) == 1000
