"""`rankdeck profiles new`: what it asks on a terminal and proposes, and what it says where nobody answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cli.on_terminal import Terminal
from cli.user import Shell

LIGHTNING = "import torch\nimport lightning as L\nL.Trainer(devices=8, num_nodes=2)\n"
SERVERS = "import tensorflow as tf\ntf.distribute.ParameterServerStrategy(resolver)\n"
SSH_POOL = 'backend = "ssh"\nnodes = ["n[1-4]"]\nslots = 8\n'


@contextmanager
def asked(rankdeck: Shell, *arguments: str) -> Iterator[Terminal]:
    """`rankdeck profiles new`, on a terminal without colours."""
    terminal = Terminal(rankdeck, "profiles", "new", *arguments, NO_COLOR="1")
    try:
        yield terminal
    finally:
        terminal.close()


def talk(terminal: Terminal, answers: Sequence[tuple[str, str]]) -> str:
    """Answers questions; all that was shown."""
    shown = ""
    for question, answer in answers:
        shown += terminal.until(question)
        terminal.type(answer + "\r")
    assert terminal.end() == 0, terminal.seen
    return (shown + terminal.seen).replace("\r", "")


def saved(rankdeck: Shell, name: str) -> dict[str, Any]:
    """The keys of a profile that are not the default's."""
    profile: dict[str, Any] = rankdeck.json("profiles", "show", name)
    return {key: value for key, value in profile.items() if value not in (None, [], {}, False)}


def test_the_script_s_framework_is_proposed_with_the_reason(rankdeck: Shell) -> None:
    rankdeck.write("train.py", LIGHTNING)
    rankdeck.save_pool("lab", SSH_POOL)
    with asked(rankdeck, "resnet") as terminal:
        shown = talk(
            terminal,
            [
                ("script: ", "train.py --epochs 3"),
                ("framework [lightning]: ", ""),
                ("pool [local]: ", "lab"),
                ("nodes, of the 4 in lab [all]: ", "2"),
            ],
        )
    assert "train.py imports lightning: lightning fits." in shown
    assert "> lightning " in shown
    assert "Tell its Trainer num_nodes" in shown
    assert "Use all GPUs of one node before a second node" in shown
    assert "rankdeck plan resnet" in shown
    profile = saved(rankdeck, "resnet")
    assert (profile["framework"], profile["script"], profile["args"]) == (
        "lightning",
        "train.py",
        ["--epochs", "3"],
    )
    assert (profile["pool"], profile["nodes"]) == ("lab", 2)
    assert "procs_per_node" not in profile


def test_the_person_s_own_choice_stands(rankdeck: Shell) -> None:
    rankdeck.write("train.py", LIGHTNING)
    with asked(rankdeck, "resnet") as terminal:
        shown = talk(
            terminal,
            [
                ("script: ", "python3 train.py"),
                ("framework [lightning]: ", "torchrun"),
                ("ranks on each node", "4"),
            ],
        )
    assert "lightning has settings" not in shown
    profile = saved(rankdeck, "resnet")
    assert (profile["framework"], profile["script"], profile["procs_per_node"]) == ("torchrun", "train.py", 4)
    assert "pool" not in profile


def test_settings_that_the_script_needs_are_saved_too(rankdeck: Shell) -> None:
    rankdeck.write("ps.py", SERVERS)
    rankdeck.save_pool("lab", SSH_POOL)
    with asked(rankdeck, "ps") as terminal:
        shown = talk(
            terminal,
            [
                ("script: ", "ps.py"),
                ("framework [tensorflow]: ", ""),
                ("pool [local]: ", "lab"),
                ("nodes, of the 4 in lab [all]: ", ""),
                ('"16 in all" [1]: ', "8 in all"),
            ],
        )
    assert 'options.strategy = "ps"' in shown
    profile = saved(rankdeck, "ps")
    assert profile["options"] == {"strategy": "ps"}
    assert profile["process_count"] == 8
    text = (rankdeck.folder / "config/profiles/ps.toml").read_text()
    assert text.startswith('framework = "tensorflow"\nscript = "ps.py"\n')


def test_answers_that_can_not_be_are_told_and_asked_for_again(rankdeck: Shell) -> None:
    rankdeck.save_pool("lab", SSH_POOL)
    with asked(rankdeck, "x") as terminal:
        shown = talk(
            terminal,
            [
                ("script: ", ""),
                ("a script such as train.py", "torchrun train.py"),
                ("framework [torchrun]: ", "torchrn"),
                ('did you mean "torchrun"?', ""),
                ("starts the ranks itself", "'a b"),
                ("close the quote", "train.py"),
                ("framework [torchrun]: ", ""),
                ("pool [local]: ", "lap"),
                ("did you mean 'lab'", "lab"),
                ("[all]: ", "5"),
                ("allowed: 1 to 4", "4"),
                ("[8, one a slot]: ", "many"),
                ("allowed: a whole number", ""),
            ],
        )
    assert "train.py is not found from here; fine if it is there on the nodes" in shown
    profile = saved(rankdeck, "x")
    assert (profile["framework"], profile["nodes"], profile["pool"]) == ("torchrun", 4, "lab")


