"""Words and values that launchers and shells like to mangle."""

NASTY = [
    "",
    " ",
    "it's",
    'a"b',
    "a\nb\n",
    "`id`",
    "\\",
    "\\n",
    "*",
    "-n",
    "#x",
    "é☃",
    "$$(id)",
    "$$HOME",
    "$$$$",
    "$$local_rank",
    "$$RANK",
    "${RANK}",
    "x$LOCAL_RANK'",
    "$WORLD_SIZE$$$RANK",
]
"""As arguments: `$RANK`-like names are filled in, `$$` is a dollar."""

VALUES = {
    "SINGLE": "it's",
    "BOTH": "both ' and \" and \\",
    "DOLLAR": "$HOME $(touch /tmp/rankdeck-pwned) ${RANK} `id`",
    "BACKSLASH": "C:\\tmp\\",
    "EQUALS": "=k=v=w",
    "LINES": "a\nb\n",
    "SPACES": "  two  words ",
    "PERCENT": "%n %h %",
    "JSON": '{"a": ["b", "c d"]}',
    "UNICODE": "Größe 日本 🚀",
    "EMPTY": "",
    "GLOB": "*?[a-z]",
    "COLON": ":",
    "SLURM_LIKE": "64(x2)",
    "LONG": "x" * (100 << 10),
}
"""As variables: all arrive byte for byte."""
