"""A rank that keeps its own account of its life, on the shared disk: what it wrote, how it ended.

Each piece of output is a function of the rank and the piece's number, so that even the one piece between the
write to the log and the note of it can be checked. Python 3.6 and up, standard library only.

In FOLDER: ``RANK.began``; ``RANK.out``, ``RANK.err``: what the log took; ``RANK.doing``: the piece under way;
``RANK.refused``, what the log did not take; ``RANK.end``, its exit status and why (``own`` or ``term``).
"""

import argparse
import hashlib
import os
import signal
import subprocess
import time

ODD = b" \x1b[2J\x1b]0;title\x07 [b]markup[/b] \xff\xfe\x00 \r over "
"""Escape sequences, markup, bytes that are not UTF-8, NUL, a carriage return."""
STREAMS = {"out": 1, "err": 2}
WORKERS = {
    "none": [],
    "plain": ["sleep", "100000"],
    "stubborn": ["setsid", "sh", "-c", "trap '' TERM INT HUP; sleep 100000; sleep 100000"],
}
"""What a rank leaves behind: nothing, a child, a child in a session of its own that no polite signal ends."""


def piece(rank, stream, number):
    """One write: a line without its end in every third."""
    text = b"%d %s %d " % (rank, stream.encode(), number)
    noise = hashlib.sha256(text).digest() * (number % 7)
    return text + ODD + noise.replace(b"\n", b" ") + (b"" if number % 3 == 2 else b"\n")


class Account:
    """The rank's own files."""

    def __init__(self, folder, rank):
        self._start = os.path.join(folder, str(rank))
        self._rank = rank
        self._copies = {name: open(self._start + "." + name, "wb", buffering=0) for name in STREAMS}  # noqa: SIM115
        self._doing = os.open(self._start + ".doing", os.O_CREAT | os.O_WRONLY, 0o600)

    def note(self, name, text):
        """A small file, whole or not at all."""
        with open(self._start + "." + name + ".part", "w") as file:
            file.write(text)
        os.rename(self._start + "." + name + ".part", self._start + "." + name)

    def write(self, stream, number):
        """One piece to the log, and what the log took of it to the copy."""
        os.pwrite(self._doing, b"%s %10d" % (stream.encode(), number), 0)
        data = piece(self._rank, stream, number)
        while data:
            try:
                taken = os.write(STREAMS[stream], data)
            except OSError as error:
                with open(self._start + ".refused", "a") as file:
                    file.write(f"{stream} {len(data)} {error.strerror}\n")
                return
            self._copies[stream].write(data[:taken])
            data = data[taken:]


def arguments():
    parser = argparse.ArgumentParser(description="A rank that keeps its own account.")
    parser.add_argument("folder")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="how long it lives; 0: until it is told to end"
    )
    parser.add_argument("--fail-rank", type=int, default=-1, help="the rank that ends with status 7")
    parser.add_argument(
        "--term", choices=("exit", "finish", "ignore"), default="exit", help="what SIGTERM does"
    )
    parser.add_argument("--worker", choices=sorted(WORKERS), default="none")
    return parser.parse_args()


def main():
    options = arguments()
    rank = int(os.environ["RANK"])
    account = Account(options.folder, rank)
    account.note("began", "")
    asked = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.term == "ignore" else lambda *_: asked.append(1))
    if WORKERS[options.worker]:
        # Without its output: a shell would say "Killed" on the rank's own.
        subprocess.Popen(WORKERS[options.worker], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    failing = rank == options.fail_rank
    end = time.monotonic() + options.seconds * (0.6 if failing else 1.0) if options.seconds else float("inf")
    number = 0
    while not asked and time.monotonic() < end:
        account.write("out", number)
        if number % 5 == 0:
            account.write("err", number)
        number += 1
        time.sleep(0.05)
    status = (0 if options.term == "finish" else 9) if asked else (7 if failing else 0)
    account.note("end", f"{status} {'term' if asked else 'own'}")
    os._exit(status)


if __name__ == "__main__":
    main()
