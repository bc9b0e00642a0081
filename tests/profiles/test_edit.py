"""Files written: comments and order survive, a wrong change changes nothing."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdeck_profiles import edit
from rankdeck_profiles.errors import PoolError, ProfileError
from rankdeck_profiles.files import load_pool, load_profile
from rankdeck_profiles.model import OnRankFailure, Profile, StopPolicy

TEXT = """\
# the big one
script = "train.py"   # relative

framework="torchrun"
nodes = 2

[env]
# quiet
NCCL_DEBUG = "WARN" # for now
A = "1"
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(TEXT)
    return path


def test_only_what_changes_changes(path):
    profile = edit.write_profile(path, {"nodes": 4, "env.NCCL_DEBUG": "INFO"})
    assert profile.nodes == 4
    assert path.read_text() == TEXT.replace("nodes = 2", "nodes = 4").replace('"WARN"', '"INFO"')


def test_new_keys_go_where_they_belong(path):
    edit.write_profile(path, {"args": ["--x", "1"], "stop.grace": "2m", "env.B": "2"})
    profile = load_profile(path)
    assert profile.args == ("--x", "1")
    assert profile.stop.grace == 120.0
    assert profile.env == {"NCCL_DEBUG": "WARN", "A": "1", "B": "2"}
    assert "# for now" in path.read_text()


def test_none_takes_a_key_away(path):
    edit.write_profile(path, {"nodes": None, "env.A": None, "stop.grace": None, "pool": None})
    assert path.read_text() == TEXT.replace("nodes = 2\n", "").replace('A = "1"\n', "")


def test_bom_and_crlf_survive(path):
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    edit.write_profile(path, {"nodes": 4, "pool": "h100"})
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf# the big one\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n")
    assert load_profile(path).pool == "h100"


@pytest.mark.parametrize(
    "changes", [{"nodes": 0}, {"nods": 1}, {"framework": "mpirun"}, {"script.x": 1}, {"env.A.b": "x"}]
)
def test_a_change_that_would_break_the_file_is_refused_and_nothing_written(path, changes):
    with pytest.raises(ProfileError):
        edit.write_profile(path, changes)
    assert path.read_text() == TEXT
    assert os.listdir(path.parent) == ["p.toml"]


def test_mode_and_link_are_kept(path, tmp_path):
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    edit.write_profile(link, {"nodes": 3})
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert load_profile(path).nodes == 3


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ProfileError, match="No space left"):
        edit.write_profile(path, {"nodes": 4})
    assert path.read_text() == TEXT
    assert os.listdir(path.parent) == ["p.toml"]


def test_a_new_profile_and_a_new_pool(tmp_path):
    path = tmp_path / "deep" / "profiles" / "new.toml"
    edit.new_profile(path, {"framework": "pytorch", "script": "t.py", "env.A": "1"})
    assert load_profile(path).env == {"A": "1"}
    with pytest.raises(ProfileError, match="is there already"):
        edit.new_profile(path, {"framework": "pytorch", "script": "t.py"})
    pool = tmp_path / "pools" / "lab.toml"
    edit.new_pool(pool, {"backend": "ssh", "nodes": ["n[1-4]"]})
    edit.write_pool(pool, {"slots": 2})
    assert (len(load_pool(pool).nodes), load_pool(pool).slots) == (4, 2)
    with pytest.raises(PoolError, match="the pool has no nodes"):
        edit.write_pool(pool, {"nodes": []})
    with pytest.raises(PoolError, match="the pool has no nodes"):
        edit.new_pool(tmp_path / "empty.toml", {"backend": "ssh", "nodes": []})
    assert not (tmp_path / "empty.toml").exists()


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0$"), max_size=20)
names = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,10}\Z").filter(lambda name: name.isascii())


@settings(max_examples=60, deadline=None)
@given(
    args=st.lists(words, max_size=4),
    env=st.dictionaries(names, words, max_size=4),
    setup=st.lists(words, max_size=3),
    grace=st.floats(0, 1e6),
)
def test_a_profile_written_as_toml_loads_as_itself(tmp_path_factory, args, env, setup, grace):
    profile = Profile(
        name="p",
        framework="command",
        command=("run me", "-x"),
        args=tuple(args),
        workdir="/w",
        setup=tuple(setup),
        env=env,
        nodes=2,
        master_port=29501,
        stop=StopPolicy("INT", grace, OnRankFailure.KEEP),
        metrics={"loss": r'"(\d)'},
    )
    path = tmp_path_factory.mktemp("p") / "p.toml"
    path.write_text(edit.profile_toml(profile), newline="")
    assert load_profile(path) == Profile(
        **{f: getattr(profile, f) for f in profile.__slots__} | {"source": path}
    )
