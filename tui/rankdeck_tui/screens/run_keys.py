"""The keys of a run's dashboard, beside those of its panes."""

from __future__ import annotations

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("x", "stop", "stop", tooltip="Stop the run (asks first)", id="run.stop"),
    Binding("E", "proof", "why", tooltip="To the log line that says why it failed", id="run.proof"),
    Binding(
        "e",
        "next_bad",
        "bad rank",
        tooltip="Open the logs of the next failed or lost rank",
        id="run.next_bad",
    ),
    Binding("p", "metrics", "plots", tooltip="Loss and other numbers of the logs as plots", id="run.metrics"),
    Binding(
        "f",
        "full",
        "full",
        tooltip="The grid, or the logs, over the whole screen; and back",
        id="run.full",
    ),
    Binding(
        "less_than_sign,comma",
        "rank(-1)",
        "Previous rank in this tile",
        show=False,
        id="run.previous_rank",
    ),
    Binding(
        "greater_than_sign,full_stop", "rank(1)", "Next rank in this tile", show=False, id="run.next_rank"
    ),
    Binding(
        "C",
        "connect",
        "connect",
        tooltip="Connect again to nodes that are lost; a login may ask something",
        id="run.connect",
    ),
    Binding(
        "L",
        "launcher",
        "launcher log",
        show=False,
        tooltip="The launcher's own output",
        id="run.launcher",
    ),
    Binding("left_square_bracket", "tab(-1)", "Previous tab (narrow)", show=False, id="run.previous_tab"),
    Binding("right_square_bracket", "tab(1)", "Next tab (narrow)", show=False, id="run.next_tab"),
    Binding("R", "repeat(True)", "Launch again from the record", show=False, id="run.repeat"),
    Binding("c", "repeat(False)", "Change values, then launch again", show=False, id="run.change"),
    Binding(
        "m", "merged", "all ranks", tooltip="The lines of all ranks in the order of time", id="run.merged"
    ),
    Binding(
        "M",
        "merged_ranks",
        "some ranks",
        show=False,
        tooltip="The lines of some: 0,3-5, node:NAME, failed",
        id="run.merged_ranks",
    ),
    Binding("s", "split", "split", tooltip="Add a tile for the rank under the cursor", id="run.split"),
    Binding("tab", "pane(1)", "pane", tooltip="To ranks, logs, nodes, events in turn", id="run.next_pane"),
    Binding("shift+tab", "pane(-1)", "Previous pane", show=False, id="run.previous_pane"),
    Binding(
        "escape,q", "back", "back", tooltip="Back to the list of runs; the run goes on", id="always.back"
    ),
]
