"""Signals by their names: `TERM` for 15, as people and the record write them."""

import signal


def number(name):
    """The number of `TERM`, `SIGTERM` or `15`.

    Raises:
        ValueError: no such signal here.
    """
    plain = str(name).upper()
    if plain.isdigit():
        value = int(plain)
        if 0 < value < signal.NSIG:
            return value
    else:
        found = getattr(signal, plain if plain.startswith("SIG") else "SIG" + plain, None)
        if isinstance(found, signal.Signals):
            return int(found)
    raise ValueError("signal {!r}: allowed are names such as TERM, INT, USR1, KILL".format(name))


def name(value):
    """`KILL` for 9; `RTMIN+3` and the like where there is no name."""
    try:
        return signal.Signals(value).name[3:]
    except ValueError:
        return "RTMIN+{}".format(value - signal.SIGRTMIN)


def reset():
    """Every signal back to its default and none blocked: what a program expects at its start."""
    for value in range(1, signal.NSIG):
        try:
            if signal.getsignal(value) is not signal.SIG_DFL:
                signal.signal(value, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP and those the C library keeps for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
