"""Would all nodes run the same program: interpreter, torch, and the code itself."""

from __future__ import annotations

import re
from dataclasses import replace

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, names, odd_ones, side_by_side, told
from rankdeck_backends.preflight.entries import Entry, text
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

WITHOUT_TORCH = ("tensorflow", "jax", "command")
"""Frameworks whose programs use another library, or of which nothing is known."""

ANY_PROGRAM = ("command",)
"""Frameworks that start any program: it need not be written in Python."""


def python(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.python on one node."""
    answer = node.readings.mapping("python")
    if answer is None:
        return skipped("the profile's interpreter was not asked")
    asked, state = text(answer, "asked") or "python3", text(answer, "state")
    evidence = Evidence.of(f"{asked} --version", state if state != "ok" else text(answer, "version"))
    if state == "missing":
        judged = warned if pool.asked.framework in ANY_PROGRAM else failed
        return judged(f"there is no {asked} on this node", evidence)
    if state == "timeout" and node.hurried is not None:
        return warned(
            f"{asked} did not start within the {node.hurried:g} s that a launch waits: ranks will be as slow",
            evidence,
            fix="see whether `rankdeck check`, which waits longer, has an answer",
        )
    if state == "timeout":
        hung = failed(
            f"{asked} did not start in its time",
            evidence,
            fix=f"see what `{asked} -c 1` waits for on the node: a file system (fs.hung), a start-up file "
            "(sitecustomize.py, *.pth), or a wrapper",
        )
        return replace(hung, symptom="ranks that never begin, and say nothing")
    if state != "ok":
        return failed(f"{asked} does not start: {state}", evidence)
    return passed(f"Python {text(answer, 'version')} at {text(answer, 'path')}", evidence)


def same_python(pool: ProbedPool) -> Outcome:
    """sw.python over the pool."""
    answers = _answers(pool, "python")
    versions = {name: text(each, "version") or "?" for name, each in answers.items()}
    if len(versions) < 2:
        return skipped("fewer than two nodes say which Python they have")
    evidence = side_by_side("version", versions)
    minors = {name: ".".join(version.split(".")[:2]) for name, version in versions.items()}
    if odd := odd_ones(minors):
        judged = warned if pool.asked.framework in ANY_PROGRAM else failed
        return judged(f"different Pythons: {told(versions)}", *evidence, nodes=odd)
    if odd := odd_ones(versions):
        return warned(f"different Python patch versions: {told(versions)}", *evidence, nodes=odd)
    prefixes = {name: text(each, "prefix") or "?" for name, each in answers.items()}
    if odd := odd_ones(prefixes):
        return warned(
            f"the same Python in different environments: {told(prefixes)}",
            *side_by_side("sys.prefix", prefixes),
            nodes=odd,
        )
    return passed(f"all nodes have Python {groups(versions)[0][0]}", *evidence[:1])


def torch(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.torch on one node: does it hold code for the GPUs that are there."""
    if pool.asked.framework in WITHOUT_TORCH:
        return skipped(f"{pool.asked.framework} does without torch")
    answer = node.readings.mapping("torch")
    state = text(answer or {}, "state")
    if answer is None or state == "missing":
        return skipped("torch is not installed there, or was not asked")
    evidence = Evidence.of("torch.__version__", text(answer, "version") or state)
    if state != "ok":
        return failed(f"torch cannot be loaded: {state}", evidence, fix="reinstall torch in that environment")
    built_for = [str(each) for each in answer.get("arch_list") or () if isinstance(each, str)]
    gpus = _architectures(node)
    if gpus and not built_for:
        return passed(f"torch {text(answer, 'version')}; which GPUs it is built for is not known", evidence)
    lacking = {name: arch for name, arch in gpus.items() if not _covered(arch, built_for)}
    if lacking:
        return failed(
            f"this torch has no code for {', '.join(f'{name} ({arch})' for name, arch in lacking.items())}",
            Evidence.of("torch.cuda.get_arch_list()", " ".join(built_for)),
            evidence,
        )
    return passed(f"torch {text(answer, 'version')}", evidence)


def _architectures(node: ProbedNode) -> dict[str, str]:
    """GPU model -> `sm_90`, or `gfx942`."""
    found = {}
    for gpu in node.gpus.smi.gpus:
        capability = re.fullmatch(r"([0-9]{1,2})\.([0-9])", gpu.text("compute_cap") or "")
        if capability:
            found[gpu.text("name") or f"GPU {gpu.index}"] = f"sm_{capability[1]}{capability[2]}"
    for name, properties in node.gpus.kfd.items():
        target = properties.get("gfx_target_version", "")
        if re.fullmatch(r"[0-9]{5,6}", target):
            # 90402 is gfx942 and 90010 gfx90a: major, minor, and the stepping in hexadecimal
            major, minor, step = target[:-4], target[-4:-2].lstrip("0") or "0", int(target[-2:])
            found[f"GPU {name}"] = f"gfx{major}{minor}{step:x}"
    return found


def _covered(arch: str, built_for: list[str]) -> bool:
    """CUDA code runs on its major version from its minor one on, PTX (`compute_`) on all later GPUs."""
    if arch.startswith("gfx"):
        return any(each.partition(":")[0] == arch for each in built_for)
    number = arch.removeprefix("sm_")
    for each in built_for:
        found = re.fullmatch(r"(sm|compute)_([0-9]{2,3})([af]?)", each)
        if found is None:
            continue
        kind, built, exact = found[1], found[2], found[3]
        if built == number:
            return True
        if exact != "a" and kind == "sm" and built[:-1] == number[:-1] and built[-1] <= number[-1]:
            return True
        if not exact and kind == "compute" and int(built) <= int(number):
            return True
    return False


def same_torch(pool: ProbedPool) -> Outcome:
    """sw.torch over the pool."""
    if pool.asked.framework in WITHOUT_TORCH:
        return skipped(f"{pool.asked.framework} does without torch")
    answers = {node.name: found for node in pool if (found := node.readings.mapping("torch")) is not None}
    there = {name: each for name, each in answers.items() if text(each, "state") == "ok"}
    without = [name for name, each in answers.items() if text(each, "state") == "missing"]
    if there and without:
        return failed(
            f"torch is not installed on {names(without)}, but on {names(there)}",
            *(Evidence.of("import torch", "missing").on(name) for name in without[:3]),
            nodes=without,
        )
    if len(there) < 2:
        return skipped("fewer than two nodes say which torch they have")
    builds = {name: _build(each) for name, each in there.items()}
    evidence = side_by_side("torch.__version__", builds)
    if odd := odd_ones(builds):
        return failed(f"different builds of torch: {told(builds)}", *evidence, nodes=odd)
    return passed(f"all nodes have torch {groups(builds)[0][0]}", *evidence[:1])


def _build(answer: Entry) -> str:
    cuda, hip = text(answer, "cuda"), text(answer, "hip")
    made_for = f" for CUDA {cuda}" if cuda else f" for ROCm {hip}" if hip else ""
    return f"{text(answer, 'version')}{made_for}"


def code(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.code on one node."""
    answer = node.readings.mapping("code")
    if answer is None:
        return skipped("the entry script was not asked for")
    path, state = text(answer, "path"), text(answer, "state")
    if state == "timeout":
        return skipped(f"{path} could not be read in time", Evidence.of(f"read {path}", state))
    if state != "ok":
        what = "is not there" if state == "ENOENT" else f"cannot be read ({state})"
        return failed(f"the entry script {path} {what}", Evidence.of(f"read {path}", state))
    return passed(f"{path} is there", Evidence.of(f"sha256 of {path}", text(answer, "sha256")))


def same_code(pool: ProbedPool) -> Outcome:
    """sw.code over the pool."""
    answers = _answers(pool, "code")
    if len(answers) < 2:
        return skipped("fewer than two nodes could read the entry script")
    sums = {name: (text(each, "sha256") or "?")[:12] for name, each in answers.items()}
    path = text(next(iter(answers.values())), "path")
    if odd := odd_ones(sums):
        return failed(
            f"{path} is not the same file everywhere: {told(sums)}",
            *side_by_side(f"sha256 of {path}", sums),
            nodes=odd,
        )
    heads = {name: head[:12] for name, each in answers.items() if (head := text(each, "git_head"))}
    if odd := odd_ones(heads):
        return failed(
            f"the code is of different commits: {told(heads)}",
            *side_by_side("git rev-parse HEAD", heads),
            nodes=odd,
        )
    dirty = {name: each.get("git_dirty") is True for name, each in answers.items()}
    if odd := odd_ones(dirty):
        changed = [name for name, is_dirty in dirty.items() if is_dirty]
        return warned(
            f"the same commit, with uncommitted changes on {names(changed)} only",
            *side_by_side("git status", dirty),
            nodes=odd,
        )
    return passed("the same code on all nodes", *side_by_side(f"sha256 of {path}", sums)[:1])


def _answers(pool: ProbedPool, key: str) -> dict[str, Entry]:
    """The nodes that gave a good answer."""
    found = {node.name: node.readings.mapping(key) for node in pool}
    return {name: each for name, each in found.items() if each is not None and text(each, "state") == "ok"}


CHECKS = (
    Check(
        id="sw.python",
        group=Group.SOFTWARE,
        title="the profile's Python",
        reads="the profile's interpreter after its setup lines: path, version, sys.prefix",
        rule="fail: it is missing, does not start (within 20 s), or major.minor differs between nodes; warn: "
        "the same for framework command, it does not start within the 5 s of a launch, or the patch version "
        "or the environment differs",
        symptom="python: command not found on the workers, or modules that only the head node has",
        fix="use one environment on a shared file system, or the same image on all nodes",
        source="deepspeedai/DeepSpeed issue 3489",
        node=python,
        pool=same_python,
        explained_by=("fs.hung",),
    ),
    Check(
        id="sw.torch",
        group=Group.SOFTWARE,
        title="the same torch, built for these GPUs",
        reads="of the torch which that interpreter would import, without importing it: version.py, and in "
        "libtorch_python.so the text that get_arch_list() gives; nvidia-smi compute_cap",
        rule="fail: version or build differs, it is on some nodes only, or it has no code for a GPU that is "
        "there",
        symptom="no kernel image is available for execution on the device; errors in unpickling or in a "
        "collective",
        fix="install the same torch on all nodes, built for these GPUs",
        source="torch.cuda.get_arch_list; CUDA C++ Programming Guide, binary compatibility; "
        "open-mmlab/mmdetection issue 1089",
        node=torch,
        pool=same_torch,
        explained_by=("sw.python",),
    ),
    Check(
        id="sw.code",
        group=Group.SOFTWARE,
        title="the same code",
        reads="sha256 of the entry script, git HEAD and status of its repository, as each node sees them",
        rule="fail: the script is missing, or differs, or is of another commit; warn: uncommitted changes on "
        "some nodes",
        symptom="ranks run different code and wait for each other",
        fix="put the code on a shared file system, or copy it to all nodes",
        source="git rev-parse; a comparison of the pool with itself",
        node=code,
        pool=same_code,
        explained_by=("fs.hung",),
    ),
)
