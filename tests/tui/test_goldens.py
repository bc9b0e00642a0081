"""Every screen as text, at the two sizes that matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.live import LinkState
from rankdeck_runs.record import Record
from rankdeck_runs.transport import Fabric, Network, Transport
from tui import goldens
from tui.deck import DeskEngine, deck, sees, text, until
from tui.records import BEGIN, ended, happen, log, started, write_run

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
NOW = BEGIN + 125


def running(place: Path) -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    for rank in range(4):
        log(
            record,
            rank,
            b"".join(b"step %d loss %.3f\n" % (n, 2.5 / (n + rank + 1)) for n in range(60)),
        )
    return record


def failed(place: Path) -> Record:
    record = write_run(place / "home", "20261117-091500-resnet-bbbb")
    message = "RuntimeError: NCCL error: unhandled system error"
    frames = ["Traceback (most recent call last):"]
    for line, name in ((12, "main"), (40, "step"), (77, "reduce")):
        frames += [f'  File "train.py", line {line}, in {name}', f"    {name}_all(loss)"]
    words = "\n".join([*frames, message]) + "\n"
    log(record, 2, b"step 1 loss 2.3\n")
    log(record, 2, words.encode(), "err")
    ends = ended(record, {0: 1, 1: 1, 2: 1, 3: 1})
    happen(record, [*started(record), *({**event, "err_bytes": len(words)} for event in ends)])
    offset = words.index(message)
    proof = {"text": message, "log": "rank-00002.err", "offset": offset, "rank": 2, "stream": "err"}
    cause = {"rank": 2, "node": "n2", "kind": "exit", "message": message,
             "evidence": ["rank 2 ended with status 1", *frames, message],
             "reason": "exception", "said": "a Python exception ended it", "proofs": [proof],
             "about": {"rank": 0, "node": "n1", "kind": "exit"},
             "followers": [{"ranks": [0, 1, 3], "said": "it lost another rank"}]}  # fmt: skip
    happen(record, [{"ev": "cause_found", "t": BEGIN + 62, **cause}])
    return record


@SIZES
async def test_home(place: Path, size: tuple[int, int]) -> None:
    running(place), failed(place)
    app = deck(place, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "resnet-aaaa", "bert", "h100", "running", "failed")
        await until(pilot, lambda: "R running" in text(app))
        await goldens.check(app, f"home-{size[0]}x{size[1]}", place)


@SIZES
async def test_home_of_a_newcomer(place: Path, size: tuple[int, int]) -> None:
    for path in (place / "config").rglob("*.toml"):
        path.unlink()
    app = deck(place, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "No run yet", "No profile yet")
        await goldens.check(app, f"newcomer-{size[0]}x{size[1]}", place)


@SIZES
async def test_composer(place: Path, size: tuple[int, int]) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "ready", "10.0.0.1:29500")
        await goldens.check(app, f"composer-{size[0]}x{size[1]}", place)


@SIZES
async def test_dashboard_of_a_running_run(place: Path, size: tuple[int, int]) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    engine = app.engine
    assert isinstance(engine, DeskEngine)
    live = engine.attach(record.id)
    gpu = {"index": 0, "uuid": "GPU-0", "name": "H100", "util": 97, "mem_used_mib": 72704,
           "mem_total_mib": 81920, "temp_c": 64, "power_w": 612.4, "pids": []}  # fmt: skip
    live.add_sample("n1", {"t": NOW, "cpu": 41.5, "load": 3.2, "mem_used_mib": 64000, "mem_total_mib": 256000,
                           "gpus": [gpu], "gpu_note": None})  # fmt: skip
    live.set_link("n2", LinkState.LOST, "connection reset by peer")
    live._links["n2"] = type(live._links["n2"])(LinkState.LOST, NOW - 20, "connection reset by peer")
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "step 59 loss", "FOLLOW", "R running 4", "n2 20s")
        await goldens.check(app, f"running-{size[0]}x{size[1]}", place)


@SIZES
async def test_dashboard_of_a_run_that_is_being_stopped(place: Path, size: tuple[int, int]) -> None:
    """Rank 0 has heard the signal; the others go on."""
    record = running(place)
    stopping = {"ev": "stopping", "why": "asked", "rank": None, "signal": "TERM", "grace": 60.0}
    happen(record, [{**stopping, "seq": 4, "node": node, "t": NOW - 15} for node in ("n1", "n2")])
    ended = {"ev": "rank_ended", "seq": 5, "node": "n1", "rank": 0, "signal": "TERM", "asked": True}
    happen(record, [{**ended, "t": NOW - 14}])
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "E stopping 3", "T stopped 1", "SIGKILL in 45 s", "step 59 loss")
        await goldens.check(app, f"stopping-{size[0]}x{size[1]}", place)


@SIZES
async def test_dashboard_of_a_failed_run(place: Path, size: tuple[int, int]) -> None:
    record = failed(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "rank 2 on n2 failed", "NCCL error", "END")
        await goldens.check(app, f"failed-{size[0]}x{size[1]}", place)


@SIZES
async def test_dashboard_of_a_run_on_the_slow_network(place: Path, size: tuple[int, int]) -> None:
    fabric = Fabric("InfiniBand", dict.fromkeys(("n1", "n2"), ("mlx5_0:1", "mlx5_1:1")))
    record = write_run(place / "home", "20261118-102640-resnet-cccc", fabric=fabric)
    happen(record, started(record))
    fine = Transport("NCCL", Network.INFINIBAND, "IB", ("mlx5_0", "mlx5_1"), gpu_direct=True, connected=True)
    slow = Transport("NCCL", Network.SOCKETS, "Socket", ("eno1",), connected=True)
    for rank, transport in enumerate((slow, fine, fine)):
        found = {"rank": rank, "transports": [transport.to_json()]}
        happen(record, [{"ev": "transport_found", "t": BEGIN + 3, **found}])
    message = (
        "NCCL uses sockets over eno1; the nodes' InfiniBand mlx5_[0-1] is not used (NET/IB : No device found)"
    )
    happen(record, [{"ev": "fabric_unused", "t": BEGIN + 3, "rank": 0, "message": message, "reasons": []}])
    log(record, 0, b"step 1\n")
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "! network", "is not used", "step 1", "running · sockets over eno1")
        await goldens.check(app, f"slow-network-{size[0]}x{size[1]}", place)


PAGES: list[tuple[str, Sequence[str], Sequence[str]]] = [
    ("help", ["question_mark"], ["Keys", "esc closes"]),
    ("actions", ["colon"], ["Actions"]),
    ("stop", ["x"], ["Stop 20261118", "Cancel"]),
]


@SIZES
@pytest.mark.parametrize(("name", "keys", "wanted"), PAGES, ids=[page[0] for page in PAGES])
async def test_dialogs(
    place: Path, size: tuple[int, int], name: str, keys: Sequence[str], wanted: Sequence[str]
) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "step 59 loss")
        await pilot.press(*keys)
        await sees(pilot, *wanted)
        await goldens.check(app, f"{name}-{size[0]}x{size[1]}", place)


@SIZES
async def test_profile_form(place: Path, size: tuple[int, int]) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "n")
        await sees(pilot, "New profile")
        await pilot.press("ctrl+s")
        await sees(pilot, "what is run?")
        await goldens.check(app, f"profile-form-{size[0]}x{size[1]}", place)


async def test_a_refusal_is_shown_in_place(place: Path) -> None:
    app = deck(place, now=NOW)
    assert isinstance(app.engine, DeskEngine)
    app.engine.refusal = RankdeckError(
        "n2: connect: no route to host", "is it switched on? try `ssh n2 true`"
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "not ready", "no route to host", "try `ssh n2 true`")
        await goldens.check(app, "refused-120x40", place)
