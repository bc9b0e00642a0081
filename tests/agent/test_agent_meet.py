"""Nodes that try to reach each other, and folders that may be one and the same."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client, Refused

TOKEN = "0123456789abcdef"


def listen(client: Client, *ports: int, seconds: float = 30.0) -> tuple[int, list[dict[str, Any]]]:
    """Begins to listen on 127.0.0.1; gives the request's number and what listens."""
    wanted = [{"kind": "random", "address": "127.0.0.1", "port": port} for port in ports]
    number = client.send("listen", on=wanted, token=TOKEN, seconds=seconds)
    return number, heard(client, number)


def heard(client: Client, number: int) -> list[dict[str, Any]]:
    """What listens, once it does."""
    found: list[dict[str, Any]] = client.wait_for(lambda: client.of(number, "listening"), "listener")
    listening: list[dict[str, Any]] = found[0]["listening"]
    return listening


def reach(client: Client, *ports: int, token: str = TOKEN, seconds: float = 5.0) -> list[dict[str, Any]]:
    targets = [{"to": "n2", "kind": "random", "address": "127.0.0.1", "port": port} for port in ports]
    found: list[dict[str, Any]] = client.ask("reach", to=targets, token=token, seconds=seconds)["connects"]
    return found


def test_one_listens_and_the_other_connects(session: Client) -> None:
    number, listening = listen(session, 0, 0)
    ports = [entry["port"] for entry in listening]
    assert len(set(ports)) == 2
    found = reach(session, *ports, ports[0])
    assert [entry["state"] for entry in found] == ["ok"] * 3
    assert all(0 <= entry["seconds"] < 5 for entry in found)
    session.ask("end", job=number)
    assert session.reply(number)[0]["accepted"] == 3
    assert [entry["state"] for entry in reach(session, *ports)] == ["ECONNREFUSED"] * 2


def test_an_end_that_comes_at_once(session: Client) -> None:
    for _ in range(10):
        number = session.send("listen", on=[], token=TOKEN, seconds=60.0)
        session.ask("end", job=number)
        # Before the listener has begun, the end finds a plain job, which it kills.
        with contextlib.suppress(Refused):
            assert session.reply(number)[0]["accepted"] == 0


def test_the_port_can_be_bound_right_after(session: Client) -> None:
    number, listening = listen(session, 0)
    reach(session, listening[0]["port"])
    session.ask("end", job=number)
    session.reply(number)
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", listening[0]["port"]))  # without SO_REUSEADDR


def test_a_taken_port_names_its_owner(session: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        _, listening = listen(session, taken.getsockname()[1])
    assert listening[0]["state"] == "EADDRINUSE"
    assert listening[0]["owner"]["pid"] == os.getpid()
    assert Path(sys.executable).name in listening[0]["owner"]["command"]


def test_an_address_of_another_node(session: Client) -> None:
    number = session.send(
        "listen", on=[{"kind": "random", "address": "192.0.2.1", "port": 0}], token=TOKEN, seconds=5.0
    )
    assert heard(session, number)[0]["state"] == "EADDRNOTAVAIL"


def test_something_else_that_answers_is_no_node(session: Client) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = session.send(
            "reach",
            to=[{"to": "n2", "kind": "random", "address": "127.0.0.1", "port": other.getsockname()[1]}],
            token=TOKEN,
            seconds=20.0,
        )
        taken, _ = other.accept()
        taken.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        told = session.reply(number)[0]["connects"][0]
        taken.close()
    assert told["state"] == "stranger"
    assert "SSH-2.0" in told["message"]


def test_silence_is_a_timeout(session: Client) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        told = reach(session, silent.getsockname()[1], seconds=1.0)[0]
    assert told["state"] == "timeout"
    assert time.monotonic() - began < 20


def test_a_listener_ends_by_itself(session: Client) -> None:
    number, _ = listen(session, 0, seconds=0.5)
    assert session.reply(number)[0]["accepted"] == 0


def test_names_of_addresses(session: Client) -> None:
    told = session.ask("reverse", addresses=["127.0.0.1"])["reverse_dns"][0]
    assert told["address"] == "127.0.0.1"
    assert told["seconds"] < 6


def test_a_shared_folder(session: Client, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    common: dict[str, Any] = {"path": str(folder), "token": TOKEN}
    assert session.ask("token", step="write", **common)["state"] == "ok"
    found = session.ask("token", step="find", node=1, seconds=5.0, **common)
    assert (found["state"], found["answer"]) == ("ok", "ok")
    collected = session.ask("token", step="collect", nodes=[1, 2], **common)
    assert collected["answered"] == {"1": "ok", "2": "missing"}
    session.ask("token", step="remove", node=1, **common)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_shared(session: Client, tmp_path: Path) -> None:
    found = session.ask("token", step="find", node=1, seconds=0.2, path=str(tmp_path), token=TOKEN)
    assert found["state"] == "missing"
    assert session.ask("token", step="write", path="/no/such", token=TOKEN)["state"] == "ENOENT"


def test_nonsense_is_refused(session: Client) -> None:
    with pytest.raises(Refused, match="hexadecimal"):
        session.ask("token", step="write", path="/tmp", token="../../x")
    with pytest.raises(Refused, match="step"):
        session.ask("token", step="burn", path="/tmp", token=TOKEN)
