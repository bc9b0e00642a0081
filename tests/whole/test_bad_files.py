"""Profiles and pools that are wrong, and some that only look so, on the way to a real pool."""

from __future__ import annotations

import pytest

from whole.site import Site

pytestmark = pytest.mark.timeout(600)


def refused(site: Site, *arguments: str, status: int = 2) -> str:
    done = site.shell(*arguments, status=status)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("rankdeck: ") == 1, done.stderr
    assert site.shell.json("runs") == []
    assert not any(site.processes().values())
    return done.stderr


def test_an_unknown_framework_is_told_with_the_allowed_ones(site: Site) -> None:
    path = site.save_ring("ring", framework="torchrum")
    for command in ("run", "plan"):
        told = refused(site, command, "ring")
        for part in (f"{path}:1: framework", "torchrum", "torchrun", "pytorch", "command"):
            assert part in told, told


def test_an_unknown_key_is_told_with_the_nearest_one(site: Site) -> None:
    path = site.save_ring("ring", proc_per_node=2)
    told = refused(site, "run", "ring")
    for part in (f"{path}:7: ", "proc_per_node", "procs_per_node"):
        assert part in told, told


def test_an_unknown_pool_is_told_with_those_there_are(site: Site) -> None:
    site.save_ring("ring", pool="labb")
    told = refused(site, "run", "ring")
    assert "labb" in told
    assert "lab" in told.replace("labb", "")


def test_an_unknown_profile_is_told_with_those_there_are(site: Site) -> None:
    site.save_ring("ring")
    told = refused(site, "run", "rink")
    assert "rink" in told
    assert "ring" in told


@pytest.mark.parametrize("nodes", ["nodes = []", ""])
def test_a_pool_without_nodes(site: Site, nodes: str) -> None:
    path = site.shell.write("config/pools/none.toml", f'backend = "ssh"\n{nodes}\n')
    site.save_ring("ring", pool="none")
    told = refused(site, "run", "ring")
    assert str(path) in told
    assert "nodes" in told


def test_more_ranks_than_the_pool_has_nodes_for(site: Site) -> None:
    site.save_ring("ring", nodes=5)
    told = refused(site, "run", "ring")
    assert "5" in told
    assert "4" in told


@pytest.mark.parametrize("oddity", ["crlf", "bom", "tabs", "all"])
def test_a_file_saved_by_an_odd_editor_works(site: Site, oddity: str) -> None:
    path = site.save_ring("ring", "--steps", "3")
    pool = site.shell.folder / "config/pools/lab.toml"
    for file in (path, pool):
        data = file.read_bytes()
        if oddity in {"tabs", "all"}:
            data = b"\t" + data.replace(b" = ", b"\t=\t").replace(b"\n", b"\t\n\t")
        if oddity in {"crlf", "all"}:
            data = data.replace(b"\n", b"\r\n")
        if oddity in {"bom", "all"}:
            data = b"\xef\xbb\xbf" + data
        file.write_bytes(data)
    done = site.follow("run", "ring")
    assert done.returncode == 0, done.stderr
    site.assert_every_byte(8)
