"""The text of sysfs and tools as small values: forms that drivers and releases really have."""

from __future__ import annotations

import ipaddress

import pytest

from preflight.recordings import recorded
from rankdeck_profiles.fabric.devices import Kind, Rate, devices
from rankdeck_profiles.fabric.gpudirect import gpudirect
from rankdeck_profiles.fabric.interfaces import interfaces
from rankdeck_profiles.fabric.modules import modules, user_stack
from rankdeck_profiles.fabric.natural import natural
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.sockets import nccl_candidates
from rankdeck_profiles.fabric.topology import topology
from rankdeck_profiles.readings import CommandReading, Readings
from rankdeck_profiles.versions import version

ROOT = "/sys/class/infiniband"


def said(*argv: str, out: str) -> Readings:
    return Readings(commands=(CommandReading(argv, 0, out),))


@pytest.mark.parametrize(
    ("text", "gbits", "width", "generation"),
    [
        ("800 Gb/sec (4X XDR)", 800, 4, "XDR"),
        ("200 Gb/sec (2X NDR)", 200, 2, "NDR"),
        ("2.5 Gb/sec (1X SDR)", 2.5, 1, "SDR"),
        ("10 Gb/sec (4X)", 10, 4, ""),  # older kernels
    ],
)
def test_rates(text: str, gbits: float, width: int, generation: str) -> None:
    assert Rate.parse(text) == Rate(gbits, width, generation, text)


@pytest.mark.parametrize("text", [None, "", "N/A", "fast"])
def test_what_is_no_rate(text: str | None) -> None:
    assert Rate.parse(text) is None


def test_a_card_of_which_only_some_ports_carry_data() -> None:
    """ConnectX-8 on B300 boards: twelve ports, of which the third, sixth, ninth and twelfth have a cable."""
    files = {f"{ROOT}/mlx5_0/node_type": "1: CA\n", f"{ROOT}/mlx5_0/node_guid": "0250:c2ff:fe00:0001\n"}
    for number in range(1, 13):
        state = ("4: ACTIVE", "5: LinkUp") if number % 3 == 0 else ("1: DOWN", "3: Disabled")
        for name, value in zip(("state", "phys_state", "link_layer"), (*state, "InfiniBand"), strict=True):
            files[f"{ROOT}/mlx5_0/ports/{number}/{name}"] = f"{value}\n"
    (device,) = devices(Readings(files))
    assert [port.number for port in device.ports] == list(range(1, 13))
    assert [port.name for port in device.ports if port.active] == [f"mlx5_0:{n}" for n in (3, 6, 9, 12)]


def test_devices_come_in_the_order_in_which_people_count() -> None:
    files = {f"{ROOT}/mlx5_{number}/node_type": "1: CA\n" for number in (10, 2, 1)}
    assert [device.name for device in devices(Readings(files))] == ["mlx5_1", "mlx5_2", "mlx5_10"]
    assert sorted(["gpu10", "gpu9", "a1b2", "a1b10"], key=natural) == ["a1b2", "a1b10", "gpu9", "gpu10"]


def test_kinds() -> None:
    start = f"{ROOT}/irdma0"
    iwarp = {f"{start}/node_type": "4: RNIC\n", f"{start}/ports/1/link_layer": "Ethernet\n"}
    (device,) = devices(Readings(iwarp))
    assert device.ports[0].kind is Kind.IWARP
    assert {port.kind for port in NodeFabric(recorded("efa-p4d")).ports} == {Kind.EFA}
    assert {port.kind for port in NodeFabric(recorded("roce-bond-a")).ports} == {Kind.ROCE}


def test_gids() -> None:
    (port,) = NodeFabric(recorded("roce-gid-drift")).ports
    assert [gid.index for gid in port.gids] == [0, 1, 2, 3, 4, 5]  # the unset one is left out
    assert port.roce_gid is not None
    assert port.roce_gid.index == 5
    assert port.roce_gid.ipv4 == ipaddress.IPv4Address("10.90.1.32")
    assert port.gids[0].ipv4 is None
    assert port.gids[0].prefix == "fe80:0000:0000:0000"


def test_counters_that_a_card_does_not_have() -> None:
    files = {
        f"{ROOT}/mlx5_0/node_type": "1: CA\n",
        f"{ROOT}/mlx5_0/ports/1/counters/symbol_error": "N/A (no PMA)\n",
    }
    (device,) = devices(Readings(files))
    assert device.ports[0].counters == {"symbol_error": "N/A (no PMA)"}


