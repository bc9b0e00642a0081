"""Python source without comments, docstrings and wide indents: half as many bytes for a node of the agent."""

from __future__ import annotations

import ast
import io
import tokenize

_Place = tuple[int, int]
"""A line, counted from 1, and an offset in its bytes."""


def slimmed(source: bytes) -> bytes:
    """The same program, every statement on the line where it was, so that tracebacks still fit the source.

    Args:
        source: Python source in UTF-8.

    Raises:
        SyntaxError: it is none.
    """
    lines = source.splitlines(keepends=True)
    for (row, column), (last_row, last_column), instead in sorted(
        [*_bare_strings(source), *_comments(source, lines)], reverse=True
    ):
        head, tail = lines[row - 1][:column], lines[last_row - 1][last_column:]
        kept = head + instead if instead else head.rstrip()
        lines[row - 1 : last_row] = (
            [kept + b"\n"] * (last_row > row)
            + [b"\n"] * (last_row - row - 1)
            + [tail if last_row > row else kept + tail]
        )
    return _narrowed(b"".join(lines))


def _narrowed(source: bytes) -> bytes:
    """With one blank for each four of an indent, but inside of strings of several lines."""
    strings = {
        row
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno is not None
        for row in range(node.lineno + 1, node.end_lineno + 1)
    }
    return b"".join(
        line if row in strings else b" " * ((len(line) - len(line.lstrip(b" "))) // 4) + line.lstrip(b" ")
        for row, line in enumerate(source.splitlines(keepends=True), start=1)
    )


def _comments(source: bytes, lines: list[bytes]) -> list[tuple[_Place, _Place, bytes]]:
    found = []
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            row = token.start[0]
            begin = len(lines[row - 1].decode()[: token.start[1]].encode())
            found.append(((row, begin), (row, begin + len(token.string.encode())), b""))
    return found


def _bare_strings(source: bytes) -> list[tuple[_Place, _Place, bytes]]:
    """Docstrings, and the strings that stand below a name to explain it: nothing reads them."""
    return [
        (
            (node.lineno, node.col_offset),
            (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
            b"0",
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
