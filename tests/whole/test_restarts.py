"""torchrun over the cluster's nodes starts all ranks again after one has failed."""

from __future__ import annotations

import importlib.util

import pytest

from whole.site import TRAINING_LIMIT, Site

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, once = dist.get_rank(), sys.argv[1]
value = torch.tensor([float(rank + 1)])
dist.all_reduce(value)
again = os.path.exists(once)
print("attempt", 2 if again else 1, "rank", rank, "sum", value.item(), flush=True)
dist.barrier()
if not again:
    if rank == 3:
        open(once, "w").close()
        sys.exit("RuntimeError: rank 3 has lost its shard")
    time.sleep(600)
dist.destroy_process_group()
"""


def test_the_second_attempt_succeeds(site: Site) -> None:
    script = site.cluster.shared / f"again-{site.shell.folder.name}.py"
    script.write_text(TRAIN)
    site.save(
        "again", script, f"{script}.failed", framework="torchrun", nodes=2, procs_per_node=2,
        options={"max_restarts": 1},
    )  # fmt: skip
    done = site.follow("run", "again", limit=TRAINING_LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "attempt 1 ended: rank 3 ended with status 1" in done.stderr
    shown = site.show()
    assert (shown["state"], shown["attempt"], shown["attempts"]) == ("succeeded", 2, 2)
    assert shown["earlier_attempts"][0]["cause"]["rank"] == 3
    by_node = {node["name"]: node["ranks"] for node in shown["nodes"]}
    for rank in shown["ranks"]:
        assert rank["rank"] in by_node[rank["node"]]
        assert (rank["state"], rank["exit_code"], rank["attempt"]) == ("succeeded", 0, 2)
    newest = site.shell("logs", "last", "--stream", "out").stdout
    first = site.shell("logs", "last", "--stream", "out", "--attempt", "1").stdout
    for number in range(4):
        assert f"attempt 2 rank {number} sum 10.0" in newest
        assert f"attempt 1 rank {number} sum 10.0" in first
    assert "attempt 1 rank" not in newest
    assert "rank 3 has lost its shard" in site.shell("logs", "last", "--rank", "3", "--attempt", "1").stdout
    assert "attempt 2 of 2" in site.shell("show", "last").stdout
    site.assert_nothing_runs()
