"""Profiles read from files: what good ones give, and what is said about bad ones."""

from pathlib import Path

import pytest

from rankdeck_profiles.errors import ProfileError
from rankdeck_profiles.files import load_profile
from rankdeck_profiles.model import OnRankFailure, StopPolicy

FULL = """\
framework = "torchrun"
script = "train.py"
args = ["--epochs", 50, "--local_rank=$LOCAL_RANK"]
workdir = "~/work/resnet"
python = "~/venvs/torch/bin/python"
setup = ["module load cuda/12.8"]
pool = "h100"
nodes = 2
procs_per_node = 8
master_port = 29501
env_from = ["WANDB_API_KEY"]

[env]
NCCL_DEBUG = "INFO"
OMP_NUM_THREADS = 4
[options]
[stop]
signal = "SIGINT"
grace = "2m"
on_rank_failure = "keep"
[metrics]
loss = 'loss[=: ]+([0-9.eE+-]+)'
"""


def write(tmp_path: Path, text: str | bytes, name: str = "train.toml") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(tmp_path: Path, text: str | bytes, *overrides: str) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        load_profile(write(tmp_path, text), overrides)
    return caught.value


def test_every_key_arrives(tmp_path):
    profile = load_profile(write(tmp_path, FULL))
    assert profile.name == "train"
    assert profile.framework == "torchrun"
    assert profile.script == "train.py"
    assert profile.args == ("--epochs", "50", "--local_rank=$LOCAL_RANK")
    assert profile.workdir == "~/work/resnet"
    assert profile.python == "~/venvs/torch/bin/python"
    assert profile.setup == ("module load cuda/12.8",)
    assert (profile.pool, profile.nodes, profile.procs_per_node, profile.master_port) == ("h100", 2, 8, 29501)
    assert profile.env == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4"}
    assert profile.env_from == ("WANDB_API_KEY",)
    assert profile.stop == StopPolicy("INT", 120.0, OnRankFailure.KEEP)
    assert profile.metrics == {"loss": "loss[=: ]+([0-9.eE+-]+)"}
    assert profile.source == tmp_path / "train.toml"


def test_defaults(tmp_path):
    profile = load_profile(write(tmp_path, 'framework = "pytorch"\nmodule = "pkg.train"\n'))
    assert profile.workdir == str(tmp_path)
    assert profile.python == "python3"
    assert profile.stop == StopPolicy("TERM", 60.0, OnRankFailure.STOP)
    assert profile.master_port is None
    assert profile.nodes is None


