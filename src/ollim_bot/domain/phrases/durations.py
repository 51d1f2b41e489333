"""Durations in words, and the normal form of a phrase."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import pairwise
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


class KnownMistake(NamedTuple):
    """A phrase that people often try and that is refused with its own reason.

    `why` and `examples` may quote the groups of `pattern`.
    """

    pattern: str
    why: str
    examples: tuple[str, ...]


def known_mistake(phrase: str, mistakes: Iterable[KnownMistake]) -> Unclear | None:
    for mistake in mistakes:
        if found := re.fullmatch(mistake.pattern, phrase):
            return Unclear(found.expand(mistake.why), *map(found.expand, mistake.examples))
    return None


def normalized(text: str) -> str:
    """`text` in small letters and single spaces, without irrelevant punctuation.

    A text that is too long to be a phrase becomes empty, which no grammar accepts.
    """
    words = " ".join(text.casefold().replace("’", "'").split())
    if len(words) > _LONGEST:
        return ""
    words = re.sub(r"(?<=[a-z])\.|\.$|,(?= |$)", "", words)
    return re.sub(r"(?<=[a-z])-(?=[a-z])", " ", words)


def _shown(text: str) -> str:
    """`text` as a sentence can quote it: one short line without control characters."""
    line = " ".join(text[: 4 * _SHOWN].split())
    line = "".join(char if char.isprintable() and char != "`" else "?" for char in line)
    if not line:
        return "An empty text"
    return f"`{line}`" if len(line) <= _SHOWN else f"`{line[:_SHOWN]}…`"


LONGEST = timedelta(days=3653)

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FRACTIONS = {"half": 0.5, "quarter": 0.25, "three quarters": 0.75}

_WORDS = (
    rf"(?:(?:{'|'.join(TENS)})(?: (?:{'|'.join(SMALL_NUMBERS[:9])}))?|{'|'.join(SMALL_NUMBERS)})"
)
_DECIMAL = r"[0-9]+(?:\.[0-9]+)?"
_NAME = r"(?:second|sec|minute|min|hour|hr|day|week|wk)s?"
# A single letter is a unit only after digits: "am" and "a s" are not durations.
_TERM = rf"(?:{_DECIMAL} ?(?:{_NAME}|[smhdw])|(?:an?|{_WORDS}) {_NAME})"
_NEXT_TERM = rf"(?:(?: and | |(?=[0-9])){_TERM})"
_WHOLE = rf"[0-9]+|{_WORDS}"
_UNIT = rf"(?P<unit>{_NAME})"

_EXAMPLES = ("20m", "1h 30m", "2 days")
_KNOWN_MISTAKES = (
    KnownMistake(
        r"(?:.*[a-z ])?(?P<number>[1-9][0-9]{0,5}(?:\.[0-9]{1,3})?)",
        r"does not say \g<number> what",
        (r"\g<number>m", r"\g<number> min"),
    ),
    KnownMistake(r"(?:in )?(?:[-–−]|minus ).*|.* ago", "does not lie ahead", _EXAMPLES),
    KnownMistake(
        rf"(?:in )?(?:{_DECIMAL}|an?|{_WORDS}) ?(?:mos?|months?|y|yrs?|years?)",
        "has no fixed length",
        ("30 days", "52 weeks"),
    ),
    KnownMistake(
        r".*\b(?:few|couple|some|several|while|bit|soon|later)\b.*", "is not exact", _EXAMPLES
    ),
)


def parse_duration(text: str) -> timedelta:
    """The length of time that `text` names: whole seconds, more than none, at most ten years.

    Raises `BadPhrase` for everything else.
    """
    try:
        return length_of(normalized(text))
    except Unclear as unclear:
        raise unclear.about(text) from None


def length_of(phrase: str) -> timedelta:
    """As `parse_duration`, for a normalized phrase; raises `Unclear`."""
    seconds = seconds_in(phrase)
    if seconds is None:
        raise known_mistake(phrase, _KNOWN_MISTAKES) or Unclear(
            "is not a length of time", *_EXAMPLES
        )
    if seconds > LONGEST.total_seconds():
        raise Unclear("is longer than 10 years", *_EXAMPLES)
    length = timedelta(seconds=round(seconds))
    if not length:
        raise Unclear("is no time at all", *_EXAMPLES)
    return length


def seconds_in(phrase: str) -> float | None:
    """None if the phrase names no length of time."""
    for pattern, seconds_of in _FORMS:
        if found := re.fullmatch(pattern, phrase.removeprefix("in ")):
            return seconds_of(found)
    return None


def _sum_of_terms(found: re.Match[str]) -> float | None:
    terms = [_count_and_unit(term) for term in re.findall(_TERM, found[0])]
    if any(unit <= smaller for (_, unit), (_, smaller) in pairwise(terms)):
        return None
    return sum(count * unit for count, unit in terms)


def _count_and_unit(term: str) -> tuple[float, int]:
    unit = re.split(r"[0-9 ]", term)[-1]
    return _count(term.removesuffix(unit).strip()), _SECONDS[unit[0]]


def _and_a_half(found: re.Match[str]) -> float:
    return (_count(found["count"]) + 0.5) * _SECONDS[found["unit"][0]]


def _fraction(found: re.Match[str]) -> float:
    return _FRACTIONS[found["fraction"]] * _SECONDS[found["unit"][0]]


def _count(text: str) -> float:
    if text in ("a", "an"):
        return 1
    return float(text) if text[0].isdigit() else sum(NUMBERS[word] for word in text.split())


_FORMS: tuple[tuple[str, Callable[[re.Match[str]], float | None]], ...] = (
    (rf"{_TERM}{_NEXT_TERM}*", _sum_of_terms),
    (rf"(?P<count>{_WHOLE}) and a half {_UNIT}", _and_a_half),
    (rf"(?P<count>{_WHOLE}|an?) {_UNIT} and a half", _and_a_half),
    (rf"(?P<fraction>half)(?: an?)? {_UNIT}", _fraction),
    (rf"(?:a )?(?P<fraction>quarter|three quarters) of an? {_UNIT}", _fraction),
)
