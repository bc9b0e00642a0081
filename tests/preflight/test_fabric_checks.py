"""The fabric, OFED and GPUDirect: small changes to healthy nodes, and what is said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from preflight.cases import ASKED, Case, holds
from preflight.healthy import healthy
from preflight.recordings import changed, recorded, without
from rankdeck_backends.preflight.judge import judge
from rankdeck_backends.preflight.subject import Asked
from rankdeck_backends.preflight.variables import variables_of
from rankdeck_profiles.readings import Readings

SYS = "/sys/class/infiniband"
PORT = f"{SYS}/mlx5_3/ports/1"
MODULES = "/proc/modules"
ADDR = ("ip", "-json", "addr")
TOPO = ("nvidia-smi", "topo", "-m")
OFED = ("ofed_info", "-s")
FI_INFO = ("/opt/amazon/efa/bin/fi_info", "-p", "efa", "-t", "FI_EP_RDM")
SYMBOLS = f"{PORT}/counters/symbol_error"
UPTIME = {"/proc/uptime": "1000.50 2000.10\n"}
CHASSIS = "/sys/class/dmi/id/product_name"


def again(counts: dict[str, int]) -> dict[str, object]:
    """What was read 5.1 s after UPTIME."""
    return {"files_again": {"/proc/uptime": "1005.60 2000.20\n", **{p: f"{n}\n" for p, n in counts.items()}}}


def no_rdma(readings: Readings) -> Readings:
    """Neither cards nor their devices."""
    cards = [
        path.rpartition("/")[0] + "/"
        for path, text in readings.files.items()
        if path.startswith("/sys/bus/pci/") and path.endswith("/class") and text.startswith("0x0207")
    ]
    return changed(without(readings, SYS, "/sys/class/infiniband_verbs/", *cards), commands={TOPO: None})


def no_devices(readings: Readings) -> Readings:
    """Cards, but no driver for them."""
    return without(readings, SYS, "/sys/class/infiniband_verbs/")


def without_module(name: str):
    def change(readings: Readings) -> Readings:
        lines = [line for line in readings.files[MODULES].splitlines() if not line.startswith(f"{name} ")]
        return changed(without(readings, f"/sys/module/{name}/"), files={MODULES: "\n".join(lines) + "\n"})

    return change


def of_kernel(name: str):
    """A module of the kernel's own: no taint."""

    def change(readings: Readings) -> Readings:
        lines = [
            line.replace(" (OE)", "") if line.startswith(f"{name} ") else line
            for line in readings.files[MODULES].splitlines()
        ]
        return changed(readings, files={MODULES: "\n".join(lines) + "\n"})

    return change


def every_port(readings: Readings, **values: str) -> Readings:
    return changed(
        readings,
        files={
            path: values[path.rpartition("/")[2]]
            for path in readings.files
            if path.startswith(SYS) and "/ports/" in path and path.rpartition("/")[2] in values
        },
    )


def subnet(readings: Readings) -> Readings:
    """All ports in another InfiniBand subnet."""
    files = {
        path: text.replace("fe80:0000:0000:0000", "fe80:0000:0000:0001")
        for path, text in readings.files.items()
        if path.startswith(SYS) and path.endswith("/gids/0")
    }
    return changed(readings, files=files)


def keys(**by_index: str):
    """The partition keys of all ports: `_0="0x8001"`."""

    def change(readings: Readings) -> Readings:
        ports = {path.partition("/state")[0] for path in readings.files if path.endswith("/ports/1/state")}
        return changed(
            without(readings, *(f"{port}/pkeys/" for port in ports)),
            files={
                f"{port}/pkeys/{name[1:]}": f"{key}\n" for port in ports for name, key in by_index.items()
            },
        )

    return change


def same_guid(readings: Readings) -> Readings:
    return changed(readings, files={f"{SYS}/mlx5_0/node_guid": healthy(1).files[f"{SYS}/mlx5_0/node_guid"]})


def swapped_slots(readings: Readings) -> Readings:
    one, other = f"{SYS}/mlx5_0/device/uevent", f"{SYS}/mlx5_1/device/uevent"
    return changed(readings, files={one: readings.files[other], other: readings.files[one]})


def user(**variables: str) -> dict[tuple[str, ...], str]:
    listed = "".join(f"{name}={value}\n" for name, value in variables.items())
    return {("env",): f"HOME=/home/user\nPATH=/usr/bin:/bin\n{listed}"}


