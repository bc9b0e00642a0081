"""What is usual on one ordinary machine stops no run there, and still stops one over several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from preflight.cases import ASKED, on_node
from preflight.healthy import healthy
from preflight.recordings import changed, recorded
from rankdeck_backends.preflight.judge import judge
from rankdeck_backends.preflight.subject import Asked
from rankdeck_profiles.readings import Readings

LOCAL = Asked(slots=2, master_port=29500, addresses={"127.0.0.1": "127.0.0.1"})
TWO = replace(LOCAL, addresses={"127.0.0.1": "127.0.0.1", "127.0.0.2": "127.0.0.2"})
NOUVEAU = {
    "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    "/proc/modules": "nouveau 2306048 4 - Live 0x0000000000000000\n",
}
ONE_GPU = "index,uuid,pci.bus_id,name,driver_version,memory.total,memory.used,mig.mode.current,compute_mode"


def interface(name: str, address: str = "", up: bool = True) -> dict[str, Any]:
    flags = ["UP", "LOWER_UP"] if up else ["UP", "NO-CARRIER"]
    info = (
        [{"local": address.partition("/")[0], "prefixlen": int(address.partition("/")[2])}] if address else []
    )
    return {"ifname": name, "flags": flags, "addr_info": info}


def laptop(*interfaces: Mapping[str, Any]) -> Readings:
    """Debian on a laptop without any GPU that computes: as it is installed."""
    every = [{**interface("lo", "127.0.0.1/8"), "flags": ["LOOPBACK", "UP", "LOWER_UP"]}, *interfaces]
    return changed(
        Readings(),
        files={
            "/proc/sys/kernel/hostname": "laptop\n",
            "/proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
            "/proc/sys/kernel/numa_balancing": "0\n",
            "/proc/sys/kernel/random/boot_id": "0e4393fe-4000-49d2-8aac-c24d38f42791\n",
            "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
            "/proc/sys/vm/max_map_count": "65530\n",
            "/proc/modules": "i915 3678208 30 - Live 0x0000000000000000\n",
            "/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 3000000 kB\n",
            "/etc/hosts": "127.0.0.1 localhost\n127.0.1.1 laptop\n",
            "/sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n",
            "/sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n",
        },
        commands={("env",): "PATH=/usr/bin:/bin\n", ("ip", "-json", "addr"): json.dumps(every)},
        syscalls={
            "hostname": "laptop",
            "uid": 1000,
            "gid": 1000,
            "user": "alice",
            "home": "/home/alice",
            "in_container": False,
            "cpus_allowed": 2,
            "rlimit_memlock": 8388608,
            "rlimit_nofile": 1024,
            "rlimit_nofile_hard": 1048576,
            "shm_total_mib": 3900,
            "shm_avail_mib": 3700,
            "tmpdir": "/tmp",
            "tmp_free_mib": 30000,
            "tmp_writable": "ok",
            "linger": False,
            "kill_user_processes": False,
            "ntp_synchronized": False,
            "clock_offset_s": 0.0,
            "clock_error_s": 0.0,
            "resolve_self": ["127.0.1.1"],
            "libibverbs": "missing",
            "kfd_open": "ENOENT",
            "imex_channel": "ENOENT",
            "ports": [{"port": 29500, "address": "127.0.0.1", "state": "ok", "owner": None}],
            "connects": [],
            "ssh": {"state": "ok"},
            "python": {
                "asked": "python3",
                "state": "ok",
                "path": "/usr/bin/python3",
                "version": "3.11.2",
                "prefix": "/usr",
            },
            "torch": {"state": "ok", "version": "2.6.0+cu124", "cuda": "12.4", "hip": None},
        },
    )


WIFI = interface("wlp2s0", "192.168.1.23/24")
DOCKER = interface("docker0", "172.17.0.1/16")
NO_LINK = interface("enp0s31f6", up=False)

MACHINES = {
    "a laptop": laptop(WIFI, NO_LINK),
    "a laptop with docker": laptop(WIFI, DOCKER),
    "a laptop without a network": laptop(NO_LINK),
    "a laptop whose name is nowhere": changed(laptop(WIFI), syscalls={"resolve_self": []}),
    "a laptop with a driver of its own for NVIDIA": changed(laptop(WIFI), files=NOUVEAU),
    "a laptop with an old driver": changed(laptop(WIFI), syscalls={"cuda_driver": 11040}),
    "a desktop with one GPU": changed(
        laptop(WIFI),
        files={**NOUVEAU, "/proc/modules": "nvidia 1 0 - Live 0x0\n"},
        commands={
            (
                "nvidia-smi",
                f"--query-gpu={ONE_GPU}",
                "--format=csv",
            ): "0, GPU-1, 00000000:01:00.0, NVIDIA GeForce "
            "RTX 3060, 550.120, 12288 MiB, 1500 MiB, [N/A], Default\n"
        },
        syscalls={"shm_avail_mib": 64000},
    ),
    "a container": changed(
        laptop(interface("eth0", "172.17.0.2/16")),
        files={"/sys/fs/cgroup/pids.max": "100\n", "/sys/fs/cgroup/cpu.max": "100000 100000\n"},
        syscalls={
            "in_container": True,
            "uid": 0,
            "shm_total_mib": 64,
            "shm_avail_mib": 64,
            "rlimit_memlock": 65536,
            "rlimit_nofile_hard": 1024,
            "kill_user_processes": None,
            "resolve_self": ["172.17.0.2"],
        },
    ),
    "a machine that ends processes at log-out": changed(laptop(WIFI), syscalls={"kill_user_processes": True}),
    "two GPUs in a virtual machine": recorded("h200-vm"),
    "a workstation": recorded("eth-only"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_stops_a_run_on_it(machine: str) -> None:
    report = judge({"127.0.0.1": MACHINES[machine]}, LOCAL)
    assert [(each.id, each.message) for each in report.stopping] == []


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_stops_a_pool_of_two_nodes_on_it(machine: str) -> None:
    report = judge({"127.0.0.1": MACHINES[machine], "127.0.0.2": MACHINES[machine]}, TWO)
    assert [(each.id, each.message) for each in report.stopping] == []


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("net.hostname", {"resolve_self": ["127.0.1.1"]}),
        ("os.survive", {"kill_user_processes": True}),
        ("sw.cuda-driver", {"cuda_driver": 11040}),
        ("fs.shm", {"shm_avail_mib": 64}),
    ],
)
def test_the_same_fails_among_several(check: str, change: Mapping[str, Any]) -> None:
    assert on_node(check, changed(healthy(), syscalls=change)).verdict == "fail"


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("net.hostname", {"resolve_self": ["127.0.1.1"]}),
        ("os.memlock", {"rlimit_memlock": 65536}),
        ("fs.shm", {"shm_avail_mib": 64}),
    ],
)
def test_one_of_two_nodes_that_alone_was_reached_is_no_machine_of_its_own(
    check: str, change: Mapping[str, Any]
) -> None:
    gone = Readings(syscalls={"ssh": {"state": "connect", "message": "no route to host", "hint": ""}})
    asked = replace(ASKED, addresses={"n1": "10.0.0.1"})
    report = judge({"n1": changed(healthy(), syscalls=change), "n2": gone}, asked)
    (finding,) = (each for each in report.on("n1") if each.id == check)
    assert finding.verdict == "fail"
    assert "one machine" not in finding.message


def test_a_taken_port_stops_a_run_on_one_machine_too() -> None:
    taken = [{"port": 29500, "address": "127.0.0.1", "state": "EADDRINUSE", "owner": None}]
    report = judge({"127.0.0.1": changed(laptop(WIFI), syscalls={"ports": taken})}, LOCAL)
    assert [each.id for each in report.stopping] == ["port.free"]


@pytest.mark.parametrize(
    ("communication", "verdict"), [(None, "fail"), ("nccl", "fail"), ("gloo", "warn"), ("mpi", "warn")]
)
def test_broken_gpus_stop_a_run_that_needs_them(communication: str | None, verdict: str) -> None:
    asked = replace(ASKED, communication=communication)
    assert on_node("gpu.driver", changed_queries(healthy(), 9), asked).verdict == verdict
    assert on_node("gpu.count", healthy(), replace(asked, slots=16)).verdict == (
        "fail" if verdict == "fail" else "pass"
    )


def changed_queries(readings: Readings, status: int) -> Readings:
    """As if nvidia-smi could not talk to the driver."""
    return replace(
        readings,
        commands=tuple(
            replace(each, rc=status, stdout="NVIDIA-SMI has failed") if "--query-gpu" in each.line else each
            for each in readings.commands
        ),
    )


def test_a_broken_fabric_stops_no_run_over_gloo() -> None:
    nodes = {case: recorded(case) for case in ("ndr-ok-a", "ndr-port-down")}
    stopping = {each.id for each in judge(nodes, ASKED).stopping}
    assert "ib.port-state" in stopping
    over_gloo = judge(nodes, replace(ASKED, communication="gloo"))
    assert not [each.id for each in over_gloo.stopping if each.id.startswith(("ib.", "ofed.", "gdr."))]
    assert [each.id for each in over_gloo.findings if each.id == "ib.port-state" and each.verdict == "warn"]
