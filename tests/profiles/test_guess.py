"""Which framework a script is written for, from scripts as people write them."""

import pytest

from rankdeck_profiles import frameworks
from rankdeck_profiles.frameworks.guess import guess

SCRIPTS = {
    "ddp": (
        "import torch.distributed as dist\ndist.init_process_group('nccl')\n",
        "torchrun",
        "torch.distributed",
    ),
    "ddp by name": (
        "from torch.nn.parallel import DistributedDataParallel as DDP\n",
        "torchrun",
        "Distributed",
    ),
    "reads LOCAL_RANK": (
        "import os, torch\nlocal = int(os.environ['LOCAL_RANK'])\n",
        "torchrun",
        "LOCAL_RANK",
    ),
    "import inside a function": (
        "def main():\n    import torch.distributed\n",
        "torchrun",
        "torch.distributed",
    ),
    "old flag": (
        "import argparse, torch.distributed\np = argparse.ArgumentParser()\np.add_argument('--local_rank')\n",
        "launch",
        "--local_rank",
    ),
    "old flag and the variable": (
        "import os, torch.distributed\nx = '--local_rank'\ny = os.environ.get('LOCAL_RANK')\n",
        "torchrun",
        "torch.distributed",
    ),
    "spawns": (
        "import torch.distributed\nimport torch.multiprocessing as mp\nmp.spawn(main, nprocs=8)\n",
        "command",
        "starts a node's ranks itself",
    ),
    "lightning": (
        "import torch\nimport lightning as L\nL.Trainer(devices=8)\n",
        "lightning",
        "imports lightning",
    ),
    "old lightning": ("from pytorch_lightning import Trainer\n", "lightning", "imports pytorch_lightning"),
    "fabric": ("from lightning.fabric import Fabric\n", "lightning", "imports lightning"),
    "trainer": ("from transformers import Trainer, AutoModel\n", "transformers", "Trainer of transformers"),
    "trainer by module": (
        "import transformers\ntransformers.TrainingArguments()\n",
        "transformers",
        "Training",
    ),
    "trl": ("from trl import SFTTrainer\n", "transformers", "imports trl"),
    "trainer with deepspeed": (
        "import deepspeed\nfrom transformers import Trainer\n",
        "transformers",
        "Trainer",
    ),
    "no trainer": (
        "from accelerate import Accelerator\nfrom transformers import AutoModel\n",
        "accelerate",
        "imports",
    ),
    "deepspeed": (
        "import torch.distributed, deepspeed\ndeepspeed.initialize()\n",
        "deepspeed",
        "imports deepspeed",
    ),
    "horovod": ("import tensorflow as tf\nimport horovod.tensorflow as hvd\n", "horovod", "imports horovod"),
    "mpi4py": ("from mpi4py import MPI\nimport numpy\n", "mpi", "imports mpi4py"),
    "mwms": (
        "import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()\n",
        "tensorflow",
        "MultiWorker",
    ),
    "jax": ("import jax\njax.distributed.initialize(a, 2, 0)\n", "jax", "uses jax.distributed"),
    "jax and a model of transformers": (
        "import jax\nfrom transformers import FlaxBertModel\n",
        "jax",
        "imports jax",
    ),
    "variables alone": (
        "import os\nrank = os.environ['RANK']\nn = os.environ['WORLD_SIZE']\n",
        "pytorch",
        "RANK and",
    ),
    "not this Python": ("import torch.distributed\nprint 'epoch'\n", "torchrun", "torch.distributed"),
    "tensorboard beside torch": (
        "import torch.distributed\nimport tensorflow\n",
        "torchrun",
        "torch.distributed",
    ),
}


PS = "import tensorflow as tf\ntf.distribute.{}ParameterServerStrategy(resolver)\n"


@pytest.mark.parametrize("case", SCRIPTS)
def test_the_framework_and_why(case):
    text, framework, why = SCRIPTS[case]
    found = guess("train.py", text)
    assert found is not None
    assert found.framework == framework
    assert why in found.why
    assert not found.caution or case == "jax and a model of transformers"
    frameworks.get(found.framework)


@pytest.mark.parametrize(
    ("text", "framework", "options"),
    [
        (PS.format(""), "tensorflow", {"strategy": "ps"}),
        (PS.format("experimental."), "tensorflow", {"strategy": "ps"}),
        ("import jax\njax.distributed.initialize()\n", "jax", {"slurm_names": True}),
        ("import torch\nx = '--local-rank'\n", "launch", {"legacy_local_rank": True}),
    ],
)  # fmt: skip
def test_settings_that_the_script_needs_are_proposed_too(text, framework, options):
    found = guess("train.py", text)
    assert found is not None
    assert (found.framework, dict(found.options)) == (framework, options)
    for key, value in options.items():
        assert frameworks.get(framework).options[key].takes(value)


@pytest.mark.parametrize("module", ["torch", "tensorflow", "jax"])
def test_a_script_that_shares_no_work_is_told_of(module):
    found = guess("train.py", f"import {module}\n")
    assert found is not None
    assert "shares the work" in found.caution


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print('hello')\n",
        '"""from lightning import strikes, and torch.distributed"""\n',
        "x = 'import torch'\n",
        "from .lightning import Model\n",
        "def lightning(): pass\nlightning()\n",
        "\0",
        "(" * 5000,
    ],
)
def test_nothing_is_guessed_from_nothing(text):
    assert guess("train.py", text) is None


@pytest.mark.parametrize(
    ("name", "text"), [("train.sh", "torchrun train.py\n"), ("train", "#!/bin/bash\npython train.py\n")]
)
def test_what_is_no_python_script_is_a_command(name, text):
    found = guess(name, text)
    assert found is not None
    assert (found.framework, found.why) == ("command", "is no Python script")


def test_a_python_script_may_have_any_name():
    found = guess("train", "#!/usr/bin/env python3\nimport lightning\n")
    assert found is not None
    assert found.framework == "lightning"
