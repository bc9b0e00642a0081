"""Which card is which: GUIDs, names and firmware, on a node and over the pool."""

from __future__ import annotations

import re
from dataclasses import replace

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import odd_ones, side_by_side, told
from rankdeck_backends.preflight.fabric_ports import NO_RDMA
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.devices import NULL_GUID, ROOT, Device
from rankdeck_profiles.fabric.inherited import inherited


def guid(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.guid on one node: every device has one."""
    devices = [device for device in node.fabric.devices if not device.is_efa and device.node_guid]
    if not devices:
        return skipped("no device that has a GUID" if node.fabric.devices else NO_RDMA)
    without = [device for device in devices if device.null_guid]
    if not without:
        return passed(f"{len(devices)} devices have a GUID")
    return failed(
        f"{', '.join(device.name for device in without)}: a virtual function without a GUID, which no subnet "
        "manager takes in",
        *(Evidence.of(f"{device.path}/node_guid", device.node_guid) for device in without),
        *(
            Evidence.of(f"{port.path}/state", f"{port.state} ({port.phys})")
            for device in without
            for port in device.ports
        ),
    )


def guid_once(pool: ProbedPool) -> Outcome:
    """ib.guid in the pool: no two nodes have the same."""
    owners: dict[str, list[tuple[ProbedNode, Device]]] = {}
    for node in pool.distinct:
        for device in node.fabric.devices:
            if device.node_guid and device.node_guid != NULL_GUID:
                owners.setdefault(device.node_guid, []).append((node, device))
    if not owners:
        return skipped("no device that has a GUID")
    twice = {value: held for value, held in owners.items() if len({node.name for node, _ in held}) > 1}
    if not twice:
        return passed(f"{len(owners)} GUIDs, each once")
    value, held = next(iter(twice.items()))
    outcome = failed(
        f"the GUID {value} is on {' and on '.join(f'{node.name} ({device.name})' for node, device in held)}",
        *(Evidence.of(f"{device.path}/node_guid", value).on(node.name) for node, device in held),
        fix="give each virtual function its own, on the host: ip link set DEVICE vf N node_guid GUID",
        nodes=tuple(dict.fromkeys(node.name for node, _ in held)),
    )
    return replace(outcome, explained_by=("ssh.identity",))  # one machine under two names


def naming(pool: ProbedPool) -> Outcome:
    """ib.naming: a name means the card in the same slot on every node."""
    slots: dict[str, dict[str, str]] = {}
    for node in pool:
        for device in node.fabric.devices:
            if device.bdf:
                slots.setdefault(device.name, {})[node.name] = device.bdf
    shared = {name: each for name, each in slots.items() if len(each) > 1}
    if not shared:
        return skipped("no RDMA device has the same name on two nodes")
    lacking = {node.name: absent for node in pool if (absent := _absent(node, pool))}
    if lacking and len(lacking) < len(pool):
        name, absent = next(iter(lacking.items()))
        return failed(
            f"NCCL_IB_HCA names {', '.join(absent)}, which {name} does not have",
            *(Evidence.of("NCCL_IB_HCA", _user_list(node, pool)).on(node.name) for node in pool.nodes[:4]),
            *(
                Evidence.of(ROOT, ", ".join(node.fabric.by_name)).on(node.name)
                for node in pool
                if node.name == name
            ),
            nodes=tuple(lacking),
        )
    apart = {name: each for name, each in shared.items() if len(set(each.values())) > 1}
    if apart:
        name, each = next(iter(apart.items()))
        return warned(
            f"{len(apart)} of {len(shared)} device names are in other PCI slots on some nodes: {name} is at "
            f"{told(each)}",
            *(
                Evidence.of(f"{ROOT}/{name}/device/uevent", f"PCI_SLOT_NAME={slot}").on(node)
                for node, slot in list(each.items())[:4]
            ),
            nodes=odd_ones(each),
        )
    for node in pool:
        if (ambiguous := _ambiguous(node, pool)) is not None:
            entry, longer = ambiguous
            return warned(
                f"NCCL_IB_HCA={_user_list(node, pool)} has no `=`: {entry} takes {longer}, too",
                Evidence.of("NCCL_IB_HCA", _user_list(node, pool)).on(node.name),
                fix=f"write NCCL_IB_HCA=={_user_list(node, pool)}: with `=` names are exact",
                nodes=(node.name,),
            )
    return passed(f"{len(shared)} device names, each in the same slot on every node")


def firmware(pool: ProbedPool) -> Outcome:
    """ib.firmware: cards of one model have the same firmware."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    models: dict[str, str] = {}
    for node in pool:
        devices = [device for device in node.fabric.devices if device.firmware and device.hca_type]
        for device in devices:
            model = (device.hca_type or "", device.board_id or "")
            found.setdefault(model, {}).setdefault(node.name, device.firmware or "")
        if devices:
            models[node.name] = ", ".join(sorted({device.hca_type or "" for device in devices}))
    if len(models) < 2:
        return skipped("fewer than two nodes tell their cards' firmware")
    for (hca, board), versions in found.items():
        if len(set(versions.values())) > 1:
            return warned(
                f"{hca} ({board}) has different firmware: {told(versions)}",
                *(
                    Evidence.of(f"{ROOT}/*/fw_ver", value).on(name)
                    for name, value in list(versions.items())[:4]
                ),
                nodes=odd_ones(versions),
            )
    if len(set(models.values())) > 1:
        return warned(
            f"the nodes have different models of cards: {told(models)}",
            *side_by_side(f"{ROOT}/*/hca_type", models),
            nodes=odd_ones(models),
        )
    return passed(f"one firmware for each of {len(found)} models")


def _user_list(node: ProbedNode, pool: ProbedPool) -> str:
    """The node's NCCL_IB_HCA; empty where it excludes, or is not there."""
    value = inherited(node.readings, pool.asked.env).value("NCCL_IB_HCA") or ""
    return "" if value.startswith("^") else value


def _absent(node: ProbedNode, pool: ProbedPool) -> list[str]:
    """What NCCL_IB_HCA names and the node does not have: exact names after `=`, else beginnings of names."""
    value = _user_list(node, pool)
    entries = [entry.partition(":")[0] for entry in value.lstrip("=").split(",") if entry]
    devices = node.fabric.by_name
    if value.startswith("="):
        return [entry for entry in entries if entry not in devices]
    return [entry for entry in entries if not any(name.startswith(entry) for name in devices)]


def _ambiguous(node: ProbedNode, pool: ProbedPool) -> tuple[str, str] | None:
    """A name in NCCL_IB_HCA without `=` that is the beginning of another one's: mlx5_1 of mlx5_10."""
    value = _user_list(node, pool)
    if value.startswith("="):
        return None
    devices = node.fabric.by_name
    for entry in (word.partition(":")[0] for word in value.split(",")):
        longer = [name for name in devices if re.fullmatch(re.escape(entry) + r"\d+", name)]
        if entry in devices and longer:
            return entry, longer[0]
    return None


CHECKS = (
    Check(
        id="ib.guid",
        group=Group.FABRIC,
        title="GUIDs are set, and unique",
        reads=f"{ROOT}/*/{{node_guid,sys_image_guid}}",
        rule="fail: a device's GUID is all zero (EFA has none), or two nodes have the same",
        symptom="a virtual function stays INIT or DOWN; with clones the subnet manager flaps between them",
        fix="give the virtual function a GUID, on the host: ip link set DEVICE vf N node_guid GUID",
        source="Mellanox/network-operator issues 249, 1646",
        node=guid,
        pool=guid_once,
    ),
    Check(
        id="ib.naming",
        group=Group.FABRIC,
        title="names mean the same cards",
        reads=f"PCI_SLOT_NAME in {ROOT}/*/device/uevent; NCCL_IB_HCA",
        rule=(
            "warn: a name is in other PCI slots on some nodes, or NCCL_IB_HCA without `=` takes more than it "
            "names; fail: it names a device that a node does not have"
        ),
        symptom="slow traffic across rails; on rail-only fabrics `ibv_modify_qp ... Connection timed out`",
        fix="persistent names (udev), so that a name is the same slot everywhere",
        source="nccl issue 1277, pull request 236",
        pool=naming,
        explained_by=("sw.env",),
    ),
    Check(
        id="ib.firmware",
        group=Group.FABRIC,
        title="one firmware for each model",
        reads=f"{ROOT}/*/{{fw_ver,hca_type,board_id}}",
        rule="warn: it differs within one model and board, or the nodes have different models",
        symptom="rare: completion errors, slow RoCE",
        fix="bring the firmware to one version",
        source="vendor release notes",
        pool=firmware,
    ),
)
