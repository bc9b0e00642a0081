"""`transformers`: scripts that use the Hugging Face Trainer.

The contract (transformers/training_args.py, accelerate/state.py): the Trainer is distributed when
`LOCAL_RANK` is in the environment, with the rest of `env://`; torchrun gives it that. `--local_rank` as an
argument is read too (default -1) but has been needed by old releases only: `legacy_local_rank` adds it.
`--ddp_backend` is the Trainer's own argument for the communication backend (training_args.py, `ddp_backend`):
it is given where the profile has `communication_backend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rankdeck_profiles.errors import FieldError
from rankdeck_profiles.frameworks import torch_agent
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import rank_processes
from rankdeck_profiles.frameworks.torchrun import Torchrun
from rankdeck_profiles.model import Profile
from rankdeck_profiles.plan import Need

_LAUNCH = Option("text", "who starts the ranks", "torchrun", ("torchrun", "process"))
_LEGACY = Option("switch", "also give the script --local_rank=N, for old releases", False)


class Transformers(Framework):
    """torchrun, or one process a rank."""

    name = "transformers"
    summary = "Hugging Face Trainer scripts: one rank a GPU, by torchrun"
    advice = "TrainingArguments finds its ranks by itself: nothing in the script names nodes or GPUs."
    options: Mapping[str, Option] = {"launch": _LAUNCH, "legacy_local_rank": _LEGACY, **Torchrun.options}
    sets_itself = torch_agent.SETS_ITSELF

    def __init__(self) -> None:
        self._torchrun = Torchrun()

    def same_count(self, profile: Profile) -> bool:
        """Where torchrun starts them."""
        return bool(self.option(profile, "launch") == "torchrun")

    def check(self, profile: Profile) -> None:
        """Also refuse torchrun's settings that do not go together, or where there is no torchrun."""
        super().check(profile)
        own = {key: value for key, value in profile.options.items() if key in Torchrun.options}
        if self.option(profile, "launch") == "process" and own:
            key = next(iter(own))
            raise FieldError(
                ("options", key),
                f'options.{key} with launch = "process": it is torchrun that would use it',
                f'remove {key}, or set launch = "torchrun"',
            )
        self._torchrun.check(replace(profile, options=own))

    def work(self, job: NodeJob) -> NodeWork:
        """As torchrun, or one process a rank; with the Trainer's own arguments."""
        args: tuple[str, ...] = ()
        if self.option(job.profile, "legacy_local_rank"):
            args += ("--local_rank=$LOCAL_RANK",)
        if job.profile.communication_backend is not None:
            args += (f"--ddp_backend={job.profile.communication_backend.value}",)
        need = Need("module", "transformers", by=job.python, why="framework")
        if self.option(job.profile, "launch") == "process":
            return rank_processes(job, args=args, needs=(need,))
        work = self._torchrun.work(replace(job, args=job.args + args))
        return replace(work, needs=(*work.needs, need))
