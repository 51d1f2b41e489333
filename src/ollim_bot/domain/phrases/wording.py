"""What the grammars of moments and durations share: plain words in, a refusal's sentence out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ollim_bot.errors import BadPhrase

_LONGEST = 80
_SHOWN = 40

SMALL_NUMBERS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBERS = {word: value for value, word in enumerate(SMALL_NUMBERS, start=1)} | {
    word: 10 * value for value, word in enumerate(TENS, start=2)
}


class Unclear(Exception):
    """Why a phrase is refused, as the end of a sentence about it, and what would be right."""

    def __init__(self, why: str, *examples: str) -> None:
        super().__init__(why)
        self.why = why
        self.examples = examples

    def about(self, text: str) -> BadPhrase:
        *others, last = (f"`{example}`" for example in self.examples)
        examples = f"{', '.join(others)} or {last}" if others else last
        return BadPhrase(text, f"{_shown(text)} {self.why}. Write {examples}.")


class Trap(NamedTuple):
    """Phrases that people try and that are refused for a reason of their own.

    `why` and `examples` may quote the groups of `pattern`.
    """

    pattern: str
    why: str
    examples: tuple[str, ...]


def trapped(phrase: str, traps: Iterable[Trap]) -> Unclear | None:
    for trap in traps:
        if found := re.fullmatch(trap.pattern, phrase):
            return Unclear(found.expand(trap.why), *map(found.expand, trap.examples))
    return None


def normalized(text: str) -> str:
    """`text` in small letters and single spaces, without the punctuation that changes nothing.

    What is too long to be a phrase becomes the empty one, which no grammar knows.
    """
    words = " ".join(text.casefold().replace("’", "'").split())
    if len(words) > _LONGEST:
        return ""
    words = re.sub(r"(?<=[a-z])\.|\.$|,(?= |$)", "", words)
    return re.sub(r"(?<=[a-z])-(?=[a-z])", " ", words)


def _shown(text: str) -> str:
    """`text` as a sentence can quote it: one short line with nothing a terminal would obey."""
    line = " ".join(text[: 4 * _SHOWN].split())
    line = "".join(char if char.isprintable() and char != "`" else "?" for char in line)
    if not line:
        return "An empty text"
    return f"`{line}`" if len(line) <= _SHOWN else f"`{line[:_SHOWN]}…`"
