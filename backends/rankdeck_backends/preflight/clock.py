"""The nodes' clocks."""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

SKEW_WARN, SKEW_FAIL = 1.0, 10.0
"""Seconds: torch's c10d rendezvous takes a node out that was silent for 15 s by the others' clocks."""


def skew(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """clock.skew."""
    offset = node.readings.number("clock_offset_s")
    if offset is None:
        return skipped("the clock was not compared with the head node's")
    if pool.asked.recorded and len(pool) > 1:
        # Recordings of several pools may be put together: each was compared with its own head node.
        offset -= pool.head.readings.number("clock_offset_s") or 0.0
    error = max(0.0, node.readings.number("clock_error_s") or 0.0)
    evidence = Evidence.of("clock against the head node's", f"{offset:+.3f} s, give or take {error:.3f} s")
    sure = max(0.0, abs(offset) - error)
    way = "ahead of" if offset > 0 else "behind"
    if sure >= SKEW_FAIL:
        return failed(f"the clock is {abs(offset):.1f} s {way} the head node's", evidence)
    if sure >= SKEW_WARN:
        return warned(f"the clock is {abs(offset):.1f} s {way} the head node's", evidence)
    return passed(f"the clock is within {abs(offset) + error:.3f} s of the head node's", evidence)


def sync(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """clock.sync."""
    synchronized = node.readings.flag("ntp_synchronized")
    if synchronized is None:
        return skipped("whether the clock is kept in step is not known")
    evidence = Evidence.of("adjtimex", "in step" if synchronized else "not in step (STA_UNSYNC)")
    if not synchronized:
        return warned("nothing keeps the clock in step", evidence)
    return passed("the clock is kept in step", evidence)


CHECKS = (
    Check(
        id="clock.skew",
        group=Group.CLOCK,
        title="clocks agree",
        reads="the agent's clock against the head node's, best of five round trips",
        rule=f"warn: apart by {SKEW_WARN:.0f} s or more; fail: by {SKEW_FAIL:.0f} s; what the round trip "
        "leaves open counts as agreement",
        symptom="the rendezvous drops nodes again and again (torch's c10d, after 15 s); logs of one moment "
        "are far apart",
        fix="run chrony or systemd-timesyncd on the node: chronyc makestep",
        source="torch elastic dynamic_rendezvous, keep alive; aws-samples/awsome-distributed-ai issue 202",
        node=skew,
    ),
    Check(
        id="clock.sync",
        group=Group.CLOCK,
        title="something keeps the clock",
        reads="adjtimex, STA_UNSYNC; else timedatectl",
        rule="warn: nothing does",
        symptom="the clocks drift apart within days",
        fix="run chrony or systemd-timesyncd on the node",
        source="adjtimex manual",
        node=sync,
    ),
)
