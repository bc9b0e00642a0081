"""Preflight on the test cluster: hardware that is wrong on one node, and the usual traps of networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, hardware
from rankdeck_backends import open_backend
from rankdeck_backends.preflight.finding import Finding, Verdict
from rankdeck_profiles.files import load_pool, load_profile
from rankdeck_profiles.model import BackendKind, PoolNode
from rankdeck_runs import recorded
from rankdeck_runs.checking import Checked, replayed
from rankdeck_runs.engine import Engine
from rankdeck_runs.errors import PrepareError
from rankdeck_runs.home import RunHome
from rankdeck_runs.sharing import share

LIMIT = 120.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    running = Engine(RunHome(tmp_path / "home"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def fitted(needs_cluster: None) -> Iterator[Cluster]:
    """Four nodes with InfiniBand: n1 is well, each other one has something else wrong."""
    if reason := hardware.missing():
        pytest.skip(reason)
    with Cluster(4) as made:
        hardware.fit(made.node("n1"))
        hardware.fit(made.node("n2"), down=(1,))
        hardware.fit(made.node("n3"), uverbs=False)
        hardware.fit(made.node("n4"), ofed=hardware.OTHER_OFED)
        yield made


def profile_at(cluster: Cluster, **keys: object) -> Path:
    """A profile whose script all nodes see."""
    script = cluster.shared / "train.py"
    script.write_text("print('ran')\n")
    lines = {
        "framework": "pytorch",
        "script": str(script),
        "workdir": str(cluster.shared),
        "python": sys.executable,
    }
    place = cluster.shared / "profile.toml"
    place.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in {**lines, **keys}.items()))
    return place


def checked(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, profile: Path | None
) -> Checked:
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster.ssh_config))
    asked = load_profile(profile) if profile is not None else None
    return engine.check(asked, load_pool(cluster.pool)).result(LIMIT)


def refusal(engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, profile: Path) -> PrepareError:
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster.ssh_config))
    with pytest.raises(PrepareError) as caught:
        engine.prepare(load_profile(profile), load_pool(cluster.pool)).result(LIMIT)
    return caught.value


def finding(found: Checked, check: str, verdict: Verdict) -> Finding:
    """The one finding of a check with that verdict."""
    those = [each for each in found.report.findings if each.id == check and each.verdict is verdict]
    assert len(those) == 1, [
        (each.id, each.verdict, each.nodes, each.message) for each in found.report.findings
    ]
    return those[0]


def rankdeck(cluster: Cluster, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from rankdeck_tui.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={
            **os.environ,
            "RANKDECK_SSH_CONFIG": str(cluster.ssh_config),
            "RANKDECK_HOME": str(home),
            "RANKDECK_CONFIG": str(home / "config"),
            "COLUMNS": "80",
        },
    )


# -- one thing wrong on each node --


def test_each_node_is_named_with_what_is_wrong_there(
    engine: Engine, fitted: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(engine, fitted, monkeypatch, None)
    causes = {each.id: each.nodes for each in found.report.stopping}
    assert causes == {"ib.port-state": ("n2",), "ofed.modules": ("n3",), "ofed.stack": ("n4",)}
    assert "mlx5_1" in finding(found, "ib.port-state", Verdict.FAIL).message
    assert "Polling" in finding(found, "ib.port-state", Verdict.FAIL).message
    assert "ib_uverbs" in finding(found, "ofed.modules", Verdict.FAIL).message
    assert hardware.OTHER_OFED in finding(found, "ofed.stack", Verdict.FAIL).message
    for each in found.report.stopping:
        assert each.fix
        assert each.evidence
    consequences = {each.id: each.explained_by for each in found.report.findings if each.explained_by}
    assert consequences["ofed.userland"] == "ofed.modules"


def test_the_run_is_refused_with_these_three_causes_and_nothing_else(fitted: Cluster, tmp_path: Path) -> None:
    profile = profile_at(fitted)
    done = rankdeck(fitted, tmp_path, "run", str(profile), "--pool", str(fitted.pool))
    assert done.returncode == 1, done.stderr
    told = [line for line in done.stderr.splitlines() if line.rstrip().endswith("]")]
    assert {line.rpartition("[")[2].rstrip("]") for line in told} == {
        "ib.port-state",
        "ofed.modules",
        "ofed.stack",
    }
    assert len(told) == 3
    for node, word in (("n2", "mlx5_1"), ("n3", "ib_uverbs"), ("n4", hardware.OTHER_OFED)):
        assert [line for line in told if line.strip().startswith(f"{node}:") and word in line], done.stderr
    assert done.stderr.count("fix: ") == 3
    assert not list((tmp_path / "runs").glob("*"))


def test_what_was_refused_starts_if_a_person_says_so(fitted: Cluster, tmp_path: Path) -> None:
    profile = profile_at(fitted)
    done = rankdeck(fitted, tmp_path, "run", str(profile), "--pool", str(fitted.pool), "--skip-checks")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ran") == 8
    kept = next((tmp_path / "runs").iterdir()) / "findings.json"
    findings = json.loads(kept.read_text())
    assert len(findings["overruled"]) == 3
    assert findings["preflight"]["blocked"] is True


def test_recorded_nodes_are_judged_as_they_were(
    engine: Engine, fitted: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    live = checked(engine, fitted, monkeypatch, None)
    recorded.write(tmp_path / "kept", live.readings)
    again = replayed(recorded.read([tmp_path / "kept"]), None, "torchrun")
    assert [(each.id, each.nodes) for each in again.report.stopping] == [
        (each.id, each.nodes) for each in live.report.stopping
    ]
    # How many ranks a node takes is the pool's to say, and in no record.
    assert [each for each in again.report.findings if each.id != "os.cpus"] == [
        each for each in live.report.findings if each.id != "os.cpus"
    ]
    assert again.report.to_json()["env"] == live.report.to_json()["env"]


def test_the_command_line_tells_the_same(fitted: Cluster, tmp_path: Path) -> None:
    pool = ("--pool", str(fitted.pool))
    text = rankdeck(fitted, tmp_path, "check", *pool, "--record", str(tmp_path / "kept"))
    assert text.returncode == 1, text.stderr
    first = [line.split()[:3] for line in text.stdout.splitlines() if line.startswith("fail")][:3]
    assert first == [
        ["fail", "ib.port-state", "n2"],
        ["fail", "ofed.modules", "n3"],
        ["fail", "ofed.stack", "n4"],
    ]
    assert max(map(len, text.stdout.splitlines())) <= 80
    files = sorted((tmp_path / "kept").glob("*.json"))
    assert [path.stem for path in files] == ["n1", "n2", "n3", "n4"]
    replay = rankdeck(fitted, tmp_path, "check", "--json", "--replay", *map(str, files))
    assert replay.returncode == 1, replay.stderr
    document = json.loads(replay.stdout)
    assert document["verdict"] == "fail"
    assert document["blocked"] is True
    assert [node["node"] for node in document["nodes"]] == ["n1", "n2", "n3", "n4"]


def test_a_link_that_makes_errors_now(
    engine: Engine, fitted: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n1's port counts three errors between the two looks; so few in all would be no reason to speak."""
    counter = f"{hardware.PLACE}/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error"

    def says(text: str) -> None:
        if text.startswith("reading the links' counters again"):
            fitted.run("n1", ["sh", "-c", f"echo 3 >{counter}"])

    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(fitted.ssh_config))
    try:
        found = engine.check(None, load_pool(fitted.pool), says).result(LIMIT)
    finally:
        fitted.run("n1", ["sh", "-c", f"echo 0 >{counter}"])
    told = finding(found, "ib.errors", Verdict.WARN)
    assert told.nodes == ("n1",)
    assert "mlx5_0:1 symbol_error grew by 3 within " in told.message
    others = [each.message for each in found.report.findings if each.id == "ib.errors" and each is not told]
    assert len(others) == 3
    assert all("none grew within " in message for message in others)


