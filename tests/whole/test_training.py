"""Real training on four nodes: PyTorch DDP over gloo, started in both ways and from the printed scripts."""

from __future__ import annotations

import re

import pytest

from whole.by_hand import run_scripts
from whole.site import DDP, TRAINING_LIMIT, Site

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

OK = re.compile(
    rb"rankdeck-demo ok world=(\d+) first_loss=([0-9.]+) last_loss=([0-9.]+) checksum=([0-9a-f]{16})\n\Z"
)
QUICK = ["--steps", "6", "--steps-per-epoch", "3", "--step-sleep", "0"]


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", reason="needs torch (pip install 'rankdeck[torch]')")


def last_line(output: bytes) -> tuple[bytes, ...]:
    """World size, first loss, last loss and checksum, as a rank told them at its end."""
    found = OK.search(output)
    assert found, output[-500:]
    return found.groups()


@pytest.mark.parametrize("framework", ["torchrun", "pytorch"])
def test_eight_ranks_train(site: Site, framework: str) -> None:
    site.save("train", DDP, *QUICK, "--own-copy", str(site.copies), framework=framework)
    done = site.follow("run", "train", limit=TRAINING_LIMIT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    told = [line for line in done.stdout.splitlines() if "rankdeck-demo ok world=8" in line]
    assert sorted(line.partition("] ")[0] for line in told) == [
        f"[{rank} n{rank // 2 + 1}" for rank in range(8)
    ]
    site.assert_every_byte(8)
    assert len({last_line(site.copy(rank)) for rank in range(8)}) == 1
    assert last_line(site.copy(0))[0] == b"8"
    shown = site.show()
    assert (shown["state"], shown["framework"], shown["world_size"]) == ("succeeded", framework, 8)
    assert [(rank["exit_code"], rank["node"]) for rank in shown["ranks"]] == [
        (0, f"n{rank // 2 + 1}") for rank in range(8)
    ]
    site.assert_nothing_runs()


def test_the_printed_scripts_train_the_same(site: Site) -> None:
    site.save(
        "two", DDP, *QUICK, "--own-copy", str(site.copies), framework="torchrun", nodes=2, procs_per_node=1
    )
    done = site.follow("run", "two", limit=TRAINING_LIMIT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    launched = [last_line(site.copy(rank)) for rank in range(2)]
    for rank in range(2):
        (site.copies / f"rank-{rank:05d}.copy").unlink()
    results = run_scripts(site, "two", limit=TRAINING_LIMIT)
    assert [result.returncode for result in results.values()] == [0, 0], results
    assert [last_line(site.copy(rank)) for rank in range(2)] == launched
