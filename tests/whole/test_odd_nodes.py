"""Nodes with other login shells, noisy or slow start-up files: a job runs on all of them together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cluster import Cluster, NodeOptions
from whole.by_hand import run_scripts
from whole.site import Site

pytestmark = pytest.mark.timeout(600)

OPTIONS = {
    "n1": NodeOptions(noise=True, shell="/usr/bin/tcsh"),
    "n2": NodeOptions(noise=True),
    "n3": NodeOptions(noise=True, shell="/usr/bin/fish", slow=1.0),
    "n4": NodeOptions(shell="/bin/sh"),
}


@pytest.fixture(scope="module", autouse=True)
def _shells() -> None:
    absent = [shell for shell in ("fish", "tcsh") if shutil.which(shell) is None]
    if absent:
        pytest.skip(f"needs login shells that are not installed: {' '.join(absent)}")


def test_a_job_over_odd_nodes(needs_cluster: None, tmp_path: Path) -> None:
    with Cluster(4, OPTIONS) as cluster:
        site = Site.make(tmp_path, cluster)
        awkward = ["a b", "it's", '"quoted"', "$$HOME", "*", "!!", "\\n", "%s", "héé", "{a,b}"]
        site.save_ring("ring", "--steps", "10", "--bytes", env={"ODD": ODD})
        for node in cluster.nodes:
            cluster.run(node.name, ["sh", "-c", "cat >/root/words.py"], stdin=WORDS.encode())
        try:
            done = site.follow("run", "ring")
            assert done.returncode == 0, done.stderr
            site.assert_every_byte(8)
            site.save("words", "~/words.py", *awkward, env={"ODD": ODD})
            done = site.follow("run", "words")
            assert done.returncode == 0, done.stderr
            wanted = repr([*awkward[:3], "$HOME", *awkward[4:]]).encode() + b"\n" + repr(ODD).encode() + b"\n"
            for rank in range(8):
                assert site.raw(rank).decode() == wanted.decode()
                assert site.raw(rank, "err") == b""
            results = run_scripts(site, "words")
            for node, result in results.items():
                assert result.returncode == 0, (node, result)
                assert result.stdout.count(wanted) == 2, (node, result)
            site.assert_nothing_runs()
        finally:
            site.shell.end()


ODD = "!`id` $(id) 'x' \"y\" \\ $PATH ~"
WORDS = """\
import os, sys
sys.stdout.reconfigure(encoding="utf-8")
os.write(1, (repr(sys.argv[1:]) + "\\n" + repr(os.environ["ODD"]) + "\\n").encode())
"""
