"""Bad input: one clear message, the right exit status, and nothing left running anywhere.

Files that can't be read are in test_bad_files.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import Cluster, NodeOptions
from whole.site import LIMIT, RING, Site

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def site(site: Site) -> Site:
    """The user has a profile `ring`, and an ssh_config that gives up on a silent host after 3 s."""
    quick = site.shell.write("ssh_config", "ConnectTimeout 3\n" + site.cluster.ssh_config.read_text())
    site.shell.environment["RANKDECK_SSH_CONFIG"] = str(quick)
    site.save_ring("ring", "--steps", "100", "--sleep", "0.1")
    return site


@contextmanager
def fault(site: Site, kind: str, node: str, **details: float) -> Iterator[None]:
    site.cluster.fault(kind, node, **details)
    try:
        yield
    finally:
        site.cluster.heal(kind, node)


def refused(site: Site, status: int, *arguments: str) -> str:
    """Types a command that must be refused, with nothing on stdout and no run recorded: the message."""
    done = site.follow(*arguments)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert site.shell.json("runs") == []
    return done.stderr


def assert_error_is(message: str, *parts: str) -> None:
    """Asserts that the message is told once, and holds all parts."""
    assert message.count("rankdeck: ") == 1, message
    for part in parts:
        assert part in message, f"{part!r} is not in:\n{message}"


def test_a_script_missing_on_one_node(site: Site) -> None:
    for node in ("n1", "n2", "n3", "n4"):
        site.cluster.run(
            node, ["sh", "-c", "mkdir -p /root/work; cat >/root/work/train.py"], stdin=RING.read_bytes()
        )
    site.save("train", "train.py", "--steps", "3", workdir="~/work")
    done = site.follow("run", "train")
    assert done.returncode == 0, done.stderr
    (first,) = site.shell.json("runs")
    site.cluster.run("n3", ["rm", "/root/work/train.py"])
    done = site.follow("run", "train")
    assert done.returncode == 2
    assert_error_is(done.stderr, "n3", "/root/work/train.py", "script")
    told = done.stderr.partition("rankdeck: ")[2]
    assert not any(node in told for node in ("n1", "n2", "n4"))
    assert [run["id"] for run in site.shell.json("runs")] == [first["id"]]
    site.assert_nothing_runs()


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ({"workdir": "/nowhere/at/all"}, ["n1", "n4", "/nowhere/at/all", "workdir"]),
        ({"python": "/opt/none/bin/python"}, ["n1", "n4", "/opt/none/bin/python", "python"]),
        ({"setup": ["true", "module load cuda/99"]}, ["n1", "n4", "module load cuda/99", "setup"]),
    ],
)
def test_what_is_missing_on_every_node(site: Site, keys: dict[str, object], parts: list[str]) -> None:
    site.save_ring("ring", **keys)
    assert_error_is(refused(site, 2, "run", "ring"), *parts)
    site.assert_nothing_runs()


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("power", ["n2: ", "3 s"]),
        ("freeze", ["n2: ", "banner", "3 s"]),
        ("reject", ["n2: ", "refused"]),
        ("refuse_key", ["n2: ", "no key was accepted for user root", "IdentityFile"]),
    ],
)
def test_a_node_that_lets_nobody_in(site: Site, kind: str, parts: list[str]) -> None:
    with fault(site, kind, "n2"):
        message = refused(site, 3, "run", "ring")
        assert_error_is(message, *parts)
        for command in (["plan", "ring"], ["gpus", "--pool", "lab"]):
            done = site.follow(*command)
            assert done.returncode == 3, done.stderr
            assert "n2" in done.stderr
    site.assert_nothing_runs()
    done = site.follow("run", "ring", "--set", 'args=["--steps", "2"]')
    assert done.returncode == 0, done.stderr


def test_every_node_that_can_t_be_reached_is_named(site: Site) -> None:
    with fault(site, "power", "n2"), fault(site, "reject", "n4"):
        message = refused(site, 3, "run", "ring")
    assert "n2: " in message
    assert "n4: " in message


def test_a_changed_host_key(site: Site) -> None:
    with fault(site, "boot", "n4", new_key=True):
        message = refused(site, 3, "run", "ring")
        assert_error_is(
            message, "n4: ", "has changed", "SHA256:", "ssh-keygen -R", str(site.cluster.known_hosts)
        )
    site.assert_nothing_runs()


def test_an_unknown_host_key(site: Site) -> None:
    known = "".join(
        line
        for line in site.cluster.known_hosts.read_text().splitlines(keepends=True)
        if not line.startswith("n3,")
    )
    hosts = site.shell.write("known_hosts", known)
    config = Path(site.shell.environment["RANKDECK_SSH_CONFIG"])
    config.write_text(config.read_text().replace(str(site.cluster.known_hosts), str(hosts)))
    key = site.cluster.node("n3").host_key.with_suffix(".pub")
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True, timeout=20
    ).stdout.split()[1]
    message = refused(site, 3, "run", "ring")
    assert_error_is(message, "n3: ", fingerprint)
    assert hosts.read_text() == known
    site.assert_nothing_runs()


def test_a_node_that_dies_between_check_and_start_leaves_nothing_on_the_others(site: Site) -> None:
    """A detached launch tells what it could not do, and what it had started is gone.

    The nodes' meeting is skipped: it would notice the dead node, too, if that died early enough.
    """
    process = site.shell.start("run", "ring", "--detach", "--skip-checks")
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if "checking" in line:
            site.cluster.fault("cut", "n3")
            break
    try:
        _, rest = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, told + rest
        assert "n3" in rest
        running = {node: words for node, words in site.processes().items() if node != "n3"}
        assert not any("socket_ring" in word for words in running.values() for word in words), running
    finally:
        site.cluster.heal("cut", "n3")
    site.assert_nothing_runs(120.0)


def test_nodes_without_python_and_with_no_key(needs_cluster: None, tmp_path: Path) -> None:
    with Cluster(
        2, {"n1": NodeOptions(noise=True), "n2": NodeOptions(no_python=True, noise=True)}
    ) as cluster:
        own = Site.make(tmp_path, cluster)
        own.save_ring("ring", "--steps", "3")
        try:
            assert_error_is(refused(own, 3, "run", "ring"), "n2: ", "no Python", "python3", "install")
            own.assert_nothing_runs()
        finally:
            own.shell.end()


def test_one_machine_under_two_names(site: Site) -> None:
    """Its ranks would share GPUs with those of the other name, and nobody would see it."""
    config = Path(site.shell.environment["RANKDECK_SSH_CONFIG"])
    known = config.read_text()
    address = next(line for line in known[known.index("Host n2") :].splitlines() if "HostName" in line)
    alias = f"Host gpu-two\n{address}\nHostKeyAlias {address.split()[-1]}\n"
    config.write_text(alias + known)
    site.shell.write("config/pools/lab.toml", 'backend = "ssh"\nnodes = ["n1", "n2", "gpu-two"]\nslots = 1\n')
    message = refused(site, 1, "run", "ring")
    assert_error_is(message, "gpu-two,n2", "are one machine to NCCL", "[ssh.identity]", "fix: ")


@pytest.mark.parametrize("kind", ["cut", "freeze", "kill"])
def test_a_node_that_goes_while_the_others_try_it_is_the_only_thing_told(site: Site, kind: str) -> None:
    process = site.shell.start("check", "ring")
    assert process.stderr is not None
    for line in process.stderr:
        if "reach each other" in line:
            site.cluster.fault(kind, "n2")
            break
    try:
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, out + err
        failed = [line.split()[1:3] for line in out.splitlines() if line.startswith("fail ")]
        assert failed == [["ssh.connect", "n2"]], out
    finally:
        site.cluster.heal(kind, "n2")
    site.assert_nothing_runs(120.0)


@pytest.mark.parametrize(
    ("kind", "moment"), [("cut", "n1 answered"), ("freeze", "checking"), ("cut", "checking")]
)
def test_a_launch_does_not_wait_for_a_node_that_falls_silent(site: Site, kind: str, moment: str) -> None:
    process = site.shell.start("run", "ring")
    assert process.stderr is not None
    said, struck = "", 0.0
    for line in process.stderr:
        said += line
        if moment in line and not struck:
            site.cluster.fault(kind, "n2")
            struck = time.monotonic()
    try:
        process.wait(LIMIT)
        took = time.monotonic() - struck
        assert process.returncode == 3, said
        assert_error_is(said, "n2: connection lost: nothing came from it for 5 s", "see that the node is up")
        assert not any(f"{node}: " in said for node in ("n1", "n3", "n4")), said
        assert took < 20.0, f"{took:.1f} s; it takes 8 s, and 31 s where a launch waits for the connection"
    finally:
        site.cluster.heal(kind, "n2")
    assert site.shell.json("runs") == []
    site.assert_nothing_runs(120.0)