def many_cards(readings: Readings) -> Readings:
    """As if mlx5_1 had a namesake mlx5_10."""
    start = f"{SYS}/mlx5_1/"
    more = {
        f"{SYS}/mlx5_10/{path.removeprefix(start)}": text
        for path, text in readings.files.items()
        if path.startswith(start)
    }
    return changed(readings, files=more)


def roce(readings: Readings) -> Readings:
    """The recorded RoCE node in this one's place."""
    number = readings.text("hostname") or "n1"
    base = recorded("roce-bond-a")
    host = int(number[1:])
    listed = base.command(*ADDR)
    assert listed is not None
    moved = {path: text.replace("0a5a:011f", f"0a5a:01{host:02x}") for path, text in base.files.items()}
    return changed(
        replace(base, files=moved),
        files={"/proc/sys/kernel/hostname": f"{number}\n"},
        commands={ADDR: listed.stdout.replace("10.90.1.31", f"10.90.1.{host}")},
        syscalls={"hostname": number},
    )


def gid_at_five(readings: Readings) -> Readings:
    start = f"{SYS}/mlx5_bond_0/ports/1"
    value = readings.files[f"{start}/gids/3"]
    return changed(
        readings,
        files={
            f"{start}/gids/3": "fe80:0000:0000:0000:0050:c2ff:fe00:9020\n",
            f"{start}/gids/5": value,
            f"{start}/gid_attrs/types/5": "RoCE v2\n",
            f"{start}/gid_attrs/ndevs/5": "bond0\n",
            f"{start}/gids/2": None,
        },
    )


def without_address(readings: Readings) -> Readings:
    start = f"{SYS}/mlx5_bond_0/ports/1/gids"
    return changed(readings, files={f"{start}/2": None, f"{start}/3": None})


def other_network(readings: Readings) -> Readings:
    """The RoCE port in another network: 10.91.1.x."""
    files = {path: text.replace(":0a5a:", ":0a5b:") for path, text in readings.files.items()}
    listed = readings.command(*ADDR)
    assert listed is not None
    return changed(replace(readings, files=files), commands={ADDR: listed.stdout.replace("10.90.", "10.91.")})


def routes(*networks: str):
    told = json.dumps([{"dst": network, "dev": "bond0"} for network in networks])

    def change(readings: Readings) -> Readings:
        return changed(roce(readings), commands={("ip", "-json", "route", "show", "table", "all"): told})

    return change


def two_rails(readings: Readings) -> Readings:
    """A second RoCE port, in a network of its own."""
    readings = roce(readings)
    start = f"{SYS}/mlx5_bond_0/"
    more = {
        f"{SYS}/mlx5_1/{path.removeprefix(start)}": text.replace(":0a5a:01", ":0a5a:02")
        for path, text in readings.files.items()
        if path.startswith(start)
    }
    listed = readings.command(*ADDR)
    assert listed is not None
    entries = json.loads(listed.stdout)
    second = json.loads(json.dumps(next(each for each in entries if each["ifname"] == "bond0")))
    second["ifname"] = "bond1"
    for info in second["addr_info"]:
        info["local"] = info["local"].replace("10.90.1.", "10.90.2.")
    return changed(
        readings,
        files={
            **{path: text.replace("bond0", "bond1") for path, text in more.items()},
            "/sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1\n",
        },
        commands={ADDR: json.dumps([*entries, second])},
        syscalls={"uverbs_open": {"uverbs0": "ok", "uverbs1": "ok"}},
    )


def efa(readings: Readings) -> Readings:
    return changed(recorded("efa-p4d"), syscalls={"hostname": readings.text("hostname")})


def one_efa_less(readings: Readings) -> Readings:
    return without(efa(readings), f"{SYS}/rdmap16s27/")


def no_peermem(readings: Readings) -> Readings:
    """Not loaded, and NVIDIA's module is the closed one."""
    readings = without_module("nvidia_peermem")(readings)
    return changed(
        readings,
        files={
            MODULES: readings.files[MODULES].replace("nvidia_peermem,", ""),
            "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08\n",
        },
    )


