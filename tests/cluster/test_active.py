"""`rankdeck check --active` over real SSH: pairs of nodes of the test cluster send to each other."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster import Cluster
from cluster.test_preflight import profile_at, rankdeck

MPIRUN = "mpirun.openmpi"


def measured(done: Any) -> list[dict[str, Any]]:
    """The pairs of a `--json` report."""
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert {each["id"] for each in document["active"]} <= {each["id"] for each in document["pool_findings"]}
    return document["active"]  # type: ignore[no-any-return]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_torch_over_gloo(cluster4: Cluster, tmp_path: Path) -> None:
    pool = ("--pool", str(cluster4.pool))
    done = rankdeck(
        cluster4, tmp_path, "check", *pool, "--active", "torch", "--yes", "--json", "--python", sys.executable
    )
    first, second = measured(done)
    assert (first["pair"], second["pair"]) == (["n1", "n2"], ["n3", "n4"])
    for each in (first, second):
        assert (each["id"], each["problem"]) == ("bw.nccl-pair", "")
        assert each["gbytes_per_s"] > 0
        assert each["transport"] == "sockets (gloo has TCP alone)"
        assert each["run"]
    told = done.stderr.splitlines()
    cost = next(number for number, line in enumerate(told) if "2 pairs of nodes, up to 16 at once" in line)
    bars = [number for number, line in enumerate(told) if line.endswith("of 2 pairs")]
    assert len(bars) == 3
    assert cost < bars[0]


@pytest.mark.skipif(
    shutil.which(MPIRUN) is None or importlib.util.find_spec("mpi4py") is None,
    reason=f"needs {MPIRUN} and mpi4py",
)
def test_mpi_between_two_nodes(cluster4: Cluster, tmp_path: Path) -> None:
    key = cluster4.shared / "key-of-the-nodes"
    key.write_bytes(cluster4.identity.read_bytes())
    key.chmod(0o600)
    ssh = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    profile = profile_at(cluster4, framework="mpi", nodes=2)
    options = f'[options]\nallow_root = true\nmpirun = "{MPIRUN}"\nssh_args = "{ssh}"\n'
    profile.write_text(profile.read_text() + options)
    asked = ("check", str(profile), "--pool", str(cluster4.pool), "--active", "mpi", "--yes")
    done = rankdeck(cluster4, tmp_path, *asked, "--json")
    (only,) = measured(done)
    assert (only["id"], only["pair"], only["problem"]) == ("bw.mpi-pair", ["n1", "n2"], "")
    assert only["gbytes_per_s"] > 0
    assert "1 pair of nodes" in done.stderr
    assert "active-mpi" in rankdeck(cluster4, tmp_path, "runs", "--all").stdout


def test_a_pair_whose_network_is_walled_off_says_so(cluster4: Cluster, tmp_path: Path) -> None:
    """n1 and n2 do not let each other's connections in; n3 and n4 are as they should be."""
    rules = (
        "add table ip wall; add chain ip wall incoming { type filter hook input priority -10; }; "
        f"add rule ip wall incoming ip saddr {cluster4.node('n1').address} tcp dport 1024-65535 "
        "tcp flags & (syn | ack) == syn reject with tcp reset"
    )
    other = rules.replace(cluster4.node("n1").address, cluster4.node("n2").address)
    cluster4.run("n2", ["nft", rules])
    cluster4.run("n1", ["nft", other])
    pool = ("--pool", str(cluster4.pool))
    try:
        done = rankdeck(
            cluster4, tmp_path, "check", *pool, "--active", "torch", "--yes", "--json",
            "--python", sys.executable,
        )  # fmt: skip
    finally:
        for node in ("n1", "n2"):
            cluster4.run(node, ["nft", "delete table ip wall"])
    walled, free = measured(done)
    assert walled["gbytes_per_s"] is None
    assert walled["problem"]
    assert free["problem"] == ""
    verdicts = {
        tuple(each["nodes"]): each
        for each in json.loads(done.stdout)["pool_findings"]
        if each["id"] == "bw.nccl-pair"
    }
    assert verdicts["n1", "n2"]["verdict"] == "fail"
    assert verdicts["n1", "n2"]["fix"] == f"see `rankdeck logs {walled['run']}`"
    assert verdicts["n3", "n4"]["verdict"] == "pass"