def test_base_is_the_default_workdir_and_what_a_relative_one_is_relative_to(tmp_path):
    plain = write(tmp_path, 'framework = "command"\ncommand = ["true"]\n', "a.toml")
    relative = write(tmp_path, 'framework = "command"\ncommand = ["true"]\nworkdir = "sub"\n', "b.toml")
    assert load_profile(plain, base="/start").workdir == "/start"
    assert load_profile(relative, base="/start").workdir == "/start/sub"
    assert load_profile(relative).workdir == str(tmp_path / "sub")


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf" + FULL.encode(),
        FULL.replace("\n", "\r\n").encode(),
        FULL.replace(" = ", "\t=\t").encode(),
        b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").replace(" = ", "\t= ").encode(),
    ],
    ids=["bom", "crlf", "tabs", "all"],
)
def test_editors_marks_and_line_ends_do_not_matter(tmp_path, raw):
    assert load_profile(write(tmp_path, raw)) == load_profile(write(tmp_path, FULL))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            'framework = "torchrun"\nscrpt = "t.py"\n',
            "train.toml:2: unknown key `scrpt`; did you mean `script`?",
            "script",
        ),
        (
            'framework = "torchrum"\nscript = "t.py"\n',
            'train.toml:1: framework = "torchrum" is not known; did you mean "torchrun"?',
            "torchrun, pytorch, mpi",
        ),
        ('script = "t.py"\n', "train.toml: `framework` is missing", '"torchrun"'),
        (
            'framework = "pytorch"\nscript = "t.py"\nnodes = "two"\n',
            'train.toml:3: nodes = "two"',
            "a whole number, 1 or more",
        ),
        ('framework = "pytorch"\nscript = "t.py"\nnodes = 0\n', "train.toml:3: nodes = 0", "1 or more"),
        (
            'framework = "pytorch"\nscript = "t.py"\nnodes = true\n',
            "train.toml:3: nodes = true",
            "a whole number",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nnodes = 9e18\n',
            "train.toml:3: nodes = 9e18",
            "a whole number",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nnodes = 9_000_000_000_000_000_000\n',
            "train.toml:3: nodes = 9000000000000000000",
            "allowed: a whole number, 1 to 65536",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nprocs_per_node = 5000\n',
            "train.toml:3: procs_per_node = 5000",
            "1 to 4096",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nprocess_count = 1000000000000\n',
            "train.toml:3: process_count = 1000000000000",
            "1 to 268435456",
        ),
        (
            f'framework = "pytorch"\nscript = "t.py"\nnodes = {"9" * 5000}\n',
            "train.toml:3: a number of thousands of digits: `nodes = 9999",
            "up to 9223372036854775807",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nbarrier_timeout = 1e308\n',
            "train.toml:3: barrier_timeout: 1e+308 is more than ten years",
            "",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[stop]\ngrace = "99999999999d"\n',
            'train.toml:4: stop.grace: "99999999999d" is more than ten years',
            "",
        ),
        (
            'framework = "torchrun"\nscript = "t.py"\n[options]\nmax_restarts = 9223372036854775807\n',
            "train.toml:4: options.max_restarts = 9223372036854775807",
            "a whole number, 0 to 2147483647",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nmaster_port = 70000\n',
            "train.toml:3: master_port = 70000",
            "1 to 65535",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nmaster_port = "any"\n',
            'train.toml:3: master_port = "any"',
            '"auto"',
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nargs = "x"\n',
            'train.toml:3: args = "x"',
            "a list of text",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nargs = [\n "--lr",\n 0.1,\n]\n',
            "train.toml:5: args[1] = 0.1",
            'in quotes: "0.1"',
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[env]\nA = "1"\nB = true\n',
            "train.toml:5: env.B = true",
            'in quotes: "true"',
        ),
        ('framework = "pytorch"\nscript = "t.py"\nenv = 3\n', "train.toml:3: env = 3", "a table of text"),
        (
            'framework = "pytorch"\nscript = "t.py"\n[env]\n"A-B" = "1"\n',
            'train.toml:4: "A-B" in env is no variable\'s name',
            "letters, digits and _",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nenv_from = ["X"]\nenv.X = "1"\n',
            "train.toml:3: X is given more than once",
            "once",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[env]\nMASTER_PORT = 1\n',
            "train.toml:4: MASTER_PORT in env",
            "master_port",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nmodule = "m"\n',
            "train.toml:3: script and module are given",
            "script",
        ),
        ('framework = "pytorch"\n', "train.toml: none of script, module and command is given", "script"),
        ('framework = "pytorch"\ncommand = []\n', "train.toml:2: command is empty", "script"),
        ('framework = "pytorch"\nscript = " "\n', "train.toml:2: script is empty", "script"),
        ('framework = "pytorch"\nmodule = "a/b.py"\n', 'train.toml:2: module = "a/b.py"', "dotted name"),
        (
            'framework = "pytorch"\nscript = "t.py"\nworkdir = "~bob/x"\n',
            'train.toml:3: workdir = "~bob/x"',
            "in full",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[stop]\ngrase = 3\n',
            "train.toml:4: unknown key `grase` in [stop]; did you mean `grace`?",
            "signal, grace, on_rank_failure",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[stop]\ngrace = "soon"\n',
            'train.toml:4: stop.grace: "soon" is no length of time',
            "",
        ),
        ('framework = "pytorch"\nscript = "t.py"\n[stop]\ngrace = -1\n', "train.toml:4: stop.grace: -1", ""),
        (
            'framework = "pytorch"\nscript = "t.py"\nstop.signal = "STOP"\n',
            'train.toml:3: stop.signal = "STOP"',
            "TERM, INT",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[stop]\non_rank_failure = "go"\n',
            'train.toml:4: stop.on_rank_failure = "go"',
            '"keep"',
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[metrics]\nloss = "loss"\n',
            "train.toml:4: metrics.loss has 0 groups",
            "( )",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[metrics]\nloss = "("\n',
            "train.toml:4: metrics.loss: not a regular expression",
            "found: (",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nargs = [\n"--a",\n"--r=$RNK",\n]\n',
            "train.toml:5: args: $RNK at column 5",
            "did you mean $RANK?",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\n[options]\nmax_restarts = 3\n',
            "train.toml:4: unknown setting 'max_restarts' in [options]",
            "remove [options]",
        ),
        (
            'framework = "torchrun"\nscript = "t.py"\n[options]\nmax_restart = 3\n',
            "train.toml:4: unknown setting 'max_restart' in [options] for framework torchrun; "
            "did you mean 'max_restarts'?",
            "max_restarts, rdzv",
        ),
        (
            'framework = "torchrun"\nscript = "t.py"\n[options]\nmax_restarts = "3"\n',
            'train.toml:4: options.max_restarts = "3"',
            "a whole number, 0 or more",
        ),
        (
            'framework = "mpi"\ncommand = ["mpirun", "-np", "4", "./a.out"]\n',
            "train.toml:2: mpirun in command: framework mpi starts the ranks itself",
            'framework = "mpi" writes the whole mpirun command',
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\ncommunication_backend = "ib"\n',
            'train.toml:3: communication_backend = "ib"',
            "nccl, gloo, mpi",
        ),
        (
            'framework = "pytorch"\nscript = "t.py"\nazure_names = "yes"\n',
            'train.toml:3: azure_names = "yes"',
            "true or false",
        ),
        ('framework = "pytorch"\nscript = "a\\u0000b"\n', "train.toml:2: script holds a NUL", ""),
        ('framework = "pytorch"\nscript = train.py\n', "train.toml:2: not TOML", "quotes"),
        ('framework = "pytorch"\nframework = "torchrun"\n', "train.toml:2: not TOML", "twice"),
        ('framework = "pytorch\n', "train.toml:1: not TOML", "close the quote"),
        ('framework = "py\0torch"\n', "train.toml:1: not TOML", "take that character out"),
        ('framework = "py\\torch\\q"\n', "train.toml:1: not TOML", "backslash"),
        ("[options]\n[options]\n", "train.toml:2: not TOML", "twice"),
        (b'framework = "pytorch"\nscript = "t\xe9.py"\n', "train.toml:2: byte 0xe9 is not UTF-8", "UTF-8"),
        ('framework = "pytorch"\n'.encode("utf-16"), "train.toml:1: saved as UTF-16", "UTF-8"),
        (b"", "train.toml: `framework` is missing", "torchrun"),
        (b"#" * ((1 << 20) + 1), "train.toml: larger than", ""),
    ],
)
def test_a_wrong_file_is_refused_with_line_key_found_and_allowed(tmp_path, text, message, hint):
    error = refusal(tmp_path, text)
    assert message in error.message
    assert hint in error.hint
    assert str(tmp_path) in error.message
    assert error.exit_status == 2


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_what_is_no_file_is_named(tmp_path, kind):
    path = tmp_path / "x.toml"
    if kind == "folder":
        path.mkdir()
    with pytest.raises(ProfileError, match=r"x\.toml: (there is no such file|cannot be read)"):
        load_profile(path)


