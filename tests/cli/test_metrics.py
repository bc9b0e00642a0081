"""`rankdeck metrics`, and the loss in `show`."""

from __future__ import annotations

import json

from cli.user import Shell
from tui.records import happen, log, started, write_run

RUN = "20261117-091500-resnet-bbbb"


def trained(rankdeck: Shell) -> None:
    record = write_run(rankdeck.folder / "data", RUN)
    happen(record, started(record))
    for rank in range(4):
        for step in (1, 2, 3):
            log(record, rank, b"step %d loss %.2f lr 1e-4\n" % (step, abs(step - 2) + rank / 10 + 0.5))


def test_last_spread_and_best_over_ranks(rankdeck: Shell) -> None:
    trained(rankdeck)
    told = rankdeck("metrics", RUN, "--offline").stdout.splitlines()
    assert [" ".join(line.split()) for line in told] == [
        "METRIC LAST SPREAD BEST AT VALUES RANKS",
        "loss 1.65 1.5 (rank 0) to 1.8 (rank 3) 0.5 (step 2, rank 0) step 3 12 0-3",
        "lr 0.0001 equal - step 3 12 0-3",
    ]


def test_some_ranks_and_one_metric_as_json(rankdeck: Shell) -> None:
    trained(rankdeck)
    shown = json.loads(
        rankdeck("metrics", RUN, "--offline", "--json", "--name", "loss", "--ranks", "1,3").stdout
    )
    (metric,) = shown["metrics"]
    assert (shown["run"], metric["name"], metric["ranks"], metric["values"]) == (RUN, "loss", [1, 3], 6)
    assert metric["best"] == {"value": 0.6, "at": 2.0, "rank": 1}
    assert [(one["rank"], one["last"]) for one in metric["by_rank"]] == [(1, 1.6), (3, 1.8)]


def test_an_unknown_metric_names_those_there_are(rankdeck: Shell) -> None:
    trained(rankdeck)
    refused = rankdeck("metrics", RUN, "--offline", "--name", "los", status=2)
    assert "no metric 'los'" in refused.stderr
    assert "it has loss, lr" in refused.stderr


def test_a_run_without_metrics_says_how_to_get_some(rankdeck: Shell) -> None:
    write_run(rankdeck.folder / "data", RUN)
    told = rankdeck("metrics", RUN, "--offline")
    assert "has no metrics" in told.stderr
    assert "[metrics]" in told.stderr
    assert json.loads(rankdeck("metrics", RUN, "--offline", "--json").stdout)["metrics"] == []


def test_a_loss_that_is_no_number_is_told(rankdeck: Shell) -> None:
    trained(rankdeck)
    record_log = rankdeck.folder / "data" / "runs" / RUN / "logs" / "rank-00002.out"
    with record_log.open("ab") as file:
        file.write(b"step 4 loss nan\n")
    told = rankdeck("metrics", RUN, "--offline").stdout
    assert "NaN or infinite on ranks 2, first at step 4" in told
    (loss, _) = json.loads(rankdeck("metrics", RUN, "--offline", "--json").stdout)["metrics"]
    assert loss["last"]["mean"] == "nan"
    assert loss["not_finite"] == {"ranks": [2], "first_at": 4.0}


def test_show_names_the_loss(rankdeck: Shell) -> None:
    trained(rankdeck)
    told = rankdeck("show", RUN, "--offline").stdout
    assert (
        "loss 1.65 at step 3 (mean of 4 ranks, 1.5 to 1.8); best 0.5 at step 2, rank 0" in told.splitlines()
    )
