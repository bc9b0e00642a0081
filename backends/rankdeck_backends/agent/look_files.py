"""The files that preflight reads, as they are: of bounded size, links followed, long tables cut.

Which they are and what for: docs/preflight.md. Reading a port's state, counters or keys asks the adapter's
firmware: a driver that hangs there hangs the read, so these functions run in children (see `look`).
"""

import errno
import json
import os
import re

LONGEST = 64 << 10
"""Bytes of one file at most: /proc/modules of a full node has about 20 KiB."""
_TABLE = 256
"""Entries of a GID table at most: mlx5 has 128 or 256."""
_ENTRIES = 512
"""Entries of any other folder at most."""
_GAP = 3
"""Unset keys in a row after which a partition key table has no more: each read asks the firmware."""

_RDMA = ("infiniband", "infiniband_verbs", "infiniband_mad")
_PLAIN = (
    "/.dockerenv",
    "/etc/hosts",
    "/etc/nccl.conf",
    "/etc/os-release",
    "/opt/microsoft/*/topo.xml",
    "/proc/cmdline",
    "/proc/driver/nvidia/version",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/self/cgroup",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/net/ipv4/ip_local_reserved_ports",
    "/proc/sys/vm/max_map_count",
    "/proc/uptime",
    "/run/.containerenv",
    "/sys/class/dmi/id/chassis_asset_tag",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/kfd/kfd/topology/nodes/*/properties",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/kernel/iommu_groups/*/type",
    "/sys/kernel/memory_peers/*/version",
    "/sys/kernel/mm/memory_peers/*/version",
    "/sys/memory_peers/*/version",
    "/usr/local/gib/scripts/set_nccl_env.sh",
    "/usr/local/nvidia/lib64/nccl-env-profile.sh",
    "/var/lib/tcpxo/lib64/nccl-env-profile.sh",
    "/var/run/nvidia-topologyd/virtualTopology.xml",
)
_MODULES = [
    "amdgpu",
    "ib_core",
    "ib_umad",
    "ib_uverbs",
    "mlx5_core",
    "mlx5_ib",
    "nv_peer_mem",
    "nvidia",
    "nvidia_peermem",
]
_DEVICE = ["board_id", "fw_ver", "hca_type", "node_desc", "node_guid", "node_type", "sys_image_guid"]
_FUNCTION = [
    "class",
    "current_link_speed",
    "current_link_width",
    "device",
    "max_link_speed",
    "max_link_width",
    "numa_node",
    "uevent",
    "vendor",
]
_PORT = ["cap_mask", "lid", "lid_mask_count", "link_layer", "phys_state", "rate", "sm_lid", "state"]
_COUNTERS = [
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
]
_HW_COUNTERS = [
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "rx_bytes",
    "rx_drops",
    "tx_bytes",
]
_NETDEV = ["carrier_changes", "mtu", "operstate", "speed", "type"]
_OF_CONTAINERS = re.compile(r"(veth|cali|lxc|cilium_|flannel|tap)")
"""Interfaces of other containers on a node: hundreds of them, and no rank uses one."""
_PCI_KINDS = ("0x02", "0x03", "0x12")
"""PCI base classes: network controllers, display controllers, processing accelerators (PCI ID list)."""
_UNSET_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def has_fabric():
    """Whether `fabric` finds anything; asks the kernel's list alone, no device."""
    return any(os.path.exists("/sys/class/" + kind) for kind in _RDMA)


def fabric():
    """Yields what /sys tells of RDMA devices."""
    for device in _names("/sys/class/infiniband"):
        yield from _folder("/sys/class/infiniband/" + device, _DEVICE)
        yield from _folder("/sys/class/infiniband/{}/device".format(device), _FUNCTION)
        for net in _names("/sys/class/infiniband/{}/device/net".format(device)):
            yield from _folder("/sys/class/infiniband/{}/device/net/{}".format(device, net), ["operstate"])
        for port in _names("/sys/class/infiniband/{}/ports".format(device)):
            yield from _port("/sys/class/infiniband/{}/ports/{}".format(device, port))
    for verbs in _names("/sys/class/infiniband_verbs"):
        yield from _folder("/sys/class/infiniband_verbs/" + verbs, ["abi_version", "ibdev"])
    for kind in _RDMA[1:]:
        yield from _folder("/sys/class/" + kind, ["abi_version"])


def counting():
    """Yields what counts faults on links, and the time since the node was booted."""
    yield from _one("/proc/uptime")
    for device in _names("/sys/class/infiniband"):
        for port in _names("/sys/class/infiniband/{}/ports".format(device)):
            yield from _folder("/sys/class/infiniband/{}/ports/{}/counters".format(device, port), _COUNTERS)
    for net in _names("/sys/class/net"):
        if not _OF_CONTAINERS.match(net):
            yield from _folder("/sys/class/net/" + net, ["carrier_changes"])


