"""Whether a supervisor outlives the log-out: some nodes end all of a user's processes then.

Sources: logind.conf(5) (KillUserProcesses, KillExcludeUsers), loginctl(1) (enable-linger), systemd-run(1),
whose --scope does what is asked for here; org.freedesktop.systemd1(5), StartTransientUnit.
"""

import os
import time

_BOOTED = "/run/systemd/system"  # sd_booted(3)
_LINGER = "/var/lib/systemd/linger"
_LIMIT = 5.0
"""Seconds for each answer of systemd."""
_LOGIND = "org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses"
_MANAGER = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
_FOLDERS = ("/usr/lib", "/usr/local/lib", "/run", "/etc")
"""Of drop-ins; one of the same name in a later folder takes the place of an earlier one."""

FIX = "run 'loginctl enable-linger' on it once"


def leave_session(name):
    """Go where the end of the login session ends nothing, if this node ends what is in it.

    Args:
        name: of the run, for the scope's.

    Returns:
        Why this process, and those that it will start, may be ended at log-out; empty where they are not.
    """
    if os.getuid() == 0 or not os.path.isdir(_BOOTED) or session_of() is None or not kills():
        return ""
    from . import identity

    lingers = os.path.exists(os.path.join(_LINGER, identity.user_name().replace("/", "")))
    trouble = "" if session_of() is None else _move(name)
    if not trouble and lingers:
        return ""
    why = trouble or "its user manager ends with the last session"
    said = "this node ends all of a user's processes at log-out (KillUserProcesses=yes): {}; {}"
    return said.format(why, FIX)


def session_of(path="/proc/self/cgroup"):
    """The login session's scope that this process is in; None outside of any, as in a Slurm job."""
    try:
        with open(path) as file:
            names = [part for line in file for part in line.strip().split("/")]
    except OSError:
        return None
    found = [name for name in names if name.startswith("session-") and name.endswith(".scope")]
    return found[0] if found else None


def kills():
    """Whether this node ends what is left in a session at its end; as logind says, else as its files do."""
    said = _busctl(["get-property"] + _LOGIND.split())
    if said is not None and said.status == 0:
        return said.out.split()[1:] == [b"true"]
    return configured() is True


def configured(root=""):
    """What logind's configuration says of KillUserProcesses; None if nothing: its build decides."""
    drop_ins = {}
    for folder in _FOLDERS:
        place = "{}{}/systemd/logind.conf.d".format(root, folder)
        try:
            names = os.listdir(place)
        except OSError:
            continue
        drop_ins.update((name, os.path.join(place, name)) for name in names if name.endswith(".conf"))
    found = None
    for path in [root + "/etc/systemd/logind.conf"] + [drop_ins[name] for name in sorted(drop_ins)]:
        try:
            with open(path, errors="replace") as file:
                lines = [line.split("=", 1) for line in file if "=" in line]
        except OSError:
            continue
        for key, value in lines:
            if key.strip() == "KillUserProcesses":
                found = value.strip().lower() in ("yes", "true", "1", "on")
    return found


def _move(name):
    """Into a scope of the user's own manager; returns why that failed, or an empty text."""
    words = ["--user", "call"] + _MANAGER.split() + ["StartTransientUnit", "ssa(sv)a(sa(sv))"]
    scope = "rankdeck-{}-{}.scope".format("".join(c if c.isalnum() else "_" for c in name), os.getpid())
    words += [scope, "fail", "1", "PIDs", "au", "1", str(os.getpid()), "0"]
    said = _busctl(words)
    if said is None or said.status != 0:
        err = b"busctl gave no answer" if said is None else said.err.strip() or b"busctl failed"
        return "no scope of the user's own could be had: {}".format(err.decode("utf-8", "replace")[:200])
    deadline = time.monotonic() + _LIMIT
    while session_of() is not None:
        if time.monotonic() > deadline:
            return "the supervisor could not be moved out of its login session"
        time.sleep(0.02)
    return ""


def _busctl(words):
    from . import limited

    environment = dict(os.environb)
    environment.setdefault(b"XDG_RUNTIME_DIR", "/run/user/{}".format(os.getuid()).encode("ascii"))
    try:
        return limited.capture([b"busctl"] + [word.encode() for word in words], _LIMIT, environment)
    except OSError:
        return None
