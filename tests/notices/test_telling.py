"""How a person is told: sequences that no message breaks out of, a real command, a real web server."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_profiles.notify import Notify, SettingsError, load_notify
from rankdeck_runs.occasions import Occasion
from rankdeck_tui.notices.escapes import LONGEST, notification
from rankdeck_tui.notices.outward import Outward, place_of
from rankdeck_tui.notices.watching import Watching

HOSTILE = "rank 2: \x1b]52;c;ZXZpbA==\x07 $(touch /tmp/x) `id` ; rm -rf ~ \0 --option \u202e"
FAILURE = Occasion("failure", "20261118-x-aaaa", "stopping", "resnet", f"run resnet {HOSTILE}", 2, "n2")


@pytest.mark.parametrize(
    ("environ", "begins"),
    [
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;run"),
        ({"TERM": "xterm-kitty"}, "\x1b]9;run"),
        ({"TERM": "foot"}, "\x1b]777;notify;rankdeck;run"),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "linux"}, ""),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "TMUX": "/tmp/x,1,0"}, ""),
    ],
)
def test_only_terminals_known_to_have_it_get_the_sequence(environ: dict[str, str], begins: str) -> None:
    found = notification("run resnet ended", "auto", environ)
    assert found.startswith(begins)
    assert bool(found) == bool(begins)


@given(st.text(), st.sampled_from(["osc9", "osc777"]), st.sampled_from([{}, {"TMUX": "x"}, {"STY": "x"}]))
def test_no_message_ends_the_sequence(text: str, kind: str, environ: dict[str, str]) -> None:
    found = notification(text, kind, environ)
    if environ:
        assert found.startswith("\x1bPtmux;" if "TMUX" in environ else "\x1bP")
        assert found.endswith("\x1b\\")
        found = found.removeprefix("\x1bPtmux;").removeprefix("\x1bP").removesuffix("\x1b\\")
        found = found.replace("\x1b\x1b", "\x1b")
    assert found.startswith("\x1b]")
    assert found.endswith("\a")
    assert found[2:-1].isprintable()
    assert len(found) <= LONGEST + 40
    if kind == "osc777":
        assert found.count(";") == 3


def outward(**settings: object) -> tuple[Outward, list[str]]:
    told: list[str] = []
    return Outward(Notify(**settings), told.append), told  # type: ignore[arg-type]


def test_a_command_gets_its_values_as_data(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    program = f"import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open({str(out)!r}, 'w'))"
    tells, told = outward(command=(sys.executable, "-c", program))
    tells.tell(FAILURE, tmp_path)
    tells.wait()
    arguments, environ = json.loads(out.read_text())
    assert told == []
    (message,) = arguments
    assert message.startswith("run resnet rank 2: ")
    assert "$(touch /tmp/x) `id` ; rm -rf ~" in message
    assert message.isprintable()
    values = {name: environ[f"RANKDECK_NOTICE_{name}"] for name in ("EVENT", "RUN", "STATE", "RANK", "NODE")}
    assert values == {
        "EVENT": "failure", "RUN": "20261118-x-aaaa", "STATE": "stopping", "RANK": "2", "NODE": "n2",
    }  # fmt: skip
    assert environ["RANKDECK_NOTICE_RECORD"] == str(tmp_path)


def test_things_are_told_in_their_order(tmp_path: Path) -> None:
    """Each command takes less long than the one before it."""
    program = "echo x >>count; sleep $((3 - $(wc -l <count))); echo $RANKDECK_NOTICE_EVENT >>order"
    tells, _ = outward(command=("sh", "-c", f"cd {tmp_path}; {program}"))
    for kind in ("failure", "silence", "end"):
        tells.tell(replace(FAILURE, kind=kind), tmp_path)
    tells.wait()
    assert (tmp_path / "order").read_text().split() == ["failure", "silence", "end"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/no/such/program",), "No such file or directory"),
        ((sys.executable, "-c", "import sys; sys.exit('no mail here')"), "exit status 1: no mail here"),
    ],
)
def test_a_command_that_fails_is_told_once(tmp_path: Path, command: tuple[str, ...], why: str) -> None:
    tells, told = outward(command=command)
    for _ in range(3):
        tells.tell(FAILURE, tmp_path)
        tells.wait()
    (said,) = told
    assert said.startswith("the command that is to tell of runs failed: ")
    assert why in said


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tells, told = outward(command=("sh", "-c", f"sleep 300 & echo $! $$ >{pids}; wait"), time_limit=1.0)
    tells.tell(FAILURE, tmp_path)
    tells.wait()
    deadline = time.monotonic() + 30
    while not told:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "took longer than 1 s and was ended" in told[0]
    for pid in pids.read_text().split():
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """A web server that takes what is posted to /good, and refuses the rest."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/good" else 403)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", got
    made.shutdown()
    made.server_close()


