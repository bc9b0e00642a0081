"""The printed scripts, run: what a rank gets is what the plan says, whatever is in it."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import launcher_stand_ins
import pytest
from awkward import NASTY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from launcher_stand_ins import LIMIT, SHELLS, run

from rankdeck_profiles import placeholders
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.model import BackendKind, OnRankFailure, Pool, Profile, StopPolicy
from rankdeck_profiles.nodes import expand
from rankdeck_profiles.placeholders import NAMES
from rankdeck_profiles.planner import plan
from rankdeck_profiles.render import as_scripts, as_text


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    launcher_stand_ins.put(folder)
    return folder


def make(bench: Path, framework: str, node_count: int = 1, **more):
    profile = Profile(
        **{
            "name": "p",
            "framework": framework,
            "script": "report.py",
            "workdir": str(bench),
            "python": str(bench / "python"),
            "procs_per_node": 2,
            **more,
        }
    )
    pool = Pool("lab", BackendKind.LOCAL, expand([f"127.0.0.[1-{node_count}]"]))
    return plan(profile, pool, None)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
word = st.lists(
    st.one_of(text.map(placeholders.escape), st.sampled_from(NAMES).map("${{{}}}".format)), max_size=3
)


@pytest.mark.parametrize("framework", ["pytorch", "torchrun"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(args=st.lists(word.map("".join), max_size=4), value=text)
def test_any_word_and_value_arrives_whole(bench, framework, args, value):
    # These mean the node's home; tested apart.
    args = [arg for arg in args if arg != "~" and not arg.startswith("~/")]
    reports = run(bench, make(bench, framework, args=tuple(args), env={"VALUE": value}))
    assert sorted(reports) == ["0", "1"]
    for report in reports.values():
        assert tuple(report["argv"]) == placeholders.fill(args, report["env"])
        assert report["env"]["VALUE"] == value


@pytest.mark.parametrize("framework", ["pytorch", "torchrun"])
def test_tilde_is_the_home_of_whoever_runs_it(bench, framework):
    reports = run(bench, make(bench, framework, args=("~/my data", "~/x$RANK", "a~/b", "~")))
    assert reports["1"]["argv"] == ["/home/some one/my data", "/home/some one/x1", "a~/b", "/home/some one"]


@pytest.mark.parametrize("framework", ["pytorch", "torchrun"])
def test_other_launchers_variables_are_gone_and_named_ones_stay(bench, framework):
    leaked = {
        "SLURM_PROCID": "9",
        "OMPI_COMM_WORLD_RANK": "9",
        "PET_NNODES": "7",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "RANK": "9",
        "LB": "a\nPMI_RANK=1\n",
        "PMI_SIZE": "4",
        "SLURM_JOB_ID": "5",
    }
    made = make(bench, framework, env_from=("PMI_SIZE",))
    reports = run(bench, made, **leaked)
    for report in reports.values():
        kept = leaked.keys() & report["env"].keys()
        assert kept == {"RANK", "LB", "PMI_SIZE", "SLURM_JOB_ID"}
        assert report["env"]["RANK"] != "9"


def test_a_missing_env_from_stops_the_script(bench):
    script = as_scripts(make(bench, "pytorch", env_from=("WANDB_API_KEY",)))["127.0.0.1"]
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=LIMIT
    )
    assert done.returncode != 0
    assert b"WANDB_API_KEY" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_setup_lines_leave_their_environment(bench, shell):
    setup = ("export FROM_SETUP='a b'", "cd /", "if true; then\n  export MORE=1\nfi")
    for report in run(bench, make(bench, "pytorch", setup=setup), shell).values():
        assert (report["env"]["FROM_SETUP"], report["env"]["MORE"]) == ("a b", "1")
        assert report["cwd"] == str(bench)


def test_a_failing_setup_line_stops_the_start(bench):
    (bench / "s.sh").write_text(as_scripts(make(bench, "pytorch", setup=("false", "echo no")))["127.0.0.1"])
    done = subprocess.run(["sh", str(bench / "s.sh")], capture_output=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (1, b"")


def ranks_script(tmp_path: Path, body: str, on_failure: OnRankFailure = OnRankFailure.STOP) -> str:
    (tmp_path / "t.py").write_text(
        "import os, signal, sys, time\nrank = os.environ['RANK']\n" + textwrap.dedent(body)
    )
    profile = Profile(
        name="p",
        framework="pytorch",
        script="t.py",
        workdir=str(tmp_path),
        python=sys.executable,
        procs_per_node=3,
        stop=StopPolicy(on_rank_failure=on_failure),
    )
    script = tmp_path / "node.sh"
    script.write_text(
        as_scripts(plan(profile, Pool("l", BackendKind.LOCAL, expand(["127.0.0.1"])), None))["127.0.0.1"]
    )
    return str(script)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_first_failing_rank_gives_the_status_and_stops_the_others(tmp_path, shell):
    script = ranks_script(
        tmp_path,
        """
        if rank == "1":
            sys.exit(7)
        time.sleep(600)
        """,
    )
    done = subprocess.run([shell, script], capture_output=True, timeout=LIMIT)
    assert done.returncode == 7
    assert b"rank 1 ended with status 7" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_keep_lets_the_others_end_by_themselves(tmp_path, shell):
    script = ranks_script(
        tmp_path,
        """
        if rank == "1":
            sys.exit(7)
        time.sleep(2)
        os.write(1, f"ended {rank}\\n".encode())
        """,
        OnRankFailure.KEEP,
    )
    done = subprocess.run([shell, script], capture_output=True, timeout=LIMIT)
    assert done.returncode == 7
    assert sorted(done.stdout.split(b"\n")) == [b"", b"ended 0", b"ended 2"]


@pytest.mark.parametrize("shell", SHELLS)
def test_term_reaches_every_rank(tmp_path, shell):
    script = ranks_script(
        tmp_path,
        """
        def bye(*_):
            os.write(1, f"saved {rank}\\n".encode())
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        open("up" + rank, "w").close()
        time.sleep(600)
        """,
    )
    process = subprocess.Popen([shell, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + LIMIT
    while len(list(tmp_path.glob("up?"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    assert sorted(out.split(b"\n")) == [b"", b"saved 0", b"saved 1", b"saved 2"]
    assert process.returncode == 143
    assert b"ended with status" not in err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("framework", "options"), [("torchrun", {}), ("torchrun", {"max_restarts": 1}), ("launch", {})]
)
def test_torchrun_itself_hands_the_words_through(bench, framework, options):
    pytest.importorskip("torch")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = make(bench, framework, python=sys.executable, args=tuple(NASTY), options=options, master_port=port)
    for report in run(bench, made).values():
        values = {name: report["env"][name] for name in NAMES if name in report["env"]}
        assert tuple(report["argv"]) == placeholders.fill(NASTY, values)
        assert values["MASTER_ADDR"] == "127.0.0.1"


def test_the_text_shows_all_that_matters_and_no_secret():
    profile = Profile(
        name="p",
        framework="torchrun",
        script="t.py",
        workdir="/w",
        args=("--r=$RANK", "two words", "\x1b[31m"),
        setup=("module load cuda",),
        env={"MY_TOKEN": "hush", "A": "1"},
        env_from=("WANDB_API_KEY",),
    )
    facts = {
        name: NodeFacts(
            name, name, "/h", name, "eth1", 16, 1024, leftovers={"RANK": "3", "PMI_TOKEN": "hush"}
        )
        for name in ("n1", "n2")
    }
    made = plan(profile, Pool("lab", BackendKind.SSH, expand(["n[1-2]"]), slots=4), facts)
    shown = as_text(made)
    for words in (
        "torchrun: 8 ranks on 2 nodes",
        "head node n1: rank 0 listens on n1:29500",
        "module load cuda",
        "WANDB_API_KEY",
        "node n2 (node rank 1, n2): ranks 4-7",
        "GLOO_SOCKET_IFNAME=eth1",
        "holds the node's address",
        "--node-rank=1",
        "'--r=$RANK'",
        "'two words'",
        "removed RANK=3",
        "MY_TOKEN=***",
        "needs dir /w",
    ):
        assert words in shown
    assert "hush" not in shown
    assert "\x1b" not in shown
