"""The golden plans: what each framework's plan is for fixed nodes, as reviewed files.

    python tests/profiles/golden_plans.py --write

writes them anew; look at the difference before committing it.
"""

import json
import sys
from pathlib import Path

from plan_samples import facts, gpus, pool, profile

from rankdeck_profiles import frameworks
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import MpiFacts, MpiFamily
from rankdeck_profiles.planner import plan

FOLDER = Path(__file__).parent / "golden"

SHAPES = {"1-node": (4,), "2x2": (2, 2), "4x8": (8, 8, 8, 8), "uneven": (4, 2)}
"""Name -> GPUs of each node."""

MPIS = {
    "openmpi4": MpiFacts(MpiFamily.OPEN_MPI, "4.1.4", "/usr/bin/mpirun"),
    "openmpi5": MpiFacts(MpiFamily.OPEN_MPI, "5.0.6", "/opt/ompi5/bin/mpirun"),
    "mpich": MpiFacts(MpiFamily.MPICH, "4.0.2", "/usr/bin/mpirun"),
    "intel": MpiFacts(MpiFamily.INTEL, "2021.14", "/opt/intel/mpi/bin/mpirun"),
}

VARIANTS = {
    "lightning/process": ("lightning", {"launch": "process"}),
    "transformers/process": ("transformers", {"launch": "process", "legacy_local_rank": True}),
    "torchrun/c10d": ("torchrun", {"max_restarts": 2}),
    "tensorflow/ps": ("tensorflow", {"strategy": "ps", "workers": 3, "ps": 2, "evaluator": True}),
    "jax/slurm_names": ("jax", {"slurm_names": True}),
}
"""Folder -> framework and [options]; beside every framework without options, in a folder of its name."""


def made(framework, options, counts, mpi=MPIS["openmpi4"]):
    """The plan for nodes with so many GPUs, or the refusal."""
    names = [f"n{number}" for number in range(1, len(counts) + 1)]
    found = {
        name: facts(
            name,
            gpus=gpus(count),
            cpus=32,
            uid=1000,
            mpi=mpi,
            network="10.0.0.0/24",
            leftovers={"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "LOCAL_RANK": "0"} if name == "n1" else {},
        )
        for name, count in zip(names, counts, strict=True)
    }
    asked = profile(
        framework,
        script="train.py",
        args=("--epochs", "3", "--tag=r$RANK"),
        env={"NCCL_DEBUG": "INFO"},
        options=options,
    )
    try:
        return plan(asked, pool(f"n[1-{len(names)}]"), found).to_json()
    except PlanError as refused:
        return {"refused": refused.message, "hint": refused.hint}


def wanted():
    """Path below the golden folder -> what belongs there."""
    plans = {}
    folders = {name: (name, {}) for name in frameworks.names()} | VARIANTS
    for folder, (framework, options) in folders.items():
        for shape, counts in SHAPES.items():
            plans[f"{folder}/{shape}.json"] = made(framework, options, counts)
    for name, mpi in MPIS.items():
        if name != "openmpi4":
            for shape in ("2x2", "uneven"):
                plans[f"mpi/{name}/{shape}.json"] = made("mpi", {}, SHAPES[shape], mpi)
    return plans


def text(value, indent=""):
    """JSON, what is short on one line and the rest over several: made for reading."""
    line = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, dict) and any(isinstance(item, dict) for item in value.values())
    if not value or not isinstance(value, dict | list) or (len(line) + len(indent) <= 110 and not nested):
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        inner = ",\n".join(f"{deeper}{json.dumps(key)}: {text(item, deeper)}" for key, item in value.items())
        return f"{{\n{inner}\n{indent}}}"
    if any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(deeper + text(item, deeper) for item in value) + f"\n{indent}]"
    return line


def main():
    """Write all files and remove those that no longer belong."""
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    plans = wanted()
    for path in FOLDER.rglob("*.json"):
        if str(path.relative_to(FOLDER)) not in plans:
            path.unlink()
    for name, value in plans.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(value) + "\n")


if __name__ == "__main__":
    main()
