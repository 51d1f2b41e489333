"""How text looks in a terminal: whole words, colour where it helps, commands that can be typed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.text import nearest, with_program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_NARROWEST = 30


class Style(Enum):
    BOLD = "1"
    GREEN = "32"
    YELLOW = "33"
    RED = "31"


def width_of(stream: TextIO) -> int | None:
    """The columns of the terminal; None if `stream` goes elsewhere."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def wrapped(line: str, width: int | None, indent: str = "") -> str:
    """The line broken between words; the further lines begin with `indent`.

    A word that is longer than a line, such as an address, stays whole.
    """
    if width is None or len(line) <= width or len(indent) > width - _NARROWEST:
        return line
    from textwrap import wrap

    head = line[: len(line) - len(line.lstrip())]
    lines = wrap(
        line.lstrip(),
        width,
        initial_indent=head,
        subsequent_indent=indent or head,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def show(text: str, indent: str = "", *, stream: TextIO | None = None) -> None:
    """Print the text in whole words, with its commands as the person can type them."""
    stream = stream or sys.stdout
    width, lines = width_of(stream), typed(text).split("\n")
    print("\n".join(wrapped(line, width, indent) for line in lines), file=stream, flush=True)


def painted(text: str, style: Style, stream: TextIO, environ: Mapping[str, str]) -> str:
    """The text in this style, if `stream` is a terminal with colours and `NO_COLOR` is not set."""
    has_colour = not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    return f"\033[{style.value}m{text}\033[0m" if has_colour and stream.isatty() else text


def agrees(question: str) -> bool:
    """Whether the answer is a yes; the end of the input is a no."""
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        return False
    return answer.strip().casefold() in ("y", "yes")


def typed(text: str) -> str:
    """The text with its commands as the person can type them in this shell."""
    return with_program(text, own_name())


def own_name() -> str:
    """How this program is called in this shell."""
    from ollim_bot.kernel.base.environment import called_program

    return called_program(sys.argv[0], sys.executable, os.environ.get("PATH", ""), os.getcwd())


# Words for one thing: where a command knows another of a row, that one is meant.
_SAME = (
    ("add", "create", "new", "set", "subscribe", "install", "login"),
    ("list", "ls", "status", "all"),
    ("show", "get", "view", "read"),
    ("edit", "change", "update", "modify", "set"),
    ("cancel", "delete", "remove", "rm", "unset", "unsubscribe", "uninstall", "logout"),
    ("pause", "disable", "stop", "reject"),
    ("resume", "enable", "start", "reopen", "approve"),
    ("done", "complete", "finish", "tick"),
    ("snooze", "later"),
    ("unset", "reset"),
    ("search", "find", "grep"),
)


def no_such(sentence: str, word: str, known: Iterable[str], overview: str) -> WrongInput:
    """Refuse the word, and name the known one that was meant, or where to find all."""
    names = list(known)
    others = (each for row in _SAME if word in row for each in row)
    meant = next((each for each in others if each in names), None) or _misspelt(word, names)
    hint = f"Did you mean `{meant}`?" if meant else f"`{overview}` shows them all."
    return WrongInput(f"{sentence} {hint}")


def _misspelt(word: str, names: Sequence[str]) -> str | None:
    begun = [name for name in names if len(word) > 1 and name.startswith(word)]
    return begun[0] if len(begun) == 1 else nearest(word, names)
