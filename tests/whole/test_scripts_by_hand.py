"""The printed scripts on four nodes, with ranks that speak over sockets; test_training has the real thing."""

from __future__ import annotations

import pytest

from whole.by_hand import run_scripts
from whole.site import Site

pytestmark = pytest.mark.timeout(600)

STEPS = ["--steps", "12", "--bytes"]


def test_eight_ranks_by_hand_do_what_a_launch_does(site: Site) -> None:
    site.save_ring("ring", *STEPS)
    done = site.follow("run", "ring")
    assert done.returncode == 0, done.stderr
    launched = [site.copy(rank) for rank in range(8)]
    for rank in range(8):
        (site.copies / f"rank-{rank:05d}.copy").unlink()
    results = run_scripts(site, "ring")
    assert {node: result.returncode for node, result in results.items()} == dict.fromkeys(
        ["n1", "n2", "n3", "n4"], 0
    ), results
    assert [site.copy(rank) for rank in range(8)] == launched
    for number, result in enumerate(results.values()):
        for rank in (2 * number, 2 * number + 1):
            assert f"rank {rank} of 8 on n{number + 1}, master 10.77.".encode() in result.stderr
    site.assert_nothing_runs()


def test_a_failing_rank_by_hand_is_the_script_s_exit_status(site: Site) -> None:
    site.save_ring("ring", *STEPS, "--fail-rank", "3", "--fail-at", "4", "--exit-code", "9")
    results = run_scripts(site, "ring")
    assert results["n2"].returncode == 9, results
    assert b"rank 3 ended with status 9" in results["n2"].stderr
    # The others lose their peers, and end by themselves.
    assert all(result.returncode != 0 for result in results.values()), results
    site.assert_nothing_runs()