# -- four usual traps --


def test_a_name_that_leads_to_loopback(
    engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cluster4.run("n2", ["cat", "/etc/hosts"]).stdout
    cluster4.node("n2").run(
        ["tee", "/etc/hosts"], stdin=b"127.0.1.1 n2\n" + kept.replace(b" n2\n", b" other\n")
    )
    try:
        found = checked(engine, cluster4, monkeypatch, profile_at(cluster4))
    finally:
        cluster4.node("n2").run(["tee", "/etc/hosts"], stdin=kept)
    told = finding(found, "net.hostname", Verdict.FAIL)
    assert told.nodes == ("n2",)
    assert "127.0.1.1" in told.message
    assert "/etc/hosts" in told.fix
    assert told.handled_by == "GLOO_SOCKET_IFNAME"
    assert found.report.to_json()["env"]["n2"]["GLOO_SOCKET_IFNAME"]["value"] == "eth0"


def test_docker0_has_the_same_address_everywhere(
    engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = (
        "ip link add docker0 type bridge && ip link add pod0 type veth peer name pod1 && "
        "ip link set pod0 master docker0 up && ip link set pod1 up && "
        "ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up"
    )
    for node in cluster4.nodes:
        node.run(["sh", "-c", add])
    try:
        monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster4.ssh_config))
        found = engine.check(None, load_pool(cluster4.pool), framework="mpi").result(LIMIT)
    finally:
        for node in cluster4.nodes:
            node.run(["sh", "-c", "ip link del docker0; ip link del pod0"])
    told = finding(found, "net.twin-address", Verdict.WARN)
    assert "172.17.0.1" in told.message
    assert told.nodes == ("n1", "n2", "n3", "n4")
    assert told.fix
    for settings in found.report.to_json()["env"].values():
        assert settings["OMPI_MCA_btl_tcp_if_include"]["value"] in (
            "eth0",
            cluster4.nodes[0].address[:-2] + "0/24",
        )


