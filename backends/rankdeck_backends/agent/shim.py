"""The rank shim: opens a rank's logs, runs its program, passes signals on and puts its exit on disk.

The program writes straight into its files. The shim outlives the supervisor, and the other way round.
"""

import os
import signal
import sys
import time
from collections import namedtuple

from . import (
    control,
    descriptors,
    environment,
    execute,
    mpirun,
    placeholders,
    processes,
    seats,
    signals,
    witness,
)
from .encoding import printable, raw
from .execute import CannotRun
from .relay import FORWARDED, RELAY_GONE, end_like, signal_at_parents_end
from .run_folder import RunFolder, log_file, log_stem, read_json, write_json

_ONCE_WITHIN = 5.0
"""Seconds in which the same signal is passed on once: at a stop both supervisor and launcher send it."""
_TELL_LIMIT = 5.0


Place = namedtuple("Place", "process rank local_rank attempt may_restart")
"""Who a shim's rank is: its process's index in the node's plan, its numbers, and see `seats` for the rest."""
Place.__new__.__defaults__ = (0, False)


class Shim:
    """One rank's shim.

    Args of the constructor:
        folder: the RunFolder.
        plan: the node's plan.
        place: the rank's Place.
        env: the program's environment (bytes).
        launched: whether a launcher started this shim.
        kept: descriptors that the program inherits beside its streams.
        relayed: whether a relay stands between the launcher and this shim, which outlives it.
    """

    def __init__(self, folder, plan, place, env, launched, kept=(), relayed=False):
        self._folder = folder
        self._plan = plan
        self._place = place
        self._log = log_stem(place.rank, place.attempt)
        self._env = env
        self._launched = launched
        self._kept = tuple(kept)
        self._relayed = relayed
        self._pid = 0
        self._passed = {}

    def run(self, program):
        """Run the program to its end, if it has a place in the run; returns its wait status."""
        refusal = self._count()
        if refusal:
            sys.stderr.write("rankdeck: {}\n".format(refusal))
            sys.stderr.flush()
            return execute.NOT_RUN << 8
        handled = FORWARDED + (RELAY_GONE,) if self._relayed else FORWARDED
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)
        out, degraded = self._open_logs()
        read, write = os.pipe()
        shim = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(program, out, write, shim)
        os.close(write)
        for fd in set(out).union(self._kept):
            os.close(fd)
        for number in FORWARDED:
            signal.signal(number, self._forward)
        if self._relayed:
            signal.signal(RELAY_GONE, self._left_alone)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        trouble = _read_all(read)
        if trouble:
            status = self._wait()
            self._not_started(trouble.decode("utf-8", "replace"), status)
            return status
        self._started(degraded)
        status = self._wait()
        self._ended(status)
        return status

    def _count(self):
        """Take part in the census; returns why this rank may not run, empty if it may."""
        described = self._plan["processes"][self._place.process]
        size = None
        if self._launched and not self._relayed:  # to a relay's shim its mpirun's word was taken before
            name = (described.get("rank_from") or {}).get("world_size") or "WORLD_SIZE"
            size = self._env.get(raw(name), b"")
        devices = self._env.get(b"CUDA_VISIBLE_DEVICES")
        if self._env.get(b"RANKDECK_COMM_BACKEND") == b"gloo":
            devices = b""
        message = self._who(
            op="census",
            shim_pid=os.getpid(),
            shim_start=processes.start_of(os.getpid()),
            world_size=int(size) if size and size.isdigit() else None,
            devices=None if devices is None else printable(devices),
        )
        try:
            return control.tell(self._folder.socket, message, _TELL_LIMIT).get("message", "")
        except OSError:
            return ""  # it was killed: that is no reason to end its ranks

    def _open_logs(self):
        """The descriptors for stdout and stderr, and what could not be had."""
        where = self._folder.log_dir(self._plan)
        opened, degraded = [], []
        for stream in ("out", "err"):
            path = os.path.join(where, log_file("{}.{}".format(self._log, stream)))
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except OSError as error:
                # The rank matters more than its output: hours of other ranks' work hang on it.
                degraded.append(
                    "{}: {}; this output is lost".format(path.decode("utf-8", "replace"), error.strerror)
                )
                fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            opened.append(fd)
        return opened, degraded

    def _become(self, program, out, trouble, parent):
        """The child: becomes the program, or says why not."""
        try:
            os.setsid()
            if self._launched:
                # A launcher that kills its worker (us) with SIGKILL must leave no program behind.
                signal_at_parents_end(signal.SIGKILL, parent)
            descriptors.point(os.open(os.devnull, os.O_RDONLY), 0)
            descriptors.point(out[0], 1)
            descriptors.point(out[1], 2)
            descriptors.close_all_but((trouble,) + self._kept)
            os.set_inheritable(trouble, False)
            signals.reset()
            execute.enter(mpirun.rank_cwd(self._plan, self._place.process), self._env)
            execute.replace(program, self._env)
        except CannotRun as error:
            _write(trouble, raw(error.message))
            os._exit(error.status)
        except Exception as error:  # noqa: BLE001 - a process's boundary
            _write(trouble, raw("{}: {}".format(type(error).__name__, error)))
        finally:
            os._exit(execute.NOT_RUN)

    def _forward(self, number, frame):
        now = time.monotonic()
        if self._launched and now - self._passed.get(number, -_ONCE_WITHIN) < _ONCE_WITHIN:
            return
        self._passed[number] = now
        try:
            os.killpg(self._pid, number)
        except OSError:
            pass

    def _left_alone(self, number, frame):
        """The relay was killed, so the run ends: the program still has the plan's grace."""
        stop = self._plan["stop"]
        self._forward(signals.number(stop["signal"]), frame)
        signal.signal(signal.SIGALRM, self._kill)
        signal.setitimer(signal.ITIMER_REAL, max(stop["grace"], 0.001))
        self._tell({"op": "launcher_lost", "rank": self._place.rank})

    def _kill(self, number, frame):
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except OSError:
            pass

    def _wait(self):
        return os.waitpid(self._pid, 0)[1]

    def _started(self, degraded):
        record = self._who(
            pid=self._pid,
            start=processes.start_of(self._pid),
            shim_pid=os.getpid(),
            shim_start=processes.start_of(os.getpid()),
            boot=processes.boot_id(),
            memory=witness.memory_events(),
            host=os.uname().nodename,
            t=round(time.time(), 6),
        )
        degraded += _try_write(self._folder.rank_file(self._log, "start"), record)
        self._tell(dict(record, op="started", degraded=degraded))

    def _who(self, **more):
        place = self._place
        found = {"rank": place.rank, "local_rank": place.local_rank, "process": place.process}
        if place.attempt:
            found.update(attempt=place.attempt, may_restart=place.may_restart)
        found.update(more)
        return found

    def _not_started(self, message, status):
        self._end("start_failed", status, message=message)

    def _ended(self, status):
        self._end("ended", status)

    def _end(self, op, status, **more):
        record = exit_record(self._place.rank, status, time.time())
        degraded = _try_write(self._folder.rank_file(self._log, "exit"), record)
        self._tell(dict(self._who(**record), op=op, degraded=degraded, **more))

    def _tell(self, message):
        """Tell the supervisor; if it is gone the files say the same to the next one."""
        try:
            control.tell(self._folder.socket, message, _TELL_LIMIT)
        except OSError:
            pass


