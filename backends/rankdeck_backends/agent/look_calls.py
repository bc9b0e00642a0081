"""What preflight asks the system by calls, not by files: limits, names, devices, file systems, the clock.

Keys and values: docs/preflight.md. `quick` may not block. Each of `slow` runs in a child of its own.
"""

import errno
import hashlib
import json
import os
import resource
import socket
import stat
import time
from functools import partial

from . import descriptors, identity, limited
from .encoding import raw, text
from .execute import at_home

_MIB = 1 << 20
_WRITTEN = 1 << 20
"""Bytes written to see whether there is room: quotas refuse only a write (EDQUOT)."""
_HASHED = 64 << 20
"""Bytes of the entry script that are hashed at most."""
_GIT_LIMIT = 1.5
_DEVICES = {"kfd_open": "/dev/kfd", "imex_channel": "/dev/nvidia-caps-imex-channels/channel0"}
"""Device files that ranks must be able to open, by the key of their answer."""
_STA_UNSYNC = 0x40  # linux/timex.h
_CALL_LIMIT = 3.0
"""Seconds for the name service to answer, and for a device file to open."""
PATH_LIMIT = 5.0
"""Seconds for statvfs and a file on a file system: a network file system that takes longer is stuck."""


def quick(environment):
    """`{key: value}` of what answers at once.

    Args:
        environment: {NAME: value} as bytes: what ranks will have.
    """
    user = identity.user_name()
    found = {
        "hostname": socket.gethostname(),
        "in_container": _in_container(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": user,
        "home": text(at_home(b"~", environment)),
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "linger": os.path.exists("/var/lib/systemd/linger/" + user.replace("/", "")),
    }
    soft, hard = descriptors.user_limit()
    found.update(rlimit_nofile=_limit(soft), rlimit_nofile_hard=_limit(hard))
    for name in ("memlock", "nproc"):
        soft, hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper()))
        found["rlimit_" + name] = _limit(soft)
    try:
        found["glibc"] = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1]
    except (ValueError, IndexError, OSError):  # another C library
        pass
    found.update(_shm())
    found.update((key, "ENOENT") for key, device in _DEVICES.items() if not os.path.exists(device))
    synchronized = _synchronized()
    if synchronized is not None:
        found["ntp_synchronized"] = synchronized
    return found


def slow(environment, peers, paths, script, cwd):
    """What may block: `[(key, function -> value, seconds, value if it did not answer)]`.

    Args:
        environment: as for `quick`.
        peers: the names of the other nodes (text).
        paths: `[{"path", "purpose"}]`; a `run` folder is written into, others are only looked at.
        script: the entry script's path, or None.
        cwd: the working directory (bytes) that relative paths are of.
    """
    asked = [
        ("resolve_self", lambda: _addresses(socket.gethostname()), _CALL_LIMIT, "timeout"),
        ("tmp", partial(_tmp, environment), PATH_LIMIT, {"tmp_writable": "timeout"}),
    ]
    for key, device in _DEVICES.items():
        if os.path.exists(device):
            asked.append((key, partial(_open, device), _CALL_LIMIT, "timeout"))
    verbs = [name for name in _listed("/sys/class/infiniband_verbs") if name.startswith("uverbs")]
    if verbs:
        opened = dict.fromkeys(verbs, "timeout")
        asked.append(("uverbs_open", partial(_open_all, verbs), _CALL_LIMIT, opened))
    if peers:
        asked.append(("resolve_peers", partial(_resolve, peers), _CALL_LIMIT, None))
    for number, entry in enumerate(paths):
        path = os.path.join(cwd, at_home(raw(str(entry.get("path"))), environment))
        told = {"path": text(path), "purpose": str(entry.get("purpose"))}
        function = partial(_file_system, path, told)
        asked.append(("path {}".format(number), function, PATH_LIMIT, dict(told, state="timeout")))
    if script:
        path = os.path.join(cwd, at_home(raw(script), environment))
        function = partial(_code, path)
        asked.append(("code", function, PATH_LIMIT, {"path": text(path), "state": "timeout"}))
    return asked


def as_bytes(function):
    """The function's value as JSON text (bytes), for `limited.begin_call`."""
    return json.dumps(function()).encode("ascii")


def merged(answers):
    """`syscalls` of what `slow` gave.

    Args:
        answers: {key: value}; None where there is none.
    """
    found = {}
    paths = []
    for key, value in answers.items():
        if value is None:
            continue
        if key == "tmp":
            found.update(value)
        elif key.startswith("path "):
            paths.append(value)
        else:
            found[key] = value
    if paths:
        found["paths"] = paths
    return found


def _limit(value):
    return "unlimited" if value == resource.RLIM_INFINITY else value


