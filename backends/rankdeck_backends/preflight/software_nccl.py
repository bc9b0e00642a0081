"""The NCCL that would load, the plug-in it would take, and whether the driver is new enough for CUDA."""

from __future__ import annotations

import re

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, names, odd_ones, side_by_side, told
from rankdeck_backends.preflight.entries import Entry, entries
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.inherited import inherited

INTERNAL_NETS = ("ib", "socket")
"""Values of NCCL_NET that NCCL brings itself (src/transport/net_ib, net_socket)."""

_CUDA_OF_SMI = re.compile(r"CUDA Version\s*:\s*([0-9]{1,3})\.([0-9]{1,3})")
_CUDA = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")


def same_nccl(pool: ProbedPool) -> Outcome:
    """sw.nccl."""
    versions = {node.name: found for node in pool if (found := _loaded(node))}
    if len(versions) < 2:
        return skipped("fewer than two nodes say which NCCL they load")
    evidence = side_by_side("NCCL version", versions)
    if odd := odd_ones(versions):
        return failed(f"different NCCLs: {told(versions)}", *evidence, nodes=odd)
    return passed(f"all nodes load NCCL {groups(versions)[0][0]}", *evidence[:1])


def _loaded(node: ProbedNode) -> str | None:
    """What torch says it has; else the first library of the search."""
    return node.readings.text("torch_nccl") or next((version for _, version in _libraries(node)), None)


def _libraries(node: ProbedNode) -> list[tuple[str, str]]:
    """(path, version) in the order of the search; of those that do not load, the version is `?`."""
    split = (text.rpartition(" ") for text in node.readings.texts("nccl_libs") or ())
    return [(path, version) for path, blank, version in split if blank and version != "?"]