def test_overrides_take_toml_values_else_text(tmp_path):
    profile = load_profile(
        write(tmp_path, FULL),
        [
            "nodes=1",
            "script=other.py",
            'args=["a b"]',
            "stop.grace=5",
            "env.NEW=0.10",
            "env.Q='x y'",
            "metrics.acc=a (.)",
        ],
    )
    assert profile.nodes == 1
    assert profile.script == "other.py"
    assert profile.args == ("a b",)
    assert profile.stop.grace == 5.0
    assert profile.env["NEW"] == "0.10"
    assert profile.env["Q"] == "x y"
    assert profile.env["NCCL_DEBUG"] == "INFO"
    assert profile.metrics["acc"] == "a (.)"


def test_the_last_override_wins(tmp_path):
    assert load_profile(write(tmp_path, FULL), ["nodes=1", "nodes=3"]).nodes == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("nodes", "--set nodes: no `=` in it"),
        ("=3", "--set =3: `` is no key"),
        ("a b=3", "--set a b=3: `a b` is no key"),
        ("nodes=two", '--set nodes=two: nodes = "two"'),
        ("nods=2", "--set nods=2: unknown key `nods`; did you mean `nodes`?"),
        ("stop.grase=2", "--set stop.grase=2: unknown key `grase` in [stop]; did you mean `grace`?"),
        ("script.x=2", "--set script.x=2: `script` is no table"),
        ('args=["$HOME"]', '--set args=["$HOME"]: args: $HOME at column 1'),
        ("framework=mpy", "--set framework=mpy: framework"),
        ("nodes=1\npython=3", "--set nodes=1\npython=3: nodes"),
    ],
)
def test_a_bad_override_is_named(tmp_path, override, message):
    assert message in refusal(tmp_path, FULL, override).message


def test_lines_are_right_after_multi_line_strings_and_in_dotted_tables(tmp_path):
    text = 'framework = "command"\ncommand = ["sh", "-c", """\nnodes = 1\n[stop]\n"""]\n'
    text += '\n[ stop ]\n\ngrace = "x"\n'
    assert "train.toml:9: stop.grace" in refusal(tmp_path, text).message


def test_a_number_of_thousands_of_digits_on_the_command_line_is_refused(tmp_path):
    text = 'framework = "pytorch"\nscript = "t.py"\n'
    path = tmp_path / "train.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"--set nodes=999.*: nodes = ") as caught:
        load_profile(path, ["nodes=" + "9" * 5000])
    assert "a whole number" in caught.value.hint
