"""Folders and file systems: shared where they must be, not stuck, with room."""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import names, odd_ones, side_by_side, told
from rankdeck_backends.preflight.entries import Entry, entries, number, text
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

SLOW_TOKEN = 3.0
"""Seconds after which a file that another node wrote should be seen: longer is an attribute cache."""

RUN_MIB = 1024
LOW_SHARE = 0.05
TMPDIR_LENGTH = 80
"""Characters of TMPDIR: a socket's path below it must stay under 108 (unix(7))."""

SHM_MIN_MIB, SHM_GOOD_MIB = 1024, 8192
"""NCCL takes some 10 MiB a pair of ranks; torch's data loading workers pass whole batches through it."""

_PURPOSES = {
    "cwd": "the working directory",
    "python": "the Python environment",
    "data": "the data folder",
    "run": "the run folder",
    "home": "the home folder",
}


def shared(pool: ProbedPool) -> Outcome:
    """fs.shared."""
    tried = [(node.name, each) for node in pool for each in entries(node.readings, "shared")]
    if not tried:
        return skipped("whether folders are shared was not tried")
    unwritten = [
        (name, each) for name, each in tried if each.get("writer") == name and each.get("state") != "ok"
    ]
    if unwritten:
        name, entry = unwritten[0]
        return failed(
            f"{name} cannot write to {entry.get('path')}: {entry.get('state')}",
            _token(entry).on(name),
            fix="mount it writable for this user",
            nodes=[name],
        )
    readers = [(name, each) for name, each in tried if each.get("writer") != name]
    blind = [(name, each) for name, each in readers if each.get("state") != "ok"]
    if blind:
        paths = dict.fromkeys(str(each.get("path")) for _, each in blind)
        return failed(
            "; ".join(
                f"{path} is not shared: {names(name for name, each in blind if each.get('path') == path)} "
                "did not see what the head node wrote there"
                for path in paths
            ),
            *(_token(each).on(name) for name, each in blind[:4]),
            nodes=dict.fromkeys(name for name, _ in blind),
        )
    mute = {name: each for name, each in readers if each.get("answered") not in ("ok", None)}
    if mute:
        first = next(iter(mute.values()))
        answers = {name: each.get("answered") for name, each in mute.items()}
        return failed(
            f"the head node does not see what {names(mute)} wrote into {first.get('path')}",
            *side_by_side(f"the answer in {first.get('path')}", answers),
            nodes=mute,
        )
    late = [(name, each) for name, each in readers if (number(each, "seconds") or 0) > SLOW_TOKEN]
    if late:
        return warned(
            f"what one node writes is seen late: {names(name for name, _ in late)}, up to "
            f"{max(number(each, 'seconds') or 0 for _, each in late):.1f} s",
            *(_token(each).on(name) for name, each in late[:4]),
            nodes=dict.fromkeys(name for name, _ in late),
        )
    return passed(f"all nodes share {names(dict.fromkeys(str(each.get('path')) for _, each in tried))}")


def _token(entry: Entry) -> Evidence:
    seconds = number(entry, "seconds")
    after = "" if seconds is None else f" after {seconds:.1f} s"
    return Evidence.of(f"a file in {entry.get('path')}", f"{entry.get('state')}{after}")


