"""GPUs as nvidia-smi tells them. A hung driver hangs nvidia-smi, never us: it only writes into our pipes."""

import os
import signal
import time

from . import descriptors, signals
from .encoding import printable
from .execute import CannotRun, replace
from .limited import capture

PLACES = (b"/usr/bin", b"/usr/local/bin", b"/usr/local/nvidia/bin", b"/opt/bin", b"/usr/lib/wsl/lib")
"""Where nvidia-smi may be beside PATH: driver containers and WSL keep it apart."""

_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
_RESTART_AFTER = 30.0


def find():
    """The path of nvidia-smi (bytes), or None."""
    for folder in os.environb.get(b"PATH", b"").split(b":") + list(PLACES):
        path = os.path.join(folder or b".", b"nvidia-smi")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def facts(seconds):
    """`(gpus, note)`: each GPU's index, name, uuid and memory_mib; the note says why there are none."""
    tool = find()
    if tool is None:
        return [], "nvidia-smi is not in PATH"
    done = capture(
        [tool, b"--query-gpu=index,name,uuid,memory.total", b"--format=csv,noheader,nounits"], seconds
    )
    if done.timed_out:
        return [], "nvidia-smi did not answer within {:g} s".format(seconds)
    if done.status != 0:
        said = printable(done.out + done.err).strip().split("\n")[0]
        return [], "nvidia-smi ended with status {}: {}".format(done.status, said[:300])
    found = []
    for line in printable(done.out).split("\n"):
        words = [word.strip() for word in line.split(",")]
        if len(words) == 4 and words[0].isdigit():
            found.append(
                {"index": int(words[0]), "name": words[1], "uuid": words[2], "memory_mib": whole(words[3])}
            )
    return found, None if found else "nvidia-smi lists no GPU"


def whole(word):
    """A whole number, or None for `[N/A]`, `[Not Supported]` and the like."""
    number = real(word)
    return None if number is None else int(number)


def real(word):
    """A number, or None."""
    try:
        return float(word)
    except ValueError:
        return None


class GpuWatch:
    """Two long-lived nvidia-smi, one for the GPUs' values, one for their processes."""

    def __init__(self, loop, seconds):
        self._tool = find()
        self._note = None if self._tool else "nvidia-smi is not in PATH"
        self._loop = loop
        self._seconds = max(1.0, seconds)
        self._rows = {}
        self._pids = {}
        self._began = self._heard = time.monotonic()
        self._children = []
        if self._tool:
            self._start()

    def latest(self, now):
        """`(gpus, note)` as last told; none, and a note, if nvidia-smi is silent."""
        patience = 3 * self._seconds + 5.0
        if self._tool and now - self._heard > patience:
            self._note = "nvidia-smi has told nothing for {:.0f} s".format(now - self._heard)
            self._rows = {}
            if now - self._began > _RESTART_AFTER:
                self.close()
                self._start()
        fresh = [self._with_pids(row) for _, row in sorted(self._rows.items())]
        return fresh, None if fresh else self._note or "nvidia-smi has not answered yet"

    def close(self):
        """End the children."""
        for child in self._children:
            child.close()
        self._children = []

    def _start(self):
        self._began = time.monotonic()
        every = b"--loop-ms=" + str(int(self._seconds * 1000)).encode("ascii")
        form = b"--format=csv,noheader,nounits"
        queries = (
            (b"--query-gpu=" + _FIELDS.encode("ascii"), self._hear_values),
            (b"--query-compute-apps=gpu_uuid,pid", self._hear_processes),
        )
        self._children = [
            _Child(self._loop, [self._tool, query, form, every], hear) for query, hear in queries
        ]

    def _hear_values(self, words):
        if len(words) != 8 or not words[0].isdigit():
            self._note = "nvidia-smi says: {}".format(", ".join(words)[:300])
            return
        self._heard = time.monotonic()
        self._note = None
        self._rows[int(words[0])] = {
            "index": int(words[0]),
            "uuid": words[1],
            "name": words[2],
            "util": real(words[3]),
            "mem_used_mib": whole(words[4]),
            "mem_total_mib": whole(words[5]),
            "temp_c": real(words[6]),
            "power_w": real(words[7]),
        }

    def _hear_processes(self, words):
        if len(words) == 2 and words[1].isdigit():
            self._pids[(words[0], int(words[1]))] = time.monotonic()

    def _with_pids(self, row):
        oldest = time.monotonic() - 2.5 * self._seconds
        self._pids = {key: heard for key, heard in self._pids.items() if heard > oldest}
        return dict(row, pids=sorted(pid for uuid, pid in self._pids if uuid == row["uuid"]))


class _Child:
    """One looping nvidia-smi."""

    def __init__(self, loop, argv, hear):
        self._loop = loop
        self._hear = hear
        self._rest = b""
        self._fd, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _become(argv, write)
        os.close(write)
        os.set_blocking(self._fd, False)
        loop.watch(self._fd, self._read)

    def _read(self):
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return
        if not data:
            self._let_go()
            return
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()[-4096:]
        for line in lines:
            words = [word.strip() for word in printable(line).split(",")]
            if words != [""]:
                self._hear(words)

    def _let_go(self):
        if self._fd is not None:
            self._loop.forget(self._fd)
            os.close(self._fd)
            self._fd = None

    def close(self):
        """End it; the session's loop reaps it."""
        self._let_go()
        try:
            os.kill(self._pid, signal.SIGKILL)
        except OSError:
            pass


def _become(argv, out):
    try:
        os.setsid()
        descriptors.point(os.open(os.devnull, os.O_RDONLY), 0)
        descriptors.point(out, 1, 2)
        descriptors.close_all_but(())
        signals.reset()
        replace(argv, dict(os.environb))
    except CannotRun as error:
        os.write(2, error.message.encode("utf-8", "replace") + b"\n")
    finally:
        os._exit(126)
