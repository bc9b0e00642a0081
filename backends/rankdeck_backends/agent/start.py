"""`start`: lays out the run's folder and forks its supervisor, detached from everything that could end it."""

import os
import signal
import socket
import sys
import time

from . import descriptors, environment, files, mpirun, processes, signals, staying
from .encoding import raw, text
from .errors import AgentError
from .requests import field
from .run_folder import locate, read_json, write_json
from .supervisor import Supervisor

READY_LIMIT = 20.0
"""Seconds for a supervisor to write its state file."""


def answer(request, send):
    """`start`: replies `dir`, the supervisor's `pid` and, on a head node, the `port` for links to it.

    Asked again for the same plan it replies the same.
    """
    plan = field(request, "plan", dict)
    check_plan(plan)
    secrets = field(request, "secrets", dict, {})
    wanted = field(request, "dir", str, "") or default_dir(request["folder"], plan)
    folder = locate(wanted)
    lay_out(folder, plan)
    known = read_json(folder.plan)
    if known is not None:
        return again(folder, plan, known), b""
    if plan.get("links"):
        write_json(folder.link, _link_of(request))
    files.write(folder, plan)
    mpirun.write_join(folder, plan)
    write_json(folder.plan, plan)
    return _started(folder, detach(folder, plan, secrets, False)), b""


def _started(folder, pid):
    port = (read_json(folder.link) or {}).get("port")
    return {"dir": text(folder.path), "pid": pid, "port": port}


def _link_of(request):
    """What a supervisor must know to be linked; the address as a number: it never asks a name service."""
    link = dict(field(request, "link", dict), op="start: link")
    address, port = field(link, "address", str), field(link, "port", int, 0)
    if port:
        try:
            address = socket.getaddrinfo(address, port, 0, socket.SOCK_STREAM)[0][4][0]
        except (OSError, UnicodeError) as error:
            raise AgentError("system", "the head node's address {}: {}".format(address, error))
    return {"secret": field(link, "secret", str), "address": address, "port": port}


def resume(request, send):
    """Start a supervisor for a run whose own has died; replies its pid, or that of the one that lives."""
    folder = locate(field(request, "dir", str))
    return {"pid": revive(folder)}, b""


def revive(folder):
    """A living supervisor for a run that needs one; returns its pid, 0 if the run has ended.

    Raises:
        AgentError: no run is there, or no supervisor comes up.
    """
    plan = read_json(folder.plan)
    if plan is None:
        raise AgentError("missing", "{}: no run is there".format(text(folder.path)))
    state = read_json(folder.state) or {}
    if state.get("ended"):
        return 0
    if is_supervised(state):
        return state["pid"]
    return detach(folder, plan, {}, True)


def resume_by_hand(path):
    """`supervise DIR`: what a person may run on a node; returns the exit status."""
    try:
        pid = revive(locate(text(os.fsencode(path))))
    except AgentError as error:
        sys.stderr.write("rankdeck agent: {}\n".format(error.message))
        return 1
    sys.stdout.write("the run has ended\n" if pid == 0 else "supervisor {}\n".format(pid))
    return 0


def is_supervised(state):
    """Whether the supervisor that wrote this state file lives."""
    return processes.is_alive(state.get("pid", 0), state.get("start", 0), state.get("boot", ""))


def default_dir(node_folder, plan):
    """`<node folder>/runs/<run>/<node rank>`."""
    return os.path.join(text(os.fsencode(node_folder)), "runs", str(plan["run"]), str(plan["node_rank"]))


