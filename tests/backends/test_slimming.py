"""The agent travels without its comments, docstrings and wide indents, and is the same program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rankdeck_backends
from rankdeck_backends.slimming import slimmed

AGENT = sorted((Path(rankdeck_backends.__file__).parent / "agent").glob("*.py"))


class Wordless(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant) and (
            node.value.value == 0 or isinstance(node.value.value, str)
        ):
            node.value = ast.Constant(0)
        return node


def program(source: bytes) -> str:
    return ast.dump(Wordless().visit(ast.parse(source)))


def places(source: bytes) -> list[tuple[type, int]]:
    return [(type(node), node.lineno) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]


@pytest.mark.parametrize("path", AGENT, ids=lambda path: path.name)
def test_the_agent_is_the_same_program(path: Path) -> None:
    source = path.read_bytes()
    slim = slimmed(source)
    assert program(slim) == program(source)
    assert places(slim) == places(source)
    assert len(slim) < len(source)


def test_what_looks_like_a_comment_or_a_docstring_stays() -> None:
    source = (
        b'x = "# no comment"  # one\n'
        b"def f():\n"
        b'    """Two lines,\n'
        b'    told."""\n'
        b'    return """kept  \n    # as it is  \n"""\n'
        b'name = "\xc3\xa9"  # \xc3\xa9\n'
    )
    assert slimmed(source) == (
        b'x = "# no comment"\ndef f():\n 0\n\n return """kept  \n    # as it is  \n"""\nname = "\xc3\xa9"\n'
    )


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        slimmed(b"def f(:\n")
