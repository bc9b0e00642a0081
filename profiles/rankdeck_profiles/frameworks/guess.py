"""Which framework a script is written for, read off its text: what it imports and which names it uses.

A proposal with its reason, never a verdict. Where the script itself tells nothing, or only that it may not
share the work, its own modules are asked, one import deep. Pure; everything is parsed and never run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Guess", "guess", "imported"]


@dataclass(frozen=True, slots=True)
class Guess:
    """A framework that fits a script."""

    framework: str
    why: str
    """What was seen in the script, as what the script does: `imports lightning`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `[options]` that fit it as well."""
    caution: str = ""
    """What the person should look at, where the script looks as if it did not share the work."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What stands in a script."""

    names: frozenset[str]
    """Dotted names that are imported, or used through an import, in full: `torch.distributed`."""
    texts: frozenset[str]
    """Its string constants."""
    bare_calls: frozenset[str] = frozenset()
    """Of the names, those that are called without any argument."""

    def uses(self, *wanted: str) -> str:
        """The first of these names that is there, itself or as the beginning of one; else nothing."""
        for name in wanted:
            if any(seen == name or seen.startswith(name + ".") for seen in self.names):
                return name
        return ""

    def ends(self, last: str) -> bool:
        """Whether a name's last part is this."""
        return any(seen.rpartition(".")[2] == last for seen in self.names)


def guess(name: str, text: str, beside: Mapping[str, str] | None = None) -> Guess | None:
    """The framework that a script seems to be written for.

    Args:
        name: the file's name.
        text: what is in it.
        beside: file name -> text of its own modules that it imports, in the order of the imports.

    Returns:
        A proposal; None where nothing in the script speaks for any framework.
    """
    if not _is_python(name, text):
        return Guess("command", "is no Python script")
    place, own = _judged(text)
    if own is not None and not own.caution and _RULES[place] is not _variables:
        return own
    for file, told in sorted(
        ((file, _judged(of_module)) for file, of_module in (beside or {}).items()),
        key=lambda each: each[1][0],
    ):
        at, found = told
        if found is not None and not found.caution and at < place:
            return replace(found, why=f"imports {file}, which {found.why}")
    return own


def imported(text: str) -> tuple[str, ...]:
    """The modules that a script names in its imports, in their order, each once.

    `from a import b` may mean the module `a.b` as well as a name in `a`: both are told. A relative one begins
    with its dots.
    """
    tree = _parsed(text)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            if node.module:
                found[base] = None
            joint = "." if node.module else ""
            found.update(dict.fromkeys(f"{base}{joint}{alias.name}" for alias in node.names))
    return tuple(found)


def _judged(text: str) -> tuple[int, Guess | None]:
    """The first rule's proposal, and which rule it is: the earlier, the more its library wraps."""
    seen = _look(text)
    for place, rule in enumerate(_RULES):
        found = rule(seen)
        if found is not None:
            return place, found
    return len(_RULES), None


def _is_python(name: str, text: str) -> bool:
    if name.endswith((".py", ".pyw")):
        return True
    first = text.partition("\n")[0]
    return "python" in first if first.startswith("#!") else not name.endswith((".sh", ".bash", ".zsh"))


_IMPORT = re.compile(r"^[ \t]*(?:import[ \t]+([\w.]+)|from[ \t]+([\w.]+)[ \t]+import\b)", re.MULTILINE)


def _look(text: str) -> _Seen:
    """What stands in a script; of one that this Python can't parse, the modules it imports."""
    tree = _parsed(text)
    if tree is None:
        return _Seen(frozenset(a or b for a, b in _IMPORT.findall(text)), frozenset())
    nodes = list(ast.walk(tree))
    full = _imports(nodes)
    names = set(full.values())
    texts = set()
    bare = set()
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            names.update(_in_full(node, full))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.Call) and not node.args and not node.keywords:
            bare.update(_in_full(node.func, full))
    return _Seen(frozenset(names), frozenset(texts), frozenset(bare))


def _parsed(text: str) -> ast.Module | None:
    """The script's syntax; None where this Python can't parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a script writes oddly is its own affair
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports(nodes: list[ast.AST]) -> dict[str, str]:
    """Name in the script -> what it is in full."""
    full: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                full[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return full


def _in_full(node: ast.AST, full: Mapping[str, str]) -> list[str]:
    """`tf.distribute.X` as `tensorflow.distribute.X`; nothing for names that are not imported."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return []
    parts.append(node.id)
    parts.reverse()
    for cut in range(len(parts), 0, -1):  # `import a.b` binds a dotted name: the longest one counts
        head = full.get(".".join(parts[:cut]))
        if head is not None:
            return [".".join([head, *parts[cut:]])]
    known = any(name.startswith(parts[0] + ".") for name in full)
    return [".".join(parts)] if known else []