def nccl_twice(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.nccl-twice."""
    if node.readings.texts("nccl_libs") is None:
        return skipped("the libraries libnccl.so.2 were not looked for")
    libraries = _libraries(node)
    evidence = [Evidence.of("libnccl.so.2", f"{path} {version}") for path, version in libraries]
    if not libraries:
        return skipped("no libnccl.so.2 was found")
    if len({version for _, version in libraries}) == 1:
        return passed(f"one NCCL: {libraries[0][1]}", *evidence)
    listed = ", ".join(f"{version} ({path})" for path, version in libraries)
    loaded = node.readings.text("torch_nccl")
    wheel = next((version for path, version in libraries if "/nvidia/nccl/" in path), None)
    if loaded:
        evidence.append(Evidence.of("torch.cuda.nccl.version()", loaded))
    if loaded and wheel and loaded != wheel:
        return failed(f"torch brings NCCL {wheel}, but {loaded} is loaded: {listed}", *evidence)
    others = ", ".join(path for path, version in libraries if version != (loaded or libraries[0][1]))
    fix = f"bring {others} to the same version, or see that nothing loads it (LD_LIBRARY_PATH, LD_PRELOAD)"
    return warned(f"several NCCLs are found: {listed}", *evidence, fix=fix)


def cuda_driver(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.cuda-driver."""
    torch = node.readings.mapping("torch") or {}
    wanted = _CUDA.match(str(torch.get("cuda") or ""))
    if wanted is None:
        return skipped("torch is not built for CUDA, or was not asked")
    driver = _driver_cuda(node)
    if driver is None:
        return skipped("which CUDA the driver offers is not known")
    evidence = (
        Evidence.of("torch.version.cuda", torch.get("cuda")),
        Evidence.of("CUDA of the driver", f"{driver[0]}.{driver[1]}"),
    )
    needs = (int(wanted[1]), int(wanted[2]))
    # From 11 on, a driver of the same major version runs all its minor ones.
    if driver[0] < needs[0] or (needs[0] < 11 and driver < needs):
        judged = warned if pool.on_one_machine else failed  # torch then takes the CPUs
        return judged(
            f"torch is built for CUDA {wanted[0]}, the driver offers {driver[0]}.{driver[1]}", *evidence
        )
    return passed(
        f"the driver offers CUDA {driver[0]}.{driver[1]}, torch is built for {wanted[0]}", *evidence
    )


def _driver_cuda(node: ProbedNode) -> tuple[int, int] | None:
    number = node.readings.number("cuda_driver")  # 12080 is 12.8
    if number is not None and 1000 <= number < 1_000_000:
        return int(number) // 1000, int(number) % 1000 // 10
    for asked in node.readings.ran("nvidia-smi"):
        if found := _CUDA_OF_SMI.search(asked.stdout):
            return int(found[1]), int(found[2])
    return None


def net_plugin(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.net-plugin on one node: does what is asked for load."""
    plugins = _plugins(node)
    if plugins is None:
        return skipped("the plug-ins libnccl-net*.so were not looked for")
    settings = inherited(node.readings, pool.asked.env)
    evidence = [Evidence.of(str(each.get("path")), str(each.get("state"))) for each in plugins]
    good = [str(each.get("name")) for each in plugins if each.get("state") == "ok"]
    pinned = settings.value("NCCL_NET_PLUGIN") or ""
    net = settings.value("NCCL_NET") or ""
    if pinned and pinned.lower() != "none" and not any(_is_plugin(name, pinned) for name in good):
        return failed(
            f"NCCL_NET_PLUGIN is {pinned}, but no such plug-in loads (found: {', '.join(good) or 'none'})",
            Evidence.of("NCCL_NET_PLUGIN", pinned),
            *evidence,
        )
    if net and net.lower() not in INTERNAL_NETS and not good:
        return failed(
            f"NCCL_NET is {net}, which a plug-in must bring, but none loads",
            Evidence.of("NCCL_NET", net),
            *evidence,
        )
    broken = [each for each in plugins if each.get("state") != "ok"]
    if broken and not good:
        return warned(
            f"the plug-in {broken[0].get('path')} does not load: {broken[0].get('state')}",
            *evidence,
            fix="install what it needs, or take it away",
        )
    return passed(f"NCCL finds {', '.join(good)}" if good else "no plug-in, and none is asked for", *evidence)


def _plugins(node: ProbedNode) -> tuple[Entry, ...] | None:
    return None if node.readings.syscall("net_plugins") is None else entries(node.readings, "net_plugins")


def _is_plugin(name: str, pinned: str) -> bool:
    """NCCL tries the value as a file and as libnccl-net-VALUE.so (src/plugin/plugin_open.cc)."""
    return pinned.rpartition("/")[2] in (name, name.removeprefix("libnccl-net-").partition(".so")[0])


def same_plugin(pool: ProbedPool) -> Outcome:
    """sw.net-plugin over the pool."""
    found = {
        node.name: ", ".join(sorted(str(each.get("name")) for each in plugins if each.get("state") == "ok"))
        for node in pool
        if (plugins := _plugins(node)) is not None
    }
    if len(found) < 2:
        return skipped("fewer than two nodes say which plug-ins they have")
    shown = {name: each or "none" for name, each in found.items()}
    evidence = side_by_side("libnccl-net*.so", shown)
    without = [name for name, each in found.items() if not each]
    if without and len(without) < len(found):
        return failed(
            f"NCCL finds a network plug-in on some nodes only; none on {names(without)}",
            *evidence,
            nodes=without,
        )
    if odd := odd_ones(shown):
        return warned(f"different network plug-ins: {told(shown)}", *evidence, nodes=odd)
    return passed(f"the same network plug-ins on all nodes: {groups(shown)[0][0]}", *evidence[:1])


CHECKS = (
    Check(
        id="sw.cuda-driver",
        group=Group.SOFTWARE,
        title="the driver is new enough",
        reads="cuDriverGetVersion() of libcuda.so.1, else `CUDA Version` of nvidia-smi; torch.version.cuda",
        rule="fail: the driver's CUDA is of a lower major version than torch's (before 11: of a lower "
        "version)",
        symptom="CUDA driver version is insufficient for CUDA runtime version",
        fix="update the driver, install the cuda-compat package, or a torch built for an older CUDA",
        source="CUDA Compatibility, minor version compatibility",
        node=cuda_driver,
    ),
    Check(
        id="sw.nccl",
        group=Group.SOFTWARE,
        title="the same NCCL",
        reads="torch.cuda.nccl.version(), else ncclGetVersion of the first libnccl.so.2 of the search",
        rule="fail: it differs between nodes",
        symptom="Mismatched NCCL version detected : rank 0 version 22005 rank 8 version 21903",
        fix="install the same torch and nvidia-nccl wheel on all nodes",
        source="NVIDIA/nccl issue 1267, src/init.cc",
        pool=same_nccl,
        explained_by=("sw.torch",),
    ),
    Check(
        id="sw.nccl-twice",
        group=Group.SOFTWARE,
        title="one NCCL only",
        reads="libnccl.so.2 in LD_PRELOAD, LD_LIBRARY_PATH, the wheel's folder and ldconfig; "
        "torch.cuda.nccl.version()",
        rule="warn: libraries of several versions; fail: another than the wheel's is the one that torch has "
        "loaded",
        symptom="odd crashes, faults that a newer NCCL has mended",
        fix="take the other NCCL out of LD_LIBRARY_PATH and LD_PRELOAD",
        source="ld.so manual, order of the search; volcengine/verl issue 6621",
        node=nccl_twice,
    ),
    Check(
        id="sw.net-plugin",
        group=Group.SOFTWARE,
        title="NCCL's network plug-in",
        reads="libnccl-net*.so on LD_LIBRARY_PATH and in ldconfig, NCCL_NET_PLUGIN, NCCL_NET",
        rule="fail: one is asked for and does not load, or it is on some nodes only; warn: nodes have "
        "different ones",
        symptom="NCCL quietly takes its own transport: the log says `Using network Socket`",
        fix="install the plug-in on all nodes and put its folder on LD_LIBRARY_PATH",
        source="NVIDIA/nccl src/plugin; aws/aws-ofi-nccl issue 803, NVIDIA/nccl issue 1597",
        node=net_plugin,
        pool=same_plugin,
    ),
)
