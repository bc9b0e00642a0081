"""A shell that allows few open files: as many as there can be are used, and the rest is told."""

import subprocess
import sys
import textwrap

from rankdeck_backends import open_files

BEGIN = """
import asyncio, json, resource, sys
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from rankdeck_backends import open_backend
from rankdeck_backends.base import NodeError
from rankdeck_profiles.model import BackendKind, PoolNode
"""


def run(program: str, soft: int, hard: int, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program), str(soft), str(hard), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_too_few_files_for_all_nodes_are_told_by_node(sshd):
    program = """
        async def main():
            backend = open_backend(BackendKind.SSH, connect_timeout=60)
            nodes = [PoolNode(f"n{n}", "node") for n in range(60)]
            found = await asyncio.gather(*map(backend.open, nodes), return_exceptions=True)
            errors = [each for each in found if isinstance(each, BaseException)]
            opened = [each for each in found if not isinstance(each, BaseException)]
            assert 5 <= len(opened) <= 55, errors
            for error in errors:
                assert isinstance(error, NodeError), repr(error)
                assert error.step == "connect"
                assert f"may have {hard} files open" in error.what
                assert "ulimit -n" in error.hint
            for each in opened:
                assert (await each.request("ping")).header["ok"]
                await each.close()
            await backend.close()
            later = await backend.open(nodes[-1])
            await later.close()
            await backend.close()
        asyncio.run(main())
    """
    run(program, 64, 72)


def test_the_limit_is_raised_and_programs_on_this_machine_get_the_shells():
    program = """
        async def main():
            backend = open_backend(BackendKind.LOCAL)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
            connection = await backend.open(PoolNode("here", "127.0.0.1"))
            asked = {"python": sys.executable, "setup": [], "cwd": "/", "remove": [], "env": {}}
            reply = await connection.stream("look", lambda header, body: None, **asked)
            told = json.loads(reply.body)["syscalls"]
            await connection.close()
            print(told["rlimit_nofile"], told["rlimit_nofile_hard"])
        asyncio.run(main())
    """
    assert run(program, 200, 1500).split() == ["200", "1500"]


def test_a_command_line_is_kept_word_by_word(monkeypatch):
    words = ["printf", "%s|", "a b", "$HOME", "'", ""]
    monkeypatch.setattr(open_files, "_shell", [123])
    wrapped = open_files.as_in_shell(words)
    assert wrapped != words
    assert subprocess.run(wrapped, capture_output=True, timeout=60).stdout == b"a b|$HOME|'||"
    limit = open_files.as_in_shell(["sh", "-c", "ulimit -Sn"])
    assert subprocess.run(limit, capture_output=True, timeout=60).stdout == b"123\n"
