"""Statements of an ssh config that asyncssh 2.24 understands otherwise than ssh_config(5) says, mended.

- times: `ConnectTimeout 2m` and `none` (sshd_config(5), TIME FORMATS), which it takes for no numbers
- ProxyJump and ProxyCommand: "whichever is specified first will prevent later instances of the other"
- `Match exec`: its command has tokens such as %h
- UserKnownHostsFile has tokens, too
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from asyncssh.config import SSHClientConfig

Handler = Callable[[Any, str, list[str]], None]

_TIME = re.compile(r"(?:\d+[smhdw]?)+", re.IGNORECASE)
_PART = re.compile(r"(\d+)([smhdw]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TOKEN = re.compile(r"%(.)")
_TIMES = ("connecttimeout", "serveraliveinterval")
_PROXIES = ("proxyjump", "proxycommand")


def mend() -> None:
    """Put the mended statements in the place of asyncssh's, once."""
    handlers = SSHClientConfig._handlers
    if "UserKnownHostsFile" in SSHClientConfig._percent_expand:
        return
    SSHClientConfig._percent_expand = SSHClientConfig._percent_expand | {"UserKnownHostsFile"}
    for keywords, mended in ((_TIMES, _timed), (_PROXIES, _first_proxy), (("match",), _with_tokens)):
        for keyword in keywords:
            option, handler = handlers[keyword]
            handlers[keyword] = (option, mended(handler))


def _timed(handler: Handler) -> Handler:
    def take(config: Any, option: str, args: list[str]) -> None:
        if args and args[0].lower() == "none":
            args[0] = "0"
        elif args and _TIME.fullmatch(args[0]):
            parts = _PART.findall(args[0])
            args[0] = str(sum(int(number) * _SECONDS[unit.lower()] for number, unit in parts))
        handler(config, option, args)

    return take


def _first_proxy(handler: Handler) -> Handler:
    def take(config: Any, option: str, args: list[str]) -> None:
        jump = config._options.get("ProxyJump")  # `none` leaves the way to a ProxyCommand open
        if "ProxyCommand" in config._options or jump is not None:
            args.clear()
        else:
            handler(config, option, args)

    return take


def _with_tokens(handler: Handler) -> Handler:
    def take(config: Any, option: str, args: list[str]) -> None:
        for at, word in enumerate(args[:-1]):
            if word.lower() in ("exec", "!exec"):
                config._set_tokens()
                args[at + 1] = _TOKEN.sub(config._expand_token, args[at + 1])
        handler(config, option, args)

    return take
