"""Draws the pictures for the documentation from real runs: ``python -m whole.screenshots DIR`` in tests/.

Makes dashboard.png and dashboard-80x24.png (the demo, while it trains), home.png and composer.png, and
cluster.png (eight ranks on four nodes). Takes some minutes; needs what the test cluster needs, tmux, torch,
and the fonts of the package fonts-dejavu-core.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cluster
import terminal
from cli.user import COMMAND, Shell, environment
from cluster import Cluster
from cluster.files import USER
from whole.deck import SHOTS, Deck
from whole.site import DDP, RING, TRAINING_LIMIT, Site

TRAINING = re.compile(r"epoch [3-9] step \d+ loss")
WATCHED = ["--steps", "120", "--step-sleep", "0.2"]


@contextmanager
def user(name: str) -> Iterator[Path]:
    """A folder for a user's files, short and telling, for it is seen in the pictures; removed at the end.

    Raises:
        FileExistsError: it is there: another one draws at the same time.
    """
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def draw_demo() -> None:
    """The demo's dashboard, in a large and in a small window."""
    with user("demo") as folder:
        (folder / "home").mkdir()
        shell = Shell(folder, environment(folder))
        try:
            for columns, rows, words, name in (
                (120, 40, ["demo"], "dashboard"),
                (80, 24, ["attach", "last"], "dashboard-80x24"),
            ):
                with terminal.Tmux(columns, rows, env=shell.environment, cwd=folder) as window:
                    deck = Deck(window)
                    window.start([str(COMMAND), *words])
                    deck.see(TRAINING, TRAINING_LIMIT)
                    deck.see("2 links up")
                    deck.shot(name)
                    deck.quit()
            shell("stop", "last", "--force")
        finally:
            shell.end()


def draw_cluster() -> None:
    """Home, composer, and the dashboard of a run on four nodes."""
    with Cluster(4) as made, user("deck") as folder:
        site = Site.make(folder, made)
        try:
            furnish(site)
            for name in ("smoke", "diverging", "smoke"):
                site.follow("run", name)
            with Deck.opened(site) as deck:
                deck.compose("resnet", shot="composer")
                deck.launch()
                deck.see(TRAINING, TRAINING_LIMIT)
                deck.shot("cluster")
                deck.back_home()
                time.sleep(3)  # longer than between two looks at the files
                deck.shot("home")
                deck.quit()
            site.shell("stop", "last", "--force")
        finally:
            site.shell.end()


def furnish(site: Site) -> None:
    """Gives the user scripts and a Python in the home that all nodes share, profiles, and pools."""
    home = site.cluster.shared / USER
    work, python = home / "work", home / "venv/bin/python"
    work.mkdir()
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for script, name in ((DDP, "train.py"), (DDP, "finetune.py"), (RING, "smoke.py")):
        shutil.copy(script, work / name)
    keys: dict[str, object] = {"workdir": "~/work", "python": "~/venv/bin/python"}
    torchrun = {**keys, "framework": "torchrun"}
    site.save("resnet", "train.py", *WATCHED, **torchrun, env={"NCCL_DEBUG": "INFO"})
    site.save("finetune", "finetune.py", "--steps", "20", **torchrun)
    site.save("smoke", "smoke.py", "--steps", "20", "--sleep", "0.05", **keys)
    site.save("diverging", "smoke.py", "--steps", "20", "--fail-rank", "5", "--fail-at", "7", **keys)
    site.shell.write("config/pools/lab.toml", f'backend = "ssh"\nnodes = ["{USER}@n[1-4]"]\nslots = 2\n')
    site.shell.save_pool("laptop")


def main() -> int:
    """Draws all pictures into the folder that is named."""
    parser = argparse.ArgumentParser(description="Draws the pictures for the documentation.")
    parser.add_argument("folder", type=Path, help="where the PNG files are written")
    os.environ[SHOTS] = str(parser.parse_args().folder.resolve())
    for reason in (terminal.missing(), cluster.missing()):
        if reason:
            print(f"no pictures can be drawn: {reason}", file=sys.stderr)
            return 1
    draw_demo()
    draw_cluster()
    return 0


if __name__ == "__main__":
    sys.exit(main())
