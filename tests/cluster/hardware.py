"""InfiniBand that is not there: sysfs trees, device files, tools and a libibverbs, laid over a node's own.

A node has its own mounts, so nothing of this is seen outside it. The values are those of two ConnectX-7 cards
(NDR, 400 Gbit/s) as the mlx5 driver shows them; names, GUIDs and LIDs are invented.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cluster import files
from cluster.node import Node

PLACE = "/run/hardware"
"""Where the trees lie in a node: a file system of its own, since a node's root is an overlay already."""
OFED = "MLNX_OFED_LINUX-24.07-0.6.1.0"
OTHER_OFED = "MLNX_OFED_LINUX-23.10-1.1.9.0"
CARDS = 2

_LIBRARY = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* libibverbs: as many devices as the kernel shows. */
void **ibv_get_device_list(int *count) {
  int found = 0;
  DIR *folder = opendir("/sys/class/infiniband_verbs");
  struct dirent *entry;
  while (folder && (entry = readdir(folder)))
    found += strncmp(entry->d_name, "uverbs", 6) == 0;
  if (count) *count = found;
  return calloc(found + 1, sizeof(void *));
}
int ibv_reg_dmabuf_mr(void) { return 0; }

/* The limit of locked memory, which this machine may not let anyone raise. */
int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit) {
  int (*real)(__rlimit_resource_t, struct rlimit64 *) = dlsym(RTLD_NEXT, "getrlimit64");
  int status = real(resource, limit);
  if (resource == RLIMIT_MEMLOCK && status == 0) limit->rlim_cur = limit->rlim_max = RLIM64_INFINITY;
  return status;
}
int getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
  return getrlimit64(resource, (struct rlimit64 *)limit);
}
"""


def fit(node: Node, *, ofed: str = OFED, down: tuple[int, ...] = (), uverbs: bool = True) -> None:
    """Gives a node two InfiniBand cards; it keeps them until it is restarted.

    Args:
        node: the node.
        ofed: what `ofed_info -s` says; the kernel's modules are of the same version.
        down: the cards whose cable is out.
        uverbs: whether the module ib_uverbs is loaded.
    """
    number = int(node.name.removeprefix("n"))
    tree = _sysfs(number, ofed, down, uverbs)
    with io.BytesIO() as packed:
        _pack(packed, {**tree, **_programs(ofed)})
        node.run(["sh", "-c", _INSTALL], stdin=packed.getvalue())
    # By sshd's SetEnv, not /etc/ld.so.preload: sshd itself is to see the real limits.
    text = files.server(node.options, "", {"LD_PRELOAD": f"{PLACE}/lib/libibverbs.so.1"})
    script = "cat >/etc/ssh/sshd_config; pid=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $pid;"
    node.run(
        ["sh", "-c", f"{script} until [ -s /run/sshd.pid ]; do sleep 0.05; done"],
        stdin=text["etc/ssh/sshd_config"].encode(),
    )
    node.wait_ready()


_INSTALL = f"""set -e
mkdir {PLACE}; mount -t tmpfs -o mode=755 hardware {PLACE}; tar -x -C {PLACE}
for folder in class module bus/pci/devices; do
  [ -d {PLACE}/sys/$folder ] && [ -d /sys/$folder ] || continue
  mount -t overlay -o lowerdir={PLACE}/sys/$folder:/sys/$folder overlay /sys/$folder
done
mkdir /dev/infiniband
for name in $(ls /sys/class/infiniband_verbs 2>/dev/null | grep uverbs); do
  mknod -m 666 /dev/infiniband/$name c 1 3
done
cp {PLACE}/bin/* /usr/bin/
for library in /usr/lib/*/libibverbs.so.1; do
  rm -f "$library"; cp {PLACE}/lib/libibverbs.so.1 "$library"
