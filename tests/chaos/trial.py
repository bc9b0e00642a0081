"""One run within the chaos: how it is meant to live, what befell it, and what its ranks say of themselves."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import rank as program
from chaos.sight import Seen, of_run
from cli.user import COMMAND
from whole.site import Site


@dataclass(frozen=True)
class Shape:
    """What a run is meant to be."""

    tag: str
    """Its mark in the environment of all that its ranks start, and its profile's name."""
    nodes: tuple[str, ...]
    per_node: int
    seconds: float
    """How long ranks live; 0: until somebody stops them."""
    fail_rank: int
    """The rank that ends with status 7; -1: none."""
    term: str
    worker: str
    grace: float
    client: str
    """``detach``, ``follow`` (`rankdeck run` stays) or ``screen`` (`rankdeck attach`, once it runs)."""
    keep: bool
    """Whether a rank's failure leaves the others alone."""

    @property
    def world(self) -> int:
        return len(self.nodes) * self.per_node

    def node_of(self, rank: int) -> str:
        return self.nodes[rank // self.per_node]

    @classmethod
    def draw(cls, dice: random.Random, tag: str, nodes: list[str], neighbour: bool = False) -> Shape:
        """A random one."""
        kind = "endless" if neighbour else dice.choice(("short", "short", "endless", "failing"))
        chosen = tuple(dice.sample(nodes, dice.randint(2, len(nodes))))
        per_node = dice.randint(1, 2)
        return cls(
            tag=tag,
            nodes=chosen,
            per_node=per_node,
            seconds=0.0 if kind == "endless" else dice.uniform(3, 12),
            fail_rank=dice.randrange(len(chosen) * per_node) if kind == "failing" else -1,
            term=dice.choice(("exit", "exit", "finish", "ignore")),
            worker=dice.choice(("none", "none", "plain", "stubborn")),
            grace=dice.choice((0.5, 2, 4)),
            client=dice.choice(("detach", "detach", "follow", "follow", "screen")),
            keep=dice.random() < 0.2,
        )


@dataclass(frozen=True)
class Hit:
    """Something that was done to a run, or to a node while it was there."""

    at: float
    kind: str
    node: str = ""
    rank: int | None = None


@dataclass
class Trial:
    """A run, from its launch to its end."""

    shape: Shape
    site: Site
    folder: Path
    hits: list[Hit] = field(default_factory=list)
    launch: subprocess.Popen[bytes] | None = None
    screen: subprocess.Popen[bytes] | None = None
    screen_terminal: int = -1
    stops: list[subprocess.Popen[bytes]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def make(cls, shape: Shape, site: Site) -> Trial:
        """Saves its profile; nothing is started."""
        trial = cls(shape, site, site.copies / shape.tag)
        trial.folder.mkdir(parents=True)
        words = ["--seconds", f"{shape.seconds:.1f}", "--fail-rank", str(shape.fail_rank)]
        site.save(
            shape.tag,
            Path(program.__file__),
            str(trial.folder),
            *words,
            "--term",
            shape.term,
            "--worker",
            shape.worker,
            procs_per_node=shape.per_node,
            python="/usr/bin/python3",
            barrier_timeout="40s",
            stop={"grace": f"{shape.grace}s", "on_rank_failure": "keep" if shape.keep else "stop"},
            env={"CHAOS": shape.tag},
        )
        return trial

    # -- the login side --

    def start(self) -> None:
        """Types `rankdeck run`."""
        detach = [] if self.shape.client == "follow" else ["--detach"]
        chosen = ",".join(self.shape.nodes)
        self.launch = self.type("run", self.shape.tag, "--nodes", chosen, "--skip-checks", *detach)

    def open_screen(self) -> None:
        """Types `rankdeck attach`, on a terminal that nobody looks at."""
        ours, theirs = pty.openpty()
        environment = {**self.site.shell.environment, "TERM": "xterm-256color"}
        self.screen = subprocess.Popen(
            [COMMAND, "attach", self.id or ""],
            cwd=self.site.shell.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.set_blocking(ours, False)
        self.screen_terminal = ours

    def drain(self) -> None:
        """Takes what the screen has painted."""
        if self.screen_terminal >= 0:
            try:
                while os.read(self.screen_terminal, 65536):
                    pass
            except OSError:
                return

    def close_screen(self) -> None:
        """Ends the screen, if it is still there."""
        if self.screen is not None:
            if self.screen.poll() is None:
                self.screen.kill()
            self.screen.wait(20)
            os.close(self.screen_terminal)
            self.screen, self.screen_terminal = None, -1

    def type(self, *words: str) -> subprocess.Popen[bytes]:
        """Types a command whose output goes to a file."""
        place = self.site.shell.folder / f"{self.shape.tag}.{words[0]}"
        with place.open("ab") as file:
            return subprocess.Popen(
                [COMMAND, *words],
                cwd=self.site.shell.folder, env=self.site.shell.environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip

    def all_said(self, command: str) -> str:
        """What the commands of this name wrote."""
        place = self.site.shell.folder / f"{self.shape.tag}.{command}"
        return place.read_text(errors="replace") if place.exists() else ""

    def said(self, command: str) -> str:
        """The end of that."""
        return self.all_said(command)[-1500:]

    @property
    def record(self) -> Path | None:
        """Its record's folder."""
        runs = Path(self.site.shell.environment["RANKDECK_HOME"]) / "runs"
        for place in sorted(runs.glob("*/run.toml")) if runs.exists() else ():
            if f'"{self.shape.tag}"' in place.read_text(errors="replace"):
                return place.parent
        return None

    @property
    def id(self) -> str | None:
        """The run's id, once it is recorded."""
        return self.record.name if self.record else None

    @property
    def launching(self) -> bool:
        """Whether `rankdeck run` still runs."""
        return self.launch is not None and self.launch.poll() is None

    # -- what was done to it --

    def hit(self, at: float, kind: str, node: str = "", rank: int | None = None) -> None:
        """Notes it."""
        self.hits.append(Hit(at, kind, node, rank))

    def was_hit(self, *kinds: str, node: str | None = None, rank: int | None = None) -> bool:
        """Whether one of these was done to it, there."""
        return any(
            hit.kind in kinds and node in (None, hit.node) and rank in (None, hit.rank) for hit in self.hits
        )

    @property
    def asked_to_stop(self) -> bool:
        return self.was_hit("stop", "interrupt", "force")

    # -- what its ranks say --

    def began(self, rank: int) -> bool:
        return (self.folder / f"{rank}.began").exists()

    def end(self, rank: int) -> tuple[int, str] | None:
        """Status and why (``own``, ``term``) as the rank noted it; None: it was ended before it could."""
        place = self.folder / f"{rank}.end"
        if not place.exists():
            return None
        status, why = place.read_text().split()
        return int(status), why

    def copy(self, rank: int, stream: str) -> bytes:
        return (self.folder / f"{rank}.{stream}").read_bytes()

    def under_way(self, rank: int, stream: str) -> bytes:
        """The piece that it was writing last to this stream, or nothing."""
        place = self.folder / f"{rank}.doing"
        words = place.read_text().split() if place.exists() else []
        return program.piece(rank, stream, int(words[1])) if words[:1] == [stream] else b""

    def refused(self, rank: int) -> str:
        """What a full disk did not take of its output, as it says."""
        place = self.folder / f"{rank}.refused"
        return place.read_text() if place.exists() else ""

    def alive(self) -> list[Seen]:
        """Its processes on all nodes."""
        return [each for node in self.site.cluster.nodes for each in of_run(node, self.shape.tag)]

    # -- the end --

    def ask(self) -> None:
        """`rankdeck show --json` into `shown`."""
        done = self.site.shell("show", self.id or "", "--json", status=None)
        self.shown = (
            json.loads(done.stdout) if done.returncode == 0 else {"state": f"show: {done.stderr[-500:]}"}
        )

    @property
    def over(self) -> bool:
        """Whether rankdeck calls it ended, and its record complete."""
        return bool(self.shown.get("complete")) and self.shown["state"] in TERMINAL

    def leave(self) -> None:
        """Ends what was typed for it."""
        for process in [self.launch, *self.stops]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)
        self.close_screen()


TERMINAL = {"succeeded", "failed", "stopped", "unknown"}


def now() -> float:
    """Seconds on the machine's own monotonic clock."""
    return time.monotonic()
