"""What the system lets a rank have: locked memory, open files, CPUs, memory, and a life after log-out."""

from __future__ import annotations

import statistics

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import names, odd_ones, side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.readings import Readings, digits, finite

MEMLOCK_MIN = 1 << 30
"""Bytes: queues, and the buffers that NCCL registers with each adapter."""

NOFILE_GOOD, NOFILE_MIN, NOFILE_MIN_NODES = 65536, 4096, 8
"""Open files; the minimum is for pools of more than eight nodes: NCCL holds sockets to all ranks."""

CPUS_A_RANK = 2
PIDS_A_RANK = 64
"""Threads of a rank that does next to nothing: torch, NCCL's proxies, a few data loading workers."""

MEMORY_SHARE = 0.1
MAP_COUNT_DEFAULT, MAP_COUNT_RANKS = 65530, 32
"""The kernel's default of vm.max_map_count, and the ranks of a node from which UCX has met its limit."""

_CGROUPS = "/sys/fs/cgroup"


def memlock(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.memlock."""
    limit = node.readings.syscall("rlimit_memlock")
    if limit == "unlimited":
        return passed("locked memory is not limited", Evidence.of("RLIMIT_MEMLOCK", limit))
    size = finite(limit)
    if size is None:
        return skipped("the limit of locked memory was not asked")
    evidence = Evidence.of("RLIMIT_MEMLOCK", f"{size:.0f} bytes")
    if pool.asked.communication == "gloo" or not any(port.active for port in node.fabric.ports):
        return passed(f"locked memory is limited to {_size(size)}; without RDMA none is needed", evidence)
    if size < MEMLOCK_MIN and not pool.on_one_machine:
        return failed(f"locked memory is limited to {_size(size)}: RDMA needs `unlimited`", evidence)
    return warned(f"locked memory is limited to {_size(size)}; RDMA should have `unlimited`", evidence)


def _size(size: float) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.0f} {unit}"
    return f"{size:.0f} bytes"


def nofile(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.nofile."""
    soft, hard = (_count(node.readings.syscall(key)) for key in ("rlimit_nofile", "rlimit_nofile_hard"))
    if soft is None:
        return skipped("the limit of open files was not asked")
    evidence = [Evidence.of("RLIMIT_NOFILE, soft", node.readings.syscall("rlimit_nofile"))]
    if hard is not None:
        evidence.append(Evidence.of("RLIMIT_NOFILE, hard", node.readings.syscall("rlimit_nofile_hard")))
        if hard < NOFILE_MIN and len(pool) > NOFILE_MIN_NODES and not pool.on_one_machine:
            return failed(
                f"a process may open {hard:.0f} files at most: too few for {len(pool)} nodes", *evidence
            )
    if soft < NOFILE_GOOD:
        raised = f", may raise it to {hard:.0f}" if hard is not None and soft < hard < float("inf") else ""
        return warned(f"a process may open {soft:.0f} files{raised}; {NOFILE_GOOD} are usual", *evidence)
    return passed(f"a process may open {_many(soft)} files", *evidence)


def _count(value: object) -> float | None:
    return float("inf") if value == "unlimited" else finite(value)


def _many(count: float) -> str:
    return "any number of" if count == float("inf") else f"{count:.0f}"


def cpus(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.cpus."""
    allowed = node.readings.number("cpus_allowed")
    ranks = _ranks(node, pool)
    if allowed is None:
        return skipped("how many CPUs this user may run on is not known")
    evidence = [Evidence.of("sched_getaffinity", f"{allowed:.0f} CPUs")]
    quota = _cpu_quota(node.readings)
    if quota is not None:
        evidence.append(quota[1])
        allowed = min(allowed, quota[0])
    if not ranks:
        return skipped("how many ranks the node takes is not known", *evidence)
    found = f"{allowed:g} CPUs for {ranks} {'rank' if ranks == 1 else 'ranks'}"
    if allowed < CPUS_A_RANK * ranks:
        return warned(f"{found}; {CPUS_A_RANK} a rank are the least", *evidence)
    return passed(found, *evidence)


def _ranks(node: ProbedNode, pool: ProbedPool) -> int | None:
    """Those asked for, else one a GPU."""
    asked = pool.asked.slots_on(node.name)
    return node.gpus.count if asked is None else asked


def _cpu_quota(readings: Readings) -> tuple[float, Evidence] | None:
    """The smallest quota of the process's control groups, in CPUs (v2 `cpu.max`, v1 `cpu.cfs_quota_us`)."""
    found = []
    for path, content in readings.under(_CGROUPS).items():
        if path.endswith("cpu.max"):
            quota, period = ([digits(part) for part in content.split()] + [None, None])[:2]
        elif path.endswith("cpu.cfs_quota_us"):
            period_path = f"{_CGROUPS}/{path.removesuffix('quota_us')}period_us"
            quota, period = digits(content), digits(readings.file(period_path))
        else:
            continue
        if quota and period:
            found.append((quota / period, Evidence.of(f"{_CGROUPS}/{path}", content)))
    return min(found, key=lambda each: each[0], default=None)


def memory(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.memory on one node: the number of processes, and what there is."""
    ranks = _ranks(node, pool)
    limits = [
        (limit, path)
        for path, content in _cgroup_files(node.readings, "pids.max")
        if (limit := digits(content))
    ]
    if limits and ranks:
        limit, path = min(limits)
        used = digits(node.readings.file(f"{path.removesuffix('max')}current")) or 0
        if limit - used < PIDS_A_RANK * ranks:
            judged = warned if pool.on_one_machine else failed
            return judged(
                f"the control group has room for {max(0, limit - used)} more processes and threads; {ranks} "
                f"ranks take {PIDS_A_RANK * ranks} at least",
                Evidence.of(path, limit),
                fix="raise TasksMax of the user's slice, or pids.max",
            )
    available = _memory(node.readings)
    if available is None:
        return skipped("how much memory there is is not known")
    return passed(f"{available[0] / 1024:.0f} GiB of memory", available[1])


def _cgroup_files(readings: Readings, name: str) -> list[tuple[str, str]]:
    return [
        (f"{_CGROUPS}/{path}", content)
        for path, content in readings.under(_CGROUPS).items()
        if path.rpartition("/")[2] == name
    ]


def _memory(readings: Readings) -> tuple[float, Evidence] | None:
    """What a program can have, in MiB: what is available, or less where a control group says so."""
    known = [
        (size / 1024, Evidence.of("/proc/meminfo", line))
        for line in (readings.file("/proc/meminfo") or "").splitlines()
        if line.startswith("MemAvailable:") and (size := digits(line[13:].strip().removesuffix("kB")))
    ]
    for name in ("memory.max", "memory.limit_in_bytes"):
        for path, content in _cgroup_files(readings, name):
            if size := digits(content):
                known.append((size / (1 << 20), Evidence.of(path, content)))
    return min(known, key=lambda each: each[0], default=None)


def same_memory(pool: ProbedPool) -> Outcome:
    """os.memory over the pool."""
    known = {node.name: found[0] for node in pool if (found := _memory(node.readings)) is not None}
    if len(known) < 2:
        return skipped("fewer than two nodes say how much memory there is")
    usual = statistics.median(known.values())
    less = {name: size for name, size in known.items() if size < (1 - MEMORY_SHARE) * usual}
    shown = {name: f"{size / 1024:.0f} GiB" for name, size in known.items()}
    if less:
        return warned(
            f"less memory than the others' {usual / 1024:.0f} GiB: "
            + told({name: shown[name] for name in less}),
            *side_by_side("memory available", {name: shown[name] for name in less}),
            nodes=less,
        )
    return passed(f"all nodes have about {usual / 1024:.0f} GiB")


def survive(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.survive."""
    killed, linger = node.readings.flag("kill_user_processes"), node.readings.flag("linger")
    if node.readings.syscall("uid") == 0:
        return passed("root's processes outlive the log-out", Evidence.of("uid", 0))
    if killed is False or linger is True:
        return passed(
            "processes outlive the log-out",
            Evidence.of("KillUserProcesses", killed),
            Evidence.of("Linger", linger),
        )
    if killed is None or linger is None:
        return skipped("whether processes outlive the log-out is not known")
    judged = warned if pool.on_one_machine else failed  # who sits there sees it end
    return judged(
        "this node ends all of a user's processes at log-out: a run would die with the connection",
        Evidence.of("logind.conf KillUserProcesses", "yes"),
        Evidence.of("loginctl show-user -p Linger", "no"),
    )


def tuning(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """os.tuning on one node."""
    balancing, map_count = "/proc/sys/kernel/numa_balancing", "/proc/sys/vm/max_map_count"
    frequency = "/sys/devices/system/cpu/cpu0/cpufreq"
    governor, driver = (node.readings.file(f"{frequency}/scaling_{name}") for name in ("governor", "driver"))
    found = []
    if (node.readings.file(balancing) or "0") != "0":
        found.append(("numa_balancing moves memory about", balancing, "sysctl kernel.numa_balancing=0"))
    # The governor of that name of the pstate drivers is no slow one.
    if governor == "powersave" and driver is not None and "pstate" not in driver:
        found.append(
            (
                "the CPUs run at their lowest clock",
                f"{frequency}/scaling_governor",
                "cpupower frequency-set -g performance",
            )
        )
    maps, ranks = digits(node.readings.file(map_count)), _ranks(node, pool) or 0
    if maps is not None and maps <= MAP_COUNT_DEFAULT and ranks >= MAP_COUNT_RANKS:
        found.append(
            (f"max_map_count is {maps} for {ranks} ranks", map_count, "sysctl vm.max_map_count=262144")
        )
    if found:
        return warned(
            "; ".join(message for message, _, _ in found),
            *(Evidence.of(path, node.readings.file(path)) for _, path, _ in found),
            fix="; ".join(f"as root: {fix}" for _, _, fix in found),
        )
    if node.readings.file(balancing) is None:
        return skipped("the kernel's settings were not read")
    return passed("nothing unusual", Evidence.of(balancing, node.readings.file(balancing)))


def same_system(pool: ProbedPool) -> Outcome:
    """os.tuning over the pool."""
    kernels = _known(pool, "/proc/sys/kernel/osrelease")
    libraries = {node.name: found for node in pool if (found := node.readings.text("glibc"))}
    for what, source, known in (("kernels", "uname -r", kernels), ("glibc versions", "glibc", libraries)):
        if odd := odd_ones(known):
            return warned(
                f"different {what}: {told(known)}",
                *side_by_side(source, known),
                fix="use one image on all nodes",
                nodes=odd,
            )
    if len(kernels) < 2:
        return skipped("fewer than two nodes say which kernel they have")
    return passed(f"the same kernel on {names(kernels)}")


def _known(pool: ProbedPool, path: str) -> dict[str, str]:
    return {node.name: found for node in pool if (found := node.readings.file(path))}


CHECKS = (
    Check(
        id="os.memlock",
        group=Group.LIMITS,
        title="locked memory",
        reads="getrlimit(RLIMIT_MEMLOCK) in the channel that starts the run: it differs from a log-in "
        "shell's",
        rule="pass: unlimited, or no active RDMA port, or gloo; fail: less than 1 GiB beside RDMA; warn: "
        "another limit",
        symptom="ibv_create_cq ... Cannot allocate memory, ibv_reg_mr ... failed with error Cannot allocate "
        "memory",
        fix="memlock unlimited in /etc/security/limits.d, LimitMEMLOCK=infinity for sshd and slurmd; docker: "
        "--ulimit memlock=-1",
        source="NVIDIA/nccl-tests issue 206, openucx/ucx issue 8229",
        node=memlock,
    ),
    Check(
        id="os.nofile",
        group=Group.LIMITS,
        title="open files",
        reads="getrlimit(RLIMIT_NOFILE), soft and hard",
        rule=f"warn: soft limit below {NOFILE_GOOD}; fail: hard limit below {NOFILE_MIN} with more than "
        f"{NOFILE_MIN_NODES} nodes",
        symptom="Too many open files",
        fix="nofile in /etc/security/limits.d, LimitNOFILE for sshd and slurmd",
        source="NVIDIA/nccl issue 550",
        node=nofile,
    ),
    Check(
        id="os.cpus",
        group=Group.LIMITS,
        title="CPUs for the ranks",
        reads="sched_getaffinity, cpu.max of the control groups (v1: cpu.cfs_quota_us)",
        rule=f"warn: fewer than {CPUS_A_RANK} CPUs a rank",
        symptom="data loading is ten times slower, GPUs wait",
        fix="ask the scheduler or the container for more CPUs, or for fewer ranks",
        source="sched_setaffinity and cgroups manuals",
        node=cpus,
    ),
    Check(
        id="os.memory",
        group=Group.LIMITS,
        title="memory and processes",
        reads="MemAvailable, memory.max, pids.max and pids.current of the control groups",
        rule=f"fail: room for fewer than {PIDS_A_RANK} processes and threads a rank; warn: a tenth less "
        "memory than the pool's median",
        symptom="killed for memory on one node; fork: Resource temporarily unavailable",
        fix="see what else runs on the node",
        source="cgroups v2 documentation",
        node=memory,
        pool=same_memory,
    ),
    Check(
        id="os.survive",
        group=Group.LIMITS,
        title="runs outlive the log-out",
        reads="logind's KillUserProcesses, loginctl show-user -p Linger",
        rule="fail: KillUserProcesses=yes without linger; root's processes are left alone",
        symptom="the run is gone when rankdeck is closed",
        fix="loginctl enable-linger",
        source="logind.conf manual",
        node=survive,
    ),
    Check(
        id="os.tuning",
        group=Group.LIMITS,
        title="kernel settings",
        reads="numa_balancing, scaling_governor, vm.max_map_count; kernel and glibc of all nodes",
        rule="warn: NUMA balancing is on, the governor is powersave, max_map_count is the default for "
        f"{MAP_COUNT_RANKS} ranks a node or more, or kernel or glibc differ",
        symptom="steps take unevenly long",
        fix="set it with sysctl as root",
        source="ROCm/rccl (warns of NUMA balancing), openucx/ucx issue 6264",
        node=tuning,
        pool=same_system,
    ),
)
