"""Tags: the first thing in a prompt that the owner did not type."""

from __future__ import annotations

from itertools import pairwise

from ollim_bot.domain.jobs import JobKind
from ollim_bot.prompts.lookalikes import lookalikes

FORK_STARTED = "[fork-started]"
FORK_TIMEOUT = "[fork-timeout]"
BUTTON = "[button]"
SYSTEM = "[system]"


def job_tag(kind: JobKind, job_id: str, *, background: bool) -> str:
    """`[routine-bg:abc123]`; a webhook is always in the background and does not say so."""
    mark = "-bg" if background and kind is not JobKind.WEBHOOK else ""
    return f"[{kind}{mark}:{job_id}]"


def neutralised(text: str) -> str:
    """Text of the owner or of a stranger, in which nothing can pose as ours.

    A backslash stands before each tag, time or header in it, and before a quote at its beginning.
    """
    return "\\".join(_cut(text, lookalikes(text)))


def restored(text: str) -> str:
    """What was typed, from what `neutralised` made of it."""
    pieces = _cut(text, lookalikes(text))
    return "".join([*(piece.removesuffix("\\") for piece in pieces[:-1]), pieces[-1]])


def one_line(text: str) -> str:
    """Neutralised, and without a line break of any kind."""
    return neutralised(" ".join(text.split()))


def one_path(path: str) -> str:
    """As `one_line`, but with every space in its place, so that the agent finds the file."""
    return neutralised(" ".join(path.splitlines()))


def _cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *places, len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]