def test_a_webhook_gets_json(tmp_path: Path, server: tuple[str, list[bytes]]) -> None:
    address, got = server
    tells, told = outward(webhook=f"{address}/good")
    tells.tell(FAILURE, tmp_path)
    tells.wait()
    assert told == []
    said = json.loads(got[0])
    assert said["text"].startswith("run resnet rank 2: ")
    assert said["text"].isprintable()
    assert (said["event"], said["run"], said["rank"], said["node"]) == ("failure", "20261118-x-aaaa", 2, "n2")


def test_a_webhook_that_refuses_is_told_without_its_secret_path(
    tmp_path: Path, server: tuple[str, list[bytes]]
) -> None:
    tells, told = outward(webhook=f"{server[0]}/secret-token")
    tells.tell(FAILURE, tmp_path)
    tells.wait()
    place = server[0].removeprefix("http://")
    assert told == [f"the webhook that is to tell of runs failed: {place} answered 403 Forbidden"]


def test_a_webhook_that_nobody_answers_is_told_with_its_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    tells, told = outward(webhook=f"http://127.0.0.1:{port}/secret-token")
    tells.tell(FAILURE, tmp_path)
    tells.wait()
    assert told[0].startswith(f"the webhook that is to tell of runs failed: 127.0.0.1:{port}: ")
    assert "refused" in told[0]
    assert "secret-token" not in told[0]


@pytest.mark.parametrize(
    ("webhook", "place"),
    [
        ("https://hooks.example/a", "hooks.example:443"),
        ("http://me:secret@hooks.example/a", "hooks.example:80"),
        ("https://[fd00::1]:8443/a", "[fd00::1]:8443"),
        ("https://hooks.example:99999/a", "Port out of range 0-65535"),
    ],
)
def test_the_place_of_a_webhook_holds_no_secret(webhook: str, place: str) -> None:
    assert place_of(webhook) == place


def write(folder: Path, text: str) -> Path:
    (folder / "settings.toml").write_text(text)
    return folder


def test_settings_are_read(tmp_path: Path) -> None:
    assert load_notify(tmp_path) == Notify()
    assert load_notify(write(tmp_path, "")) == Notify()
    text = (
        '[notify]\non = ["end"]\nbell = false\ndesktop = "osc9"\ncommand = ["~/bin/tell", "~"]\n'
        'webhook = "https://chat.example/x"\ntime_limit = "30s"\n'
    )
    assert load_notify(write(tmp_path, text)) == Notify(
        frozenset({"end"}),
        False,
        "osc9",
        (os.path.expanduser("~/bin/tell"), "~"),
        "https://chat.example/x",
        30.0,
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('on = ["crash"]', 'settings.toml:2: on: "crash" is not known'),
        ('desktop = "growl"', 'settings.toml:2: desktop = "growl"'),
        ("command = []", "settings.toml:2: command names no program"),
        ('command = "notify-send"', 'settings.toml:2: notify.command = "notify-send"'),
        ('webhook = "file:///etc/passwd"', "settings.toml:2: webhook is no web address"),
        ('time_limit = "0s"', 'settings.toml:2: time_limit = "0s"'),
        ('time_limit = "soon"', "settings.toml:2: time_limit: "),
        ("ring = true", "settings.toml:2: unknown key `ring` in [notify]"),
        ("bell = 1", "settings.toml:2: notify.bell = 1"),
    ],
)
def test_wrong_settings_name_the_line_and_what_is_allowed(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_notify(write(tmp_path, f"[notify]\n{line}\n"))
    assert told in error.value.message
    assert error.value.hint or "time_limit:" in told


def test_settings_that_are_read_by_two_threads_make_one_notifier(tmp_path: Path) -> None:
    """The lists may be read twice at the same moment, when the screen opens."""
    watching = Watching(lambda _: None, lambda _: None)
    barrier = threading.Barrier(8)
    made: list[object] = []

    def prepare() -> None:
        barrier.wait()
        watching.prepare(tmp_path)
        made.append(watching._notifier)

    threads = [threading.Thread(target=prepare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in made}) == 1
