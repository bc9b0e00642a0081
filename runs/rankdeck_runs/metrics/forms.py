"""The numbers in one line of a log, in the forms that training programs usually write. Pure.

`loss 0.123`, `loss=0.1`, `lr: 1e-4`, `41.2k tok/s`, tqdm's bar (`45/100 [00:10<00:12, 4.43it/s, loss=0.12]`),
the Hugging Face Trainer's `{'loss': 0.1, 'epoch': 0.5}`, JSON lines, Megatron's `lm loss: 7.1E+00 |`.
Every repeat in the expressions here is bounded, so that no line, whatever it holds, costs more than its
length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

SIGNS = (b"loss", b"lr", b"rate", b"acc", b"ppl", b"perplex", b"norm", b"reward", b"flops", b"mfu", b"/s",
         b"s/it", b"per_sec", b"per sec")  # fmt: skip
"""One of them is in every line that matters, in lower case: what has none is not looked at any further."""

_NUMBER = (
    r"(?P<{0}>[-+]?(?:nan|inf(?:inity)?|\d{{1,3}}(?:,\d{{3}}){{1,5}}(?:\.\d{{0,20}})?"
    r"|(?:\d{{1,20}}(?:\.\d{{0,20}})?|\.\d{{1,20}})(?:e[-+]?\d{{1,3}})?))"
)
_NAMED = re.compile(
    r"(?<![\w/.-])(?P<name>(?:(?:train|training|val|valid|validation|test|eval|lm|mlm|total|mean)[ ])?"
    r"(?:learning[ ]rate|grad(?:ient)?[ ]norm|(?:samples|tokens|images|steps)[ ]per[ ]second"
    r"|[a-z][\w/.-]{0,48}))[\"']?"
    r"(?:\s{0,3}[:=]\s{0,3}|\s{1,2})[\"']?(?:tensor\()?"
    + _NUMBER.format("value")
    + r"(?P<scale>k?)(?![\w.]*\w)",
)
_RATE = re.compile(
    r"(?<![\w.])" + _NUMBER.format("value") + r"(?P<scale>[kmg]?)\s?"
    r"(?P<what>samples?|tokens?|toks?|images?|imgs?|seqs?|sequences?|it|iters?|iterations?|steps?)"
    r"(?:/s(?:ec(?:ond)?)?\b| per sec(?:ond)?\b)",
)
_SECONDS = re.compile(r"(?<![\w.])(?P<value>\d{1,9}(?:\.\d{0,9})?)\s?s/(?:it|step|iter)\b")
_BAR = re.compile(r"\|\s{0,2}(\d{1,12})/\d{1,12} \[")
_STEP = re.compile(
    r"(?<![\w.-])(?:global[_ ])?(?:step|iter|iteration|batch)s?[\"']?"
    r"(?:\s{0,3}[:=#]\s{0,3}|\s{1,12}|\s?\[\s{0,6})[\"']?"
    r"(\d{1,15})(?![\w.]*[\w])",
)
_OF = re.compile(r"epoch\b[^\[\]]{0,20}\[\s{0,6}(\d{1,12})/\d{1,12}\]", re.IGNORECASE)

_WORDS = frozenset(
    {"loss", "lr", "acc", "accuracy", "top1", "top5", "acc1", "acc5", "ppl", "perplexity", "mfu"}
    | {"flops", "tflops", "reward", "gnorm", "kl", "throughput"}
)
"""A name is a metric's if one of its parts is one of these."""
_WHOLE = {
    "learning_rate": "lr",
    "learning rate": "lr",
    "grad_norm": "grad_norm",
    "grad norm": "grad_norm",
    "gradient norm": "grad_norm",
    "gradient_norm": "grad_norm",
    "epoch": "epoch",
}
_UNITS = {"sample": "samples", "token": "tokens", "tok": "tokens", "image": "images", "img": "images",
          "seq": "sequences", "sequence": "sequences", "iter": "it", "iteration": "it",
          "step": "steps"}  # fmt: skip
_NAMED_RATE = re.compile(
    r"(?P<before>(?:\w{1,20}[_/.])?)(?P<what>samples|tokens|tok|images|steps|iterations|it)"
    r"(?:/s(?:ec(?:ond)?)?|[_ ]per[_ ]sec(?:ond)?(?:[_ ]per[_ ]gpu)?)"
)
_SPLIT = re.compile(r"[/_.\- ]")
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
MOST_VALUES = 32
"""Numbers taken of one line."""


@dataclass(slots=True)
class Found:
    """What one line says."""

    step: int | None = None
    """The training step it speaks of; None: it does not say."""
    values: dict[str, float] = field(default_factory=dict)
    """Metric -> value; may hold NaN and infinities, which are the news where a training diverges."""


def find(line: str) -> Found | None:
    """The numbers in a line; None: it holds none that is a metric.

    Args:
        line: text without control characters.
    """
    line = line.lower()
    found = Found()
    for match in _NAMED.finditer(line):
        name = metric_name(match["name"])
        if name and len(found.values) < MOST_VALUES:
            found.values.setdefault(name, number(match["value"]) * _SCALES[match["scale"]])
    if "/s" in line or " per sec" in line:
        for match in _RATE.finditer(line):
            what = match["what"]
            what = _UNITS.get(what.rstrip("s"), what)
            found.values.setdefault(f"{what}/s", number(match["value"]) * _SCALES[match["scale"]])
    if "s/" in line and (took := _SECONDS.search(line)):
        seconds = float(took["value"])
        if seconds > 0:
            found.values.setdefault("it/s", 1 / seconds)
    if not found.values or found.values.keys() == {"epoch"}:
        return None
    if place := _STEP.search(line) or _BAR.search(line) or _OF.search(line):
        found.step = int(place[1])
    return found


@lru_cache(maxsize=4096)  # logs say the same names again and again
def metric_name(name: str) -> str:
    """The series that a name in a log belongs to (`train/loss`, `lr`, `samples/s`); empty: it is no metric's.

    Args:
        name: in lower case.
    """
    if whole := _WHOLE.get(name):
        return whole
    if rate := _NAMED_RATE.fullmatch(name):
        what = rate["what"]
        return f"{rate['before']}{_UNITS.get(what.rstrip('s'), what)}/s"
    if name.endswith(("grad_norm", "learning_rate")) or not _WORDS.isdisjoint(_SPLIT.split(name)):
        return name.replace(" ", "_")
    return ""


def number(text: str) -> float:
    """A number as logs write it: `1,234.5`, `1e-4`, `nan`, `-inf`."""
    return float(text.replace(",", ""))
