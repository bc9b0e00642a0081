"""`launch`: the old `python -m torch.distributed.launch --use-env`.

The contract (torch/distributed/launch.py): it is torchrun with two differences. Without `--use-env` it hands
the script `--local-rank=N`, which most scripts no longer take; and `--no-python` is refused without
`--use-env`. All else, the same count of ranks on every node included, is as in `torch_agent`.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.frameworks import torch_agent
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.torchrun import flags, static
from rankdeck_profiles.model import Profile


class Launch(Framework):
    """One torch.distributed.launch a node, static rendezvous."""

    name = "launch"
    summary = "Old PyTorch scripts made for torch.distributed.launch"
    advice = "The script reads LOCAL_RANK, or takes --local_rank with options.legacy_local_rank."
    options: Mapping[str, Option] = {
        "legacy_local_rank": Option(
            "switch", "also give the script --local_rank=N, as releases before 2.0 did", False
        )
    }
    sets_itself = torch_agent.SETS_ITSELF

    def same_count(self, profile: Profile) -> bool:
        """It is torchrun beneath."""
        return True

    def work(self, job: NodeJob) -> NodeWork:
        """One launcher with this node's rank and the head's address."""
        launcher = (
            job.python,
            "-m",
            "torch.distributed.launch",
            "--use-env",
            *flags(job),
            *static(job),
            f"--local-addr={job.address}",
            "--no-python",
        )
        legacy = self.option(job.profile, "legacy_local_rank")
        return torch_agent.launcher_work(
            job,
            launcher,
            needs=torch_agent.torch_need(job.python),
            args=("--local_rank=$LOCAL_RANK",) if legacy else (),
        )
