"""Who this agent is: what the first frame and the probe say of the user and the interpreter."""

import os
import sys

NAME_LIMIT = 0.5
"""Seconds for the name service to answer."""


def python_version():
    """`3.11.2`."""
    return ".".join(str(part) for part in sys.version_info[:3])


def user_name():
    """This user's name; the number where it has none."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if name:
        return name
    found = _looked_up(lambda account: account.pw_name.encode())
    return found.decode() if found else str(os.getuid())


def home():
    """The home directory (bytes)."""
    return os.environb.get(b"HOME") or _looked_up(lambda account: os.fsencode(account.pw_dir)) or b"/"


def _looked_up(part):
    """One part of this user's account as bytes; the accounts may be on a server that hangs."""
    from .limited import call

    def look():
        import pwd

        return part(pwd.getpwuid(os.getuid()))

    return call(look, NAME_LIMIT)
