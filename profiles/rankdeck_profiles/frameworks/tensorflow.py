"""`tensorflow`: one task a node (or as many as asked for), each with its `TF_CONFIG`.

The contract (tensorflow/python/distribute: multi_worker_util.py `_validate_cluster_spec`,
collective_all_reduce_strategy.py, parameter_server_strategy_v2.py):

- `TF_CONFIG` is `{"cluster": {type: [host:port, ...]}, "task": {"type", "index"}}`, the same cluster for all
  tasks. Types are chief, worker, ps and evaluator; at most one chief and one evaluator; an evaluator may be
  left out of the cluster, as it is here, since nobody connects to it.
- Each task serves at its own port; several tasks on one machine need different ones.
- MultiWorkerMirrored (`strategy = "mwms"`): workers, and a chief if asked for, which trains too; without it
  worker 0 is the chief. A task uses all GPUs it sees, and all must see the same number. It waits for missing
  peers for ever.
- ParameterServer (`strategy = "ps"`): the chief coordinates; workers and ps serve until they are stopped, so
  they end with the chief. With `chief = false` (as in TensorFlow 1) the workers end by themselves, and the ps
  with them. Tasks that only serve or coordinate see no GPU, else they would take its memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankdeck_profiles.errors import FieldError, PlanError
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import rank_processes
from rankdeck_profiles.frameworks.tensorflow_tasks import Roles, Task, lay_out, spread
from rankdeck_profiles.model import Profile
from rankdeck_profiles.nodes import bracketed
from rankdeck_profiles.plan import EndsWith, Need
from rankdeck_profiles.settings import Setting

LAST_PORT = 65535


class TensorFlow(Framework):
    """One process a task."""

    name = "tensorflow"
    summary = "TensorFlow: MultiWorkerMirrored (one worker a node) or parameter servers"
    advice = (
        "The strategy is made before anything else of TensorFlow; it reads TF_CONFIG, which is written here."
    )
    per_rank = frozenset(("TF_CONFIG",))
    options: Mapping[str, Option] = {
        "strategy": Option("text", "mwms: MultiWorkerMirrored; ps: ParameterServer", "mwms", ("mwms", "ps")),
        "workers": Option("count", "how many workers; one a node", None, least=1),
        "ps": Option("count", "how many parameter servers; 1 for ps", None),
        "chief": Option("switch", "a chief beside the workers; true for ps, false for mwms", None),
        "evaluator": Option("switch", "one more task that evaluates checkpoints", False),
    }

    def roles(self, profile: Profile) -> Roles:
        """The tasks beside the workers."""
        servers = self.option(profile, "strategy") == "ps"
        ps = self.option(profile, "ps")
        chief = self.option(profile, "chief")
        return Roles(
            chief=servers if chief is None else chief,
            ps=(1 if servers else 0) if ps is None else ps,
            evaluator=self.option(profile, "evaluator"),
            workers=self.option(profile, "workers"),
        )

    def check(self, profile: Profile) -> None:
        """Refuse parameter servers where there are none, and none where there must be."""
        super().check(profile)
        servers = self.option(profile, "strategy") == "ps"
        ps = self.roles(profile).ps
        if servers != bool(ps):
            strategy = "ps" if servers else "mwms"
            raise FieldError(
                ("options", "ps"),
                f'options.ps = {ps} with strategy = "{strategy}"',
                "set ps to 1 or more" if servers else 'remove it, or set strategy = "ps"',
            )

    def default_procs(self, profile: Profile, slots: int) -> int:
        """One task, which uses all GPUs of the node."""
        return 1

    def counts(self, profile: Profile, names: Sequence[str], slots: Sequence[int]) -> list[int] | None:
        """The tasks spread over the nodes, where the profile does not count processes."""
        if profile.procs_per_node is not None or profile.process_count is not None:
            return None
        return spread(self.roles(profile), len(names))

    def fills_slots(self, profile: Profile) -> bool:
        """Only where every task trains."""
        roles = self.roles(profile)
        return not roles.ps and not roles.evaluator

    def work(self, job: NodeJob) -> NodeWork:
        """This node's tasks."""
        servers = self.option(job.profile, "strategy") == "ps"
        tasks = lay_out(self.roles(job.profile), [share.ranks for share in job.placement.shares])
        addresses = _addresses(job, tasks)
        cluster: dict[str, list[str]] = {}
        for kind in ("chief", "worker", "ps"):
            members = [addresses[task.rank] for task in tasks if task.kind == kind]
            if members:
                cluster[kind] = members
        here = {task.rank: task for task in tasks if task.rank in job.share.ranks}
        training = any(
            task.kind == "worker" or (task.kind == "chief" and not servers) for task in here.values()
        )
        more = {
            rank: _settings(task, cluster, blind=_is_blind(task, servers, training))
            for rank, task in here.items()
        }
        work = rank_processes(job, more)
        processes = tuple(
            replace(
                process,
                role=f"{here[process.ranks[0]].kind} {here[process.ranks[0]].index}",
                ends_with=_end(here[process.ranks[0]], tasks, servers),
            )
            for process in work.processes
        )
        ports = [
            Need("port", addresses[rank], why="master_port")
            for rank, task in here.items()
            if task.kind != "evaluator"
        ]
        needs = (Need("module", "tensorflow", by=job.python, why="framework"), *ports)
        return NodeWork(processes, work.reasons, needs=needs, warnings=_warnings(job, servers))


