"""SSH, sockets, ports, files, limits and clocks: small changes to a healthy node, and what is said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from preflight.cases import ASKED, Case, holds, on_node, over_pool
from preflight.healthy import connect, folder, healthy, shared
from preflight.recordings import changed, recorded
from preflight.test_gpu_checks import no_gpus
from rankdeck_backends.preflight.judge import judge
from rankdeck_profiles.readings import Readings

ADDR = ("ip", "-json", "addr")
RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
LOCAL = replace(ASKED, addresses={"n1": "127.0.0.1", "n2": "127.0.0.2", "n3": "127.0.0.3"})


def ssh(**more):
    return {"ssh": {"state": "ok", "noise": "", "resets": 0, **more}}


def interface(name: str, *addresses: str, up: bool = True) -> dict:
    return {
        "ifname": name,
        "flags": ["UP", "LOWER_UP"] if up else ["UP", "NO-CARRIER"],
        "link_type": "ether",
        "addr_info": [
            {"local": address.partition("/")[0], "prefixlen": int(address.partition("/")[2])}
            for address in addresses
        ],
    }


def interfaces(*entries: dict) -> dict[tuple[str, ...], str]:
    return {ADDR: json.dumps(entries)}


def moved(readings: Readings) -> Readings:
    """To another network."""
    return changed(
        readings,
        commands=interfaces(interface("eth0", "10.99.0.12/24")),
        syscalls={"resolve_self": ["10.99.0.12"]},
    )


def with_docker(readings: Readings) -> Readings:
    entries = json.loads(next(each.stdout for each in readings.commands if each.argv == ADDR))
    up = interface("docker0", "172.17.0.1/16")
    return changed(
        readings, commands=interfaces(*(each for each in entries if each["ifname"] != "docker0"), up)
    )


def port(state: str, owner: dict | None = None) -> dict:
    return {"ports": [{"port": 29400, "address": "10.77.0.11", "state": state, "owner": owner}]}


STALE = {"pid": 4711, "uid": 1000, "command": "python3 train.py"}

NODES = [
    Case("ssh.connect", "pass"),
    Case(
        "ssh.connect",
        "fail",
        "at the step `host key`: the host key has changed",
        syscalls=ssh(state="host key", message="the host key has changed"),
    ),
    Case("ssh.connect", "fail", "no reason was given", syscalls=ssh(state="auth")),
    Case("ssh.connect", "warn", "could not look at the node", syscalls=ssh(unread="no room on /tmp")),
    Case("ssh.connect", "skip", syscalls={"ssh": None}),
    Case("ssh.clean-shell", "pass"),
    Case("ssh.clean-shell", "warn", "Welcome to gpu-a01", syscalls=ssh(noise="Welcome to gpu-a01\n")),
    Case(
        "ssh.clean-shell", "fail", "the agent's answer was lost", syscalls=ssh(noise="Hello\n", state="shell")
    ),
    Case("ssh.clean-shell", "skip", syscalls={"ssh": {"state": "ok"}}),
    Case("ssh.throttle", "pass"),
    Case("ssh.throttle", "warn", "reset 3 connections", syscalls=ssh(resets=3)),
    Case("ssh.throttle", "skip", syscalls={"ssh": {"state": "ok"}}),
    Case("net.hostname", "pass", "n1 leads to 10.77.0.11"),
    Case("net.hostname", "fail", "leads to 127.0.1.1", syscalls={"resolve_self": ["127.0.1.1"]}),
    Case("net.hostname", "fail", "leads to ::1", syscalls={"resolve_self": ["::1"]}),
    Case("net.hostname", "fail", "leads to no address", syscalls={"resolve_self": []}),
    Case("net.hostname", "fail", "10.1.2.3, which no interface has", syscalls={"resolve_self": ["10.1.2.3"]}),
    Case("net.hostname", "fail", "takes too long", syscalls={"resolve_self": "timeout"}),
    Case(
        "net.hostname",
        "warn",
        "loopback address, too",
        syscalls={"resolve_self": ["10.77.0.11", "127.0.1.1"]},
    ),
    Case("net.hostname", "skip", syscalls={"resolve_self": None}),
    Case("net.iface", "pass", "eno1 has 10.77.0.11/16"),
    Case(
        "net.iface",
        "fail",
        "no interface that is up",
        commands=interfaces(interface("eth0", "10.0.0.1/24", up=False)),
    ),
    Case(
        "net.iface",
        "fail",
        "no interface that is up",
        commands=interfaces(interface("docker0", "172.17.0.1/16")),
    ),
    Case("net.iface", "skip", commands={ADDR: None}),
    Case("net.iface", "skip", commands={ADDR: "not json"}),
    Case("net.reverse-dns", "pass", "2 ms"),
    Case(
        "net.reverse-dns",
        "warn",
        "takes 2.5 s",
        syscalls={"reverse_dns": [{"address": "10.77.0.12", "seconds": 2.5}]},
    ),
    Case(
        "net.reverse-dns",
        "fail",
        "takes 6.0 s",
        syscalls={"reverse_dns": [{"address": "10.77.0.12", "seconds": 6.0}]},
    ),
    Case("net.reverse-dns", "skip", syscalls={"reverse_dns": None}),
    Case("port.free", "pass", "port 29400 is free"),
    Case(
        "port.free",
        "fail",
        "is in use, by process 4711 of user 1000: python3 train.py",
        syscalls=port("EADDRINUSE", STALE),
    ),
    Case("port.free", "fail", "port 29400 on 10.77.0.11 is for root only", syscalls=port("EACCES")),
    Case("port.free", "skip", syscalls={"ports": None}),
    Case("port.range", "pass"),
    Case(
        "port.range",
        "warn",
        "port 40000 is one that the kernel gives",
        asked=replace(ASKED, master_port=40000),
    ),
    Case(
        "port.range", "pass", asked=replace(ASKED, master_port=40000), files={RESERVED: "8080,39990-40010\n"}
    ),
    Case("port.range", "pass", "no client is given port 80", asked=replace(ASKED, master_port=80)),
    Case("port.range", "skip", "no port is settled", asked=replace(ASKED, master_port=None)),
    Case("port.range", "skip", "is not known", files={RANGE: None}),
    Case("port.range", "skip", "is not known", files={RANGE: "32768"}),
    Case("fs.hung", "pass"),
    Case(
        "fs.hung",
        "fail",
        "the working directory /data (nfs4) does not answer",
        syscalls={"paths": [folder("/data", "cwd", state="timeout")]},
    ),
    Case("fs.hung", "skip", syscalls={"paths": None}),
    Case("fs.space", "pass"),
    Case(
        "fs.space",
        "fail",
        "the run folder /run/x (nfs4) has 900 MiB left",
        syscalls={"paths": [folder("/run/x", "run", avail_mib=900)]},
    ),
    Case(
        "fs.space",
        "fail",
        "your quota there is used up",
        syscalls={"paths": [folder("/run/x", "run", writable="EDQUOT")]},
    ),
    Case(
        "fs.space",
        "fail",
        "cannot be written (EROFS)",
        syscalls={"paths": [folder("/run/x", "run", writable="EROFS")]},
    ),
    Case("fs.space", "fail", "TMPDIR /tmp cannot be written: ENOSPC", syscalls={"tmp_writable": "ENOSPC"}),
    Case(
        "fs.space",
        "warn",
        "has 4.0 % of its room left",
        syscalls={"paths": [folder("/data", "data", avail_mib=40000)]},
    ),
    Case("fs.space", "warn", "inodes", syscalls={"paths": [folder("/data", "data", files_free=10)]}),
    Case(
        "fs.space",
        "warn",
        "TMPDIR has 104 characters",
        syscalls={"tmpdir": "/tmp" + "/nested-folder" * 7 + "/x"},
    ),
    Case("fs.space", "skip", syscalls={"paths": None, "tmpdir": None, "tmp_writable": None}),
    Case("fs.shm", "pass"),
    Case("fs.shm", "fail", "/dev/shm has 64 MiB free", syscalls={"shm_avail_mib": 64, "shm_total_mib": 64}),
    Case("fs.shm", "warn", "64 MiB free", change=no_gpus, syscalls={"shm_avail_mib": 64}),
    Case("fs.shm", "pass", change=no_gpus, syscalls={"shm_avail_mib": 4096}),
    Case("fs.shm", "warn", "4096 MiB free", syscalls={"shm_avail_mib": 4096}),
    Case("fs.shm", "skip", syscalls={"shm_avail_mib": None}),
    Case("os.memlock", "pass", "not limited"),
    Case("os.memlock", "fail", "limited to 64 KiB", syscalls={"rlimit_memlock": 65536}),
    Case("os.memlock", "fail", "limited to 8 MiB", syscalls={"rlimit_memlock": 8388608}),
    Case("os.memlock", "warn", "limited to 4 GiB", syscalls={"rlimit_memlock": 4 << 30}),
    Case(
        "os.memlock",
        "pass",
        "without RDMA",
        syscalls={"rlimit_memlock": 65536},
        asked=replace(ASKED, communication="gloo"),
    ),
    Case("os.memlock", "skip", syscalls={"rlimit_memlock": None}),
    Case("os.nofile", "pass"),
    Case("os.nofile", "pass", "any number of", syscalls={"rlimit_nofile": "unlimited"}),
    Case(
        "os.nofile", "warn", "may open 1024 files, may raise it to 1048576", syscalls={"rlimit_nofile": 1024}
    ),
    Case(
        "os.nofile",
        "warn",
        "may open 1024 files",
        syscalls={"rlimit_nofile": 1024, "rlimit_nofile_hard": 1024},
    ),
    Case("os.nofile", "skip", syscalls={"rlimit_nofile": None}),
    Case("os.cpus", "pass", "192 CPUs for 8 ranks"),
    Case("os.cpus", "warn", "8 CPUs for 8 ranks", syscalls={"cpus_allowed": 8}),
    Case(
        "os.cpus",
        "warn",
        "4 CPUs for 8 ranks",
        files={"/sys/fs/cgroup/user.slice/cpu.max": "400000 100000\n"},
    ),
    Case(
        "os.cpus",
        "warn",
        "6 CPUs for 8 ranks",
        files={
            "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "600000\n",
            "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        },
    ),
    Case(
        "os.cpus",
        "pass",
        files={
            "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        },
    ),
    Case("os.cpus", "skip", syscalls={"cpus_allowed": None}),
    Case("os.memory", "pass", "1984 GiB"),
    Case("os.memory", "pass", "64 GiB", files={"/sys/fs/cgroup/user.slice/memory.max": f"{64 << 30}\n"}),
    Case(
        "os.memory",
        "fail",
        "room for 403 more processes",
        files={"/sys/fs/cgroup/user.slice/pids.max": "500\n"},
    ),
    Case("os.memory", "skip", files={"/proc/meminfo": None}),
    Case("os.survive", "pass"),
    Case("os.survive", "pass", syscalls={"kill_user_processes": True, "linger": True}),
    Case("os.survive", "pass", "root", syscalls={"kill_user_processes": True, "uid": 0}),
    Case("os.survive", "fail", "at log-out", syscalls={"kill_user_processes": True}),
    Case("os.survive", "skip", syscalls={"kill_user_processes": None}),
    Case("os.tuning", "pass"),
    Case("os.tuning", "warn", "numa_balancing", files={"/proc/sys/kernel/numa_balancing": "1\n"}),
    Case(
        "os.tuning",
        "warn",
        "lowest clock",
        files={
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
        },
    ),
    Case(
        "os.tuning",
        "pass",
        files={
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
        },
    ),
    Case("os.tuning", "warn", "max_map_count is 65530 for 64 ranks", asked=replace(ASKED, slots=64)),
    Case("os.tuning", "skip", files={"/proc/sys/kernel/numa_balancing": None}),
    Case("clock.skew", "pass"),
    Case("clock.skew", "warn", "2.5 s ahead of", syscalls={"clock_offset_s": 2.5}, head=False),
    Case("clock.skew", "pass", syscalls={"clock_offset_s": 2.5, "clock_error_s": 2.0}, head=False),
    Case("clock.skew", "fail", "47.3 s behind", syscalls={"clock_offset_s": -47.3}, head=False),
    Case("clock.skew", "skip", syscalls={"clock_offset_s": None}),
    Case("clock.sync", "pass"),
    Case("clock.sync", "warn", syscalls={"ntp_synchronized": False}),
    Case("clock.sync", "skip", syscalls={"ntp_synchronized": None}),
]

POOLS = [
    Case("ssh.identity", "pass"),
    Case(
        "ssh.identity",
        "fail",
        "n1, n2 are one machine",
        files={"/proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000001\n"},
        syscalls={"hostname": "n1"},
    ),
    Case("ssh.identity", "pass", syscalls={"hostname": "n1"}),
    Case("ssh.identity", "skip", "this machine", asked=LOCAL),
    Case("ssh.identity", "skip", files={"/proc/sys/kernel/random/boot_id": None}, everywhere=True),
    Case("ssh.any-to-any", "pass", "6 pairs"),
    Case(
        "ssh.any-to-any",
        "fail",
        "n2 to n3 (host key)",
        syscalls={
            "connects": [
                connect("n3", "10.77.0.13", "ssh", "host key", message="Host key verification failed.")
            ]
        },
    ),
    Case("ssh.any-to-any", "skip", syscalls={"connects": []}, everywhere=True),
    Case("net.hostname", "pass"),
    Case(
        "net.hostname",
        "warn",
        "n2 does not find n3 by name",
        syscalls={"resolve_peers": {"n1": ["10.77.0.11"], "n3": []}},
    ),
    Case("net.hostname", "warn", "does not find n3", syscalls={"resolve_peers": {"n3": ["127.0.1.1"]}}),
    Case(
        "net.hostname", "warn", "n1 is another address", syscalls={"resolve_peers": {"n1": ["192.168.1.1"]}}
    ),
    Case("net.hostname", "skip", syscalls={"resolve_peers": None}, everywhere=True),
    Case("net.iface", "pass", "10.77.0.0/16"),
    Case("net.iface", "fail", "no network in common", change=moved, syscalls={"connects": []}),
    Case("net.iface", "pass", "they reach each other", change=moved),
    Case("net.iface", "fail", "eth9", asked=replace(ASKED, interface="eth9"), syscalls={"connects": []}),
    Case("net.iface", "skip", "n2", commands={ADDR: None}),
    Case("net.twin-address", "pass"),
    Case(
        "net.twin-address",
        "warn",
        "172.17.0.1 is on docker0 of n1, n2, n3",
        change=with_docker,
        everywhere=True,
    ),
    Case("net.twin-address", "pass", change=with_docker),
    Case("net.twin-address", "skip", commands={ADDR: None}, everywhere=True),
    Case("net.pair", "pass", "6 connections"),
    Case(
        "net.pair",
        "fail",
        "n2 cannot reach n1 at 10.77.0.11 port 41873 (timeout)",
        syscalls={"connects": [connect("n1", "10.77.0.11", state="timeout"), connect("n3", "10.77.0.13")]},
    ),
    Case("net.pair", "pass", syscalls={"connects": [connect("n1", "10.77.0.11", state="not listening")]}),
    Case("net.pair", "skip", syscalls={"connects": []}, everywhere=True),
    Case("fs.shared", "pass", "/home/user/work"),
    Case(
        "fs.shared",
        "fail",
        "/home/user/work is not shared: n2",
        syscalls={"shared": [shared("/home/user/work", state="missing")]},
    ),
    Case(
        "fs.shared",
        "fail",
        "does not see what n2 wrote",
        syscalls={"shared": [shared("/x", answered="missing")]},
    ),
    Case("fs.shared", "warn", "n2, up to 4.5 s", syscalls={"shared": [shared("/x", seconds=4.5)]}),
    Case("fs.shared", "skip", syscalls={"shared": None}, everywhere=True),
    Case("fs.ids", "pass"),
    Case("fs.ids", "warn", "uid 1001, gid 20001 on n2", syscalls={"uid": 1001}),
    Case("fs.ids", "skip", syscalls={"uid": None}, everywhere=True),
    Case("os.memory", "pass"),
    Case("os.memory", "warn", "512 GiB on n2", files={"/proc/meminfo": "MemAvailable: 536870912 kB\n"}),
    Case("os.memory", "skip", files={"/proc/meminfo": None}, everywhere=True),
    Case("os.tuning", "pass", "the same kernel"),
    Case(
        "os.tuning",
        "warn",
        "6.8.0-51-generic on n2",
        files={"/proc/sys/kernel/osrelease": "6.8.0-51-generic\n"},
    ),
    Case("os.tuning", "warn", "2.28 on n2", syscalls={"glibc": "2.28"}),
    Case(
        "os.tuning",
        "skip",
        files={"/proc/sys/kernel/osrelease": None},
        syscalls={"glibc": None},
        everywhere=True,
    ),
]


@pytest.mark.parametrize("case", NODES, ids=str)
def test_node(case: Case) -> None:
    holds(case, case.on_node())


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pool(case: Case) -> None:
    holds(case, case.over_pool())


def test_memory_may_not_be_locked_only_where_something_would_lock_it() -> None:
    assert recorded("eth-only").syscall("rlimit_memlock") == 8388608
    assert on_node("os.memlock", recorded("eth-only")).verdict == "pass"


def test_few_open_files_are_too_few_for_many_nodes() -> None:
    few = {f"n{number}": changed(healthy(1), syscalls={"rlimit_nofile_hard": 2048}) for number in range(9)}
    findings = [each for each in judge(few, ASKED).findings if each.id == "os.nofile"]
    assert {each.verdict for each in findings} == {"fail"}
    eight = dict(list(few.items())[:8])
    assert {each.verdict for each in judge(eight, ASKED).findings if each.id == "os.nofile"} == {"pass"}


def test_a_firewall_on_one_node_names_that_node() -> None:
    nodes = {}
    for number in (1, 2, 3):
        peers = [other for other in (1, 2, 3) if other != number]
        tried = [
            connect(f"n{peer}", f"10.77.0.{10 + peer}", state="EHOSTUNREACH" if 3 in (number, peer) else "ok")
            for peer in peers
        ]
        nodes[f"n{number}"] = changed(healthy(number), syscalls={"connects": tried})
    finding = over_pool("net.pair", nodes)
    assert finding.nodes == ("n3",)


def test_the_head_cannot_write_to_the_shared_folder() -> None:
    nodes = {f"n{number}": healthy(number) for number in (1, 2)}
    nodes["n1"] = changed(nodes["n1"], syscalls={"shared": [shared("/x", state="EROFS")]})
    finding = over_pool("fs.shared", nodes)
    assert (finding.verdict, finding.nodes) == ("fail", ("n1",))
    assert "n1 cannot write to /x: EROFS" in finding.message


def test_the_fix_for_a_port_is_about_who_chose_it() -> None:
    taken, refused = (
        changed(healthy(1), syscalls=port("EADDRINUSE", STALE)),
        changed(healthy(1), syscalls=port("EACCES")),
    )
    assert "leave master_port out of the profile" in on_node("port.free", taken).fix
    assert "try again" in on_node("port.free", taken, replace(ASKED, took_port=True)).fix
    assert "1024 and above" in on_node("port.free", refused).fix
