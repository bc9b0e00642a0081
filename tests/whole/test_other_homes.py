"""A user who is not root, and a home that login side and nodes share."""

from __future__ import annotations

import os
import re
import signal

import pytest

from cluster.files import USER
from whole.site import LIMIT, Site

pytestmark = pytest.mark.timeout(600)


def test_a_user_without_rights(site: Site) -> None:
    site.shell.write("config/pools/lab.toml", f'backend = "ssh"\nnodes = ["{USER}@n[1-4]"]\nslots = 2\n')
    site.save_ring("ring", "--steps", "10", "--bytes", workdir="~")
    site.copies.mkdir(parents=True)
    site.copies.chmod(0o777)
    done = site.follow("run", "ring")
    assert done.returncode == 0, done.stderr
    site.assert_every_byte(8)
    assert [rank["node"] for rank in site.show()["ranks"]] == [f"n{rank // 2 + 1}" for rank in range(8)]
    for node in site.cluster.nodes:
        found = node.run(["find", "/var/tmp/rankdeck-2000", "-not", "-user", USER]).stdout
        assert found == b""
        mode = node.run(["stat", "-c", "%a", "/var/tmp/rankdeck-2000"]).stdout
        assert mode == b"700\n"
    site.assert_nothing_runs()


@pytest.fixture
def shared(site: Site) -> Site:
    """Records are on a file system that the nodes have as well."""
    site.shell.environment["RANKDECK_HOME"] = str(site.cluster.shared / "records" / site.shell.folder.name)
    return site


def test_records_that_the_nodes_see_as_well(shared: Site) -> None:
    shared.save_ring("ring", "--steps", "40", "--sleep", "0.1", "--bytes")
    process = shared.shell.start("run", "ring")
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"step 5 sum", line):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = shared.follow("logs", "last", "--follow")
    assert done.returncode == 0, done.stderr
    assert shared.show()["state"] == "succeeded"
    shared.assert_every_byte(8)
    shared.assert_nothing_runs()


def test_two_follow_the_same_run(shared: Site) -> None:
    shared.save_ring("ring", "--steps", "40", "--sleep", "0.1", "--bytes")
    first = shared.shell.start("run", "ring")
    shared.shell.wait_for("the run is recorded", lambda: shared.shell.json("runs"))
    second = shared.shell.start("logs", "last", "--follow")
    for process in (first, second):
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, err
        assert len(re.findall(r"^\[\d n\d\] ring ok world=8", out, re.MULTILINE)) == 8
        assert len(re.findall(r"^\[\d n\d\] step 17 sum", out, re.MULTILINE)) == 8
    shared.assert_every_byte(8)
