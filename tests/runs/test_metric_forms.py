"""Metrics in the lines that training programs write."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_runs.metrics import forms


@pytest.mark.parametrize(
    ("line", "step", "values"),
    [
        ("epoch 0 step 12 loss 0.4321", 12, {"epoch": 0, "loss": 0.4321}),
        ("loss=0.1 lr=1e-4", None, {"loss": 0.1, "lr": 1e-4}),
        ("Train Loss: 2.5, Validation loss: 2.75", None, {"train_loss": 2.5, "validation_loss": 2.75}),
        ("step:10/100 train_loss:3.2 train_time:12ms", 10, {"train_loss": 3.2}),
        ("41.2k tok/s at step 7", 7, {"tokens/s": 41200}),
        ("throughput 12 | 1,204.5 samples/sec", None, {"throughput": 12, "samples/s": 1204.5}),
        ("iter 20: loss 1.234, time 12.3ms, mfu 33.1%", 20, {"loss": 1.234, "mfu": 33.1}),
        ("[default] step=10, loss=tensor(0.5, device='cuda:0')", 10, {"loss": 0.5}),
        (
            " 45%|####5     | 45/100 [00:10<00:12,  4.43it/s, loss=0.123]",
            45,
            {"it/s": 4.43, "loss": 0.123},
        ),
        ("100%|##| 3/3 [00:01<00:00, 2.0s/it]", 3, {"it/s": 0.5}),
        (
            "{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}",
            None,
            {"loss": 0.5, "grad_norm": 1.25, "lr": 5e-05, "epoch": 0.1},
        ),
        ("{'loss': '0.5', 'learning_rate': '5e-05'}", None, {"loss": 0.5, "lr": 5e-05}),
        (
            "{'eval_loss': 0.4, 'eval_runtime': 1.2, 'eval_samples_per_second': 100.5}",
            None,
            {"eval_loss": 0.4, "eval_samples/s": 100.5},
        ),
        (
            '{"step": 3, "train/loss": 0.25, "tokens_per_second": 1200, "pid": 12}',
            3,
            {"train/loss": 0.25, "tokens/s": 1200},
        ),
        (
            " iteration      100/     500 | consumed samples: 6400 | elapsed time per iteration (ms): 123.4 |"
            " learning rate: 1.5E-04 | lm loss: 7.1E+00 | loss scale: 1.0 | grad norm: 1.204 |",
            100,
            {"lr": 1.5e-4, "lm_loss": 7.1, "grad_norm": 1.204},
        ),
    ],
)
def test_usual_forms(line: str, step: int | None, values: dict[str, float]) -> None:
    found = forms.find(line)
    assert found is not None
    assert found.values == values
    assert found.step == step


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf"])
def test_a_loss_that_is_no_number_any_more_is_a_value(text: str) -> None:
    found = forms.find(f"step 5 loss {text}")
    assert found is not None
    assert not math.isfinite(found.values["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "already at 5, loss of 3 nodes",
        "lossless 3",
        "loss: 0.5.3.1",
        "epoch 3",
        "step 12 of 100",
        "copied 12 MB/s",
        "loss scale: 65536.0",
        "loss=0x12",
        "",
    ],
)
def test_what_is_no_metric(line: str) -> None:
    assert forms.find(line) is None


@given(st.text(max_size=400))
def test_any_text_is_harmless(line: str) -> None:
    found = forms.find(line)
    assert found is None or found.values


@pytest.mark.parametrize(
    "piece", ["1", "loss ", "a/", "loss=1", "1,111", "s/it ", "train ", "step ", "|1/1 [", "epoch ", "e1"]
)
def test_no_line_takes_long(piece: str) -> None:
    line = (piece * 4096)[:4096]
    began = time.process_time()
    for _ in range(10):
        forms.find(line)
    # Some 0.1 s; what grows with a power of the length takes minutes.
    assert time.process_time() - began < 10