def node(environment):
    """Yields all else.

    Args:
        environment: {NAME: value} as bytes: where the user's own files are.
    """
    for path in _PLAIN:
        for found in _spread(path):
            yield from _one(found)
    for module in _MODULES:
        yield from _folder("/sys/module/" + module, ["initstate", "version"])
    for net in _names("/sys/class/net"):
        if not _OF_CONTAINERS.match(net):
            yield from _folder("/sys/class/net/" + net, _NETDEV)
    for device in _names("/sys/bus/pci/devices"):
        yield from _function("/sys/bus/pci/devices/" + device)
    yield from _control_group()
    for path in _users_own(environment):  # last: a home that hangs takes along what comes after it
        yield from _one(path)


def lines(found):
    """Pairs of path and content as the lines of text (bytes) that `parse` reads."""
    for pair in found:
        yield json.dumps(pair).encode("ascii") + b"\n"


def parse(data):
    """The files in such text; a last line that is not whole is left out."""
    return dict(json.loads(line.decode("ascii")) for line in data.split(b"\n")[:-1])


def _port(port):
    yield from _folder(port, _PORT)
    yield from _folder(port + "/counters", _COUNTERS)
    yield from _folder(port + "/hw_counters", _HW_COUNTERS)
    unset = 0
    for number in range(_TABLE):
        content = _read("{}/pkeys/{}".format(port, number))
        unset = unset + 1 if content is None or content.strip() == "0x0000" else 0
        if content is None or unset == _GAP:
            break
        yield "{}/pkeys/{}".format(port, number), content
    yield from _gids(port)


def _gids(port):
    """The entries that are set, and the first that is not, which shows that reading went on behind them."""
    told_unset = False
    for number in range(_TABLE):
        content = _read("{}/gids/{}".format(port, number))
        if content is None:
            return
        unset = content.strip() == _UNSET_GID
        if not unset or not told_unset:
            yield "{}/gids/{}".format(port, number), content
        told_unset = told_unset or unset
        if not unset:
            for kind in ("types", "ndevs"):
                yield from _one("{}/gid_attrs/{}/{}".format(port, kind, number))


def _function(device):
    """A PCI function, if it is one that matters here."""
    kind = _read(device + "/class")
    if kind is not None and kind.startswith(_PCI_KINDS):
        yield device + "/class", kind
        yield from _folder(device, ["device", "vendor"])


def _users_own(environment):
    home = os.fsdecode(environment.get(b"HOME", b"")) or os.path.expanduser("~")
    yield os.path.join(home, ".nccl.conf")
    yield os.path.join(home, ".openmpi/mca-params.conf")
    for name in (b"NCCL_CONF_FILE", b"NCCL_TOPO_FILE"):
        if os.path.isabs(environment.get(name, b"")):
            yield os.fsdecode(environment[name])


def _control_group():
    """The limits of this process's control group and its parents: version 2 (or hybrid), else version 1."""
    for line in (_read("/proc/self/cgroup") or "").splitlines():
        _, kinds, path = (line.split(":", 2) + ["", ""])[:3]
        if not kinds:
            for parent in _upwards("/sys/fs/cgroup", path):
                yield from _folder(parent, ["cpu.max", "memory.max", "pids.current", "pids.max"])
            continue
        for kind in kinds.split(","):
            names = {
                "memory": ["memory.limit_in_bytes"],
                "cpu": ["cpu.cfs_period_us", "cpu.cfs_quota_us"],
                "pids": ["pids.current", "pids.max"],
            }.get(kind, [])
            for parent in _upwards("/sys/fs/cgroup/" + kind, path) if names else ():
                yield from _folder(parent, names)


def _upwards(root, path):
    words = [word for word in path.split("/") if word not in ("", "..")][:16]
    for count in range(len(words), -1, -1):
        yield "/".join([root] + words[:count])


def _spread(path):
    """The paths that a path with one `*` in it stands for."""
    before, star, after = path.partition("*")
    if not star:
        return [path]
    return [before + name + after for name in _names(before)]


def _folder(folder, names):
    for name in names:
        yield from _one(folder + "/" + name)


def _one(path):
    content = _read(path)
    if content is not None:
        yield path, content


def _names(folder):
    try:
        return sorted(os.listdir(folder))[:_ENTRIES]
    except OSError:
        return []


def _read(path):
    """The file's text, or None: it is not there, may not be read, or tells nothing (EINVAL: unset GIDs)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        parts = []
        left = LONGEST
        while left > 0:
            data = os.read(fd, left)
            if not data:
                break
            parts.append(data)
            left -= len(data)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError as error:
        if error.errno == errno.EAGAIN and parts:  # a pipe someone put there
            return b"".join(parts).decode("utf-8", "replace")
        return None
    finally:
        os.close(fd)
