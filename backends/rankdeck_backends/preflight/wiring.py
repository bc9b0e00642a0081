"""SSH to the nodes and between them: log-in, clean shells, identity, throttling."""

from __future__ import annotations

from dataclasses import replace

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, names
from rankdeck_backends.preflight.entries import Entry, entries
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

PAIRS_SHOWN = 8
"""Pairs of nodes that one finding lists."""


def connect(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ssh.connect."""
    answer = node.readings.mapping("ssh")
    if answer is None:
        return skipped("the node was not reached by ssh")
    state = str(answer.get("state"))
    if state == "ok" and answer.get("unread"):
        unknown = warned(
            "the agent answers, but could not look at the node: nothing is known of it",
            Evidence.of("look", answer["unread"]),
            fix="`rankdeck check` again; if it stays, report the fault with what was printed",
        )
        return replace(
            unknown, symptom="the run starts there unchecked, and may meet what would be found here"
        )
    if state == "ok":
        return passed("the node is reached, and the agent answers", Evidence.of("ssh", state))
    message = str(answer.get("message") or "no reason was given")
    return failed(
        f"not reached, at the step `{state}`: {message}",
        Evidence.of(f"ssh, step {state}", message),
        fix=str(answer.get("hint") or "") or _FIXES.get(state, ""),
    )


_FIXES = {
    "lost": "see that the node is up and stays reachable, then check again",
    "agent": "see what the node says of its disk and its Python, then check again",
    "shell": "log in by hand and see what the login shell does with a command",
}
"""Step -> what helps, where it is not the login, which the check's own fix is about."""


def clean_shell(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ssh.clean-shell."""
    answer = node.readings.mapping("ssh")
    noise = answer.get("noise") if answer else None
    if answer is None or not isinstance(noise, str):
        return skipped("what the shell prints by itself is not known")
    if not noise.strip():
        return passed(
            "the shell prints nothing by itself", Evidence.of("stdout before the agent's answer", "nothing")
        )
    first = noise.strip().splitlines()[0][:100]
    evidence = Evidence.of("stdout before the agent's answer", noise)
    if answer.get("state") == "ok":
        return warned(
            f"the shell prints text by itself ({first}): scp, rsync and mpirun trip over it", evidence
        )
    return failed(
        f"the shell prints text by itself ({first}), and the agent's answer was lost in it", evidence
    )


def identity(pool: ProbedPool) -> Outcome:
    """ssh.identity: NCCL tells machines apart by host name and boot id, and by nothing else."""
    if pool.on_one_machine:
        return skipped("all nodes are this machine")
    known = {
        node.name: f"{node.hostname} {boot}"
        for node in pool.distinct
        if (boot := node.readings.file("/proc/sys/kernel/random/boot_id"))
    }
    if len(known) < 2:
        return skipped("fewer than two different nodes say who they are")
    twins = [(value, nodes) for value, nodes in groups(known) if len(nodes) > 1]
    if twins:
        return failed(
            "; ".join(f"{names(nodes)} are one machine to NCCL ({value})" for value, nodes in twins),
            *(
                Evidence.of("host name and boot id", known[name]).on(name)
                for _, nodes in twins
                for name in nodes[:2]
            ),
            nodes=[name for _, nodes in twins for name in nodes],
        )
    return passed("all nodes are different machines")


def connects(node: ProbedNode, *kinds: str) -> list[Entry]:
    """What was tried from a node to others, of some kinds."""
    return [each for each in entries(node.readings, "connects") if each.get("kind") in kinds]


def any_to_any(pool: ProbedPool) -> Outcome:
    """ssh.any-to-any."""
    tried = [(node.name, each) for node in pool for each in connects(node, "ssh")]
    if not tried:
        return skipped("ssh between the nodes was not tried: only mpirun needs it")
    broken = [(name, each) for name, each in tried if each.get("state") != "ok"]
    if broken:
        return failed(
            f"ssh does not work from {_pairs(broken)}",
            *(
                Evidence.of(
                    f"ssh -o BatchMode=yes {each.get('to')}", each.get("message") or each.get("state")
                ).on(name)
                for name, each in broken[:PAIRS_SHOWN]
            ),
            nodes=dict.fromkeys(name for name, _ in broken),
        )
    return passed(f"ssh works between the nodes ({len(tried)} pairs tried)")


def _pairs(broken: list[tuple[str, Entry]]) -> str:
    shown = [f"{name} to {each.get('to')} ({each.get('state')})" for name, each in broken[:PAIRS_SHOWN]]
    more = f" and {len(broken) - PAIRS_SHOWN} more" if len(broken) > PAIRS_SHOWN else ""
    return ", ".join(shown) + more


def throttle(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ssh.throttle."""
    answer = node.readings.mapping("ssh") or {}
    resets = answer.get("resets")
    if not isinstance(resets, int) or isinstance(resets, bool):
        return skipped("whether connections were reset is not known")
    if resets > 0:
        return warned(
            f"the ssh server reset {resets} connections before the log-in",
            Evidence.of("connections reset", resets),
        )
    return passed("no connection was reset", Evidence.of("connections reset", resets))


CHECKS = (
    Check(
        id="ssh.connect",
        group=Group.WIRING,
        title="the node is reached",
        reads="the log-in itself: resolve, connect, host key, authentication, shell, Python, agent; 10 s",
        rule="fail: a step failed; it is named; warn: the agent answers, and could not look at the node",
        symptom="the run does not start on that node",
        fix="ssh-keygen and ssh-copy-id for keys; ssh-keyscan, compared with the node's own, for known_hosts",
        source="ssh manual",
        node=connect,
    ),
    Check(
        id="ssh.clean-shell",
        group=Group.WIRING,
        title="no text from start-up files",
        reads="stdout of a command that prints nothing, before the agent's first frame",
        rule="fail: text, and the agent was not reached because of it; warn: text, but the agent got through",
        symptom="scp and rsync break (protocol mismatch), mpirun's daemons print odd lines",
        fix="in .bashrc, print only where the shell is interactive: `case $- in *i*) echo hello;; esac`",
        source="OpenSSH FAQ 2.9; rsync manual, is your shell clean",
        node=clean_shell,
    ),
    Check(
        id="ssh.identity",
        group=Group.WIRING,
        title="every node another machine",
        reads="host name and /proc/sys/kernel/random/boot_id",
        rule="fail: two nodes have both alike",
        symptom="Duplicate GPU detected : rank 0 and rank 8 both on CUDA device",
        fix="take the double out of the pool; for cloned containers set NCCL_HOSTID, another on each",
        source="NVIDIA/nccl src/misc/utils.cc (getHostHash), issue 879",
        pool=identity,
        handled_by=("NCCL_HOSTID",),
    ),
    Check(
        id="ssh.any-to-any",
        group=Group.WIRING,
        title="ssh between nodes",
        reads="ssh -o BatchMode=yes from node to node, a ring; only for mpirun",
        rule="fail: one of them does not work",
        symptom="Host key verification failed, from a node in the middle: mpirun's daemons start each other "
        "as a tree",
        fix="give the nodes a key and known_hosts for each other, or start all from the head node: --mca "
        "plm_ssh_no_tree_spawn 1 (Open MPI 4: plm_rsh_no_tree_spawn)",
        source="Open MPI FAQ, running with rsh and ssh",
        pool=any_to_any,
        pair=True,
    ),
    Check(
        id="ssh.throttle",
        group=Group.WIRING,
        title="the ssh server takes all connections",
        reads="connections that were reset before the log-in",
        rule="warn: there were some",
        symptom="kex_exchange_identification: Connection reset by peer",
        fix="raise MaxStartups in sshd_config (its default drops connections from the tenth on), or use a "
        "connection for all (ControlMaster)",
        source="sshd_config manual, MaxStartups and PerSourcePenalties; openpmix/prrte issue 1493",
        node=throttle,
    ),
)