def unregistered(readings: Readings) -> Readings:
    """Loaded, and not among ib_core's users; dma-buf works."""
    lines = [
        line.replace("nvidia_peermem,", "") if line.startswith("ib_core ") else line
        for line in readings.files[MODULES].splitlines()
    ]
    return changed(readings, files={MODULES: "\n".join(lines) + "\n"})


def broken_peermem(readings: Readings) -> Readings:
    closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08\n"
    return changed(unregistered(readings), files={"/proc/driver/nvidia/version": closed})


def no_gpus(readings: Readings) -> Readings:
    gpus = [
        path.rpartition("/")[0] + "/"
        for path, text in readings.files.items()
        if path.startswith("/sys/bus/pci/") and text.strip() == "0x10de"
    ]
    return changed(
        without(readings, "/proc/driver/nvidia", "/sys/module/nvidia", *gpus), commands={TOPO: None}
    )


def far_cards(readings: Readings) -> Readings:
    listed = readings.command(*TOPO)
    assert listed is not None
    return changed(readings, commands={TOPO: listed.stdout.replace("PIX", "PHB")})


def virtual(readings: Readings) -> Readings:
    return changed(far_cards(readings), files={CHASSIS: "Standard PC (Q35 + ICH9, 2009)\n"})


def iommu(kind: str) -> dict[str, str]:
    return {f"/sys/kernel/iommu_groups/{number}/type": f"{kind}\n" for number in range(3)}


def devinfo(mtu: int) -> dict[tuple[str, ...], str]:
    names = [f"mlx5_{number}" for number in range(8)]
    return {
        ("ibv_devinfo",): "".join(
            f"hca_id:\t{name}\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\t\t\tactive_mtu:\t\t{mtu} (5)\n"
            for name in names
        )
    }


