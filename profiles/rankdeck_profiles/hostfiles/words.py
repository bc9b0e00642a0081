"""One host as host files write it: `[user@]host[:number]`, `[address]:port`, `ssh://user@host:port`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdeck_profiles import ranges
from rankdeck_profiles.nodes import MAX_SLOTS, check_ipv6, is_group, is_host, is_user, too_long

_SSH = re.compile(r"ssh://(.*?)/?")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\](?::(\d+))?", re.ASCII)
_COUNTED = re.compile(r"([^:]+):(\d+)", re.ASCII)


class WordError(ValueError):
    """It is no host. The text says what was found; `fix` what to write."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Word:
    """What one word says."""

    hosts: tuple[str, ...]
    """One, or those of a range."""
    user: str | None = None
    port: int | None = None
    """Only of forms that can mean nothing else: `ssh://`, `user@host:N`, and an address in brackets."""
    number: int | None = None
    """What stands behind the colon of `host:N`: slots to MPICH, Intel MPI and Horovod."""


def word_of(text: str) -> Word:
    """Take one word apart.

    Raises:
        WordError: it is no host.
    """
    if is_host(text):  # nearly every word of nearly every file
        return Word((text,))
    refuse_group(text)
    if match := _SSH.fullmatch(text):
        user, rest = _user(match[1])
        host, port = _address_and_number(rest)
        return Word(_hosts(host), user, _port(port) if port is not None else None)
    user, rest = _user(text)
    host, number = _address_and_number(rest)
    if ":" in host:
        return Word((host,), user, _port(number) if number is not None else None)
    if user is not None and number is not None:  # as ssh and git have it; no launcher's slots follow a user
        return Word(_hosts(host), user, _port(number))
    return Word(_hosts(host), user, None, number)


def refuse_group(text: str) -> None:
    """Refuse a group: a host file is read as its launcher reads it, and none of them knows the site's groups.

    Raises:
        WordError: it is one.
    """
    if is_group(text):
        raise WordError(
            f'"{text}" is a site group; write it in the pool\'s nodes', f'in the pool: nodes = ["{text}"]'
        )


def slots_of(text: str) -> int:
    """A number of slots.

    Raises:
        WordError: it is none, or 0, or more than a machine can have.
    """
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= MAX_SLOTS):
        raise WordError(f'slots "{text}"; allowed: a whole number from 1 to {MAX_SLOTS}')
    if int(text) == 0:
        raise WordError("a node with 0 slots takes no ranks", "leave the line out")
    return int(text)


def port_of(text: str) -> int:
    """A port's number.

    Raises:
        WordError: it is none.
    """
    if not (text.isascii() and text.isdigit()):
        raise WordError(f'port "{text}"; allowed: 1 to 65535')
    return _port(int(text[:6]))


def _port(number: int) -> int:
    if not 1 <= number <= 65535:
        raise WordError(f"port {number}; allowed: 1 to 65535")
    return number


def _user(text: str) -> tuple[str | None, str]:
    user, at, rest = text.rpartition("@")
    if at and not is_user(user):
        raise WordError(f'"{user}" before @ is no user name')
    return user or None, rest


def _address_and_number(text: str) -> tuple[str, int | None]:
    """The host and the number behind it. A colon is only in an IPv6 address."""
    if match := _BRACKETED.fullmatch(text):
        if ":" in match[1]:
            return _ipv6(match[1]), int(match[2][:6]) if match[2] else None
    elif text.count(":") > 1:
        return _ipv6(text), None
    elif match := _COUNTED.fullmatch(text):
        return match[1], int(match[2][:9])
    elif ":" in text:
        raise WordError(
            f'"{text}": what stands behind : is no number of slots', "write host:N, with N from 1"
        )
    return text, None


def _ipv6(text: str) -> str:
    try:
        check_ipv6(text)
    except ValueError as error:
        raise WordError(
            f'"{text}" is no IPv6 address ({error})', "write it as fe80::7 or [fe80::7]"
        ) from None
    return text


def _hosts(text: str) -> tuple[str, ...]:
    if ":" in text:
        return (text,)
    try:
        hosts = ranges.expand(text)
    except ranges.RangeError as error:
        raise WordError(f'"{text}": {error}', "write a range as in gpu[001-004,007]") from None
    bad = next((host for host in hosts if not is_host(host)), None)
    if bad is not None and (long := too_long(bad)):
        raise WordError(long)
    if bad is not None:
        odd = next((c for c in bad if not is_host(f"a{c}")), bad[:1])
        raise WordError(f'"{bad}" is no host name: {odd!a} can\'t be in one' if bad else "no host name")
    return tuple(hosts)
