"""The scripts that `rankdeck plan --format sh` prints, run by plain ssh on all nodes at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from whole.site import LIMIT, Site


def run_scripts(
    site: Site, profile: str, *, start: str = "", limit: float = LIMIT
) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """Writes the scripts of a profile, and runs each on its node.

    Args:
        site: whose profile it is.
        profile: its name.
        start: shell text that each script's path is put behind, such as `dash`.
        limit: seconds for each node.

    Returns:
        Node -> how its script ended.
    """
    folder = site.cluster.shared / "scripts" / site.shell.folder.name
    printed = site.shell("plan", profile, "--format", "sh", "--out", str(folder)).stdout.split()
    scripts = {Path(path).stem: path for path in printed}
    assert scripts, "no script was written"
    ssh = ["ssh", "-F", str(site.cluster.ssh_config)]
    started = {
        node: subprocess.Popen(
            [*ssh, node, f"{start} {path}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for node, path in scripts.items()
    }
    ended = {}
    try:
        for node, process in started.items():
            out, err = process.communicate(timeout=limit)
            ended[node] = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    finally:
        for process in started.values():
            process.kill()
            process.communicate()
    return ended
