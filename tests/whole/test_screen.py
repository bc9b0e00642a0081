"""The screens on four nodes: pick, launch, watch, leave, come back, stop, launch again. With keys only."""

from __future__ import annotations

import re
import time

import pytest

from terminal import missing
from whole.deck import Deck
from whole.site import DDP, LIMIT, TRAINING_LIMIT, Site

pytestmark = pytest.mark.timeout(900)

CUT = 20.0
"""Seconds without a link."""


@pytest.fixture(autouse=True)
def _terminal() -> None:
    if reason := missing():
        pytest.skip(reason)


def ranks_shown(letter: str) -> re.Pattern[str]:
    """A grid of four nodes with two ranks each, all in the state of this letter."""
    rows = "".join(rf"[^\n]*\bn{number} \S{letter} \S{letter} [^\n]*\n" for number in range(1, 5))
    return re.compile(rows)


def test_picked_launched_watched_stopped_and_launched_again(site: Site) -> None:
    site.save_ring("other", "--steps", "3")
    site.save_ring("ring", "--steps", "120", "--sleep", "0.1")
    with Deck.opened(site) as deck:
        plan = deck.compose("ring", shot="cluster-composer")
        head = site.cluster.node("n1").address
        assert f"8 ranks on 4 nodes · rank 0 listens on {head}:" in plan
        assert "socket_ring.py --steps 120" in plan
        assert re.search(rf"MASTER_ADDR +{re.escape(head)}", plan)
        assert site.shell.json("runs") == []
        deck.launch()
        deck.see(ranks_shown("R"))
        deck.see(re.compile(r"step \d+ sum \d+ rank 0"))
        deck.shot("cluster-running")
        deck.see(ranks_shown("S"))
        deck.see("ring ok world=8 steps=120")
        deck.see("record complete")
        deck.shot("cluster-succeeded")
        deck.back_home()
        deck.see(re.compile(r"succeeded +\S+-ring-\S+ +ring"))
        site.assert_every_byte(8)

        # Again, from the history: the cursor is on the run that was just left.
        deck.see(re.compile(r"▌ \S+ S succeeded"))
        deck.press("R")
        deck.see(ranks_shown("R"))

        # Stopped; Enter alone must not.
        deck.press("x")
        deck.see("Stop the run")
        deck.shot("cluster-stop")
        deck.press("Enter")
        deck.terminal.wait_until_gone("Stop the run")
        assert site.show()["state"] == "running"
        deck.press("x")
        deck.see("Stop the run")
        deck.press("Right", "Enter")
        deck.see("Nothing of the run is left on any node")
        deck.press("Escape")
        deck.see(ranks_shown("T"))
        deck.back_home()
        deck.see(re.compile(r"stopped +\S+-ring-\S+ +ring"))
        deck.shot("cluster-home")
        deck.quit()
    assert [run["state"] for run in site.shell.json("runs")] == ["stopped", "succeeded"]
    site.assert_nothing_runs()


def test_killed_while_a_link_is_cut_and_opened_again(site: Site) -> None:
    site.save_ring("ring", "--bytes", "--steps", "400", "--sleep", "0.15", "--limit", "300")
    with Deck.opened(site) as deck:
        deck.compose("ring")
        deck.launch()
        deck.see(re.compile(r"step 1\d sum"))
        site.cluster.fault("cut", "n2")
        began = time.monotonic()
        try:
            deck.see(re.compile(r"3 links up|n2[^\n]*(lost|reach)"))
            deck.shot("cluster-cut")
            deck.kill()
            assert any("socket_ring" in words for words in site.processes()["n2"])
            time.sleep(max(0.0, CUT - (time.monotonic() - began)))
        finally:
            site.cluster.heal("cut", "n2")
    with Deck.opened(site) as deck:
        deck.see(re.compile(r"-ring-\S+ +ring"))
        deck.press("Enter")
        deck.see(ranks_shown("[RS]"))
        deck.shot("cluster-attached-again")
        deck.see("record complete", LIMIT + 60)
        deck.see(ranks_shown("S"))
        deck.quit()
    (run,) = site.shell.json("runs")
    assert (run["state"], run["complete"]) == ("succeeded", True)
    site.assert_every_byte(8)
    site.assert_nothing_runs()


def test_a_failed_run_shows_its_cause(site: Site) -> None:
    site.save_ring("ring", "--steps", "1000", "--sleep", "0.1", "--fail-rank", "6", "--fail-at", "20")
    with Deck.opened(site) as deck:
        deck.compose("ring")
        deck.launch()
        screen = deck.see("ValueError: told to fail at step 20")
        screen = deck.see("record complete")
        assert "rank 6" in screen
        assert "n4" in screen
        deck.shot("cluster-failed")
        deck.back_home()
        deck.see(re.compile(r"failed +\S+-ring-\S+ +ring"))
        deck.quit()
    site.assert_nothing_runs()


def test_a_node_out_of_reach_is_told_in_the_composer(site: Site) -> None:
    site.save_ring("ring", "--steps", "3")
    with Deck.opened(site) as deck:
        site.cluster.fault("reject", "n3")
        try:
            deck.open_profile("ring")
            screen = deck.see("not ready")
            assert re.search(r"n3: [^\n]*refused", screen), screen
            deck.press("S")
            deck.shot("cluster-refused")
        finally:
            site.cluster.heal("reject", "n3")
        deck.press("r")
        deck.see("nodes were asked")
        deck.quit()
    assert site.shell.json("runs") == []
    site.assert_nothing_runs()


@pytest.mark.torch
@pytest.mark.parametrize("framework", ["torchrun", "pytorch"])
def test_eight_ranks_train_on_screen(site: Site, framework: str) -> None:
    pytest.importorskip("torch", reason="needs torch (pip install 'rankdeck[torch]')")
    quick = ["--steps", "16", "--steps-per-epoch", "4", "--step-sleep", "0.1"]
    site.save("train", DDP, *quick, "--own-copy", str(site.copies), framework=framework)
    with Deck.opened(site) as deck:
        deck.compose("train")
        deck.press("S")
        deck.see(ranks_shown("R"), TRAINING_LIMIT)
        deck.see(re.compile(r"epoch [12] step \d+ loss"), TRAINING_LIMIT)
        deck.shot(f"cluster-{framework}")
        deck.see("record complete", TRAINING_LIMIT)
        deck.see(ranks_shown("S"))
        deck.see("rankdeck-demo ok world=8")
        deck.quit()
    site.assert_every_byte(8)
    site.assert_nothing_runs()
