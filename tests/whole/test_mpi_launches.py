"""What goes wrong around an mpirun: told before the start, or with the rank that is the cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from whole.reports import WAYS, Bench, Way
from whole.site import RING, Site

pytestmark = pytest.mark.timeout(600)

FAMILIES = {"Open MPI": WAYS["mpi"], "MPICH": WAYS["mpi-mpich"]}


@pytest.fixture(params=FAMILIES.values(), ids=[name.replace(" ", "") for name in FAMILIES])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


def options(site: Site, way: Way, **changes: object) -> dict[str, object]:
    made = {**(way.options or {}), "allow_root": True, "ssh_args": site.key_between_nodes(), **changes}
    return {name: value for name, value in made.items() if value is not None}


def save(site: Site, way: Way, *args: str, **changes: object) -> None:
    """The profile `ring`, with four ranks on two nodes, and other options than usual."""
    site.save(
        "ring", RING, *args, framework="mpi", python="/usr/bin/python3", nodes=2, procs_per_node=2,
        options=options(site, way, **changes),
    )  # fmt: skip


def refusal(site: Site) -> str:
    done = site.follow("run", "ring")
    assert done.returncode == 2, done.stdout + done.stderr
    assert site.shell.json("runs") == []
    site.assert_nothing_runs()
    return done.stderr


@contextmanager
def hidden(site: Site, node: str, path: str) -> Iterator[None]:
    site.cluster.run(node, ["mv", path, f"{path}.hidden"])
    try:
        yield
    finally:
        site.cluster.run(node, ["mv", f"{path}.hidden", path])


def test_a_head_that_cannot_log_in_to_the_others(site: Site, way: Way) -> None:
    # Open MPI prints a page of guesses; hydra waits for ever.
    save(site, way, ssh_args=None)
    said = refusal(site)
    assert "n1: this node cannot log in to others, as mpirun must" in said
    assert f"{site.cluster.node('n2').address}: Host key verification failed." in said
    assert "options.ssh_args" in said


def test_a_login_that_ends_in_its_start_up_files(site: Site, way: Way) -> None:
    address = site.cluster.node("n2").address
    save(site, way)
    site.cluster.run(
        "n2",
        [
            "sh",
            "-c",
            f"echo 'case $SSH_CLIENT in {site.cluster.node('n1').address}*) exit 0; esac' >~/.bashrc",
        ],
    )
    try:
        assert f"{address}: the login ends before it runs a command" in refusal(site)
    finally:
        site.cluster.run("n2", ["rm", "/root/.bashrc"])


@pytest.mark.parametrize(
    ("family", "path"), [("Open MPI", "/usr/bin/orted"), ("MPICH", "/usr/bin/hydra_pmi_proxy")]
)
def test_a_node_without_the_daemon(site: Site, family: str, path: str) -> None:
    save(site, FAMILIES[family])
    with hidden(site, "n2", path):
        assert f"n2: {path}: no such program" in refusal(site)


def test_the_daemon_s_shell_is_the_cause_and_not_mpirun_s_page_of_guesses(site: Site) -> None:
    """Started all the same: what n2 has said stands before a page on five causes, and is told."""
    save(site, FAMILIES["Open MPI"])
    with hidden(site, "n2", "/usr/bin/orted"):
        done = site.follow("run", "ring", "--skip-checks")
    assert done.returncode == 1, done.stdout + done.stderr
    cause = site.show()["cause"]
    assert "orted" in cause["message"], cause
    assert "not found" in cause["message"] or "No such file" in cause["message"], cause
    assert not any("usually is caused by" in line for line in cause["evidence"])
    site.assert_nothing_runs()


def test_root_must_be_asked_for_with_open_mpi_alone(site: Site, way: Way) -> None:
    save(site, way, "--steps", "2", allow_root=None)
    if way is FAMILIES["Open MPI"]:
        assert "the login on node n1 is root, for which Open MPI refuses to run" in refusal(site)
    else:
        assert site.follow("run", "ring").returncode == 0


def test_libraries_of_the_ranks_are_not_those_of_mpirun_and_ssh(site: Site, way: Way) -> None:
    bench = Bench(site)
    libraries = site.cluster.shared / "libraries"
    libraries.mkdir(exist_ok=True)
    (libraries / "libcrypto.so.3").write_bytes(b"of an environment with other versions")
    broken = site.cluster.run("n1", ["env", f"LD_LIBRARY_PATH={libraries}", "ssh", "-V"], check=False)
    assert broken.returncode != 0
    bench.save("libraries", way, env={"LD_LIBRARY_PATH": str(libraries)})
    for reports in (bench.run("libraries"), bench.by_hand("libraries", "sh")):
        assert len(reports) == 4
        assert {report.env[b"LD_LIBRARY_PATH"].decode() for report in reports.values()} == {str(libraries)}


@pytest.mark.parametrize(("status", "shown"), [("7", (7, None)), ("-9", (None, "KILL"))])
def test_the_rank_that_failed_is_named(
    site: Site, way: Way, status: str, shown: tuple[object, object]
) -> None:
    failure = ["--fail-rank", "3", "--fail-at", "3", "--exit-code", status]
    save(site, way, "--steps", "100000", "--sleep", "0.1", "--limit", "300", *failure)
    done = site.follow("run", "ring")
    assert done.returncode == 1, done.stderr
    told = site.show()
    assert (told["cause"]["rank"], told["cause"]["node"]) == (3, "n2"), told["cause"]
    assert (told["ranks"][3]["exit_code"], told["ranks"][3]["signal"]) == shown
    site.assert_nothing_runs()
