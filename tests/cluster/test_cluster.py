"""The test cluster itself: what the other tests take for granted about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import Cluster, ClusterError, NodeOptions, sweep
from cluster import cluster as made
from cluster.cluster import ROOT, running

pytestmark = pytest.mark.cluster
TESTS = Path(__file__).parents[1]


def ssh(cluster: Cluster, node: str, command: str, *, limit: int = 30) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["ssh", "-n", "-F", str(cluster.ssh_config), "-o", f"ConnectTimeout={limit}", node, command],
        capture_output=True,
        timeout=90,
        check=False,
    )


def wait_until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_nodes_are_machines_of_their_own(cluster4: Cluster) -> None:
    for node in cluster4.nodes:
        cluster4.run(node.name, ["touch", f"/var/tmp/only-{node.name}"])
        cluster4.run(node.name, ["touch", f"/home/seen-by-all-{node.name}"])
    said = {
        node.name: ssh(cluster4, node.name, "hostname; cat /proc/sys/kernel/random/boot_id; ls /var/tmp")
        for node in cluster4.nodes
    }
    for name, done in said.items():
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().split()[0] == name
        assert done.stdout.decode().split()[2:] == [f"only-{name}"]
    assert len({done.stdout.split()[1] for done in said.values()}) == 4, "boot ids differ"
    assert len(list(cluster4.shared.glob("seen-by-all-*"))) == 4
    assert len(cluster4.run("n1", ["ps", "-e"]).stdout.splitlines()) < 20, (
        "other machines' processes are seen"
    )


def test_nodes_reach_each_other_and_the_login_machine_but_nothing_else(cluster4: Cluster) -> None:
    cluster4.run("n1", ["ping", "-c1", "-W10", "n4"])
    cluster4.run("n2", ["ping", "-c1", "-W10", "login"])
    assert [line.split()[1] for line in cluster4.run("n1", ["ip", "-br", "link"]).stdout.splitlines()] == [
        b"UNKNOWN",
        b"UP",
    ]
    outside = cluster4.run("n1", ["ping", "-c1", "-W1", "192.0.2.1"], check=False)
    assert b"Network is unreachable" in outside.stderr


def test_the_repository_and_its_python_are_there_read_only(cluster4: Cluster) -> None:
    code = "import msgspec, sys; print(sys.prefix)"
    assert cluster4.run("n3", [sys.executable, "-c", code]).stdout.decode().strip() == sys.prefix
    written = cluster4.run("n3", ["touch", str(TESTS / "new")], check=False)
    assert b"Read-only file system" in written.stderr


def test_alice_has_the_shared_home(cluster4: Cluster) -> None:
    assert ssh(cluster4, "alice@n1", "id -un; pwd; echo hello >~/note").stdout.split() == [
        b"alice",
        b"/home/alice",
    ]
    assert cluster4.run("n2", ["cat", "/home/alice/note"], user="alice").stdout == b"hello\n"
    assert (cluster4.shared / "alice/note").stat().st_uid == 2000


def test_orphans_are_reaped(cluster4: Cluster) -> None:
    assert ssh(cluster4, "n1", "setsid sleep 0.2 >/dev/null 2>&1 </dev/null &").returncode == 0
    wait_until(lambda: b"sleep 0.2" not in cluster4.run("n1", ["ps", "-eo", "args"]).stdout)
    assert b"defunct" not in cluster4.run("n1", ["ps", "-eo", "args"]).stdout


def test_run_says_what_failed_and_keeps_to_its_limit(cluster4: Cluster) -> None:
    assert cluster4.run("n1", ["cat"], stdin=b"\xff\x00").stdout == b"\xff\x00"
    with pytest.raises(ClusterError, match=r"n1: .*status 3"):
        cluster4.run("n1", ["sh", "-c", "exit 3"])
    with pytest.raises(ClusterError, match=r"took more than 0\.5 s"):
        cluster4.run("n1", ["sleep", "100"], timeout=0.5)
    assert b"sleep 100" not in cluster4.run("n1", ["ps", "-eo", "args"]).stdout
    with pytest.raises(ClusterError, match="no node 'n9'; there are n1, n2, n3, n4"):
        cluster4.run("n9", ["true"])
    with pytest.raises(ClusterError, match="no such fault: 'fire'; there are cut, freeze"):
        cluster4.fault("fire", "n1")


# -- faults --


@pytest.fixture
def session(cluster4: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """A command on n2 over ssh that prints a line every 0.1 s."""
    command = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done"
    process = subprocess.Popen(
        ["ssh", "-n", "-F", str(cluster4.ssh_config), "n2", command], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    os.set_blocking(process.stdout.fileno(), False)
    yield process
    process.kill()
    process.wait(20)


def goes_silent(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    quiet = time.monotonic()
    end = quiet + 60
    while time.monotonic() - quiet < 1.5:
        assert time.monotonic() < end, "it goes on"
        if process.stdout.read():
            quiet = time.monotonic()
        time.sleep(0.1)
    assert process.poll() is None


def speaks(process: subprocess.Popen[bytes]) -> None:
    stream = process.stdout
    assert stream is not None
    wait_until(lambda: bool(stream.read()))


@pytest.mark.parametrize("kind", ["cut", "freeze"])
def test_a_session_falls_silent_and_goes_on(
    cluster4: Cluster, session: subprocess.Popen[bytes], kind: str
) -> None:
    cluster4.fault(kind, "n2")
    try:
        goes_silent(session)
        assert ssh(cluster4, "n2", "true", limit=2).returncode == 255
    finally:
        cluster4.heal(kind, "n2")
    speaks(session)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("reject", b"Connection refused"),
        ("no_sshd", b"Connection refused"),
        ("refuse_key", b"Permission denied (publickey)"),
    ],
)
def test_no_new_session_but_the_open_one_goes_on(
    cluster4: Cluster, session: subprocess.Popen[bytes], kind: str, message: bytes
) -> None:
    cluster4.fault(kind, "n2")
    try:
        assert message in ssh(cluster4, "n2", "true").stderr
        speaks(session)
    finally:
        cluster4.heal(kind, "n2")
    assert ssh(cluster4, "n2", "echo back").stdout == b"back\n"


def test_killed_a_node_closes_its_connections_and_boots_with_its_disk(
    cluster4: Cluster, session: subprocess.Popen[bytes]
) -> None:
    before = cluster4.run(
        "n2", ["sh", "-c", "echo kept >/var/tmp/kept; cat /proc/sys/kernel/random/boot_id"]
    ).stdout
    cluster4.fault("kill", "n2")
    try:
        assert session.wait(30) == 255
        assert cluster4.node("n2").state == "down"
        with pytest.raises(ClusterError, match="n2 is down"):
            cluster4.run("n2", ["true"])
    finally:
        cluster4.heal("kill", "n2")
    after = ssh(cluster4, "n2", "cat /var/tmp/kept /proc/sys/kernel/random/boot_id").stdout.split()
    assert after[0] == b"kept"
    assert after[1] != before.strip()


def test_power_loss_is_silence(cluster4: Cluster, session: subprocess.Popen[bytes]) -> None:
    cluster4.fault("power", "n2")
    try:
        goes_silent(session)
    finally:
        cluster4.heal("power", "n2")
    assert ssh(cluster4, "n2", "echo back").stdout == b"back\n"


def test_a_reinstalled_node_has_another_host_key_and_an_empty_disk(cluster4: Cluster) -> None:
    cluster4.run("n3", ["touch", "/var/tmp/mine"])
    cluster4.fault("boot", "n3", new_key=True)
    try:
        assert b"Host key verification failed" in ssh(cluster4, "n3", "true").stderr
        assert cluster4.run("n3", ["ls", "/var/tmp"]).stdout == b""
    finally:
        cluster4.heal("boot", "n3")
    assert ssh(cluster4, "n3", "echo back").stdout == b"back\n"


def test_a_full_disk(cluster4: Cluster) -> None:
    cluster4.fault("full_disk", "n3")
    try:
        done = ssh(
            cluster4,
            "n3",
            "echo x >/var/tmp/x; echo x >/tmp/x; echo x >/root/x; echo x >/home/x && echo alive",
        )
        assert done.stderr.count(b"No space left on device") == 3
        assert done.stdout == b"alive\n"
    finally:
        cluster4.heal("full_disk", "n3")
    assert ssh(cluster4, "n3", "echo x >/var/tmp/x && echo room").stdout == b"room\n"


def test_a_skewed_clock(cluster4: Cluster) -> None:
    code = "python3 -c 'import time; print(time.time())'"
    cluster4.fault("skew", "n4", seconds=300)
    try:
        ahead = float(ssh(cluster4, "n4", code).stdout) - time.time()
    finally:
        cluster4.heal("skew", "n4")
    assert 200 < ahead < 310
    assert abs(float(ssh(cluster4, "n4", code).stdout) - time.time()) < 100


# -- odd nodes --


def test_odd_nodes(needs_cluster: None) -> None:
    options = {
        "n1": NodeOptions(no_python=True, slow=1.0),
        "n2": NodeOptions(noise=True, shell="/bin/bash"),
        "n3": NodeOptions(noise=True, shell="/usr/bin/fish"),
        "n4": NodeOptions(noise=True, shell="/usr/bin/tcsh"),
        "n5": NodeOptions(refuse_key=True),
    }
    with Cluster(5, options) as cluster:
        began = time.monotonic()
        assert ssh(cluster, "n1", "command -v python3 || echo none").stdout == b"none\n"
        assert time.monotonic() - began > 1.0
        for name in ("n2", "n3", "n4"):
            done = ssh(cluster, name, "echo $0 $shell; echo answer")
            assert b"Loading module" in done.stdout, name
            assert b"\xff\xfe no newline" in done.stdout, name
            assert done.stdout.endswith(b"answer\n"), name
            assert b"warning: maintenance" in done.stderr, name
        shells = cluster.run("n4", ["getent", "passwd", "root", "alice"]).stdout
        assert shells.count(b":/usr/bin/tcsh") == 2
        assert b"Permission denied (publickey)" in ssh(cluster, "n5", "true").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour", "no such node option: 'colour'; there are no_python"),
        ("slow=x", "'x' is not a float"),
        ("slow", r"write slow=\.\.\."),
        ("noise=1", "write noise$"),
    ],
)
def test_wrong_options_are_named(text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        NodeOptions.parse(text)


def test_options_for_a_node_that_is_not_there() -> None:
    with pytest.raises(ClusterError, match="options for 'n3', but the nodes are n1 to n2"):
        Cluster(2, {"n3": NodeOptions()})


# -- leaving nothing behind --


def traces(number: int) -> list[str]:
    """Whatever of a cluster can be seen on this machine."""
    name = f"rdtest{number}"
    listed = {
        "link": subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout,
        "namespace": subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout,
        "mount": Path("/proc/mounts").read_text(),
        "process": subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout,
    }
    wanted = {
        "link": f"{name}",
        "namespace": f"{name}-",
        "mount": f"{ROOT}/{number}/",
        "process": f"{ROOT}/{number}/",
    }
    found = [
        f"{kind}: {line}"
        for kind, text in listed.items()
        for line in text.splitlines()
        if wanted[kind] in line
    ]
    # A walk that goes on where folders vanish meanwhile, as Path.glob does not.
    groups = [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(folder) == name]
    return found + groups + [str(path) for path in ROOT.glob(str(number))]


def test_down_leaves_nothing_even_of_a_frozen_and_a_cut_node(needs_cluster: None) -> None:
    with Cluster(2) as cluster:
        number = cluster.network.number
        ssh(cluster, "n1", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
        assert traces(number)
        cluster.fault("freeze", "n1")
        cluster.fault("cut", "n2")
    assert traces(number) == []
    cluster.down()


def test_two_clusters_at_once_are_apart(cluster4: Cluster) -> None:
    with Cluster(1) as other:
        assert other.network.number != cluster4.network.number
        assert ssh(other, "n1", "hostname -I || ip -br a").returncode == 0
        cluster4.run("n1", ["touch", "/home/only-here"])
        assert other.run("n1", ["ls", "/home"]).stdout == b"alice\n"
    assert ssh(cluster4, "n1", "echo still here").stdout == b"still here\n"


def other_test_run() -> tuple[subprocess.Popen[bytes], int, int]:
    """A process that has a cluster; with the cluster's number and its janitor's pid."""
    code = (
        "import time, cluster; c = cluster.Cluster(1); c.up();"
        "print(c.network.number, c._janitor.pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], cwd=TESTS, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    number, janitor = map(int, owner.stdout.readline().split())
    return owner, number, janitor


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_test_run_leaves_nothing(needs_cluster: None, number: signal.Signals) -> None:
    owner, made, _ = other_test_run()
    assert traces(made)
    owner.send_signal(number)
    owner.wait(30)
    wait_until(lambda: traces(made) == [])


def test_the_next_run_sweeps_what_a_dead_one_left(needs_cluster: None) -> None:
    # The owner is killed together with the janitor that would have cleaned up at once.
    owner, made, janitor = other_test_run()
    os.killpg(janitor, signal.SIGKILL)
    owner.kill()
    owner.wait(30)
    assert traces(made)
    sweep()
    assert traces(made) == []


def test_by_hand(needs_cluster: None) -> None:
    def command(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cluster", *argv],
            cwd=TESTS,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=90,
            check=False,
        )

    before = running()
    up = command("up", "2", "n2:noise,slow=0.1")
    assert up.returncode == 0, up.stderr
    number = next(each for each in running() if each not in before)
    this = ["--number", str(number)]
    try:
        assert f"{ROOT}/{number}/pool.toml" in up.stdout
        assert (
            ROOT / str(number) / "pool.toml"
        ).read_text() == 'backend = "ssh"\nnodes = ["n[1-2]"]\nslots = 2\n'
        assert command(*this, "run", "n1", "hostname").stdout == "n1\n"
        assert command(*this, "ssh", "n2", "echo answer").stdout.endswith("answer\n")
        assert command(*this, "fault", "freeze", "n2").returncode == 0
        assert [line.split()[2] for line in command(*this, "status").stdout.splitlines()] == ["up", "frozen"]
        assert command(*this, "heal", "freeze", "n2").returncode == 0
        assert command(*this, "run", "n1", "sh", "-c", "exit 4").returncode == 4
        assert number not in sweep(), "a kept cluster is nobody's leftover"
        # Another checkout of this code, with options of its own, made it: that is no reason for a traceback.
        place = ROOT / str(number) / "state.json"
        kept = place.read_text()
        state = json.loads(kept)
        state["nodes"]["n2"]["of_another_checkout"] = True
        del state["nodes"]["n1"]["disk_mib"]
        place.write_text(json.dumps(state))
        assert [line.split()[2] for line in command(*this, "status").stdout.splitlines()] == ["up", "up"]
        place.write_text(kept)
    finally:
        down = command("down", str(number))
    assert down.returncode == 0, down.stderr
    assert traces(number) == []
    gone = command("--number", str(number), "status")
    assert gone.returncode == 2
    assert f"no cluster {number} is up" in gone.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"nodes": ["n1"]}'])
def test_what_is_no_state_of_a_cluster_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(made, "ROOT", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "state.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster 7: .*/7/state.json "):
        Cluster.load(7)
    assert not made._is_abandoned(7)