NODES = [
    Case("ib.present", "pass", "8 RDMA devices"),
    Case("ib.present", "fail", "8 InfiniBand cards on the PCI bus", change=no_devices),
    Case("ib.present", "skip", "no RDMA hardware", change=no_rdma),
    Case("ib.port-state", "pass", "8 of 8 ports ACTIVE"),
    Case(
        "ib.port-state",
        "fail",
        "mlx5_3:1 is DOWN (Polling)",
        files={f"{PORT}/state": "1: DOWN\n", f"{PORT}/phys_state": "2: Polling\n"},
    ),
    Case(
        "ib.port-state",
        "fail",
        "mlx5_3:1 is DOWN (Disabled)",
        files={f"{PORT}/state": "1: DOWN\n", f"{PORT}/phys_state": "3: Disabled\n"},
    ),
    Case("ib.port-state", "skip", change=no_rdma),
    Case("ib.subnet-manager", "pass"),
    Case(
        "ib.subnet-manager",
        "fail",
        "no subnet manager reached mlx5_3:1",
        files={f"{PORT}/state": "2: INIT\n", f"{PORT}/sm_lid": "0x0\n"},
    ),
    Case("ib.subnet-manager", "skip", change=roce),
    Case("ib.link-layer", "pass", "all ports are InfiniBand"),
    Case("ib.link-layer", "warn", "more than one kind", files={f"{PORT}/link_layer": "Ethernet\n"}),
    Case("ib.link-layer", "skip", change=no_rdma),
    Case("ib.rate", "pass", "400 Gb/sec (4X NDR)"),
    Case(
        "ib.rate",
        "fail",
        "mlx5_3:1 runs at 100 Gbit/s, others of its model at 400",
        files={f"{PORT}/rate": "100 Gb/sec (1X NDR)\n"},
    ),
    Case("ib.rate", "skip", change=no_rdma),
    Case("ib.guid", "pass"),
    Case(
        "ib.guid",
        "fail",
        "mlx5_3: a virtual function without a GUID",
        files={f"{SYS}/mlx5_3/node_guid": "0000:0000:0000:0000\n"},
    ),
    Case("ib.guid", "skip", change=efa),
    Case("ib.errors", "pass"),
    Case("ib.errors", "warn", "symbol_error 4711", files={SYMBOLS: "4711\n"}),
    Case("ib.errors", "warn", "link_downed at least 255", files={f"{PORT}/counters/link_downed": "255\n"}),
    Case("ib.errors", "pass", "none grew within 5.1 s", files=UPTIME, syscalls=again({SYMBOLS: 0})),
    Case(
        "ib.errors",
        "warn",
        "errors on the wire now: mlx5_3:1 symbol_error grew by 2 within 5.1 s",
        files=UPTIME,
        syscalls=again({SYMBOLS: 2}),
    ),
    Case(
        "ib.errors",
        "warn",
        "grew by 1 between two looks; errors on the wire since the counters were cleared: mlx5_3:1 symbol",
        files={SYMBOLS: "11\n"},
        syscalls={"files_again": {SYMBOLS: "12\n"}},
    ),
    Case(
        "ib.errors",
        "pass",
        "none grew",
        files={SYMBOLS: "9\n"},
        syscalls=again({SYMBOLS: 0}),
    ),
    Case("ib.errors", "pass", syscalls={"files_again": {SYMBOLS: ["7"], "x": None}}),
    Case("ib.errors", "pass", syscalls={"files_again": "7"}),
    Case("ib.errors", "skip", change=efa),
    Case("ib.flap", "pass"),
    Case("ib.flap", "warn", "ibp94s0 40 times", files={"/sys/class/net/ibp94s0/carrier_changes": "40\n"}),
    Case("ib.flap", "warn", "ibp94s0 8 times", files={"/sys/class/net/ibp94s0/carrier_changes": "8\n"}),
    Case("ib.flap", "pass", syscalls=again({"/sys/class/net/ibp94s0/carrier_changes": 2})),
    Case(
        "ib.flap",
        "warn",
        "the carrier comes and goes now: ibp94s0 changed 2 times within 5.1 s",
        files={"/sys/class/net/ibp94s0/carrier_changes": "2\n", **UPTIME},
        syscalls=again({"/sys/class/net/ibp94s0/carrier_changes": 4}),
    ),
    Case("ib.flap", "skip", change=no_rdma),
    Case("ib.pcie", "pass"),
    Case(
        "ib.pcie",
        "warn",
        "mlx5_3 has 32 GT/s x8 of 32 GT/s x16",
        files={f"{SYS}/mlx5_3/device/current_link_width": "8\n"},
    ),
    Case(
        "ib.pcie",
        "warn",
        "its PCI link carries 126 Gbit/s, its ports 400",
        files={f"{SYS}/mlx5_3/device/{name}_link_speed": "8 GT/s\n" for name in ("current", "max")},
    ),
    Case("ib.pcie", "skip", change=efa),
    Case("ib.mtu", "pass", "4096", commands=devinfo(4096)),
    Case(
        "ib.mtu",
        "warn",
        "at most 1024 bytes",
        base=roce,
        files={"/sys/class/net/bond0/mtu": "1500\n"},
        commands={("ibv_devinfo",): None},
    ),
    Case("ib.mtu", "skip", commands={("ibv_devinfo",): None}),
    Case("roce.gid", "pass", "index 3", base=roce),
    Case("roce.gid", "fail", "no RoCE v2 address", base=roce, change=without_address),
    Case(
        "roce.gid",
        "warn",
        "other ports have one",
        base=two_rails,
        files={f"{SYS}/mlx5_1/ports/1/gids/3": None},
    ),
    Case("roce.gid", "skip"),
    Case("efa.ready", "pass", base=efa),
    Case("efa.ready", "fail", "no libnccl-net", base=efa, syscalls={"net_plugins": []}),
    Case("efa.ready", "fail", "libfabric has no provider", base=efa, commands={FI_INFO: 61}),
    Case("efa.ready", "fail", "not ACTIVE", base=efa, files={f"{SYS}/rdmap16s27/ports/1/state": "1: DOWN\n"}),
    Case("efa.ready", "skip", "neither fi_info nor", base=efa, commands={FI_INFO: None}),
    Case("efa.ready", "skip"),
    Case("ofed.modules", "pass"),
    Case("ofed.modules", "fail", "not loaded: ib_uverbs", change=without_module("ib_uverbs")),
    Case(
        "ofed.modules",
        "warn",
        "ib_umad is not loaded",
        change=without_module("ib_umad"),
        files={"/sys/class/infiniband_mad/abi_version": None},
    ),
    Case("ofed.modules", "skip", change=no_rdma),
    Case("ofed.stack", "pass", "OFED-internal-25.10-1.7.1"),
    Case(
        "ofed.stack",
        "warn",
        "the loaded mlx5_core is the kernel's own",
        change=of_kernel("mlx5_core"),
        files={"/sys/module/mlx5_core/version": None},
    ),
    Case("ofed.stack", "skip", "container", commands={OFED: 127}, syscalls={"in_container": True}),
    Case("ofed.stack", "skip", "ofed_info -s said `OFED of our own`", commands={OFED: "OFED of our own\n"}),
    Case("ofed.stack", "skip", "ofed_info -s said nothing", commands={OFED: ""}),
    Case("ofed.stack", "skip", "ofed_info -s ended with status 3 and said nothing", commands={OFED: 3}),
    Case("ofed.stack", "skip", "ofed_info -s gave no answer in time", commands={OFED: 124}),
    Case(
        "ofed.stack",
        "skip",
        "ofed_info -s said `OFED of our own`",
        commands={OFED: "OFED of our own\n"},
        syscalls={"in_container": True},
    ),
    Case("ofed.halves", "pass"),
    Case("ofed.halves", "fail", "mlx5_core from the kernel", change=of_kernel("mlx5_core")),
    Case("ofed.halves", "warn", "the loaded one", commands={OFED: "OFED-internal-26.01-1.0.0:\n"}),
    Case("ofed.halves", "skip", files={MODULES: None}),
    Case("ofed.uverbs", "pass"),
    Case("ofed.uverbs", "fail", "mlx5_0 (EACCES)", syscalls={"uverbs_open": {"uverbs0": "EACCES"}}),
    Case("ofed.uverbs", "skip", syscalls={"uverbs_open": None}),
    Case("ofed.userland", "pass"),
    Case("ofed.userland", "fail", "does not load", syscalls={"libibverbs": "missing"}),
    Case("ofed.userland", "fail", "sees 7 of 8", syscalls={"libibverbs_devices": 7}),
    Case("ofed.userland", "skip", syscalls={"libibverbs": None}),
    Case("gdr.path", "pass", "peer memory and dma-buf"),
    Case("gdr.path", "warn", "no way", change=no_peermem),
    Case("gdr.path", "fail", "not registered", change=broken_peermem),
    Case("gdr.path", "skip", change=no_gpus),
    Case("gdr.registered", "pass"),
    Case("gdr.registered", "warn", "dma-buf works", change=unregistered),
    Case("gdr.registered", "fail", change=broken_peermem),
    Case("gdr.registered", "skip", change=no_peermem),
    Case("gdr.acs-iommu", "pass", "identity", files=iommu("identity")),
    Case("gdr.acs-iommu", "warn", "3 of 3 groups", files=iommu("DMA-FQ")),
    Case("gdr.acs-iommu", "warn", "without iommu=pt", files={"/proc/cmdline": "ro intel_iommu=on\n"}),
    Case("gdr.acs-iommu", "skip", "virtual", files={CHASSIS: "Standard PC (i440FX + PIIX, 1996)\n"}),
    Case("gdr.affinity", "pass"),
    Case("gdr.affinity", "warn", "no card near", change=far_cards),
    Case("gdr.affinity", "warn", "no topology file", change=virtual),
    Case(
        "gdr.affinity",
        "pass",
        "virtualTopology.xml",
        change=virtual,
        files={"/var/run/nvidia-topologyd/virtualTopology.xml": "<system/>\n"},
    ),
    Case("gdr.affinity", "skip", commands={TOPO: None}),
]

