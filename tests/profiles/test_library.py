"""The saved profiles and pools: where they are looked for, and what is said when they are not there."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from rankdeck_profiles import paths
from rankdeck_profiles.errors import PoolError, ProfileError
from rankdeck_profiles.library import POOLS, PROFILES, Library

GOOD = 'framework = "command"\ncommand = ["{}"]\n'


@pytest.fixture
def library(tmp_path) -> Library:
    start = tmp_path / "repo" / "deep" / "er"
    start.mkdir(parents=True)
    return Library(tmp_path / "config", start)


def save(root: Path, kind: str, name: str, text: str) -> Path:
    path = root / kind / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_nothing_saved_is_an_empty_library(library):
    assert library.profiles() == ()
    assert library.pools() == ()
    assert library.broken() == ()


def test_the_nearer_folder_wins(library, tmp_path):
    save(tmp_path / "config", PROFILES, "a", GOOD.format("far"))
    save(tmp_path / "config", PROFILES, "b", GOOD.format("far"))
    save(tmp_path / "repo" / ".rankdeck", PROFILES, "a", GOOD.format("near"))
    assert [(p.name, p.command) for p in library.profiles()] == [("a", ("near",)), ("b", ("far",))]
    assert library.profile("a").command == ("near",)


def test_saved_profiles_run_where_the_command_was_started(library, tmp_path):
    save(tmp_path / "config", PROFILES, "a", GOOD.format("x"))
    assert library.profile("a").workdir == str(library.start_dir)
    assert library.profiles()[0].workdir == str(library.start_dir)


def test_a_path_is_a_profile_too_and_runs_in_its_own_folder(library, tmp_path):
    (library.start_dir / "here.toml").write_text(GOOD.format("x"))
    assert library.profile("here.toml").workdir == str(library.start_dir)
    (tmp_path / "there.toml").write_text(GOOD.format("x"))
    assert library.profile(str(tmp_path / "there.toml")).workdir == str(tmp_path)
    assert library.profile("../../../there.toml", ["nodes=1"]).nodes == 1


def test_a_broken_file_is_listed_with_its_error_and_hides_nothing_else(library, tmp_path):
    save(tmp_path / "config", PROFILES, "bad", "framework = \n")
    save(tmp_path / "config", PROFILES, "good", GOOD.format("x"))
    save(tmp_path / "config", POOLS, "none", 'backend = "ssh"\n')
    assert [profile.name for profile in library.profiles()] == ["good"]
    assert library.pools() == ()
    assert [(b.kind, b.name) for b in library.broken()] == [(PROFILES, "bad"), (POOLS, "none")]
    assert "bad.toml:1: not TOML" in library.broken()[0].error.message
    with pytest.raises(ProfileError, match=r"bad\.toml:1"):
        library.profile("bad")


def test_an_unreadable_name_in_the_folder_does_not_matter(library, tmp_path):
    folder = save(tmp_path / "config", PROFILES, "good", GOOD.format("x")).parent
    (folder / ".good.toml.swp").write_text("junk")
    (folder / ".hidden.toml").write_text("junk")
    (folder / "notes.txt").write_text("junk")
    assert list(library.paths(PROFILES)) == ["good"]
    assert library.broken() == ()


def test_an_unknown_name_lists_nearest_known_and_folders(library, tmp_path):
    save(tmp_path / "config", PROFILES, "resnet", GOOD.format("x"))
    save(tmp_path / "repo" / ".rankdeck", PROFILES, "bert", GOOD.format("x"))
    with pytest.raises(ProfileError) as caught:
        library.profile("resnt")
    assert caught.value.message == "no profile named 'resnt'; did you mean 'resnet'?"
    assert "known: bert, resnet" in caught.value.hint
    assert str(tmp_path / "repo" / ".rankdeck" / "profiles") in caught.value.hint
    assert str(tmp_path / "config" / "profiles") in caught.value.hint
    with pytest.raises(PoolError, match="no pool named 'h100'"):
        library.pool("h100")


def test_without_a_pool_a_profile_runs_on_this_machine(library, tmp_path):
    save(tmp_path / "config", PROFILES, "a", GOOD.format("x"))
    pool = library.pool_for(library.profile("a"))
    assert (pool.name, [node.host for node in pool.nodes]) == ("local", ["127.0.0.1"])
    assert library.pool("local") == pool


def test_a_saved_pool_named_local_comes_first(library, tmp_path):
    save(tmp_path / "config", POOLS, "local", 'backend = "local"\nnodes = ["127.0.0.[1-2]"]\n')
    assert len(library.pool("local").nodes) == 2


def test_the_profiles_pool_is_used_unless_another_is_named(library, tmp_path):
    save(tmp_path / "config", POOLS, "a", 'backend = "ssh"\nnodes = ["n1"]\n')
    save(tmp_path / "config", POOLS, "b", 'backend = "ssh"\nnodes = ["n2"]\n')
    save(tmp_path / "config", PROFILES, "p", GOOD.format("x") + 'pool = "a"\n')
    profile = library.profile("p")
    assert library.pool_for(profile).name == "a"
    assert library.pool_for(profile, "b").name == "b"
    with pytest.raises(PoolError, match="profile 'p', pool = \"c\": no pool named 'c'"):
        library.pool_for(library.profile("p", ["pool=c"]))


def test_the_name_of_the_other_kind_is_recognised(library, tmp_path):
    save(tmp_path / "config", POOLS, "lab", 'backend = "ssh"\nnodes = ["n1"]\n')
    for name in ("lab", "local"):
        with pytest.raises(ProfileError, match=f"no profile named '{name}'") as caught:
            library.profile(name)
        assert f"a pool has that name: --pool {name}" in caught.value.hint
    with pytest.raises(PoolError) as refused:
        library.pool("lib")
    assert "known: lab, local;" in refused.value.hint


def test_copy_keeps_every_byte_and_never_overwrites(library, tmp_path):
    source = save(tmp_path / "config", PROFILES, "a", "# mine\r\n" + GOOD.format("x"))
    assert library.copy(PROFILES, "a", "b").read_bytes() == source.read_bytes()
    with pytest.raises(ProfileError, match="'b' is there already"):
        library.copy(PROFILES, "a", "b")
    for name in ("", "../x", "a/b", ".x", "x.toml", "a b"):
        with pytest.raises(ProfileError, match="is no name"):
            library.copy(PROFILES, "a", name)


def test_remove(library, tmp_path):
    path = save(tmp_path / "config", POOLS, "a", 'backend = "local"\n')
    assert library.remove(POOLS, "a") == path
    assert not path.exists()
    with pytest.raises(PoolError, match="no pool named 'a'"):
        library.remove(POOLS, "a")


def test_the_users_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKDECK_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("RANKDECK_CONFIG", "~/conf")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.data_dir() == str(tmp_path / "data")
    assert paths.config_dir() == str(tmp_path / "conf")


@pytest.mark.parametrize(
    "variables", [{}, {"XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"}, {"XDG_DATA_HOME": ""}]
)
def test_the_platforms_folders_are_platformdirs(monkeypatch, tmp_path, variables):
    for name in ("RANKDECK_HOME", "RANKDECK_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert paths.data_dir() == platformdirs.user_data_dir("rankdeck", appauthor=False)
    assert paths.config_dir() == platformdirs.user_config_dir("rankdeck", appauthor=False)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        (
            "rankdeck_profiles.paths",
            "msgspec tomli tomlkit platformdirs ClusterShell typing dataclasses pathlib",
        ),
        ("rankdeck_profiles.plan", "msgspec tomli tomlkit platformdirs ClusterShell asyncio"),
        ("rankdeck_profiles.library", "msgspec tomli tomlkit platformdirs ClusterShell asyncio"),
    ],
)
def test_light_modules_stay_light(module, heavy):
    code = f"import sys, {module}; print(*(n for n in {heavy.split()!r} if n in sys.modules))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
