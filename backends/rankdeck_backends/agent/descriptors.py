"""Open descriptors: those a child must not inherit, and how many there may be."""

import os
import resource


def close_all_but(keep):
    """Close every descriptor from 3 up that is not in `keep`."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for fd in found:
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass


def point(fd, *targets):
    """Make `targets` (0, 1, 2) the same as `fd`, inheritable."""
    for target in targets:
        os.dup2(fd, target)
        os.set_inheritable(target, True)


_before = []


def raise_limit(wanted=8192):
    """Allow more open files, as far as the hard limit goes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    _before.append(before)
    soft, hard = before
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            pass


def user_limit():
    """The limits `(soft, hard)` that programs get: not ours, which may be higher."""
    return _before[0] if _before else resource.getrlimit(resource.RLIMIT_NOFILE)


def restore_limit():
    """Give programs the limit that their user set, not ours."""
    if _before:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, _before[0])
        except (OSError, ValueError):
            pass