def test_a_firewall_that_drops_high_ports_between_two_nodes(
    engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = cluster4.node("n3").address
    rules = (
        "add table ip wall; add chain ip wall incoming { type filter hook input priority -10; }; "
        f"add rule ip wall incoming ip saddr {source} tcp dport 1024-65535 tcp flags & (syn | ack) == syn "
        "drop"
    )
    cluster4.run("n2", ["nft", rules])
    profile = profile_at(cluster4)
    try:
        began = time.monotonic()
        found = checked(engine, cluster4, monkeypatch, profile)
        assert time.monotonic() - began < 60
        refused = refusal(engine, cluster4, monkeypatch, profile)
    finally:
        cluster4.run("n2", ["nft", "delete table ip wall"])
    told = finding(found, "net.pair", Verdict.FAIL)
    assert told.stops
    assert "n3" in told.message
    assert cluster4.node("n2").address in told.message + str(told.evidence)
    assert "open" in told.fix
    assert [problem for _, problem in refused.problems if "[net.pair]" in problem]
    assert len(refused.problems) == 1
    assert refused.exit_status == 1


def test_a_taken_master_port(engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = "import socket, time; s = socket.create_server(('', 29555)); time.sleep(600)"
    cluster4.run(
        "n1", ["sh", "-c", f'{sys.executable} -c "{listener}" >/dev/null 2>&1 & echo $! >/run/taken']
    )
    wait = "for i in $(seq 400); do grep -q ':7373 .* 0A ' /proc/net/tcp && exit 0; sleep 0.05; done; exit 1"
    cluster4.run("n1", ["sh", "-c", wait])
    profile = profile_at(cluster4, master_port=29555)
    try:
        found = checked(engine, cluster4, monkeypatch, profile)
        refused = refusal(engine, cluster4, monkeypatch, profile)
    finally:
        cluster4.run("n1", ["sh", "-c", "kill $(cat /run/taken)"])
    told = finding(found, "port.free", Verdict.FAIL)
    assert "29555" in told.message
    assert "create_server" in told.message + str(told.evidence)
    assert told.fix
    assert [problem for _, problem in refused.problems if "[port.free]" in problem]
    assert len(refused.problems) == 1


def test_a_healthy_pool_is_not_refused(
    engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster4.ssh_config))
    prepared = engine.prepare(load_profile(profile_at(cluster4)), load_pool(cluster4.pool)).result(LIMIT)
    assert prepared.problems == ()
    assert prepared.report is not None
    connects = [each for each in prepared.report.findings if each.id == "net.pair"]
    assert [each.verdict for each in connects] == [Verdict.PASS]


def test_a_node_that_is_gone_is_named_and_the_others_are_judged(cluster4: Cluster, tmp_path: Path) -> None:
    cluster4.fault("reject", "n4")
    try:
        done = rankdeck(cluster4, tmp_path, "check", "--pool", str(cluster4.pool), "--json")
    finally:
        cluster4.heal("reject", "n4")
    assert done.returncode == 3, done.stderr
    nodes = {node["node"]: node["findings"] for node in json.loads(done.stdout)["nodes"]}
    failed = [each["id"] for each in nodes["n4"] if each["verdict"] == "fail"]
    assert failed == ["ssh.connect"]
    assert [each for each in nodes["n1"] if each["verdict"] == "pass"]


# -- what lies between nodes --


async def test_a_folder_that_is_shared_and_one_that_is_not(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster4.ssh_config))
    backend = open_backend(BackendKind.SSH)
    names = [node.name for node in cluster4.nodes]
    try:
        connections = {name: await backend.open(PoolNode(name, name)) for name in names}
        told = await share(connections, names, str(cluster4.shared), 30.0)
        apart = await share(connections, names, "/root", 0.5)
        nowhere = await share(connections, names, "/no/such/folder", 0.5)
    finally:
        await backend.close()
    assert {name: entry["state"] for name, entry in told.items()} == dict.fromkeys(names, "ok")
    assert [told[name]["answered"] for name in names[1:]] == ["ok"] * 3
    assert not list(cluster4.shared.glob(".rankdeck-shared*"))
    assert [apart[name]["state"] for name in names] == ["ok", "missing", "missing", "missing"]
    assert nowhere == {"n1": {"path": "/no/such/folder", "writer": "n1", "state": "ENOENT"}}


def test_an_mpirun_that_could_not_log_in_from_node_to_node(
    engine: Engine, cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster4.ssh_config))
    found = engine.check(None, load_pool(cluster4.pool), framework="mpi").result(LIMIT)
    told = finding(found, "ssh.any-to-any", Verdict.FAIL)
    assert told.nodes == ("n1",)
    assert "n1 to n2" in told.message
    assert told.fix
    key = cluster4.shared / "key-of-the-nodes"
    key.write_bytes(cluster4.identity.read_bytes())
    key.chmod(0o600)
    profile = profile_at(cluster4, framework="mpi")
    ssh = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    profile.write_text(profile.read_text() + f'[options]\nallow_root = true\nssh_args = "{ssh}"\n')
    finding(checked(engine, cluster4, monkeypatch, profile), "ssh.any-to-any", Verdict.PASS)
