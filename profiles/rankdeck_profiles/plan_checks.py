"""What is wrong with a profile's variables and a plan's words, told before anything is started."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile

from rankdeck_profiles.environment import leftover
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.frameworks.base import Framework
from rankdeck_profiles.leftovers import VISIBLE_DEVICES
from rankdeck_profiles.masking import is_secret
from rankdeck_profiles.model import Profile
from rankdeck_profiles.placement import Placement
from rankdeck_profiles.plan import NodePlan
from rankdeck_profiles.settings import IDENTITY, OWN

LONGEST = 131072
"""Bytes that Linux takes for one argument or one NAME=value, the NUL at its end included (execve(2),
MAX_ARG_STRLEN: 32 pages of 4096)."""

_MEANT_FOR_A_SHELL = re.compile(r"\$(?:[A-Z_][A-Z0-9_]+\b|\{[A-Z_][A-Z0-9_]*\})")
"""A reference to a variable as people write it in a shell, `PATH = "/opt/x/bin:$PATH"`."""


def check_env(profile: Profile, framework: Framework, warn: Callable[[str], None]) -> None:
    """Variables that are computed are refused; those that have no effect are warned about.

    Raises:
        PlanError: one that differs from rank to rank is given, or one that gloo does not understand.
    """
    for name in (*profile.env, *profile.env_from):
        where = "[env]" if name in profile.env else "env_from"
        if name in IDENTITY or name in OWN:
            hint = "use master_port" if name == "MASTER_PORT" else "it is computed from the placement"
            raise PlanError(
                f"{name} in {where}: it differs from rank to rank or from node to node", f"remove it; {hint}"
            )
        if name in framework.per_rank:
            raise PlanError(
                f"{name} in {where}: framework {framework.name} computes it for each rank, and all of them "
                "would get the same",
                "remove it",
            )
        if name in framework.sets_itself:
            warn(f"{name} in {where} has no effect: {framework.name} sets it itself")
        elif name.startswith("TORCHELASTIC_") and not framework.sets_itself:
            warn(f"{name} in {where}: torch takes it as a sign that torchrun started it")
        elif name.startswith("SLURM_") and (entry := leftover(name)) is not None:
            warn(f"{name} in {where}: {entry.why}")
    for name, value in profile.env.items():
        if is_secret(name):
            warn(f"{name} in [env] looks like a secret and is recorded with the run; env_from keeps it out")
        if value.startswith("~/"):
            warn(f'{name} = "{value}" in [env]: `~` is not expanded there')
        if match := _MEANT_FOR_A_SHELL.search(value):
            warn(
                f"{name} in [env] holds {match[0]}, which nothing expands there; "
                f"""setup = ['export {name}="..."'] does, on each node"""
            )


def check_gloo(profile: Profile, placement: Placement, known: Mapping[str, NodeFacts]) -> None:
    """Refuse what gloo's variable does not take: it names interfaces, where NCCL's also takes patterns.

    Gloo looks each name up as it is (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp); NCCL takes prefixes,
    `^` for all but these, and `=` for whole names (NCCL's list of environment variables).

    Raises:
        PlanError: names the node and the interface to use.
    """
    value = profile.env.get("GLOO_SOCKET_IFNAME")
    if value is None:
        return
    found = [known.get(share.node.name) for share in placement.shares]
    offers = {facts.node: facts.interface for facts in found if facts is not None and facts.interface}
    offer = "; found by route: " + ", ".join(f"{n} {i}" for n, i in offers.items()) if offers else ""
    if value.startswith(("^", "=")):
        raise PlanError(
            f'GLOO_SOCKET_IFNAME = "{value}" in [env]: gloo takes whole names of interfaces, '
            f"`{value[0]}` is NCCL's",
            f"remove it, and each node gets its own{offer}",
        )
    for facts in found:
        there = [str(entry["name"]) for entry in (facts.raw.get("interfaces") or ())] if facts else []
        missing = [name for name in value.split(",") if name not in there]
        if facts is not None and there and missing:
            raise PlanError(
                f'GLOO_SOCKET_IFNAME = "{value}" in [env]: '
                f'node {facts.node} has no interface "{missing[0]}", only {", ".join(there)}',
                f"remove it, and each node gets its own{offer}",
            )


def check_visible(
    profile: Profile, placement: Placement, known: Mapping[str, NodeFacts], warn: Callable[[str], None]
) -> None:
    """Warn where a node's login hides GPUs that its ranks would take by their local numbers.

    Raises:
        PlanError: GPUs are chosen both by the profile and of a node.
    """
    given = VISIBLE_DEVICES in profile.env or VISIBLE_DEVICES in profile.env_from
    chosen = [
        share.node for share in placement.shares if share.node.gpus is not None or share.node.hidden_gpus
    ]
    if given and chosen:
        raise PlanError(
            f"the profile gives {VISIBLE_DEVICES}, and GPUs of node {chosen[0].name} are chosen",
            "take it out of [env] and env_from, or use whole nodes",
        )
    if given:
        return
    for share in placement.shares:
        if share.node in chosen:
            continue
        facts = known.get(share.node.name)
        value = facts.leftovers.get(VISIBLE_DEVICES) if facts is not None else None
        if facts is None or value is None or not facts.gpus:
            continue
        # The first entry that is no device ends the list: "-1" is none at all.
        seen = len(list(takewhile(lambda entry: entry.strip() not in ("", "-1"), value.split(","))))
        if seen < len(share.ranks):
            warn(
                f'the login on {share.node.name} has {VISIBLE_DEVICES} = "{value}": its {len(share.ranks)} '
                f"ranks see {seen} of {len(facts.gpus)} GPUs; give it in [env], or lower procs_per_node"
            )


def check_sizes(nodes: Iterable[NodePlan]) -> None:
    """Refuse what no program can be started with.

    Raises:
        PlanError: names the variable or argument, its size and the limit.
    """
    for node in nodes:
        environments = [node.rank_env, *(process.env for process in node.processes)]
        for name, value in (item for env in environments for item in env.items()):
            size = len(f"{name}={value}".encode(errors="surrogateescape")) + 1
            if size > LONGEST:
                raise PlanError(
                    f"{name} is {size} bytes long, with its name: no program on node {node.node} can be "
                    f"started with it (allowed: {LONGEST})",
                    "put it into a file and give the file's name",
                )
        for word in (word for process in node.processes for word in process.argv):
            size = len(word.encode(errors="surrogateescape")) + 1
            if size > LONGEST:
                raise PlanError(
                    f"an argument is {size} bytes long ({word[:40]}...; allowed: {LONGEST})",
                    "put it into a file and give the file's name",
                )
