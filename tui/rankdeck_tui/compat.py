"""The one place that changes how Textual works. Each entry names its fault, and goes once that is mended."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from textual.drivers import linux_driver

_MARK: Final = "_rankdeck_lenient"


def accept_any_terminal_bytes() -> None:
    """Keep bytes that are not UTF-8 from ending the app (Textualize/textual#6668).

    A terminal that falls back to X10 mouse reports, as tmux does for a moment after a re-attach, sends
    coordinates past column 95 as single bytes above 0x7F. Textual decodes the terminal's input strictly and
    dies of the first one. With `errors="replace"` such a byte becomes U+FFFD, which is no key. Calling this
    twice does no harm.
    """
    if getattr(linux_driver, _MARK, False):
        return

    def lenient(encoding: str) -> Callable[[], Any]:
        return partial(codecs.getincrementaldecoder(encoding), errors="replace")

    setattr(linux_driver, "getincrementaldecoder", lenient)  # noqa: B010 - the module does not export the name
    setattr(linux_driver, _MARK, True)
