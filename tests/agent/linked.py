"""Several nodes of one run on this machine: each a node rank of its own under one session."""

from __future__ import annotations

from typing import Any

from agent_client import Client
from agent_runs import Run, rank_plan

SECRET = "5ec2e7" * 8
WAIT = "while :; do sleep 0.1; done"


def node_plans(
    *programs: str, run: str = "linked", barrier: float = 120.0, lost: float = 60.0, **changes: Any
) -> list[dict]:
    """One plan a node, each with one rank that a shell runs."""
    names = [f"n{number + 1}" for number in range(len(programs))]
    links = {"nodes": names, "barrier": barrier, "lost": lost, "served": []}
    plans = []
    for rank, program in enumerate(programs):
        plan = rank_plan(program, run=run, node=names[rank], node_rank=rank, links=links)
        plan["world_size"] = len(programs)
        plan["processes"][0].update(ranks=[rank], local_ranks=[0])
        plan["processes"][0]["env"].update(RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(len(programs)))
        plan.update(changes)
        plans.append(plan)
    return plans


class LinkedRun(Run):
    """One node of a run whose nodes are linked; attributes as of a Run, and the port of the head's links."""

    def __init__(self, client: Client, plan: dict[str, Any], port: int | None, **follow: Any) -> None:
        self.plan = plan
        link = {"secret": SECRET, "address": "127.0.0.1", "port": port}
        started = client.ask("start", run=plan["run"], dir=None, plan=plan, secrets={}, link=link)
        self.client = client
        self.dir = started["dir"]
        self.supervisor = started["pid"]
        self.port: int = started["port"]
        self.follow = client.send("follow", dir=self.dir, since=0, logs="all", offsets={}, **follow)


def start_all(client: Client, plans: list[dict[str, Any]]) -> list[LinkedRun]:
    """The head first, as its port is known only then."""
    head = LinkedRun(client, plans[0], None)
    return [head, *(LinkedRun(client, plan, head.port) for plan in plans[1:])]