def exit_record(rank, status, when):
    """A wait status as it is recorded: a signal's name and no exit code, or the exit code."""
    killed = os.WIFSIGNALED(status)
    return {
        "rank": rank,
        "exit_code": None if killed else os.WEXITSTATUS(status),
        "signal": signals.name(os.WTERMSIG(status)) if killed else None,
        "t": round(when, 6),
    }


def under_supervisor(folder, plan, process, base):
    """The forked shim of a process that is one rank: never returns.

    Args:
        folder: the RunFolder.
        plan: the node's plan.
        process: the process's index.
        base: the process's whole environment (bytes).
    """
    try:
        os.setsid()
        descriptors.close_all_but(())
        described = plan["processes"][process]
        rank, local_rank = described["ranks"][0], described["local_ranks"][0]
        shim = Shim(folder, plan, Place(process, rank, local_rank), base, False)
        status = shim.run(program_words(plan, process, rank, local_rank, base))
        end_like(status)
    except Exception:  # noqa: BLE001 - a process's boundary
        import traceback

        os.write(2, raw(traceback.format_exc()))
    finally:
        os._exit(execute.NOT_RUN)


def under_launcher(arguments):
    """`shim DIR PROCESS -- PROGRAM...`, started by a launcher; ends as the program ended."""
    if len(arguments) < 4 or arguments[2] != "--" or not arguments[1].isdigit():
        sys.stderr.write("rankdeck shim: found {}; allowed: DIR PROCESS -- PROGRAM...\n".format(arguments))
        return execute.NOT_RUN
    folder = RunFolder(os.fsencode(arguments[0]))
    process = int(arguments[1])
    program = [os.fsencode(word) for word in arguments[3:]]
    plan = read_json(folder.plan)
    if plan is None:
        sys.stderr.write("rankdeck shim: {}: no plan is there\n".format(arguments[0]))
        return execute.NOT_RUN
    env = environment.inherited()
    described = plan["processes"][process]
    try:
        rank, local_rank = _who(described, env)
    except ValueError as error:
        sys.stderr.write("rankdeck shim: {}\n".format(error))
        return execute.NOT_RUN
    program = program_words(plan, process, rank, local_rank, env, program)
    descriptors.close_all_but(())
    attempt, again = seats.attempt_of(folder, described, env), seats.may_restart(described, env)
    end_like(Shim(folder, plan, Place(process, rank, local_rank, attempt, again), env, True).run(program))
    return execute.NOT_RUN


