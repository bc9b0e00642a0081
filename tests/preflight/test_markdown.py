"""The report as Markdown: reasons first, alike nodes together, nothing of a node's taken for markup."""

from __future__ import annotations

from rankdeck_backends.preflight.finding import Evidence, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_backends.preflight.markdown import EVIDENCE_SHOWN, as_markdown, plain

NODES = tuple(f"gpu{number:03}" for number in range(1, 65))


def finding(check: str, verdict: Verdict, message: str, node: str | None, **more: object) -> Finding:
    nodes = more.pop("nodes", (node,) if node else ())
    return Finding(check, verdict, message, node, nodes, **more)  # type: ignore[arg-type]


def test_nodes_with_one_fault_are_told_once() -> None:
    down = [
        finding(
            "ib.port-state",
            Verdict.FAIL,
            "mlx5_0 port 1 is DOWN",
            node,
            evidence=(Evidence("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN"),),
            symptom="half the bandwidth",
            fix="check the cable",
        )
        for node in NODES[6:9]
    ]
    fine = [finding("gpu.count", Verdict.PASS, "8 GPUs", node) for node in NODES]
    text = as_markdown(Report(NODES, (*down, *fine)), title="pool h100")
    assert text.startswith("# pool h100: fail\n\n64 nodes: `gpu[001-064]`. 1 reason not to launch.\n")
    assert "### `ib.port-state` fail: `gpu[007-009]`\n\nmlx5_0 port 1 is DOWN\n" in text
    assert "- Fix: check the cable\n- Seen in a run that goes on all the same: half the bandwidth\n" in text
    assert "Read on `gpu007`:" in text
    assert "/sys/class/infiniband/mlx5_0/ports/1/state: 1: DOWN" in text
    assert text.count("mlx5_0 port 1 is DOWN") == 1
    assert "8 GPUs" not in text


def test_effects_and_handled_findings_are_no_reasons() -> None:
    report = Report(
        ("n1",),
        (
            finding("ib.guid", Verdict.FAIL, "no GUID", "n1"),
            finding("ib.port-state", Verdict.FAIL, "INIT", "n1", explained_by="ib.guid"),
            finding("net.hostname", Verdict.FAIL, "127.0.1.1", "n1", handled_by="GLOO_SOCKET_IFNAME"),
            finding("clock.sync", Verdict.WARN, "not synchronised", "n1"),
            finding("gpu.xid", Verdict.SKIP, "dmesg may not be read", "n1"),
        ),
    )
    text = as_markdown(report)
    reasons, rest = text.split("## Warnings")
    assert "ib.guid" in reasons
    assert "ib.port-state" not in reasons
    assert "1 reason not to launch" in reasons
    warnings, rest = rest.split("## Explained by the above")
    assert "clock.sync" in warnings
    assert "net.hostname" not in warnings
    assert "- `ib.port-state` `n1`: INIT (`ib.guid`)" in rest
    assert "- `net.hostname` `n1`: 127.0.1.1 (`GLOO_SOCKET_IFNAME`)" in rest
    assert "- `gpu.xid` `n1`: dmesg may not be read" in rest


def test_a_pool_finding_names_who_is_to_blame() -> None:
    differ = finding("sw.nccl", Verdict.FAIL, "2.27.3 and 2.26.2", None, nodes=("n2", "n3"))
    alike = finding("sw.code", Verdict.WARN, "it could be better", None)
    text = as_markdown(Report(("n1", "n2", "n3"), (differ, alike)))
    assert "### `sw.nccl` fail: the pool, `n[2-3]`" in text
    assert "### `sw.code` warn: the pool\n" in text


def test_what_nodes_say_is_not_markup() -> None:
    evil = "<img src=x> **bold** `tick` | a_b _c_ [link](http://x) \x1b[2J\nnext"
    value = "```\n# heading\n``````\n\x1b]52;c;AAAA\x07"
    report = Report(
        ("n1",), (finding("sw.env", Verdict.FAIL, evil, "n1", evidence=(Evidence("~/.bashrc", value),)),)
    )
    text = as_markdown(report)
    assert "\x1b" not in text
    assert "\\<img src=x\\> \\*\\*bold\\*\\* \\`tick\\` \\| a_b \\_c\\_ \\[link\\](http://x)" in text
    fence = "`" * 7
    assert text.count(fence) == 2
    assert text.index(fence) < text.index("# heading") < text.rindex(fence)
    assert plain("# 1. one") == "\\# 1. one"
    assert plain("1. one") == "1\\. one"
    assert plain("- one") == "\\- one"


def test_much_evidence_is_counted() -> None:
    values = tuple(Evidence(f"n{number}: clock", str(number)) for number in range(30))
    text = as_markdown(
        Report(("n1", "n2"), (finding("clock.skew", Verdict.FAIL, "skewed", None, evidence=values),))
    )
    assert f"and {30 - EVIDENCE_SHOWN} more values" in text
    assert "n29: clock" not in text


def test_all_is_well() -> None:
    text = as_markdown(Report(("n1",), (finding("gpu.count", Verdict.PASS, "8 GPUs", "n1"),)))
    assert text.startswith("# Preflight: pass\n\n1 node: `n1`. Nothing stops a launch.\n\n## All checks")