POOLS = [
    Case("ib.link-layer", "pass"),
    Case("ib.link-layer", "fail", "no kind of RDMA port", change=roce),
    Case("ib.link-layer", "skip", change=no_rdma, everywhere=True),
    Case("ib.pool-uniform", "pass", "8 InfiniBand ports at 400 Gbit/s"),
    Case("ib.pool-uniform", "fail", "not on all: mlx5_3:1", files={f"{PORT}/state": "1: DOWN\n"}),
    Case("ib.pool-uniform", "fail", "no usable port on n2", change=no_rdma),
    Case("ib.pool-uniform", "skip", change=no_rdma, everywhere=True),
    Case("ib.subnet", "pass"),
    Case("ib.subnet", "fail", "different subnets", change=subnet),
    Case(
        "ib.subnet",
        "warn",
        "several subnets",
        files={f"{PORT}/gids/0": "fe80:0000:0000:0007:0250:c2ff:fe00:0013\n"},
        everywhere=True,
    ),
    Case("ib.subnet", "skip", change=roce, everywhere=True),
    Case("ib.pkey", "pass", "0xffff"),
    Case("ib.pkey", "fail", "different partitions: 0xffff on n1, n3; 0x801f on n2", change=keys(_0="0x801f")),
    Case("ib.pkey", "fail", "limited members", change=keys(_0="0x7fff"), everywhere=True),
    Case("ib.pkey", "pass", change=keys(_0="0x7fff")),
    Case("ib.pkey", "skip", change=roce, everywhere=True),
    Case("ib.guid", "pass"),
    Case("ib.guid", "fail", "on n1 (mlx5_0) and on n2 (mlx5_0)", change=same_guid),
    Case("ib.guid", "skip", change=efa, everywhere=True),
    Case("ib.naming", "pass"),
    Case("ib.naming", "warn", "2 of 8 device names are in other PCI slots", change=swapped_slots),
    Case(
        "ib.naming",
        "warn",
        "mlx5_1 takes mlx5_10, too",
        change=many_cards,
        commands=user(NCCL_IB_HCA="mlx5_1"),
        everywhere=True,
    ),
    Case(
        "ib.naming",
        "fail",
        "NCCL_IB_HCA names mlx5_7, which n2 does not have",
        change=lambda readings: without(readings, f"{SYS}/mlx5_7/"),
        asked=replace(ASKED, env={"NCCL_IB_HCA": "=mlx5_0,mlx5_7"}),
    ),
    Case("ib.naming", "skip", change=no_rdma, everywhere=True),
    Case("ib.firmware", "pass"),
    Case("ib.firmware", "warn", "28.39.1002 on n2", files={f"{SYS}/mlx5_0/fw_ver": "28.39.1002\n"}),
    Case("ib.firmware", "warn", "different models", files={f"{SYS}/mlx5_0/hca_type": "MT4131\n"}),
    Case("ib.firmware", "skip", change=no_rdma, everywhere=True),
    Case("ib.mtu", "pass", "4096", base=lambda readings: changed(readings, commands=devinfo(4096))),
    Case(
        "ib.mtu",
        "fail",
        "4096 on n1, n3; 2048 on n2",
        base=lambda readings: changed(readings, commands=devinfo(4096)),
        commands=devinfo(2048),
    ),
    Case("ib.mtu", "skip", commands={("ibv_devinfo",): None}, everywhere=True),
    Case("roce.gid-uniform", "pass", "index 3", base=roce),
    Case("roce.gid-uniform", "warn", "3 on n1, n3; 5 on n2", base=roce, change=gid_at_five),
    Case(
        "roce.gid-uniform",
        "fail",
        "NCCL_IB_GID_INDEX=3 is no RoCE v2 IPv4 address on n2; there it is at index 5",
        base=roce,
        change=gid_at_five,
        asked=replace(ASKED, env={"NCCL_IB_GID_INDEX": "3"}),
    ),
    Case("roce.gid-uniform", "skip"),
    Case("roce.subnet", "pass", base=roce),
    Case("roce.subnet", "pass", base=routes("10.0.0.0/8"), change=other_network),
    Case("roce.subnet", "fail", "no route between", base=routes("10.90.1.0/24"), change=other_network),
    Case("roce.subnet", "warn", "NCCL_CROSS_NIC", base=two_rails),
    Case("roce.subnet", "skip", "routes are not known", base=roce, change=other_network),
    Case("efa.ready", "pass", base=efa),
    Case("efa.ready", "fail", "the number of EFA devices differs", base=efa, change=one_efa_less),
    Case("efa.ready", "skip"),
    Case("ofed.stack", "pass"),
    Case("ofed.stack", "fail", "OFED-internal-24.10-1.1.4", commands={OFED: "OFED-internal-24.10-1.1.4:\n"}),
    Case("ofed.stack", "warn", "OFED-internal-25.10-1.8.0", commands={OFED: "OFED-internal-25.10-1.8.0:\n"}),
    Case("ofed.stack", "skip", change=no_rdma, everywhere=True),
    Case("gdr.uniform", "pass"),
    Case("gdr.uniform", "fail", "does not work on n2", change=no_peermem),
    Case("gdr.uniform", "skip", change=no_gpus, everywhere=True),
]