done
[ -e /usr/lib/libibverbs.so.1 ] || cp {PLACE}/lib/libibverbs.so.1 /usr/lib/
"""


def _sysfs(number: int, ofed: str, down: tuple[int, ...], uverbs: bool) -> dict[str, bytes]:
    text: dict[str, str] = {}
    for card in range(CARDS):
        slot = f"0000:{0x18 + card:02x}:00.0"
        device = f"sys/class/infiniband/mlx5_{card}"
        for name, value in _function(slot).items():
            text[f"{device}/device/{name}"] = value
            if name in ("class", "vendor", "device"):
                text[f"sys/bus/pci/devices/{slot}/{name}"] = value
        for name, value in _device(number, card).items():
            text[f"{device}/{name}"] = value
        for name, value in _port(number, card, card in down).items():
            text[f"{device}/ports/1/{name}"] = value
        if uverbs:
            text[f"sys/class/infiniband_verbs/uverbs{card}/ibdev"] = f"mlx5_{card}"
            text[f"sys/class/infiniband_verbs/uverbs{card}/abi_version"] = "1"
    if uverbs:
        text["sys/class/infiniband_verbs/abi_version"] = "6"
        text["sys/module/ib_uverbs/initstate"] = "live"
    text["sys/class/infiniband_mad/abi_version"] = "5"
    for module in ("mlx5_core", "mlx5_ib", "ib_core", "ib_umad"):
        text[f"sys/module/{module}/initstate"] = "live"
    text["sys/module/mlx5_core/version"] = ofed.removeprefix("MLNX_OFED_LINUX-").rpartition(".")[0]
    return {path: f"{value}\n".encode() for path, value in text.items()}


def _function(slot: str) -> dict[str, str]:
    return {
        "class": "0x020700",
        "vendor": "0x15b3",
        "device": "0x1021",
        "numa_node": "0",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_width": "16",
        "uevent": f"DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={slot}",
    }


def _device(number: int, card: int) -> dict[str, str]:
    return {
        "node_guid": _guid(number, card),
        "sys_image_guid": _guid(number, card),
        "node_type": "1: CA",
        "fw_ver": "28.39.1002",
        "hca_type": "MT4129",
        "board_id": "MT_0000000838",
        "node_desc": f"n{number} mlx5_{card}",
    }


def _port(number: int, card: int, down: bool) -> dict[str, str]:
    counters = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors")
    return {
        "state": "1: DOWN" if down else "4: ACTIVE",
        "phys_state": "2: Polling" if down else "5: LinkUp",
        "rate": "10 Gb/sec (4X SDR)" if down else "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "lid": "0xffff" if down else hex(16 * number + card),
        "sm_lid": "0x0" if down else "0x1",
        "lid_mask_count": "0",
        "cap_mask": "0xa651e848",
        "gids/0": f"fe80:0000:0000:0000:{_guid(number, card)}",
        "gid_attrs/types/0": "IB/RoCE v1",
        "pkeys/0": "0xffff",
        **{f"counters/{name}": "0" for name in (*counters, "local_link_integrity_errors")},
    }


def _guid(number: int, card: int) -> str:
    return f"0250:c2ff:fe{number:02x}:{card:04x}"


def _programs(ofed: str) -> dict[str, bytes]:
    info = f'#!/bin/sh\n[ "$1" = -s ] && echo "{ofed}:"\n'
    return {"bin/ofed_info": info.encode(), "lib/libibverbs.so.1": _library()}


@cache
def _library() -> bytes:
    """The library, compiled here: a node shows this machine's own system."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "libibverbs.so.1"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", str(made), "-xc", "-", "-ldl"],
            input=_LIBRARY.encode(),
            check=True,
        )
        return made.read_bytes()


def _pack(target: io.BytesIO, tree: Mapping[str, bytes]) -> None:
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, content in tree.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            entry.mode = 0o755 if path.startswith(("bin/", "lib/")) else 0o444
            archive.addfile(entry, io.BytesIO(content))


def missing() -> str:
    """Why there can be no such hardware here; empty: there can."""
    return (
        "" if shutil.which("cc") else "the stand-in for libibverbs needs a C compiler (Debian: gcc libc6-dev)"
    )
