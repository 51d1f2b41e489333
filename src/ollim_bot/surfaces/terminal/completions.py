"""How a command is asked what can stand at the cursor of an unfinished line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ollim_bot.surfaces.terminal.caller import Caller


class WordAtCursor(str):
    """The last word of an unfinished line. A command that meets it raises `CompletionAsked`."""

    __slots__ = ()


class Completion(NamedTuple):
    """A word that can stand at the cursor, and what it means."""

    word: str
    about: str = ""


class CompletionAsked(Exception):
    """`find` finds the words that can stand at the cursor; `takes_files`: names of files can too.

    Raised in place of the work of the command.
    """

    def __init__(
        self, find: Callable[[Caller], Iterable[Completion]], *, takes_files: bool = False
    ) -> None:
        super().__init__()
        self.find = find
        self.takes_files = takes_files


def time_zones(*_: object) -> Iterable[Completion]:
    from zoneinfo import available_timezones

    return map(Completion, sorted(available_timezones()))


# The second argument has the words that stand before, without flags.
Completions = Callable[["Caller", Sequence[str]], Iterable[Completion]]
