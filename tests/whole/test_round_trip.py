"""What reaches a rank is byte for byte what the profile says, in every framework."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rankdeck_profiles import frameworks, placeholders
from rankdeck_profiles.plan_checks import LONGEST
from whole.reports import WAYS, Bench, Report, Way, parameters
from whole.site import Site

pytestmark = pytest.mark.timeout(900)

VALUES = {
    "SINGLE": "it's",
    "DOUBLE": 'say "hi"',
    "BOTH": "both ' and \" and \\' \\\"",
    "DOLLAR": "$HOME $(touch /tmp/executed) ${RANK} $$ $5 `touch /tmp/executed`",
    "BACKSLASH": "C:\\tmp\\",
    "NOT_A_LINE": "a\\nb",
    "LINES": "one\ntwo\n\n",
    "LOOKS_LIKE_MORE": "x\nRANK=77\nMASTER_ADDR=elsewhere\n",
    "TABS": "\ta\tb\t",
    "BLANKS": "  two  words ",
    "EMPTY": "",
    "EQUALS": "=k=v=w=",
    "SEPARATORS": "a;b&c|d>e<f",
    "GLOB": "*?[a-z]~",
    "COMMENT": "#not a comment",
    "HISTORY": "!! !$",
    "PERCENT": "%n %h %d %s %",
    "JSON": '{"a": {"b": [1, 2]}, "c": "d e"}',
    "UNICODE": "Größe 日本 🚀 \u202eabc",
    "ESCAPE": "\x1b[31mred\x07\r",
    "COLON": ":",
    "COMMAS": "a,b=c,,d",
    "DASHES": "--option=-x",
    "SLURM_JOB_CPUS_PER_NODE": "64(x2)",
    "LS_COLORS": "rs=0:di=01;34:*.tar=01;31",
    "PS1": "\\u@\\h:$(pwd)$ ",
    "LESSOPEN": "||/usr/bin/lesspipe.sh %s",
    "LONG": "x" * (100 << 10),
}
"""Each a value of a variable, and an argument."""

PLACES = ("--r$RANK", "${LOCAL_RANK}of$WORLD_SIZE", "$$LOCAL_RANK", "$$5", "$NODE_RANK'$$RANK\"${RANK}\n$$$$")
"""Further arguments: names that are filled in, and dollars that are meant."""

LARGE = {"SECOND": "y" * (100 << 10), "LONGEST": "z" * (LONGEST - len("LONGEST=") - 1)}
"""More than a printed script, or a message, could hold."""

FUNCTION = 'tell() {\n  eval `echo "$*"`\n}\nexport -f tell'
TOKEN = "s3cret ' \" $HOME \\ \n`id` \udcff\udcfe"
"""As a variable of the user's own, with bytes that are no text."""


@pytest.fixture(autouse=True)
def _functions(site: Site) -> None:
    """As with environment modules: the logins' shells export functions."""
    for node in ("n1", "n2"):
        site.cluster.run(node, ["sh", "-c", "cat >~/.bashrc"], stdin=f"{FUNCTION}\n".encode())


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def assert_arrived(way: Way, reports: dict[str, Report], values: dict[str, str], args: list[str]) -> None:
    """Every rank has every variable and argument, with its own numbers."""
    assert len(reports) == way.ranks
    ranks = set()
    for report in reports.values():
        assert {name: report.env.get(raw(name)) for name in values} == {
            name: raw(value) for name, value in values.items()
        }
        known = {
            name: report.env[raw(name)].decode() for name in placeholders.NAMES if raw(name) in report.env
        }
        if "RANK" not in known:  # Lightning by node: its Trainer numbers the processes
            known.update(RANK=known["NODE_RANK"], LOCAL_RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1")
        assert report.argv == [raw(word) for word in placeholders.fill(args, known)]
        each = way.ranks // 2
        assert (int(known["NODE_RANK"]), int(known["LOCAL_RANK"])) == divmod(int(known["RANK"]), each)
        ranks.add(int(known["RANK"]))
    assert ranks == set(range(way.ranks))


def test_no_framework_is_left_out() -> None:
    assert {way.framework for way in WAYS.values()} == set(frameworks.names())


@pytest.mark.parametrize("name", parameters(WAYS))
def test_words_and_values_arrive(site: Site, name: str) -> None:
    way = WAYS[name]
    bench = Bench(site)
    args = [*PLACES, *map(placeholders.escape, VALUES.values())]
    bench.save("whole", way, *args, env={**VALUES, **LARGE}, env_from=["TOKEN"], setup=[FUNCTION])
    bench.save("printed", way, *args[:-1], env=VALUES, env_from=["TOKEN"])
    bench.site.shell.environment["TOKEN"] = TOKEN
    reports = bench.run("whole")
    assert_arrived(way, reports, {**VALUES, **LARGE, "TOKEN": TOKEN}, args)
    for report in reports.values():
        assert b"eval `echo" in report.env[b"BASH_FUNC_tell%%"]
    token = site.cluster.shared / "token.sh"
    token.write_bytes(raw(f"export TOKEN={shlex.quote(TOKEN)}\n"))
    by_hand = bench.by_hand("printed", f". {token}; dash")
    assert_arrived(way, by_hand, {**VALUES, "TOKEN": TOKEN}, args[:-1])
    for node in ("n1", "n2"):
        site.cluster.run(node, ["test", "!", "-e", "/tmp/executed"])
    record = next(Path(site.shell.environment["RANKDECK_HOME"]).glob("runs/*"))
    assert not [path for path in record.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    site.assert_nothing_runs()


def test_a_large_environment_for_many_ranks_of_a_node(site: Site) -> None:
    site.shell.write("config/pools/lab.toml", 'backend = "ssh"\nnodes = ["n[1-2]"]\nslots = 8\n')
    bench = Bench(site)
    way = Way("pytorch", 16)
    values = {f"LARGE_{number}": str(number) * (100 << 10) for number in range(6)}
    bench.save("large", way, env=values)
    assert_arrived(way, bench.run("large"), values, [])