def test_only_what_is_not_given_is_asked_for(rankdeck: Shell) -> None:
    rankdeck.write("train.py", LIGHTNING)
    rankdeck.save_pool("lab", SSH_POOL)
    with asked(
        rankdeck, "x", "--framework", "torchrun", "--pool", "lab", "--nodes", "1", "--", "--lr", "1"
    ) as terminal:
        shown = talk(terminal, [("script: ", "train.py"), ("ranks on each node", "")])
    assert "train.py imports lightning: lightning would fit, too." in shown
    assert saved(rankdeck, "x")["args"] == ["--lr", "1"]
    with asked(rankdeck, "y", "--framework", "torchrun", "--script", "train.py") as terminal:
        assert "saved" in talk(terminal, [])


def test_leaving_saves_nothing(rankdeck: Shell) -> None:
    with asked(rankdeck, "x") as terminal:
        terminal.until("script: ")
        terminal.type("\x03")
        assert terminal.end() == 130
    with asked(rankdeck, "x") as terminal:
        terminal.until("script: ")
        terminal.type("\x04")
        assert terminal.end() == 130
    assert not (rankdeck.folder / "config/profiles").exists()


def test_without_a_terminal_nothing_is_asked(rankdeck: Shell) -> None:
    rankdeck.write("train.py", LIGHTNING)
    done = rankdeck("profiles", "new", "x", status=2)
    assert "what is run? Neither --script nor --module is given" in done.stderr
    done = rankdeck("profiles", "new", "x", "--script", "train.py", status=2)
    assert "--framework is not given" in done.stderr
    assert "train.py imports lightning: --framework lightning fits" in done.stderr
    rankdeck.write("elsewhere/other.py", "import deepspeed\n")
    done = rankdeck("profiles", "new", "x", "--script", "other.py", "--set", "workdir=elsewhere", status=2)
    assert "other.py imports deepspeed" in done.stderr
    rankdeck("profiles", "new", "x", "--script", "train.py", "--set", "framework=torchrun")
    assert saved(rankdeck, "x")["framework"] == "torchrun"


def test_what_may_be_a_mistake_is_said_where_nobody_is_asked(rankdeck: Shell) -> None:
    rankdeck.write("train.py", LIGHTNING)
    rankdeck.save_pool("lab", SSH_POOL)
    new = ("profiles", "new", "--framework", "torchrun", "--script")
    assert "trian.py is not found from here" in rankdeck(*new, "trian.py", "--pool", "lab", "a").stderr
    said = rankdeck(*new, "train.py", "--pool", "lap", "b").stderr
    assert "train.py imports lightning: lightning would fit, too" in said
    assert "did you mean 'lab'" in said
    rankdeck.write("ddp.py", "import torch.distributed\n")
    assert "warning" not in rankdeck(*new, "ddp.py", "--pool", "lab", "c").stderr
    assert [saved(rankdeck, name)["framework"] for name in "abc"] == ["torchrun"] * 3


def test_json_asks_nothing_even_on_a_terminal(rankdeck: Shell) -> None:
    terminal = Terminal(rankdeck, "profiles", "--json", "new", "x", NO_COLOR="1")
    try:
        assert terminal.end() == 2
        assert "what is run?" in terminal.seen
    finally:
        terminal.close()


def test_a_name_that_can_not_be_is_told_before_any_question(rankdeck: Shell) -> None:
    with asked(rankdeck, "a b") as terminal:
        assert terminal.end() == 2
        assert "is no name for a file" in terminal.seen
        assert "script: " not in terminal.seen


def test_nodes_between_commas_are_several(rankdeck: Shell) -> None:
    """As NodeSet and Slurm write them."""
    rankdeck("pools", "new", "x", "gpu[1-2,4],gpu9", "n1 slots=2 gpus=0,2")
    nodes = rankdeck.json("pools", "show", "x")["nodes"]
    assert [node["name"] for node in nodes] == ["gpu1", "gpu2", "gpu4", "gpu9", "n1"]
    assert nodes[-1]["gpus"] == [0, 2]


def test_what_is_wrong_with_a_new_file_is_said_of_what_was_typed(rankdeck: Shell) -> None:
    """No file was kept, so none is blamed."""
    done = rankdeck("pools", "new", "x", "n[4-1]", status=2)
    assert done.stderr.startswith('rankdeck: nodes: "n[4-1]": "4-1" counts down')
    assert ".toml" not in done.stderr
    done = rankdeck(
        "profiles", "new", "x", "--framework", "torchrun", "--script", "a.py", "--nodes", "0", status=2
    )
    assert done.stderr.splitlines()[0] == "rankdeck: nodes = 0"
    assert ".toml" not in done.stderr
