"""Each framework trains for real over the nodes of the test cluster, all ranks ending with one model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frameworks.trainings import LIMIT, PROGRAMS, PYTHON, all_alike, needs, trained
from whole.site import DDP, Site

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("launch", "per_node", "ranks"), [("node", 1, 2), ("process", 2, 4)], ids=["node", "process"]
)
def test_lightning(site: Site, launch: str, per_node: int, ranks: int) -> None:
    needs("lightning")
    keys = {"procs_per_node": 2} if launch == "process" else {}
    site.save(
        "lightning", PROGRAMS / "lightning_fit.py", "2", "2" if launch == "process" else "1",
        framework="lightning", python=PYTHON, nodes=2, options={"launch": launch}, **keys,
    )  # fmt: skip
    all_alike(trained(site, "lightning"), ranks)


def test_lightning_starts_its_further_processes(site: Site) -> None:
    needs("lightning")
    site.save(
        "lightning", PROGRAMS / "lightning_fit.py", "2", "2", framework="lightning", python=PYTHON, nodes=2
    )
    all_alike(trained(site, "lightning"), 4)


@pytest.mark.parametrize("launch", ["torchrun", "process"])
def test_transformers(site: Site, launch: str) -> None:
    needs("transformers", "accelerate")
    site.save(
        "hf", PROGRAMS / "transformers_fit.py", "--max_steps", "4", framework="transformers", python=PYTHON,
        nodes=2, procs_per_node=2, communication_backend="gloo", options={"launch": launch},
    )  # fmt: skip
    all_alike(trained(site, "hf"), 4)


def test_accelerate(site: Site) -> None:
    needs("accelerate")
    keys = {"framework": "accelerate", "nodes": 2, "procs_per_node": 2}
    site.save("acc", PROGRAMS / "accelerate_fit.py", python=PYTHON, **keys)
    all_alike(trained(site, "acc"), 4)


CONFIGS = {
    # What `accelerate config` writes, with another world than the run's: the flags win.
    "gpus": {"distributed_type": "MULTI_GPU", "mixed_precision": "bf16"},
    "fsdp": {
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": True},
    },
}


def accelerate_config(site: Site, **keys: object) -> Path:
    """A config file that all nodes see."""
    path = site.cluster.shared / f"accelerate-{site.shell.folder.name}.json"
    other_world = {"machine_rank": 0, "main_process_ip": "192.0.2.1", "main_process_port": 1}
    path.write_text(json.dumps({"num_machines": 1, "num_processes": 1, **other_world, **keys}))
    return path


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_accelerate_with_a_config_file(site: Site, config: dict[str, object]) -> None:
    needs("accelerate")
    site.save(
        "acc", PROGRAMS / "accelerate_fit.py", "bf16", framework="accelerate", python=PYTHON, nodes=2,
        procs_per_node=2, options={"config_file": str(accelerate_config(site, **config))},
    )  # fmt: skip
    all_alike(trained(site, "acc"), 4)


@pytest.mark.parametrize("per_node", [1, 2])
def test_accelerate_with_a_config_file_for_one_process(site: Site, per_node: int) -> None:
    """Each node would train alone."""
    needs("accelerate")
    site.save(
        "acc", PROGRAMS / "accelerate_fit.py", framework="accelerate", python=PYTHON, nodes=2,
        procs_per_node=per_node, options={"config_file": str(accelerate_config(site, distributed_type="NO"))},
    )  # fmt: skip
    done = site.follow("run", "acc", limit=LIMIT)
    assert done.returncode == 1
    assert "trained" not in done.stdout
    assert (
        "the launcher does not tell its ranks who they are: RANK=(not set)" in site.show()["cause"]["message"]
    )
    site.assert_nothing_runs()


def test_accelerate_with_a_config_file_that_is_missing(site: Site) -> None:
    needs("accelerate")
    site.save(
        "acc", PROGRAMS / "accelerate_fit.py", framework="accelerate", python=PYTHON, nodes=2,
        options={"config_file": "~/none.yaml"},
    )  # fmt: skip
    done = site.follow("run", "acc", limit=LIMIT)
    assert done.returncode == 2
    assert "none.yaml: No such file" in done.stderr
    assert "(options.config_file)" in done.stderr


def test_jax(site: Site) -> None:
    needs("jax")
    site.save("jax", PROGRAMS / "jax_sum.py", framework="jax", python=PYTHON, nodes=2)
    found = trained(site, "jax")
    all_alike(found, 2)
    assert float(found[0][2]) == 3.0


def test_deepspeed(site: Site) -> None:
    """By the five variables that DeepSpeed reads first; mpirun only starts the ranks."""
    needs("deepspeed")
    options = {"mpirun": "mpirun.openmpi", "allow_root": True, "ssh_args": site.key_between_nodes()}
    site.save(
        "ds", PROGRAMS / "deepspeed_fit.py", framework="deepspeed", python=PYTHON, nodes=2, procs_per_node=2,
        communication_backend="gloo", options=options, env={"DS_ACCELERATOR": "cpu"},
    )  # fmt: skip
    all_alike(trained(site, "ds"), 4)


def test_the_old_launch_module(site: Site) -> None:
    needs("torch")
    quick = ["--steps", "6", "--steps-per-epoch", "3", "--step-sleep", "0"]
    site.save("old", DDP, *quick, framework="launch", python=PYTHON, nodes=2, procs_per_node=2)
    done = site.follow("run", "old", limit=LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("rankdeck-demo ok world=4") == 4
    site.assert_nothing_runs()