@pytest.mark.parametrize("case", NODES, ids=str)
def test_node(case: Case) -> None:
    holds(case, case.on_node())


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pool(case: Case) -> None:
    finding = case.over_pool()
    holds(case, finding)
    if (
        case.verdict in ("warn", "fail")
        and not case.everywhere
        and case.check not in ("ib.link-layer", "roce.subnet")
    ):
        assert "n2" in finding.nodes


def test_a_port_that_is_down_everywhere_is_not_in_use() -> None:
    nodes = {
        f"n{number}": changed(healthy(number), files={f"{PORT}/state": "1: DOWN\n"}) for number in (1, 2, 3)
    }
    report = judge(nodes, ASKED)
    assert not report.stopping
    (finding,) = [each for each in report.on("n1") if each.id == "ib.port-state"]
    assert "not in use: mlx5_3:1" in finding.message


@pytest.mark.parametrize(
    ("change", "cause", "effects"),
    [
        (without_module("ib_uverbs"), "ofed.modules", {"ofed.uverbs", "ib.pool-uniform", "ofed.userland"}),
        (of_kernel("mlx5_core"), "ofed.halves", set()),
        (broken_peermem, "gdr.registered", {"gdr.path", "gdr.uniform"}),
    ],
)
def test_a_cause_is_told_and_its_effects_point_to_it(change, cause: str, effects: set[str]) -> None:
    broken = change(healthy(2))
    if cause == "ofed.modules":  # without the module the kernel has no such devices
        broken = changed(
            without(broken, "/sys/class/infiniband_verbs/"),
            syscalls={"uverbs_open": {}, "libibverbs_devices": 0},
        )
    report = judge({"n1": healthy(1), "n2": broken, "n3": healthy(3)}, ASKED)
    assert [finding.id for finding in report.stopping] == [cause]
    assert {each.id for each in report.findings if each.explained_by == cause} == effects