def _in_container():
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return True
    try:
        with open("/proc/self/mounts", errors="replace") as file:
            return any(line.split(" ")[1:3] == ["/", "overlay"] for line in file)
    except OSError:
        return False


def _synchronized():
    """What adjtimex(2) says; None where it can't be asked. modes = 0 changes nothing."""
    try:
        import ctypes  # takes as long as a third of the agent's start

        buffer = ctypes.create_string_buffer(512)  # struct timex has 208 bytes; modes is its first word
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (ImportError, OSError, AttributeError):
        return None
    if state < 0:
        return None
    # unsigned modes; long offset, freq, maxerror, esterror; int status (linux/timex.h)
    at = ctypes.sizeof(ctypes.c_long) * 5
    return not ctypes.c_int.from_buffer(buffer, at).value & _STA_UNSYNC


def _addresses(name):
    try:
        return sorted({entry[4][0] for entry in socket.getaddrinfo(name, None)})
    except (OSError, UnicodeError):
        return []


def _resolve(names):
    return {name: _addresses(name) for name in names}


def _shm():
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return {}
    return {
        "shm_total_mib": found.f_blocks * found.f_frsize // _MIB,
        "shm_avail_mib": found.f_bavail * found.f_frsize // _MIB,
    }


def _tmp(environment):
    folder = environment.get(b"TMPDIR") or b"/tmp"
    told = {"tmpdir": text(folder)}
    try:
        found = os.statvfs(folder)
        told["tmp_free_mib"] = found.f_bavail * found.f_frsize // _MIB
        told["tmp_writable"] = _written(folder, b"x")
    except OSError as error:
        told["tmp_writable"] = word(error)
    return told


def _file_system(path, told):
    told = dict(told)
    folder = path if told["purpose"] != "run" else _nearest(path)
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return dict(told, state=word(error))
    told.update(
        state="ok",
        total_mib=found.f_blocks * found.f_frsize // _MIB,
        avail_mib=found.f_bavail * found.f_frsize // _MIB,
    )
    if found.f_files:
        told.update(files_total=found.f_files, files_free=found.f_favail)
    kind = _type_of(folder)
    if kind:
        told["type"] = kind
    if told["purpose"] == "run":
        told["writable"] = _written(folder, bytes(_WRITTEN))
    return told


def _nearest(path):
    """The folder itself, or the nearest parent that exists: a run's folder is made at its start."""
    while not os.path.isdir(path) and path not in (b"/", b""):
        path = os.path.dirname(path)
    return path or b"/"


def _type_of(path):
    """The file system's type by the longest mount point above the path."""
    real = os.path.realpath(path)
    best, kind = b"", None
    with open("/proc/self/mounts", "rb") as file:
        for line in file:
            words = line.split(b" ")
            point = words[1].replace(b"\\040", b" ")
            inside = real == point or real.startswith(point.rstrip(b"/") + b"/")
            if inside and len(point) >= len(best):
                best, kind = point, text(words[2])
    return kind


def _written(folder, data):
    """`ok`, or why a new file can't take so many bytes; the file is gone afterwards."""
    path = os.path.join(folder, ".rankdeck-look-{}-{}".format(os.getpid(), time.time()).encode("ascii"))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return word(error)
    try:
        os.unlink(path)  # so that none is left, however this ends
        while data:
            data = data[os.write(fd, data) :]
        return "ok"
    except OSError as error:
        return word(error)
    finally:
        os.close(fd)


def _open(path):
    """`ok` or the error of opening a device file for reading and writing."""
    try:
        if not stat.S_ISCHR(os.stat(path).st_mode):
            return "ENODEV"
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
        return "ok"
    except OSError as error:
        return word(error)


def _open_all(names):
    return {name: _open("/dev/infiniband/" + name) for name in names}


def _code(path):
    told = {"path": text(path)}
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            left = _HASHED
            while left:
                data = file.read(min(left, 1 << 20))
                if not data:
                    break
                digest.update(data)
                left -= len(data)
    except OSError as error:
        return dict(told, state=word(error))
    told.update(state="ok", sha256=digest.hexdigest())
    git = [b"git", b"--no-optional-locks", b"-C", os.path.dirname(path) or b"/"]
    head = limited.capture(git + [b"rev-parse", b"HEAD"], _GIT_LIMIT)
    if head.status == 0:
        told["git_head"] = text(head.out.strip())
        changed = limited.capture(git + [b"status", b"--porcelain", b"--untracked-files=no"], _GIT_LIMIT)
        if changed.status == 0:
            told["git_dirty"] = bool(changed.out.strip())
    return told


def _listed(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def word(error):
    """An error's name, such as `EACCES`."""
    return errno.errorcode.get(error.errno, str(error.errno))
