"""Logs come from nodes that do not share the login side's disk, whatever breaks meanwhile, and are proven."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from whole.site import LIMIT, Site
from whole.test_full_disk import mount

pytestmark = pytest.mark.timeout(600)

MIB = 12
"""What each of the eight ranks writes: enough that bringing it takes some seconds."""
RANK = """
import os, sys
copy = open(sys.argv[1] + "/rank-%05d.copy" % int(os.environ["RANK"]), "wb")
for _ in range(int(sys.argv[2]) * 16):
    piece = os.urandom(1 << 16)
    sys.stdout.buffer.write(piece)
    copy.write(piece)
"""


def launch(site: Site, mib: int = MIB) -> str:
    """Runs the ranks to their end with nobody connected; the run's id."""
    site.copies.mkdir(parents=True, exist_ok=True)
    site.copies.chmod(0o777)
    program = site.copies / "rank.py"
    program.write_text(RANK)
    site.save("writes", program, str(site.copies), str(mib))
    run = json.loads(site.shell("run", "writes", "--detach", "--json").stdout)["id"]
    site.shell.wait_for("all ranks have ended", lambda: not any(site.processes().values()), LIMIT)
    return str(run)


def logs(site: Site, run: str) -> Path:
    return Path(site.shell.environment["RANKDECK_HOME"], "runs", run, "logs")


def held(site: Site, run: str) -> int:
    """Bytes of the ranks' output that the record holds."""
    return sum(path.stat().st_size for path in logs(site, run).glob("rank-*.out"))


def assert_collected(site: Site, run: str) -> None:
    shown = site.show(run)
    assert shown["complete"]
    assert [(node["state"], node["verified"]) for node in shown["collection"]] == [("collected", True)] * 4
    for rank in range(8):
        there, here = (
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (site.copies / f"rank-{rank:05d}.copy", logs(site, run) / f"rank-{rank:05d}.out")
        )
        assert there == here, f"rank {rank}"


def listed(site: Site) -> Any:
    (run,) = site.shell.json("runs")
    return run


def test_a_cut_midway_is_told_and_the_rest_comes_later(site: Site) -> None:
    run = launch(site)
    process = site.shell.start("collect", run)
    site.shell.wait_for("something has come", lambda: held(site, run) > 2 << 20, LIMIT)
    site.cluster.fault("cut", "n2")
    try:
        out, err = process.communicate(timeout=LIMIT)
    finally:
        site.cluster.heal("cut", "n2")
    assert process.returncode == 3, err
    assert " missing on n2 (" in out
    assert listed(site)["logs"] == "missing"
    assert " missing on n2 (" in listed(site)["lacks"]
    done = site.follow("collect", run)
    assert done.returncode == 0, done.stderr
    assert "verified by SHA-256" in done.stdout
    assert_collected(site, run)
    assert (listed(site)["logs"], listed(site)["lacks"]) == ("collected", None)


def test_a_killed_client_goes_on_at_the_byte(site: Site) -> None:
    run = launch(site)
    process = site.shell.start("collect", run)
    site.shell.wait_for("something has come", lambda: held(site, run) > 2 << 20, LIMIT)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    had = {path: path.read_bytes() for path in logs(site, run).glob("rank-*.out")}
    assert sum(map(len, had.values())) > 0
    assert site.follow("collect", run).returncode == 0
    assert_collected(site, run)
    assert all(path.read_bytes().startswith(data) for path, data in had.items())


def test_a_full_disk_is_told_and_touches_nothing_on_the_nodes(site: Site) -> None:
    home = Path(site.shell.environment["RANKDECK_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", "size=8m", "none", str(home))
    try:
        run = launch(site, 4)
        done = site.follow("collect", run)
        assert done.returncode == 1, done.stderr
        assert "can't be written: No space left on device" in done.stderr
        assert "the nodes keep it all" in done.stderr
        mount("-o", "remount,size=400m", str(home))
        assert site.follow("collect", run).returncode == 0
        assert_collected(site, run)
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True, timeout=30)


def test_the_nodes_copies_go_only_where_all_is_verified(site: Site) -> None:
    run = launch(site, 1)
    folders = sorted(site_folders(site, run))
    assert folders == ["n1", "n2", "n3", "n4"]
    site.cluster.fault("cut", "n3")
    try:
        done = site.follow("collect", run, "--remove-from-nodes")
        assert done.returncode == 3, done.stderr
    finally:
        site.cluster.heal("cut", "n3")
    assert site_folders(site, run) == ["n3"]
    assert site.follow("collect", run, "--remove-from-nodes").returncode == 0
    assert site_folders(site, run) == []
    assert_collected(site, run)


def test_a_node_that_is_not_reached_is_named_when_a_run_goes(site: Site) -> None:
    run = launch(site, 1)
    assert site.follow("collect", run).returncode == 0
    site.cluster.fault("cut", "n4")
    try:
        done = site.follow("runs", "--prune", run, "--yes")
    finally:
        site.cluster.heal("cut", "n4")
    assert done.returncode == 0, done.stderr
    assert f"run {run}, n4: " in done.stderr
    assert "stays there" in done.stderr
    assert site_folders(site, run) == ["n4"]
    assert site.shell.json("runs") == []


def site_folders(site: Site, run: str) -> list[str]:
    """The nodes that have a folder of the run."""
    return [
        node.name
        for node in site.cluster.nodes
        if node.run(
            ["sh", "-c", f"ls -d /var/tmp/rankdeck-*/runs/{run}/* 2>/dev/null"], check=False
        ).stdout.strip()
    ]
