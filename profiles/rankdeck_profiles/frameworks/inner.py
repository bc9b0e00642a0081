"""Launchers inside a launcher: a program that would start the ranks a second time is refused.

Each rank of the outer launcher would start a whole world of its own: N x N processes that fight for the
ports, or, under an mpirun, an inner mpirun that finds the outer one's variables and fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rankdeck_profiles.errors import FieldError
from rankdeck_profiles.model import Profile

_MPI = 'framework = "mpi" writes the whole mpirun command'
_POOL = "the nodes are those of the pool"
_TORCH = 'framework = "torchrun" starts it'
LAUNCHERS = {
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "mpiexec.hydra": _MPI,
    "mpirun.openmpi": _MPI,
    "mpirun.mpich": _MPI,
    "orterun": _MPI,
    "prterun": _MPI,
    "horovodrun": 'framework = "horovod" starts the ranks by mpirun',
    "deepspeed": 'framework = "deepspeed" starts the ranks by mpirun',
    "deepspeed.pt": 'framework = "deepspeed" starts the ranks by mpirun',
    "ds": 'framework = "deepspeed" starts the ranks by mpirun',
    "torchrun": _TORCH,
    "accelerate-launch": 'framework = "accelerate" starts it',
    "srun": _POOL,
    "jsrun": _POOL,
    "aprun": _POOL,
}
"""Program name -> what to use in its place."""

_MODULES = {
    "torch.distributed.run": _TORCH,
    "torch.distributed.launch": 'framework = "launch" starts it',
    "deepspeed.launcher.runner": LAUNCHERS["deepspeed"],
    "deepspeed.launcher.launch": LAUNCHERS["deepspeed"],
    "horovod.runner": LAUNCHERS["horovodrun"],
    "horovod.runner.launch": LAUNCHERS["horovodrun"],
    "accelerate.commands.launch": 'framework = "accelerate" starts it',
}
_WRAPPERS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "env": (("-u", "--unset", "-C", "--chdir"), 0),
    "nice": (("-n", "--adjustment"), 0),
    "ionice": (("-c", "--class", "-n", "--classdata"), 0),
    "nohup": ((), 0),
    "setsid": ((), 0),
    "exec": (("-a",), 0),
    "time": (("-f", "--format", "-o", "--output"), 0),
    "timeout": (("-k", "--kill-after", "-s", "--signal"), 1),
    "stdbuf": (("-i", "--input", "-o", "--output", "-e", "--error"), 0),
    "taskset": ((), 1),
    "chrt": ((), 1),
    "numactl": (
        ("-i", "-m", "-N", "-C", "-p", "--interleave", "--membind", "--cpunodebind", "--physcpubind"),
        0,
    ),
    "catchsegv": ((), 0),
}
"""What runs the rest of its line: options that take the next word, and how many words stand before the
program (coreutils, util-linux, numactl: their manual pages)."""
_PYTHON_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Python's own options that take the next word, where they are not written in one (`python --help`)."""
_RUNNERS: Mapping[tuple[str, ...], int] = {
    ("uv", "run"): 0,
    ("poetry", "run"): 0,
    ("pipenv", "run"): 0,
    ("conda", "run"): 0,
    ("mamba", "run"): 0,
    ("micromamba", "run"): 0,
    ("nsys", "profile"): 0,
    ("apptainer", "exec"): 1,
    ("singularity", "exec"): 1,
}
"""What runs another program, and how many words that are no options stand before that program."""
_OPTION_VALUES = 2
"""So many further words may be values of their options (`conda run -n env`)."""
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_IN_SHELL = re.compile(
    r"(?:^|[;&|(]|\bthen\b|\bdo\b|\bexec\b)\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:\S*/)?("
    + "|".join(re.escape(name) for name in sorted(LAUNCHERS, key=len, reverse=True) if name != "ds")
    + r")(?=\s|$)",
    re.MULTILINE,
)


def refuse_launchers(profile: Profile) -> None:
    """Refuse a profile whose program is a launcher.

    Raises:
        FieldError: names the launcher and what to use in its place.
    """
    if profile.module is not None:
        found = profile.module if profile.module in _MODULES else None
        key = "module"
    elif profile.script is not None:
        found = _known(profile.script)
        key = "script"
    else:
        found = _in_command(profile.command)
        key = "command"
    if found is not None:
        instead = LAUNCHERS.get(found) or _MODULES.get(found) or 'framework = "accelerate" starts it'
        raise FieldError(
            (key,),
            f"{found} in {key}: framework {profile.framework} starts the ranks itself, "
            "and each of them would start all of them again",
            f'give the program alone, such as script = "train.py"; {instead}; '
            f'framework = "command" runs a launcher of your own',
        )


def _known(word: str) -> str | None:
    name = word.rpartition("/")[2]
    return name if name in LAUNCHERS else None


def _in_command(words: Sequence[str]) -> str | None:
    rest = _unwrapped(words)
    if not rest:
        return None
    name = rest[0].rpartition("/")[2]
    if (between := _RUNNERS.get((name, *rest[1:2]))) is not None:
        return _behind(rest[2:], between + _OPTION_VALUES)
    if name in _SHELLS and any(re.fullmatch(r"-[a-z]*c", word) for word in rest[1:3]):
        match = _IN_SHELL.search(rest[-1] if len(rest) < 4 else " ".join(rest[2:4]))
        return match[1] if match else None
    if name == "accelerate" and rest[1:2] == ["launch"]:
        return "accelerate launch"
    if name.startswith("python"):
        return _by_python(rest[1:])
    # A whole line as one word names no program that could be started.
    return _known(rest[0]) or (_known(rest[0].split()[0]) if rest[0].split() else None)


def _unwrapped(words: Sequence[str]) -> list[str]:
    """A command without `env`, `nice -n 5`, `timeout 60` and their like, and `NAME=value`, before it."""
    rest = list(words)
    while rest:
        wrapper = _WRAPPERS.get(rest[0].rpartition("/")[2])
        if wrapper is None and not re.match(r"[A-Za-z_]\w*=", rest[0]):
            break
        rest.pop(0)
        with_value, before = wrapper or ((), 0)
        while rest and rest[0].startswith("-"):
            rest = rest[2 if rest[0] in with_value else 1 :]
        rest = rest[before:]
    return rest


def _by_python(words: Sequence[str]) -> str | None:
    """What an interpreter runs: a module, or a script."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        if (match := re.fullmatch(r"-[A-Za-z]*?m(.*)", rest[0])) and not rest[0].startswith("-W"):
            module = match[1] or "".join(rest[1:2])
            return module if module in _MODULES else None
        rest = rest[2 if rest[0] in _PYTHON_WITH_VALUE else 1 :]
    return _known(rest[0]) if rest else None


def _behind(words: Sequence[str], most: int) -> str | None:
    """The launcher that another program runs, with at most so many words before it that are no options."""
    places = [place for place, word in enumerate(words) if not word.startswith("-")]
    for place in places[: most + 1]:
        if words[place].endswith(".py"):
            return None
        found = _in_command(words[place:])
        if found is not None or words[place].rpartition("/")[2].startswith("python"):
            return found
    return None