def test_module_lines() -> None:
    listed = modules(
        Readings(
            {
                "/proc/modules": (
                    "ib_core 495616 2 nvidia_peermem,ib_uverbs, Live 0x0000000000000000 (OE)\n"
                    "mlx5_core 2838528 0 - Live 0x0000000000000000\n"
                    "nvidia 54308864 1 nvidia_uvm, Loading 0x0000000000000000 (POE)\n"
                    "cut off\n"
                )
            }
        )
    )
    assert listed is not None
    assert set(listed) == {"ib_core", "mlx5_core", "nvidia"}
    assert listed["ib_core"].users == ("nvidia_peermem", "ib_uverbs")
    assert listed["ib_core"].out_of_tree
    assert listed["mlx5_core"].users == ()
    assert not listed["mlx5_core"].out_of_tree
    assert modules(Readings()) is None


@pytest.mark.parametrize(
    ("line", "flavour", "number"),
    [
        ("MLNX_OFED_LINUX-5.8-1.1.2.1:", "MLNX_OFED_LINUX", "5.8-1.1.2.1"),
        ("OFED-internal-24.10-1.1.4.0.200:", "OFED-internal", "24.10-1.1.4.0.200"),
        ("OFED-internal-25.10-1.7.1", "OFED-internal", "25.10-1.7.1"),
    ],
)
def test_which_ofed(line: str, flavour: str, number: str) -> None:
    found = user_stack(said("ofed_info", "-s", out=f"{line}\n\n"))
    assert found is not None
    assert (found.flavour, found.version) == (flavour, number)


def test_topology_with_underlined_head_and_without_cards() -> None:
    found = topology(
        said(
            "nvidia-smi",
            "topo",
            "-m",
            out=(
                "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
                "GPU0\t X \tNV18\t0-31\t0\t\tN/A\n"
                "GPU1\tNV18\t X \t0-31\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
            ),
        )
    )
    assert found is not None
    assert found.links == {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}
    assert not any(found.nics.values())
    assert found.best("GPU0") is None


def test_topology_names_the_cards_with_and_without_a_legend() -> None:
    found = NodeFabric(recorded("ndr-ok-a")).topology
    assert found is not None
    assert found.best("GPU3") == ("mlx5_3", "PIX")
    old = topology(
        said(
            "nvidia-smi",
            "topo",
            "-m",
            out="\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPHB\t0-15\nmlx5_0\tPHB\t X \t\n",
        )
    )
    assert old is not None
    assert old.best("GPU0") == ("mlx5_0", "PHB")


def test_interfaces() -> None:
    found = {each.name: each for each in interfaces(recorded("eth-only"))}
    assert found["enp3s0"].running
    assert found["enp3s0"].speed_mbit == 10000
    assert [str(each.ip) for each in found["enp3s0"].global_addresses] == ["192.168.7.51"]
    assert found["virbr0"].up
    assert not found["virbr0"].running
    assert found["docker0"].virtual
    assert found["br-5b1c0de7a901"].virtual
    assert found["lo"].loopback
    assert not found["lo"].global_addresses


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("eth-only", ["enp3s0", "br-5b1c0de7a901"]),
        ("efa-p4d", ["ens32"]),
        ("hdr-mlnxofed", ["ib0"]),
        ("roce-bond-a", ["eno8303", "bond0"]),
    ],
)
def test_what_nccl_would_take(case: str, names: list[str]) -> None:
    assert [each.name for each in nccl_candidates(interfaces(recorded(case)))] == names


def test_ways_into_gpu_memory() -> None:
    ways = {
        case: direct.ways if (direct := gpudirect(NodeFabric(recorded(case)))) else None
        for case in ("ndr-ok-a", "hdr-mlnxofed", "roce-bond-a", "ib-init-no-sm", "eth-only")
    }
    assert ways == {
        "ndr-ok-a": ("peer memory", "dma-buf"),
        "hdr-mlnxofed": ("peer memory",),
        "roce-bond-a": ("dma-buf",),
        "ib-init-no-sm": (),
        "eth-only": None,
    }


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("5.15.0-130-generic", (5, 15, 0)),
        ("2.27.3", (2, 27, 3)),
        ("12", (12,)),
        ("missing", None),
        (None, None),
    ],
)
def test_versions(text: str | None, numbers: tuple[int, ...] | None) -> None:
    assert version(text) == numbers


def test_which_machines_are_virtual() -> None:
    def machine(vendor: str, product: str) -> bool | None:
        folder = "/sys/class/dmi/id"
        return NodeFabric(
            Readings({f"{folder}/sys_vendor": f"{vendor}\n", f"{folder}/product_name": f"{product}\n"})
        ).virtual_machine

    assert machine("Microsoft Corporation", "Virtual Machine")
    assert machine("Amazon EC2", "p4d.24xlarge")
    assert machine("QEMU", "Standard PC (Q35 + ICH9, 2009)")
    assert not machine("Amazon EC2", "i3.metal")
    assert not machine("NVIDIA", "DGXH100")
    assert not machine("Microsoft Corporation", "Surface Laptop")
    assert NodeFabric(Readings()).virtual_machine is None
