"""rankdeck is killed and a link is cut while ranks run: they go on, and nothing they wrote is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from whole.site import LIMIT, Site

pytestmark = pytest.mark.timeout(600)

CUT = 35.0
"""Seconds without a link: longer than it takes to notice (30 s), shorter than TCP takes to give up."""
LASTING = ["--bytes", "--steps", "450", "--sleep", "0.15", "--limit", "300"]
"""67 s and more: ranks still run when the link is healed."""


def kill_mid_run(site: Site) -> str:
    """Starts `rankdeck run ring`, kills it with SIGKILL in the midst of the training; the run's id."""
    process = site.shell.start("run", "ring")
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"step 1\d sum", line):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (run,) = site.shell.json("runs")
    return run["id"]


def cut_for_a_while(site: Site, node: str) -> None:
    site.cluster.fault("cut", node)
    try:
        time.sleep(CUT)
    finally:
        site.cluster.heal("cut", node)


def test_killed_and_cut_and_every_byte_is_there(site: Site) -> None:
    site.save_ring("ring", *LASTING)
    run = kill_mid_run(site)
    assert any(site.processes().values())
    assert site.of_login_side() == []
    cut_for_a_while(site, "n2")
    (listed,) = site.shell.json("runs")
    assert (listed["id"], listed["complete"]) == (run, False)
    done = site.follow("logs", run, "--follow")
    assert done.returncode == 0, done.stderr
    assert site.show(run)["state"] == "succeeded"
    (listed,) = site.shell.json("runs")
    assert (listed["state"], listed["complete"]) == ("succeeded", True)
    for rank in range(8):
        assert site.copy(rank).endswith(b"ring ok world=8 steps=450\n")
    site.assert_every_byte(8)
    site.assert_nothing_runs()


def test_a_link_cut_while_following(site: Site) -> None:
    """The follower itself lives through it, says so, and prints every line."""
    site.save_ring("ring", *LASTING)
    process = site.shell.start("run", "ring")
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"step 1\d sum", line):
            break
    cut_for_a_while(site, "n3")
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert re.search(r"n3.*(lost|reach)", err), err
    assert len(re.findall(r"ring ok world=8", out)) == 8
    site.assert_every_byte(8)
    site.assert_nothing_runs()


def test_a_run_that_ended_while_nobody_looked(site: Site) -> None:
    site.save_ring("ring", "--bytes", "--steps", "60", "--sleep", "0.1")
    run = kill_mid_run(site)
    site.shell.wait_for("all ranks have ended", lambda: not any(site.processes().values()), LIMIT)
    site.assert_every_byte(8, run)
    shown = site.show(run)
    assert shown["state"] == "succeeded"
    assert [rank["exit_code"] for rank in shown["ranks"]] == [0] * 8
    assert [rank["out_bytes"] for rank in shown["ranks"]] == [len(site.copy(rank)) for rank in range(8)]


def test_a_node_out_of_reach_is_named_and_the_rest_is_shown(site: Site) -> None:
    site.save_ring("ring", "--steps", "20", "--sleep", "0.1")
    run = kill_mid_run(site)
    site.shell.wait_for("all ranks have ended", lambda: not any(site.processes().values()), LIMIT)
    site.cluster.fault("cut", "n4")
    try:
        began = time.monotonic()
        done = site.follow("logs", run)
        assert time.monotonic() - began < 60
        assert done.returncode == 3
        assert "n4" in done.stderr
        assert len(re.findall(r"^\[[0-5] n[123]\] ring ok world=8", done.stdout, re.MULTILINE)) == 6
        shown = site.follow("show", run)
        assert "n4" in shown.stderr
    finally:
        site.cluster.heal("cut", "n4")
    site.assert_every_byte(8, run)
    assert site.show(run)["state"] == "succeeded"


def test_a_reader_that_reaches_another_machine_settles_nothing(site: Site) -> None:
    """With another ssh config `n1` may be anywhere; that machine knows nothing of the run."""
    site.save_ring("ring", *LASTING, nodes=1)
    run = site.shell("run", "ring", "--detach").stdout.strip()
    config = Path(site.shell.environment["RANKDECK_SSH_CONFIG"])
    text = config.read_text()
    one, two = (re.search(rf"Host {node}\n(.*\n)*?.*HostName (\S+)", text) for node in ("n1", "n2"))
    assert one is not None
    assert two is not None
    swapped = site.shell.write(
        "swapped", text.replace(one[2], "@").replace(two[2], one[2]).replace("@", two[2])
    )
    wrong = {"RANKDECK_SSH_CONFIG": str(swapped)}
    shown = site.shell("show", run, status=None, **wrong)
    assert "this is another machine (host name n2) than the one of the run (n1)" in shown.stderr
    stopped = site.shell("stop", run, status=1, **wrong)
    assert "this is another machine (host name n2) than the one of the run (n1)" in stopped.stderr
    assert site.show(run)["state"] in ("starting", "running", "stopping")
    assert site.shell.json("stop", run)["gone"] is True
    site.assert_every_byte(2, run)
    site.assert_nothing_runs()
