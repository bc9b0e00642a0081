"""`rankdeck check --active`: the cost first, then an ordinary run a pair, then its finding."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from cli.user import LOCAL_POOL, Shell


@pytest.fixture
def two(rankdeck: Shell) -> None:
    pools = Path(rankdeck.environment["RANKDECK_CONFIG"]) / "pools"
    pools.mkdir(parents=True, exist_ok=True)
    (pools / "two.toml").write_text(LOCAL_POOL)


@pytest.mark.torch
@pytest.mark.usefixtures("two")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_a_pair_that_sends(rankdeck: Shell) -> None:
    asked = ("check", "--pool", "two", "--active", "torch", "--yes", "--json", "--python", sys.executable)
    done = rankdeck(*asked, status=None)
    assert "1 pair of nodes, up to 16 at once" in done.stderr
    assert "1 of 1 pairs" in done.stderr
    (finding,) = (each for each in json.loads(done.stdout)["pool_findings"] if each["id"] == "bw.nccl-pair")
    assert finding["verdict"] == "pass"
    assert "GB/s over" in finding["message"]
    assert "sockets" in finding["message"]
    assert "active-torch" in rankdeck("runs", "--all").stdout
    assert rankdeck.json("runs") == []
    assert "there is no run yet" in rankdeck("show", "last", status=2).stderr


@pytest.mark.usefixtures("two")
def test_nobody_to_ask(rankdeck: Shell) -> None:
    done = rankdeck("check", "--pool", "two", "--active", "torch", status=2)
    assert "add --yes" in done.stderr
    assert "active-torch" not in rankdeck("runs", "--all").stdout


@pytest.mark.usefixtures("two")
def test_what_can_t_begin_is_skipped_with_the_reason_and_the_fix(rankdeck: Shell) -> None:
    asked = ("check", "--pool", "two", "--active", "torch", "--yes", "--json", "--python", "/no/such/python")
    done = rankdeck(*asked, status=None)
    document = json.loads(done.stdout)
    (finding,) = (each for each in document["pool_findings"] if each["id"] == "bw.nccl-pair")
    assert finding["verdict"] == "skip"
    assert "not tried: " in finding["message"]
    assert "/no/such/python" in finding["message"]
    (measured,) = document["active"]
    assert (measured["tried"], measured["run"]) == (False, "")
    assert done.stderr.count("not tried: ") == 1
    assert rankdeck("runs", "--all", "--json").stdout.strip() == "[]"


def test_one_node_is_no_pair(rankdeck: Shell) -> None:
    assert "takes two" in rankdeck("check", "--active", "torch", "--yes", status=2).stderr


def test_what_excludes(rankdeck: Shell, tmp_path: Path) -> None:
    assert "--active" in rankdeck("check", "--yes", status=2).stderr
    done = rankdeck("check", "--active", "torch", "--replay", str(tmp_path / "n.json"), status=2)
    assert "contacts no node" in done.stderr
