"""What stands between an mpirun and a rank's shim, so that a rank has its whole grace.

mpirun kills what it started about a second after it has asked it to end (Open MPI: odls_base_sigkill_timeout;
hydra at once). So what it started is only a relay: the shim is a child of it, in a session of its own, and
outlives it for as long as the plan's grace lasts.
"""

import os
import resource
import signal

from . import descriptors

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
)
RELAY_GONE = signal.SIGRTMIN + 4
"""What a shim gets when its relay has ended before it. It ends a shim whose rank has not started yet."""

_PR_SET_PDEATHSIG = 1  # prctl(2)


def part():
    """Fork: only the shim comes back from here, and gets its relay's pid. The relay ends as the shim ends."""
    relay = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    shim = os.fork()
    if shim == 0:
        os.setsid()
        signal_at_parents_end(RELAY_GONE, relay)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        return relay
    descriptors.close_all_but(())
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: _pass_on(shim, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    end_like(os.waitpid(shim, 0)[1])


def signal_at_parents_end(number, parent):
    """Have the kernel send us `number` when our parent ends; at once if it has ended already."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def end_like(status):
    """End this process as the program ended, so that the launcher sees the same."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program's core is the one of interest
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def _pass_on(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass
