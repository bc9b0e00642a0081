"""Pools, facts and profiles for the planning tests."""

from rankdeck_profiles.facts import GpuFacts, NodeFacts
from rankdeck_profiles.model import BackendKind, Pool, Profile
from rankdeck_profiles.nodes import expand
from rankdeck_profiles.plan import LaunchPlan


def pool(*nodes: str, backend: BackendKind = BackendKind.SSH, **more) -> Pool:
    return Pool("lab", backend, expand(nodes), **more)


def facts(node: str, **more) -> NodeFacts:
    given = {
        "node": node,
        "hostname": node,
        "home": "/home/al",
        "address": f"10.0.0.{node[-1]}",
        "interface": "eth1",
        "cpus": 16,
        "memory_mib": 1024,
        "machine": f"boot-{node}",
        "free_port": 41000,
    }
    return NodeFacts(**{**given, **more})


def gpus(count: int) -> tuple[GpuFacts, ...]:
    return tuple(GpuFacts(index, "H100", f"GPU-{index}", 81559) for index in range(count))


def profile(framework: str = "pytorch", **more) -> Profile:
    return Profile(**{"name": "p", "framework": framework, "script": "t.py", "workdir": "/w", **more})


def ranks(made: LaunchPlan) -> list[tuple[int, ...]]:
    return [node.ranks for node in made.nodes]


FACTS = {name: facts(name) for name in ("n1", "n2")}