def test_a_key_at_another_index_is_handled_by_a_variable() -> None:
    nodes = {
        "n1": keys(_0="0x8001", _1="0x8002")(healthy(1)),
        "n2": keys(_0="0x8003", _1="0x8002")(healthy(2)),
    }
    report = judge(nodes, ASKED)
    (finding,) = [each for each in report.of_pool if each.id == "ib.pkey"]
    assert finding.verdict == "fail"
    assert finding.handled_by == "NCCL_IB_PKEY"
    assert not report.stopping


def test_a_reason_that_each_node_has_its_own_names_whose_is_told() -> None:
    nodes = {name: no_rdma(healthy(number)) for number, name in enumerate(("n1", "n2"), start=1)}
    told = {each.name: each for each in variables_of(judge(nodes, replace(ASKED, recorded=True)))}
    interface = told["NCCL_SOCKET_IFNAME"]
    assert interface.nodes == ("n1", "n2")
    assert interface.why.startswith("each for its own reason; on n1: holds the node's address ")
    shared = [each for each in told.values() if not each.why.startswith("each for its own")]
    assert all("on n1" not in each.why for each in shared)


def test_azure_s_accelerated_networking_is_no_fabric_and_stops_nothing() -> None:
    """Azure's sizes without InfiniBand have an RDMA device all the same, which NCCL would take in vain."""
    nodes = {
        case: changed(
            without(recorded(case), *(f"{SYS}/mlx5_ib{number}/" for number in range(8))),
            syscalls={"libibverbs_devices": 1},
        )
        for case in ("azure-ndv4-a", "azure-ndv4-b")
    }
    report = judge(nodes, replace(ASKED, recorded=True))
    assert not [each for each in report.stopping if each.id.startswith(("ib.", "roce.", "ofed.", "gdr."))]
    assert report.variables is not None
    assert report.variables.handles("NCCL_IB_DISABLE", "azure-ndv4-a")


def test_what_only_matters_between_machines_stops_no_run_on_one() -> None:
    broken = broken_peermem(without_module("ib_uverbs")(healthy()))
    assert not judge({"n1": broken}, ASKED).stopping
    assert judge({"n1": broken}, replace(ASKED, recorded=True)).stopping
    local = Asked(addresses={"n1": "127.0.0.1", "n2": "127.0.0.2"})
    report = judge({"n1": broken, "n2": broken}, local)
    assert not [each for each in report.stopping if each.id.startswith(("ib.", "ofed.", "gdr."))]
    assert report.variables is None
