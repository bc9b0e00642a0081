"""Questions of logins as dialogs: what is shown, what the keys answer, what is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from textual.widgets import Button, Input

from rankdeck_backends.asking import Accepted, Hop, Kind, Prompt, SecretQuestion, ShownKey
from rankdeck_runs.live import LinkState
from rankdeck_runs.network import NetworkThread
from rankdeck_tui.asking import ScreenAsker
from tui import goldens
from tui.deck import deck, sees, text, until
from tui.records import BEGIN, happen, started, write_run

SIZES = ((120, 40), (80, 24))
FINGERPRINT = "SHA256:" + "k3Jp" * 10 + "abc"


@pytest.fixture
def network() -> Iterator[NetworkThread]:
    """The engine's thread."""
    thread = NetworkThread()
    yield thread

    async def nothing() -> None:
        pass

    thread.close(nothing())


def shown(number: int, hops: int = 1) -> ShownKey:
    hop = Hop(f"gpu{number:03}", f"gpu{number:03}", hops, hops)
    return ShownKey(
        hop, f"gpu{number:03}.cluster", "ssh-ed25519", FINGERPRINT, Path("/home/a/.ssh/known_hosts")
    )


PASSPHRASE = SecretQuestion(
    Kind.PASSPHRASE,
    Hop("gpu001", "gpu001"),
    "The key /home/a/.ssh/id_ed25519 is encrypted, and gpu001 takes it.",
    (Prompt("Passphrase: "),),
    "That passphrase does not open the key.",
)
CODES = SecretQuestion(
    Kind.PROMPTS,
    Hop("gpu001", "bastion", 1, 2),
    "bastion.site.example asks user alice:\nTwo steps.\x1b[2J",
    (Prompt("Password: "), Prompt("Device [phone/key]: ", echo=True)),
)


@pytest.mark.parametrize("size", SIZES)
async def test_dialogs_look_as_they_did(place: Path, network: NetworkThread, size: tuple[int, int]) -> None:
    app, asker = deck(place, now=BEGIN + 125), ScreenAsker()
    asker.attach(app)
    width, height = size
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "resnet")
        for name, asked, wanted in (
            ("one", asker.host_keys([shown(1)]), "not known"),
            ("many", asker.host_keys([shown(n) for n in range(1, 25)]), "24 host keys"),
            ("passphrase", asker.secrets(PASSPHRASE), "Passphrase"),
            ("codes", asker.secrets(CODES), "Two steps"),
        ):
            answer: Future[object] = network.submit(asked)
            await sees(pilot, wanted)
            await goldens.check(app, f"login-{name}-{width}x{height}", place)
            await pilot.press("escape")
            await until(pilot, answer.done)
            assert answer.result() in (Accepted.NONE, None)


@pytest.mark.parametrize(
    ("keys", "count", "wanted"),
    [
        (["enter"], 1, Accepted.NONE),
        (["n"], 2, Accepted.NONE),
        (["y"], 1, Accepted.FIRST),
        (["y"], 3, Accepted.FIRST),
        (["a"], 3, Accepted.ALL),
        (["right", "right", "enter"], 3, Accepted.ALL),
    ],
)
async def test_keys_answer_for_host_keys(
    place: Path, network: NetworkThread, keys: list[str], count: int, wanted: Accepted
) -> None:
    app, asker = deck(place), ScreenAsker()
    asker.attach(app)
    async with app.run_test(size=SIZES[0]) as pilot:
        await sees(pilot, "resnet")
        answer = network.submit(asker.host_keys([shown(n) for n in range(count)]))
        await sees(pilot, FINGERPRINT, "/home/a/.ssh/known_hosts")
        await pilot.press(*keys)
        await until(pilot, answer.done)
        assert answer.result() is wanted
        await until(pilot, lambda: not app.screen.is_modal)


async def test_what_is_typed_is_hidden_unless_the_server_lets_it_be_seen(
    place: Path, network: NetworkThread
) -> None:
    app, asker = deck(place), ScreenAsker()
    asker.attach(app)
    async with app.run_test(size=SIZES[0]) as pilot:
        await sees(pilot, "resnet")
        answer = network.submit(asker.secrets(CODES))
        await sees(pilot, "jump host bastion (hop 1 of 2) on the way to gpu001", "Two steps.")
        await pilot.press(*"secret", "enter", *"phone")
        await sees(pilot, "phone")
        assert "secret" not in text(app)
        await pilot.press("enter")
        await until(pilot, answer.done)
        assert answer.result() == ("secret", "phone")
        assert "secret" not in text(app)


async def test_a_stray_enter_is_no_passphrase(place: Path, network: NetworkThread) -> None:
    app, asker = deck(place), ScreenAsker()
    asker.attach(app)
    async with app.run_test(size=SIZES[0]) as pilot:
        await sees(pilot, "resnet")
        answer = network.submit(asker.secrets(PASSPHRASE))
        await sees(pilot, "does not open the key")
        await pilot.press("enter")
        assert isinstance(app.focused, Input)
        await pilot.press("tab")
        assert isinstance(app.focused, Button)
        await pilot.press("enter")
        await until(pilot, answer.done)
        assert answer.result() is None


async def test_a_question_that_is_taken_back_goes_away(place: Path, network: NetworkThread) -> None:
    app, asker = deck(place), ScreenAsker()
    asker.attach(app)
    async with app.run_test(size=SIZES[0]) as pilot:
        await sees(pilot, "resnet")
        answer = network.submit(asker.secrets(PASSPHRASE))
        await sees(pilot, "Passphrase for node gpu001")
        answer.cancel()
        await until(pilot, lambda: not app.screen.is_modal)


async def test_without_an_app_questions_are_refused(network: NetworkThread) -> None:
    asker = ScreenAsker()
    assert network.submit(asker.host_keys([shown(1)])).result(60) is Accepted.NONE
    assert network.submit(asker.secrets(PASSPHRASE)).result(60) is None


@pytest.mark.parametrize("size", SIZES)
async def test_a_link_that_waits_for_the_person_says_so_and_is_tried_again_at_a_key(
    place: Path, size: tuple[int, int]
) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa", framework="pytorch")
    happen(record, started(record))
    app = deck(place, record.id)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, record.id)
        live = app.engine.attach(record.id)
        tried: list[bool] = []
        live.on_reconnect(lambda: tried.append(True))
        await pilot.press("C")
        assert not tried
        live.set_link("n1", LinkState.LOST, "the login was given up", needs_person=True)
        await sees(pilot, "needs you: C")
        await pilot.press("C")
        await until(pilot, lambda: tried)