def hung(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """fs.hung."""
    paths = entries(node.readings, "paths")
    if not paths:
        return skipped("no folder was looked at")
    stuck = [each for each in paths if each.get("state") == "timeout"]
    if stuck:
        return failed("; ".join(f"{_folder(each)} does not answer" for each in stuck), *map(_statvfs, stuck))
    return passed(f"{len(paths)} folders answer", _statvfs(paths[0]))


def _folder(entry: Entry) -> str:
    purpose = _PURPOSES.get(text(entry, "purpose") or "", "the folder")
    kind = text(entry, "type")
    return f"{purpose} {entry.get('path')}{f' ({kind})' if kind else ''}"


def _statvfs(entry: Entry) -> Evidence:
    room = f", {entry.get('avail_mib')} of {entry.get('total_mib')} MiB free" if "avail_mib" in entry else ""
    return Evidence.of(f"statvfs {entry.get('path')}", f"{entry.get('state')}{room}")


def space(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """fs.space."""
    paths = [each for each in entries(node.readings, "paths") if each.get("state") == "ok"]
    tmpdir = node.readings.text("tmpdir")
    if not paths and tmpdir is None:
        return skipped("how much room there is was not asked")
    bad = [(told_of, evidence) for each in paths for told_of, evidence in _no_room(each)]
    writable = node.readings.text("tmp_writable")
    if writable not in ("ok", None):
        bad.append(
            (f"TMPDIR {tmpdir} cannot be written: {writable}", Evidence.of(f"write to {tmpdir}", writable))
        )
    if bad:
        return failed("; ".join(message for message, _ in bad), *(evidence for _, evidence in bad))
    low = [(told_of, evidence) for each in paths for told_of, evidence in _little_room(each)]
    if tmpdir is not None and len(tmpdir) > TMPDIR_LENGTH:
        low.append(
            (
                f"TMPDIR has {len(tmpdir)} characters: sockets below it need a path of less than 108",
                Evidence.of("TMPDIR", tmpdir),
            )
        )
    if low:
        return warned("; ".join(message for message, _ in low), *(evidence for _, evidence in low))
    free = node.readings.number("tmp_free_mib")
    shown = [_statvfs(each) for each in paths] or [Evidence.of(f"statvfs {tmpdir}", free)]
    return passed("there is room", *shown)


def _no_room(entry: Entry) -> list[tuple[str, Evidence]]:
    written, free = entry.get("writable"), number(entry, "avail_mib")
    if written not in ("ok", None):
        why = "your quota there is used up" if written == "EDQUOT" else f"cannot be written ({written})"
        return [(f"{_folder(entry)}: {why}", Evidence.of(f"write to {entry.get('path')}", written))]
    if entry.get("purpose") == "run" and free is not None and free < RUN_MIB:
        return [(f"{_folder(entry)} has {free:.0f} MiB left", _statvfs(entry))]
    return []


def _little_room(entry: Entry) -> list[tuple[str, Evidence]]:
    found = []
    for free_key, all_key, what in (
        ("avail_mib", "total_mib", "room"),
        ("files_free", "files_total", "file entries (inodes)"),
    ):
        free, total = number(entry, free_key), number(entry, all_key)
        if free is not None and total and free < LOW_SHARE * total:
            found.append(
                (f"{_folder(entry)} has {100 * free / total:.1f} % of its {what} left", _statvfs(entry))
            )
    return found


def shared_memory(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """fs.shm."""
    free = node.readings.number("shm_avail_mib")
    total = node.readings.number("shm_total_mib")
    if free is None:
        return skipped("how large /dev/shm is was not asked")
    evidence = Evidence.of(
        "statvfs /dev/shm", f"{free:.0f} of {'?' if total is None else f'{total:.0f}'} MiB free"
    )
    if free < SHM_MIN_MIB and node.gpus.present:
        return failed(f"/dev/shm has {free:.0f} MiB free; at least {SHM_MIN_MIB} are needed", evidence)
    if free < SHM_GOOD_MIB and (node.gpus.present or free < SHM_MIN_MIB):
        return warned(
            f"/dev/shm has {free:.0f} MiB free: with data loading workers {SHM_GOOD_MIB} are better", evidence
        )
    return passed(f"/dev/shm has {free / 1024:.0f} GiB free", evidence)


def same_user(pool: ProbedPool) -> Outcome:
    """fs.ids."""
    known = {
        node.name: f"uid {node.readings.syscall('uid')}, gid {node.readings.syscall('gid')}"
        for node in pool
        if node.readings.number("uid") is not None
    }
    if len(known) < 2:
        return skipped("fewer than two nodes say who this user is there")
    if odd := odd_ones(known):
        return warned(f"this user has different ids: {told(known)}", *side_by_side("id", known), nodes=odd)
    return passed("this user has the same ids everywhere", *side_by_side("id", known)[:1])


CHECKS = (
    Check(
        id="fs.hung",
        group=Group.FILES,
        title="no stuck file system",
        reads="statvfs, in a child with 5 s, of working directory, Python environment, data, run and home "
        "folder",
        rule="fail: no answer in that time",
        symptom="ranks that cannot even be killed (state D), a start that hangs without a word",
        fix="mount it anew, or reboot the node",
        source="proc manual, process states; NFS hard mounts",
        node=hung,
    ),
    Check(
        id="fs.space",
        group=Group.FILES,
        title="room to write",
        reads="statvfs of the same folders, 1 MiB written to the run folder, TMPDIR",
        rule=f"fail: less than {RUN_MIB} MiB in the run folder, a write that is refused (quota, read-only), "
        f"TMPDIR not writable; warn: less than 5 % of room or inodes, TMPDIR longer than {TMPDIR_LENGTH} "
        "characters",
        symptom="No space left on device; Open MPI cannot make its session folder",
        fix="make room, or choose another folder; a short TMPDIR for long paths",
        source="unix manual (108 characters), quotactl manual",
        node=space,
        explained_by=("fs.hung",),
    ),
    Check(
        id="fs.shared",
        group=Group.FILES,
        title="shared folders are shared",
        reads="a file that the head node writes there, which every node reads and answers, 10 s at most",
        rule=f"fail: not seen, or the answer is not; warn: seen after more than {SLOW_TOKEN:.0f} s",
        symptom="half a checkpoint on each node",
        fix="mount the same file system on all nodes, or copy what is needed",
        source="deepspeedai/DeepSpeed issue 5452; nfs manual, attribute caching",
        pool=shared,
        explained_by=("fs.hung",),
    ),
    Check(
        id="fs.shm",
        group=Group.FILES,
        title="shared memory is large enough",
        reads="statvfs /dev/shm",
        rule=f"fail: less than {SHM_MIN_MIB} MiB free beside a GPU (docker gives 64); warn: less without "
        f"one, or less than {SHM_GOOD_MIB} beside one",
        symptom="Error: failed to extend /dev/shm/nccl-...: No space left on device; Bus error in data "
        "loading",
        fix="start the container with --ipc=host or --shm-size; on a host, remove what lies in /dev/shm",
        source="NVIDIA/nccl issues 290, 342; PyTorch README, docker image",
        node=shared_memory,
    ),
    Check(
        id="fs.ids",
        group=Group.FILES,
        title="the same user everywhere",
        reads="uid and gid",
        rule="warn: they differ between nodes",
        symptom="permission denied on shared files",
        fix="give the user the same ids on all nodes (LDAP, or usermod)",
        source="NFS with AUTH_SYS compares numbers",
        pool=same_user,
    ),
)
