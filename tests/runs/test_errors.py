"""Problems of several nodes, told as one."""

from rankdeck_backends.base import NodeError, Step
from rankdeck_runs.errors import hints_of


def refused(node: str, hint: str) -> NodeError:
    return NodeError(node, Step.CONNECT, "connection refused", hint)


def test_an_advice_that_differs_in_the_command_alone_is_given_once():
    failed = {f"n{i}": refused(f"n{i}", f"check that sshd listens there: `ssh n{i}`") for i in range(64)}
    assert hints_of(failed) == "check that sshd listens there: `ssh n0` (likewise for the 63 others)"
    two = {"n1": refused("n1", "look: `ssh n1`"), "n2": refused("n2", "look: `ssh n2`")}
    assert hints_of(two).splitlines() == ["look: `ssh n1`", "  look: `ssh n2`"]
    assert (
        hints_of({"n1": refused("n1", "a"), "n2": refused("n2", "b"), "n3": refused("n3", "a")}) == "a\n  b"
    )