def check_plan(plan):
    """Refuse a plan that lacks what the supervisor relies on."""
    where = dict(plan, op="start: plan")
    field(where, "run", str)
    field(where, "node_rank", int)
    field(where, "world_size", int)
    if not plan["run"] or "/" in plan["run"] or plan["run"].startswith("."):
        raise AgentError("bad_request", "start: run {!r}: it names a folder".format(plan["run"]))
    links = field(where, "links", dict, {})
    if links:
        links = dict(links, op="start: plan: links")
        nodes = field(links, "nodes", list)
        field(links, "barrier", float)
        field(links, "lost", float)
        field(links, "served", list)
        if not 0 <= plan["node_rank"] < len(nodes):
            raise AgentError(
                "bad_request",
                "start: node_rank is {}; allowed: 0 to {}, as links names {} nodes".format(
                    plan["node_rank"], len(nodes) - 1, len(nodes)
                ),
            )
    plan.setdefault("log_dir", None)
    plan.setdefault("remove", [])
    plan.setdefault("setup", [])
    stop = plan.setdefault("stop", {})
    stop.setdefault("signal", "TERM")
    stop.setdefault("grace", 60.0)
    stop.setdefault("on_rank_failure", "stop")
    try:
        signals.number(stop["signal"])
    except ValueError as error:
        raise AgentError("bad_request", "start: plan: stop: {}".format(error))
    stop["grace"] = field(dict(stop, op="start: plan: stop"), "grace", float)
    for process in field(where, "processes", list):
        inner = dict(process, op="start: process")
        for name, kind in (("ranks", list), ("local_ranks", list), ("program", list), ("env", dict)):
            field(inner, name, kind)
        process.setdefault("launcher", [])
        process.setdefault("cwd", "~")
        process.setdefault("fill", False)
        files.check(process)
        ends = field(inner, "ends_with", dict, {})
        if ends:
            field(dict(ends, op="start: ends_with"), "ranks", list)
        if not process["launcher"] and len(process["ranks"]) != 1:
            raise AgentError(
                "bad_request",
                "start: a process without launcher is one rank; found ranks {}".format(process["ranks"]),
            )
        if len(process["ranks"]) != len(process["local_ranks"]):
            raise AgentError("bad_request", "start: ranks and local_ranks differ in number")
    mpirun.settle(plan)


def lay_out(folder, plan):
    """Make the folders, private, and put the agent's zip beside them."""
    try:
        os.makedirs(os.path.dirname(folder.path), mode=0o700, exist_ok=True)
        for path in (folder.path, folder.ranks):
            make_private(path)
        os.makedirs(folder.log_dir(plan), mode=0o700, exist_ok=True)
        keep_archive(folder)
    except OSError as error:
        raise AgentError(
            "folder",
            "{}: {}".format(
                text(error.filename) if isinstance(error.filename, bytes) else error.filename, error.strerror
            ),
            "free some space, or set RANKDECK_NODE_DIR on the node to a folder that you can write",
        )


def make_private(path):
    """A folder that is ours, 0700."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if os.lstat(path).st_uid != os.getuid():
            raise PermissionError(1, "belongs to another user", path)


def keep_archive(folder):
    """The run keeps the zip that started it: an agent of another version may replace the node's own."""
    source = os.fsencode(sys.path[0])
    if os.path.exists(folder.archive):
        return
    try:
        os.link(source, folder.archive)
    except OSError:
        with open(source, "rb") as read, open(folder.archive, "wb") as write:
            write.write(read.read())


def again(folder, plan, known):
    """The answer to a `start` that was heard before."""
    if known != plan:
        raise AgentError("exists", "{}: another run's plan is there".format(text(folder.path)))
    deadline = time.monotonic() + READY_LIMIT
    while time.monotonic() < deadline:
        state = read_json(folder.state)
        if state is not None:
            return _started(folder, state["pid"])
        time.sleep(0.05)
    raise AgentError("supervisor", "{}: its supervisor has not come up".format(text(folder.path)))


def detach(folder, plan, secrets, resumed):
    """Fork a supervisor that no terminal, channel or parent can end; returns its pid once it has come up."""
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.close(read)
                _supervise(folder, plan, secrets, resumed, write)
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(middle, 0)
    with os.fdopen(read, "rb") as ready:
        said = ready.read()
    if not said.isdigit():
        raise AgentError(
            "supervisor",
            "{}: its supervisor did not come up: {}".format(
                text(folder.path), said.decode("utf-8", "replace") or "no word"
            ),
            "see {}".format(text(folder.trouble)),
        )
    return int(said)


def _supervise(folder, plan, secrets, resumed, ready):
    """The supervisor process itself: never returns."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
            signal.signal(ignored, signal.SIG_IGN)
        os.chdir("/")
        descriptors.restore_limit()
        trouble = os.open(folder.trouble, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        descriptors.point(os.open(os.devnull, os.O_RDWR), 0, 1)
        descriptors.point(trouble, 2)
        descriptors.close_all_but((ready,))
        base = environment.without(environment.inherited(), plan["remove"])
        supervisor = Supervisor(folder, plan, base, secrets, staying.leave_session(plan["run"]))
        supervisor.run(resumed, ready)
        os._exit(0)
    except Exception:  # noqa: BLE001 - a process's boundary
        import traceback

        os.write(2, raw(traceback.format_exc()))
        try:
            os.write(ready, raw(traceback.format_exc(limit=-1)))
        except OSError:
            pass
    finally:
        os._exit(1)