def _who(described, env):
    """`(rank, local rank)` as the launcher's variables say.

    Raises:
        ValueError: they do not say.
    """
    source = described.get("rank_from") or {}
    names = [source.get("rank") or "RANK", source.get("local_rank") or "LOCAL_RANK"]
    found = [env.get(raw(name)) for name in names]
    if None in found or not all(value.isdigit() for value in found):
        shown = ", ".join(
            "{}={}".format(name, "(not set)" if value is None else printable(value))
            for name, value in zip(names, found)  # noqa: B905
        )
        raise ValueError(
            "the launcher does not tell its ranks who they are: {}; it starts them, as it seems, as programs "
            "on their own".format(shown)
        )
    return int(found[0]), int(found[1])


def program_words(plan, process, rank, local_rank, env, words=None):
    """The rank's program as it is run.

    Args:
        plan: the node's plan.
        process: the process's index in it.
        rank: the rank's number.
        local_rank: its number on its node.
        env: its environment (bytes).
        words: the program as the launcher gives it (bytes); the plan's if None.
    """
    described = plan["processes"][process]
    words = [raw(word) for word in described["program"]] if words is None else words
    program = [execute.at_home(word, env) for word in words]
    if not described["fill"]:
        return program
    values = {
        b"RANK": rank,
        b"LOCAL_RANK": local_rank,
        b"WORLD_SIZE": plan["world_size"],
        b"NODE_RANK": plan["node_rank"],
    }
    if described["launcher"] or mpirun.is_joined(described):
        values[b"LOCAL_WORLD_SIZE"] = len(described["local_ranks"])
    filled = {name: str(value).encode("ascii") for name, value in values.items()}
    filled.update((name, env[name]) for name in placeholders.NAMES if name in env)
    return placeholders.fill(program, filled)


def _try_write(path, record):
    try:
        write_json(path, record)
    except OSError as error:
        return ["{}: {}".format(path.decode("utf-8", "replace"), error.strerror)]
    return []


def _read_all(fd):
    data = b""
    while True:
        part = os.read(fd, 65536)
        if not part:
            os.close(fd)
            return data
        data += part


def _write(fd, data):
    try:
        os.write(fd, data)
    except OSError:
        pass
