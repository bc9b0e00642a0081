"""The cluster by hand: ``python -m cluster --help``, from the folder ``tests``, as root."""

from __future__ import annotations

import argparse
import os
import sys

from cluster import Cluster, ClusterError, NodeOptions, missing, sweep
from cluster.cluster import running
from cluster.faults import FAULTS

EPILOG = "faults: " + "; ".join(
    f"{name}: {(fault.strike.__doc__ or '').splitlines()[0]}" for name, fault in FAULTS.items()
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m cluster", description="A test cluster on this machine.", epilog=EPILOG
    )
    top.add_argument("--number", type=int, help="which cluster, if several are up")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make a cluster that stays until 'down'")
    up.add_argument("count", type=int)
    up.add_argument(
        "options", nargs="*", metavar="NODE:OPTION,...", help="e.g. n3:noise n4:shell=/usr/bin/fish,slow=2"
    )
    down = commands.add_parser("down", help="take a cluster down")
    down.add_argument("which", type=int, nargs="?")
    commands.add_parser("sweep", help="take down what dead processes left")
    commands.add_parser("status", help="nodes and their state")
    run = commands.add_parser("run", help="run a command in a node, not by SSH")
    run.add_argument("node")
    run.add_argument("argv", nargs=argparse.REMAINDER)
    ssh = commands.add_parser("ssh", help="ssh to a node")
    ssh.add_argument("node")
    ssh.add_argument("argv", nargs=argparse.REMAINDER)
    for name, text in (("fault", "strike a node"), ("heal", "take a fault back")):
        fault = commands.add_parser(name, help=text)
        fault.add_argument("kind", choices=FAULTS)
        fault.add_argument("node")
    commands.choices["fault"].add_argument(
        "details", nargs="*", metavar="NAME=NUMBER", help="e.g. seconds=300, new_key=1"
    )
    return top


def up(count: int, described: list[str]) -> None:
    """Makes a cluster that stays, and says how to use it."""
    options = {}
    for item in described:
        name, _, text = item.partition(":")
        options[name] = NodeOptions.parse(text)
    cluster = Cluster(count, options, keep=True)
    cluster.up()
    print(
        f"cluster {cluster.network.number} is up: "
        + ", ".join(f"{n.name} {n.address}" for n in cluster.nodes)
    )
    print(f"ssh -F {cluster.ssh_config} n1")
    print(f"RANKDECK_SSH_CONFIG={cluster.ssh_config} rankdeck run PROFILE --pool {cluster.pool}")
    print(f"shared folder, /home on the nodes: {cluster.shared}")


def main() -> int:
    """Runs one command; the exit status is 2 with a message if it can't be done."""
    args = parser().parse_args()
    try:
        if reason := missing():
            raise ClusterError(reason)
        if args.command == "up":
            if args.number is not None:
                raise ClusterError("a new cluster takes the first number that is free: leave --number out")
            up(args.count, args.options)
            return 0
        if args.command == "sweep":
            print(f"taken down: {sweep()}")
            return 0
        number = getattr(args, "which", None)
        number = args.number if number is None else number
        if number is None:
            if not running():
                raise ClusterError("no cluster is up")
            number, *others = running()
            if others:
                known = ", ".join(str(each) for each in (number, *others))
                raise ClusterError(f"clusters {known} are up; say which is meant: --number {number}")
        return use(Cluster.load(number), args)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2


def use(cluster: Cluster, args: argparse.Namespace) -> int:
    """Runs a command that needs a cluster."""
    if args.command == "down":
        cluster.down()
    elif args.command == "status":
        for node in cluster.nodes:
            print(node.name, node.address, node.state)
    elif args.command == "run":
        done = cluster.run(args.node, args.argv, check=False)
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
        return done.returncode
    elif args.command == "ssh":
        os.execvp("ssh", ["ssh", "-F", str(cluster.ssh_config), args.node, *args.argv])
    elif args.command == "fault":
        details = {name: float(value) for name, _, value in (item.partition("=") for item in args.details)}
        cluster.fault(args.kind, args.node, **details)
    else:
        cluster.heal(args.kind, args.node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
