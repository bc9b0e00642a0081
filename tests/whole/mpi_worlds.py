"""Eight ranks of mpi4py on four nodes, and what they must have said."""

from __future__ import annotations

from whole.by_hand import run_scripts
from whole.site import TESTS, Site

PROGRAM = TESTS / "ranks/mpi_world.py"


def save(site: Site, options: dict[str, object] | None = None, **keys: object) -> None:
    """Saves the profile `sum`."""
    options = {"ssh_args": site.key_between_nodes(), "allow_root": True, **(options or {})}
    site.save("sum", PROGRAM, framework="mpi", procs_per_node=2, options=options, **keys)


def lines(family: str) -> list[str]:
    """What the ranks say, in the order of their numbers."""
    return [f"rank {rank} of 8 on n{rank // 2 + 1}: 36 by {family}" for rank in range(8)]


def assert_launched(site: Site, family: str, *more: str) -> None:
    """Runs `sum`, with more arguments: every rank's line is in its own log."""
    done = site.follow("run", "sum", *more)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert [site.raw(rank) for rank in range(8)] == [f"{line}\n".encode() for line in lines(family)]
    shown = site.show()
    assert (shown["state"], shown["framework"], shown["world_size"]) == ("succeeded", "mpi", 8)
    assert [(rank["exit_code"], rank["node"]) for rank in shown["ranks"]] == [
        (0, f"n{rank // 2 + 1}") for rank in range(8)
    ]
    site.assert_nothing_runs()


def assert_by_hand(site: Site, family: str) -> None:
    """Runs the printed scripts of `sum`: the head's has all ranks, the others say nothing."""
    results = run_scripts(site, "sum")
    assert {node: result.returncode for node, result in results.items()} == dict.fromkeys(
        ["n1", "n2", "n3", "n4"], 0
    ), results
    assert sorted(results["n1"].stdout.decode().splitlines()) == lines(family)
    assert not any(result.stdout for node, result in results.items() if node != "n1")
    site.assert_nothing_runs()