def _addresses(job: NodeJob, tasks: Sequence[Task]) -> dict[int, str]:
    """Rank -> where its task serves: ports from the node's free one upwards, each once on an address."""
    used: dict[str, set[int]] = {}
    addresses = {}
    for share in job.placement.shares:
        address = job.address_of(share)
        found = job.facts.get(share.node.name)
        port = job.head.port
        if share.node_rank and job.profile.master_port is None and found is not None and found.free_port:
            port = found.free_port
        taken = used.setdefault(address, set())
        for task in tasks:
            if task.rank not in share.ranks or task.kind == "evaluator":
                continue
            while port in taken:
                port += 1
            if port > LAST_PORT:
                raise PlanError(
                    f"node {share.node.name} has no port left for {task.kind} {task.index} after {LAST_PORT}",
                    "set master_port to a lower one",
                )
            taken.add(port)
            addresses[task.rank] = f"{bracketed(address)}:{port}"
    return addresses


def _settings(task: Task, cluster: dict[str, list[str]], *, blind: bool) -> list[Setting]:
    config = {"cluster": cluster, "task": {"type": task.kind, "index": task.index}}
    settings = [
        Setting("TF_CONFIG", json.dumps(config), "the whole cluster, and which of its tasks this one is")
    ]
    if blind:
        settings.append(
            Setting("CUDA_VISIBLE_DEVICES", "", "a task that does not train would take the GPUs' memory")
        )
    return settings


def _is_blind(task: Task, servers: bool, training: bool) -> bool:
    if task.kind == "evaluator":
        return training
    return task.kind == "ps" or (task.kind == "chief" and servers)


def _end(task: Task, tasks: Sequence[Task], servers: bool) -> EndsWith | None:
    if not servers:
        return None
    chief = tuple(other.rank for other in tasks if other.kind == "chief")
    if chief and task.kind in ("ps", "worker"):
        return EndsWith(chief)
    if not chief and task.kind == "ps":
        workers = tuple(other.rank for other in tasks if other.kind == "worker")
        return EndsWith(workers)
    return None


def _warnings(job: NodeJob, servers: bool) -> tuple[str, ...]:
    if servers or not job.is_head:
        return ()
    counts = {
        share.node.name: len(found.gpus)
        for share in job.placement.shares
        if (found := job.facts.get(share.node.name)) is not None
    }
    if len(set(counts.values())) < 2:
        return ()
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    return (f"MultiWorkerMirrored needs the same number of GPUs for every worker, and they differ: {listed}",)
