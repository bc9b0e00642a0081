"""From the run's folder to running ranks: setup lines, the wait for the other nodes, and the launch."""

import os
import signal
from functools import partial

from . import environment, execute, files, joining, launch, mpirun, processes
from .ending import RUNNING as NOT_ENDING
from .setup import SetupRun


class Starting:
    """A node's start.

    Attributes:
        launched: whether all that was to be started has been, or never will be.
    """

    def __init__(self, supervisor, base, secrets):
        """Prepare.

        Args:
            supervisor: the Supervisor.
            base: the node's environment (bytes), what is removed already left out.
            secrets: {NAME: value}, dropped once they are passed on.
        """
        self._supervisor = supervisor
        self._base = base
        self._secrets = secrets
        self._setup = None
        self.launched = False

    def begin(self):
        """Run the setup lines, if there are any."""
        supervisor = self._supervisor
        if not supervisor.plan["setup"]:
            self._ready(self._base)
            return
        marked = dict(self._base)
        marked.update(environment.marks(supervisor.plan, supervisor.folder.path))
        planned = supervisor.plan["processes"]
        self._setup = SetupRun(supervisor.plan["setup"], marked, planned[0]["cwd"] if planned else None)
        for fd in self._setup.fds:
            supervisor.loop.watch(fd, partial(self._read_setup, fd))

    def due(self):
        """When `tick` must be called at the latest (monotonic), or None."""
        return None if self._setup is None else self._setup.deadline()

    def tick(self, now):
        """End setup lines that take too long."""
        if self._setup is not None and now >= self._setup.deadline():
            self.signal(signal.SIGKILL)
            self._setup_ended(None)

    def child_ended(self, pid, status):
        """A child was reaped; whether it was the setup shell."""
        if self._setup is None or pid != self._setup.pid:
            return False
        killed = os.WIFSIGNALED(status)
        self._setup_ended(128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status))
        return True

    def signal(self, number):
        """Send a signal to running setup lines."""
        if self._setup is not None:
            try:
                os.killpg(self._setup.pid, number)
            except OSError:
                pass

    def is_through(self):
        """Whether nothing more will be started."""
        return self._setup is None and (self.launched or self._supervisor.ending.phase != NOT_ENDING)

    def launcher_settled(self, launcher):
        """Its pipe has ended: it was exec'ed. One that says why not ends at once, and is dealt with then."""
        self._supervisor.loop.forget(launcher.pipe)
        if launcher.settle():
            return
        self._supervisor.events.append(
            "launcher_started", process=launcher.process, pid=launcher.pid, start=launcher.start
        )

    # -- setup --------------------------------------------------------------------------------------------

    def _read_setup(self, fd):
        if not self._setup.read(fd):
            self._supervisor.loop.forget(fd)

    def _setup_ended(self, status):
        supervisor, setup = self._supervisor, self._setup
        self._setup = None
        for fd in setup.fds:
            supervisor.loop.forget(fd)
        base, failure = setup.ended(status)
        if supervisor.ending.phase != NOT_ENDING:
            supervisor.joining.close("the run is ending")
            supervisor.roster.none_started()
        elif failure is None:
            self._ready(base)
        else:
            self.launched = True
            supervisor.events.append("setup_failed", **failure)
            supervisor.joining.close("setup failed on this node: {}".format(failure["line"]))
            supervisor.roster.none_started()

    # -- the launch ---------------------------------------------------------------------------------------

    def _ready(self, base):
        """Wait for the other nodes, unless this one has nothing that they should wait for.

        One whose programs can't be found fails now, in the words of any start that fails.
        """
        if all(execute.is_found(words, cwd, env) for words, cwd, env in self._programs(base)):
            self._supervisor.together.ready(partial(self._launch, base))
        else:
            self._launch(base)

    def _programs(self, base):
        plan, path = self._supervisor.plan, self._supervisor.folder.path
        for process in plan["processes"]:
            if not mpirun.is_joined(process):
                env = environment.for_process(base, plan, process, {}, path)
                words = execute.words(process["launcher"] or process["program"], env)
                yield files.named(self._supervisor.folder, words), process["cwd"], env

    def _launch(self, base):
        supervisor = self._supervisor
        plan, path = supervisor.plan, supervisor.folder.path
        self.launched = True
        if joining.is_needed(plan):
            supervisor.joining.open(joining.environment_of_ranks(base, plan, self._secrets, path))
        for index, process in enumerate(plan["processes"]):
            if mpirun.is_joined(process):
                continue
            secrets = {} if mpirun.is_mpirun(process) else self._secrets
            env = environment.for_process(base, plan, process, secrets, path)
            if process["launcher"]:
                self._start_launcher(supervisor.roster.launchers[index], env)
            else:
                self._start_shim(supervisor.roster.ranks[process["ranks"][0]], env)
        self._secrets = {}
        if supervisor.ending.phase == NOT_ENDING:
            supervisor.write_state("running")

    def _start_shim(self, rank, env):
        supervisor = self._supervisor
        try:
            rank.shim_pid = launch.fork_shim(supervisor.folder, supervisor.plan, rank.process, env)
        except OSError as error:
            supervisor.roster.shim_not_forked(rank, "no process for it: {}".format(error.strerror))
            return
        rank.shim_start = processes.start_of(rank.shim_pid)

    def _start_launcher(self, launcher, env):
        supervisor = self._supervisor
        try:
            launcher.pid, launcher.pipe = launch.fork_launcher(
                supervisor.folder, supervisor.plan, launcher.process, env
            )
        except OSError as error:
            message = "no process for it: {}".format(error.strerror)
            supervisor.roster.start_failed(None, launcher.process, message)
            supervisor.roster.launcher_ended(launcher, 126, None, message)
            return
        launcher.start = processes.start_of(launcher.pid)
        supervisor.loop.watch(launcher.pipe, partial(self.launcher_settled, launcher))