# The more a library wraps, the earlier it is asked for: a Lightning script imports torch too.


def _horovod(seen: _Seen) -> Guess | None:
    found = seen.uses("horovod")
    return Guess("horovod", f"imports {found}") if found else None


def _lightning(seen: _Seen) -> Guess | None:
    found = seen.uses("lightning", "pytorch_lightning", "lightning_fabric")
    return Guess("lightning", f"imports {found}") if found else None


def _transformers(seen: _Seen) -> Guess | None:
    for name in ("Trainer", "Seq2SeqTrainer", "TrainingArguments", "Seq2SeqTrainingArguments"):
        if seen.uses(f"transformers.{name}"):
            return Guess("transformers", f"uses the {name} of transformers")
    return (
        Guess("transformers", "imports trl, whose trainers are those of transformers")
        if seen.uses("trl")
        else None
    )


def _accelerate(seen: _Seen) -> Guess | None:
    return Guess("accelerate", "imports accelerate") if seen.uses("accelerate") else None


def _deepspeed(seen: _Seen) -> Guess | None:
    return Guess("deepspeed", "imports deepspeed") if seen.uses("deepspeed") else None


def _mpi(seen: _Seen) -> Guess | None:
    return Guess("mpi", "imports mpi4py") if seen.uses("mpi4py") else None


def _spawn(seen: _Seen) -> Guess | None:
    if seen.uses("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"):
        return Guess("command", "starts a node's ranks itself, by torch.multiprocessing")
    return None


def _old_torch(seen: _Seen) -> Guess | None:
    flag = next((text for text in ("--local_rank", "--local-rank") if text in seen.texts), "")
    if seen.uses("torch") and flag and "LOCAL_RANK" not in seen.texts:
        return Guess(
            "launch", f"takes {flag}, as torch.distributed.launch gave it", {"legacy_local_rank": True}
        )
    return None


def _torch(seen: _Seen) -> Guess | None:
    found = seen.uses("torch.distributed", "torch.nn.parallel.DistributedDataParallel", "torchelastic")
    if found:
        return Guess("torchrun", f"uses {found}")
    if seen.uses("torch") and "LOCAL_RANK" in seen.texts:
        return Guess("torchrun", "imports torch and reads LOCAL_RANK")
    return None


def _tensorflow(seen: _Seen) -> Guess | None:
    if not seen.uses("tensorflow"):
        return None
    if seen.ends("ParameterServerStrategy") or seen.ends("ParameterServerStrategyV2"):
        return Guess("tensorflow", "uses TensorFlow's ParameterServerStrategy", {"strategy": "ps"})
    if seen.ends("MultiWorkerMirroredStrategy"):
        return Guess("tensorflow", "uses TensorFlow's MultiWorkerMirroredStrategy")
    if seen.uses("tensorflow.distribute"):
        return Guess("tensorflow", "uses tensorflow.distribute")
    caution = (
        "no tf.distribute strategy is in it: see that it shares the work, else each worker does all of it"
    )
    return Guess("tensorflow", "imports tensorflow", caution=caution)


def _jax(seen: _Seen) -> Guess | None:
    if not seen.uses("jax", "flax"):
        return None
    if "jax.distributed.initialize" in seen.bare_calls:
        return Guess("jax", "calls jax.distributed.initialize() bare", {"slurm_names": True})
    if seen.uses("jax.distributed"):
        return Guess("jax", "uses jax.distributed")
    caution = (
        "no jax.distributed.initialize() is in it: see that it shares the work, else each node does all of it"
    )
    return Guess("jax", f"imports {seen.uses('jax', 'flax')}", caution=caution)


def _lone_torch(seen: _Seen) -> Guess | None:
    caution = (
        "nothing of torch.distributed is in it: see that it shares the work, else each rank does all of it"
    )
    return Guess("torchrun", "imports torch", caution=caution) if seen.uses("torch") else None


def _variables(seen: _Seen) -> Guess | None:
    found = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in seen.texts]
    return Guess("pytorch", f"reads {' and '.join(found[:2])}") if found else None


_RULES: tuple[Callable[[_Seen], Guess | None], ...] = (
    _horovod,
    _lightning,
    _transformers,
    _accelerate,
    _deepspeed,
    _mpi,
    _spawn,
    _old_torch,
    _torch,
    _tensorflow,
    _jax,
    _lone_torch,
    _variables,
)
