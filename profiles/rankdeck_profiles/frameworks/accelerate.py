"""`accelerate`: one `accelerate launch` a node.

The contract (accelerate/commands/launch.py, utils/launch.py):

- `--num_processes` is the total over all machines; it is divided by `--num_machines`, so every node has the
  same number. `--main_process_ip` and `--main_process_port` must both be there with several machines.
- `--multi_gpu` hands over to torch.distributed.run in the same process (also on nodes without a GPU, where
  the ranks then use gloo); without it, and without a config file that says so, a simple launcher starts one
  process only. It is refused for a world of one.
- The simple launcher, for a world of one, sets no `RANK` and does not substitute dollars: the rank gets
  `env://` variables from us.
- Values that are not given come from the node's own default config file: those that matter are given, so
  that a forgotten file on one node changes nothing.
- `config_file` (FSDP, DeepSpeed plugin, ...) must be at the same path on every node. What is given as a flag
  wins over it: nodes, ranks and the head's address in it count for nothing. It decides the kind of launch
  alone (its `distributed_type`; `--multi_gpu` beside it would switch its FSDP and DeepSpeed parts off): with
  NO or MULTI_CPU the simple launcher starts one process, which the shim refuses in a larger world. Its
  DeepSpeed part must use the `standard` multi-node launcher: the others log in to the nodes on their own.
- `OMP_NUM_THREADS` is always written, from its own value if it is set.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks import torch_agent
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import rank_settings
from rankdeck_profiles.frameworks.torchrun import RESTARTS
from rankdeck_profiles.model import Profile
from rankdeck_profiles.nodes import bracketed
from rankdeck_profiles.plan import Need, Process, ProcessKind
from rankdeck_profiles.settings import merge

_PRECISION = Option(
    "text",
    "numbers that training computes with; the config file's, else no",
    None,
    ("no", "fp16", "bf16", "fp8"),
)


class Accelerate(Framework):
    """One accelerate launch a node."""

    name = "accelerate"
    summary = "Hugging Face Accelerate scripts, with an accelerate config file if there is one"
    advice = (
        "Accelerator() finds its ranks by itself; options.config_file is for what an accelerate config "
        "says beyond nodes and ranks."
    )
    options: Mapping[str, Option] = {
        "config_file": Option("text", "an accelerate config file on every node", None),
        "mixed_precision": _PRECISION,
        "max_restarts": RESTARTS,
    }
    sets_itself = torch_agent.SETS_ITSELF | {"ACCELERATE_MIXED_PRECISION"}

    def same_count(self, profile: Profile) -> bool:
        """The total is divided by the machines."""
        return True

    def work(self, job: NodeJob) -> NodeWork:
        """One launcher with this node's rank and the head's address."""
        if self.option(job.profile, "max_restarts") and len(job.placement.shares) > 1:
            raise PlanError(
                f"options.max_restarts on {len(job.placement.shares)} nodes: accelerate's static rendezvous "
                "cannot start the ranks of several nodes again",
                'remove it, use one node, or use framework = "torchrun"',
            )
        needs = [Need("module", "accelerate", by=job.python, why="framework")]
        if (config := self._config(job)) is not None:
            needs.append(Need("file", config, why="options.config_file"))
        launcher = self._launcher(job)
        if job.placement.world_size > 1:
            needs = [*torch_agent.torch_need(job.python), *needs]
            restarts = self.option(job.profile, "max_restarts")
            return torch_agent.launcher_work(job, launcher, needs=tuple(needs), restarts=restarts)
        return self._alone(job, launcher, tuple(needs))

    def _config(self, job: NodeJob) -> str | None:
        path = self.option(job.profile, "config_file")
        return None if path is None else job.at_home(path)

    def _launcher(self, job: NodeJob) -> tuple[str, ...]:
        config = self._config(job)
        precision = self.option(job.profile, "mixed_precision")
        world = job.placement.world_size
        words = [job.python, "-m", "accelerate.commands.launch"]
        if config is not None:
            words.append(f"--config_file={config}")
        elif world > 1:
            words.append("--multi_gpu")
        words += [
            f"--num_machines={len(job.placement.shares)}",
            f"--num_processes={world}",
            f"--machine_rank={job.share.node_rank}",
            f"--main_process_ip={bracketed(job.head.address)}",
            f"--main_process_port={job.head.port}",
            "--rdzv_backend=static",
        ]
        if precision is not None or config is None:
            words.append(f"--mixed_precision={precision or 'no'}")
        if config is None:
            words.append("--dynamo_backend=no")
        if restarts := self.option(job.profile, "max_restarts"):
            words.append(f"--max_restarts={restarts}")
        return (*words, "--no_python")

    def _alone(self, job: NodeJob, launcher: tuple[str, ...], needs: tuple[Need, ...]) -> NodeWork:
        """A world of one, which the simple launcher starts."""
        env, reasons = merge((*rank_settings(job, 0, 0), *job.common), job.profile.env)
        process = Process(
            ranks=(0,),
            local_ranks=(0,),
            launcher=launcher,
            program=(*(word.replace("$", "$$") for word in job.program), *job.args),
            cwd=job.cwd,
            env=env,
            fill=True,
            kind=ProcessKind.LAUNCHER,
            rank_from=torch_agent.RANKS,
        )
        return NodeWork((process,), reasons, needs=needs)
