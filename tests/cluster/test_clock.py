"""A node's wall clock jumps under processes that run."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from cluster import Cluster, ClusterError, NodeOptions

pytestmark = pytest.mark.cluster

ASK = """import time
while input():
    began = time.monotonic()
    time.sleep(0.01)
    print(time.time(), time.monotonic() - began, flush=True)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler (cc)")
def test_the_wall_clock_jumps_and_the_monotonic_one_does_not(needs_cluster: None) -> None:
    with Cluster(1, {"n1": NodeOptions(clock=True)}) as cluster, subprocess.Popen(
        ["ssh", "-F", str(cluster.ssh_config), "n1", f"python3 -c '{ASK}'"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as session:  # fmt: skip

        def off() -> float:
            assert session.stdin is not None
            assert session.stdout is not None
            print("now", file=session.stdin, flush=True)
            wall, slept = map(float, session.stdout.readline().split())
            assert 0.01 <= slept < 30
            return wall - time.time()

        assert abs(off()) < 30
        cluster.fault("jump", "n1", seconds=-4000)
        assert abs(off() + 4000) < 30
        cluster.heal("jump", "n1")
        assert abs(off()) < 30
        session.stdin.close()


def test_a_node_without_the_option_says_so(cluster4: Cluster) -> None:
    with pytest.raises(ClusterError, match="make it with the option clock"):
        cluster4.fault("jump", "n1")
