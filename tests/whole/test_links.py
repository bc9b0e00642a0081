"""Four nodes act together, with nobody attached: they begin and end together, and miss one that is lost."""

from __future__ import annotations

import json

import pytest

from whole.site import LIMIT, Site

pytestmark = pytest.mark.timeout(600)

RANK = """
import os, sys, time
rank = os.environ["RANK"]
open(sys.argv[1] + "/began-" + rank, "w").close()
while not os.path.exists(sys.argv[1] + "/fail-" + rank):
    time.sleep(0.05)
raise SystemExit(7)
"""


def save_program(site: Site, name: str = "idle", **keys: object) -> None:
    """Saves a profile of ranks that wait for a file that has them fail; they are not connected."""
    folder = site.cluster.shared / "marks" / site.shell.folder.name
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    program = folder / "rank.py"
    program.write_text(RANK)
    site.save(name, program, str(folder), stop={"grace": "10s"}, **keys)


def slow_on(node: str, seconds: int) -> list[str]:
    """Setup lines that take long on one node; not in the look before the start, which runs them as well."""
    return [f'[ -z "$RANKDECK_RUN_ID" ] || [ "$(hostname)" != {node} ] || sleep {seconds}']


def launch(site: Site, count: int = 8) -> None:
    """Starts the run, and returns when nobody is connected and all ranks run."""
    site.shell("run", "idle", "--detach")
    folder = site.cluster.shared / "marks" / site.shell.folder.name
    site.shell.wait_for("all ranks run", lambda: len(list(folder.glob("began-*"))) == count, LIMIT)


def fail(site: Site, rank: int) -> None:
    (site.cluster.shared / "marks" / site.shell.folder.name / f"fail-{rank}").touch()


def ranks_left(site: Site) -> list[str]:
    return [words for node in site.processes().values() for words in node if "rank.py" in words]


def test_a_failure_ends_all_nodes_while_nobody_looks(site: Site) -> None:
    save_program(site)
    launch(site)
    fail(site, 5)
    site.shell.wait_for("no rank is left", lambda: not ranks_left(site), 60)
    site.assert_nothing_runs()
    shown = site.show()
    assert shown["state"] == "failed"
    assert (shown["cause"]["rank"], shown["cause"]["node"]) == (5, "n3")
    assert [rank["state"] for rank in shown["ranks"]] == [
        "failed" if rank == 5 else "stopped" for rank in range(8)
    ]
    assert [node["state"] for node in shown["nodes"]] == ["stopped", "stopped", "failed", "stopped"]


def test_who_is_waited_for_is_shown(site: Site) -> None:
    save_program(site, setup=slow_on("n4", 15))
    process = site.shell.start("run", "idle")
    folder = site.cluster.shared / "marks" / site.shell.folder.name
    site.shell.wait_for("all ranks run", lambda: len(list(folder.glob("began-*"))) == 8, LIMIT)
    fail(site, 0)
    _, err = process.communicate(timeout=LIMIT)
    assert "n4: the others wait for it: setting up" in err
    assert "ranks begin together: waiting for n4, " in err
    assert site.show()["cause"]["rank"] == 0
    site.assert_nothing_runs()


def test_a_node_that_is_never_ready_is_named_and_no_rank_begins(site: Site) -> None:
    save_program(site, setup=slow_on("n2", 500), barrier_timeout="12s")
    done = site.follow("run", "idle")
    assert done.returncode == 1
    assert "n2: not ready within 12 s: setting up" in done.stderr
    shown = site.show()
    assert (shown["cause"]["kind"], shown["cause"]["node"]) == ("node", "n2")
    assert {rank["started"] for rank in shown["ranks"]} == {None}
    site.assert_nothing_runs()


@pytest.mark.parametrize("lost", ["n1", "n3"])
def test_a_node_without_power_ends_the_run_by_the_others_own_accord(site: Site, lost: str) -> None:
    save_program(site)
    launch(site)
    site.cluster.fault("power", lost)
    try:
        site.shell.wait_for("no rank is left", lambda: not ranks_left(site), LIMIT)
        shown = site.show()
        assert (shown["cause"]["kind"], shown["cause"]["node"]) == ("node", lost)
        assert "not heard of for 60 s" in shown["cause"]["message"]
        others = [node["state"] for node in shown["nodes"] if node["name"] != lost]
        assert others == ["stopped"] * 3
    finally:
        site.cluster.heal("power", lost)
    site.shell("stop", "last")
    assert site.show()["state"] == "failed"
    site.assert_nothing_runs(90)


def test_a_link_that_is_cut_for_a_while_ends_nothing(site: Site) -> None:
    save_program(site)
    launch(site)
    site.cluster.fault("cut", "n3")
    try:
        site.shell.wait_for(
            "its silence is told",
            lambda: site.show() and "node_unreachable" in events(site),
            60,
        )
    finally:
        site.cluster.heal("cut", "n3")
    site.shell.wait_for(
        "it is heard of again",
        lambda: site.show() and "node_reachable" in events(site),
        60,
    )
    assert len(ranks_left(site)) == 8
    fail(site, 4)  # on the node that was cut off
    site.shell.wait_for("no rank is left", lambda: not ranks_left(site), 60)
    assert site.show()["cause"]["rank"] == 4
    site.assert_nothing_runs()


def events(site: Site) -> list[str]:
    """The names of the events in the record of the only run."""
    (record,) = site.shell.folder.rglob("events.jsonl")
    return [json.loads(line)["ev"] for line in record.read_text().splitlines()]
