"""Lengths of time as job files have them, and how often an item comes again."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import NamedTuple

from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.text import as_code

_LENGTH = r"(?a)([0-9]{1,5}) ?(m|h|d)"
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def parse_length(text: str) -> timedelta:
    """A length such as `30m`, `2h` or `1d`; raises `ValueError` for anything else."""
    found = re.fullmatch(_LENGTH, text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a length such as 30m")
    return int(found[1]) * _UNITS[found[2]]


def length_text(length: timedelta) -> str:
    """The inverse of `parse_length`, with the largest unit that fits."""
    unit = next(name for name, size in _UNITS.items() if name == "m" or not length % size)
    return f"{length // _UNITS[unit]}{unit}"


class Nag(NamedTuple):
    """How often an unanswered item comes again, and the pause before each time: `10m x 4`."""

    pause: timedelta
    times: int

    @classmethod
    def parse(cls, text: str) -> Nag:
        """Raises `ValueError`, with a sentence, for anything but 2 min to 24 h and 1 to 8 times."""
        pause, _, times = text.partition("x")
        try:
            nag = cls(parse_length(pause), int(times))
        except ValueError:
            raise ValueError(
                f"{as_code(text, 40)} is no pause and number. Try `10m x 4`."
            ) from None
        shortest, longest, most = timedelta(minutes=2), timedelta(days=1), 8
        right = cls(min(max(nag.pause, shortest), longest), min(max(nag.times, 1), most))
        if right == nag:
            return nag
        if nag.pause < shortest:
            why = "too often: the shortest pause is 2 minutes"
        elif nag.pause > longest:
            why = "too rare: the longest pause is 24 hours"
        else:
            why = f"not possible: it can come again 1 to {most} times"
        raise ValueError(f"{as_code(text, 40)} is {why}. Try `{right}`.")

    @property
    def in_words(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"every {duration_in_words(self.pause)} until you answer, at most {times}"

    def __str__(self) -> str:
        return f"{length_text(self.pause)} x {self.times}"
