"""The census: before its program starts each shim says who it is, and hears if it has no place in the plan.

A launcher may start fewer ranks than were asked for, the same one twice, or as many worlds of one; a variable
left in a node's environment may put all its ranks on one GPU. Each of these trains, and looks well.
"""

from . import processes
from .ranks import WAITING

_NO_GPU = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs (CUDA C programming guide; the last is Slurm's)."""


class Census:
    """Knows which rank has which shim and GPU on this node."""

    def __init__(self, plan, roster):
        self._plan = plan
        self._roster = roster
        self._counted = {}

    def refusal(self, message):
        """Why a shim's rank has no place in the run; empty if it has one, which is then taken.

        Args:
            message: `rank`, `local_rank`, `process` and, of a rank that may be started again, `attempt`;
                `shim_pid` and `shim_start`; `world_size` as its launcher says, and `devices`, its
                CUDA_VISIBLE_DEVICES (each or null).
        """
        for why_not in (self._of_another_world, self._of_another_node, self._twice, self._on_a_taken_gpu):
            said = why_not(message)
            if said:
                return said
        self._counted[(message["process"], message["local_rank"])] = message
        return ""

    def is_taken(self, message):
        """Whether another shim has this one's place."""
        other = self._counted.get((message["process"], message["local_rank"]))
        return other is not None and other["shim_pid"] != message["shim_pid"]

    def _of_another_world(self, message):
        size = message.get("world_size")
        if size is None or size == self._plan["world_size"]:
            return ""
        return other_world(message["rank"], size, self._plan["world_size"])

    def _of_another_node(self, message):
        if self._roster.find(message) is not None:
            return ""
        here = [rank for process in self._plan["processes"] for rank in process["ranks"]]
        said = "rank {} (local rank {}) was started on node {}, where the plan has ranks {}"
        return said.format(message["rank"], message["local_rank"], self._plan["node"], here)

    def _twice(self, message):
        attempt = message.get("attempt", 0)
        for other in self._counted.values():
            same = other["rank"] == message["rank"] and other.get("attempt", 0) == attempt
            if same and other["shim_pid"] != message["shim_pid"]:
                return twice(message["rank"], self._plan["world_size"])
        rank = self._roster.find(message)
        if rank.state != WAITING and attempt <= rank.attempt:
            return twice(message["rank"], self._plan["world_size"])
        return ""

    def _on_a_taken_gpu(self, message):
        device = device_of(message.get("devices"), message["local_rank"])
        if device is None or not self._each_has_its_own(message):
            return ""
        for other in self._counted.values():
            taken = device_of(other.get("devices"), other["local_rank"])
            if taken == device and processes.is_alive(
                other["shim_pid"], other["shim_start"], processes.boot_id()
            ):
                said = (
                    "ranks {} and {} would both use GPU {}: CUDA_VISIBLE_DEVICES={} comes from the"
                    " environment of node {}, not from the profile; set it in [env], or take it out of the"
                    " login's start-up files"
                )
                return said.format(
                    other["rank"], message["rank"], device, message.get("devices"), self._plan["node"]
                )
        return ""

    def _each_has_its_own(self, message):
        """Whether nobody asked for shared GPUs: by more ranks than GPUs, or by naming the GPUs."""
        process = self._plan["processes"][message["process"]]
        named = any("CUDA_VISIBLE_DEVICES" in env for env in (process["env"], self._plan.get("rank_env", {})))
        count = sum(len(process["ranks"]) for process in self._plan["processes"])
        return not named and 1 < count <= self._plan.get("gpus", 0)


def device_of(devices, local_rank):
    """The GPU that a rank uses, by what it may see and its local number; None: none, or that is unclear.

    Args:
        devices: the value of CUDA_VISIBLE_DEVICES, or None: all GPUs.
        local_rank: its number on its node, by which a program chooses among those it sees.
    """
    if devices is None:
        return str(local_rank)
    seen = [word.strip() for word in devices.split(",")]
    if seen[0] in _NO_GPU:
        return None
    if len(seen) == 1:
        return seen[0]
    return seen[local_rank] if local_rank < len(seen) else None


def other_world(rank, size, planned):
    """What is said of a rank whose launcher knows of another number of ranks."""
    said = "this process is rank {} of {} to its launcher; the plan has {} ranks".format(rank, size, planned)
    if size == 1:
        said += ": each rank is a world of its own, as where two MPIs are mixed"
    return said


def twice(rank, planned):
    """What is said of a rank that is there already."""
    said = "two processes say that they are rank {} of {}; the plan has {} ranks, each once"
    return said.format(rank, planned, planned)
