"""Durations in words, and the normal form of a phrase."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import zip_longest

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.text import nearest

_LONGEST = 80
_SHOWN = 40

SMALL_NUMBERS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS = {word: value for value, word in enumerate(SMALL_NUMBERS, start=1)} | {
    word: 10 * value for value, word in enumerate(TENS, start=2)
}

_TOMORROW = ("tmrw", "tmr", "tmw", "tmrrw", "2moro", "2morrow", "2mrw", "tomoz", "tmoro", "tomo")
_SHORT_FORMS = dict.fromkeys(_TOMORROW, "tomorrow") | dict.fromkeys(("tonite", "2nite"), "tonight")
_SHORT = re.compile(rf"\b(?:{'|'.join(_SHORT_FORMS)})\b", re.IGNORECASE)
# Times of day in other forms: `19 uhr`, `at 1400`, `at 14.30`, `6.15pm`; `22.00`, which is no date.
_GERMAN_CLOCK = re.compile(r"\b(?:um )?([0-9]{1,2})(?:[:.]([0-5][0-9]))? ?uhr\b")
_FRENCH_CLOCK = re.compile(r"(?<=\bat )([01]?[0-9]|2[0-3])h([0-5][0-9])?\b")
_OTHER_CLOCK = re.compile(
    r"\b(?:(?<=\bat )(?=[01][0-9]|2[0-3])|(?=[0-9]{1,2}\.[0-9]{2} ?[ap]m\b))"
    r"([0-9]{1,2})\.?([0-5][0-9])(?![-.:/0-9])"
)
_NO_DATE = re.compile(
    r"(?<![-.:/0-9])((?:[01]?|2(?=[0-3]))[0-9])\.(00|1[3-9]|[2-5][0-9])"
    r"(?![-.:/0-9]| ?(?:[smhdw]|sec|second|min|minute|hr|hour|day|week)s?\b)"
)

Changes = Iterable[tuple[str, ...]]


class Unclear(Exception):
    """Why a phrase is refused, as the end of a sentence about it, and what would be right."""

    def __init__(self, why: str, *examples: str) -> None:
        super().__init__(why)
        self.why = why
        self.examples = examples

    def about(self, text: str, readings: Sequence[str], usual: Sequence[str]) -> BadPhrase:
        """The refusal of `text`, with what may be meant by it, else with `usual` phrases."""
        *others, last = (f"`{example}`" for example in readings or usual)
        examples = f"{', '.join(others)} or {last}" if others else last
        return BadPhrase(text, f"{_shown(text)} {self.why}. Write {examples}.", readings)


def reason(phrase: str, reasons: Iterable[tuple[str, str]]) -> str | None:
    """Why a phrase that people often try is refused; `reasons` are patterns, each with a text."""
    found = ((re.fullmatch(pattern, phrase), why) for pattern, why in reasons)
    return next((match.expand(why) for match, why in found if match), None)


def changed(phrase: str, changes: Changes) -> Iterator[str]:
    """The phrase with one thing changed; a change is a pattern and what may stand in its place."""
    for pattern, *others in changes:
        if found := re.search(pattern, phrase):
            before, behind = phrase[: found.start()], phrase[found.end() :]
            yield from (f"{before}{found.expand(other)}{behind}".strip() for other in others)


def suggestions(
    phrase: str, changes: Callable[[str], Iterable[str]], right: Callable[[str], Sequence[str]]
) -> list[str]:
    """Two right phrases that are near a refused one, by one change of it or by two."""
    near = [phrase]
    for _ in range(2):
        nearer = [list(dict.fromkeys(changes(each))) for each in near]
        found = [[good for other in others for good in right(other)] for others in nearer]
        in_turn = (good for row in zip_longest(*found) for good in row if good)
        if shown := [good for good in dict.fromkeys(in_turn) if len(good) <= _SHOWN]:
            return shown[:2]
        near = [other for others in nearer for other in others]
    return []


def normalized(text: str) -> str:
    """`text` in small letters and single spaces, without irrelevant punctuation.

    A text that is too long to be a phrase becomes empty, which no grammar accepts.
    """
    words = " ".join(spelled_out(text).casefold().replace("’", "'").split())
    if len(words) > _LONGEST:
        return ""
    words = re.sub(r"(?<=[a-z])\.|(?<!\.[0-9])(?<!\.[0-9]{2})\.$|,(?= |$)", "", words)
    words = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", words).replace(" & ", " and ")
    words = re.sub(r"(?<=[0-9m]) (?:sharp|on the dot)\b", "", words)
    words = re.sub(r"(?<=:[0-9]{2})([ap])\b", r"\1m", words)
    words = _FRENCH_CLOCK.sub(lambda found: f"{found[1]}:{found[2] or '00'}", words)
    words = _GERMAN_CLOCK.sub(lambda found: f"{found[1]:>02}:{found[2] or '00'}", words)
    return _NO_DATE.sub(r"\1:\2", _OTHER_CLOCK.sub(r"\1:\2", words))


def spelled_out(text: str) -> str:
    """`text` with the short forms of days as words: `tmrw`, `tonite`."""
    return _SHORT.sub(lambda found: _SHORT_FORMS[found[0].lower()], text)


def _shown(text: str) -> str:
    """`text` as a sentence can quote it: one short line without control characters."""
    line = " ".join(text[: 4 * _SHOWN].split())
    line = "".join(char if char.isprintable() and char != "`" else "?" for char in line)
    if not line:
        return "An empty text"
    return f"`{line}`" if len(line) <= _SHOWN else f"`{line[:_SHOWN]}…`"


LONGEST = timedelta(days=3653)

DAY = 86400

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY, "f": 14 * DAY}
_FRACTIONS = {"half": 0.5, "quarter": 0.25, "three quarters": 0.75}

_WORDS = (
    rf"(?:(?:{'|'.join(TENS)})(?: (?:{'|'.join(SMALL_NUMBERS[:9])}))?|{'|'.join(SMALL_NUMBERS)})"
)
_DECIMAL = r"[0-9]+(?:\.[0-9]+)?"
_NAME = r"(?:second|sec|minute|min|hour|hr|day|week|wk|fortnight)s?"
# A single letter is a unit only after digits: "am" and "a s" are not durations.
_TERM = rf"(?:{_DECIMAL} ?(?:{_NAME}|[smhdw])|(?:an?|{_WORDS}) {_NAME})"
_NEXT_TERM = rf"(?:(?: and | |(?=[0-9])){_TERM})"
_WHOLE = rf"[0-9]+|{_WORDS}"
_UNIT = rf"(?P<unit>{_NAME})"

NO_LENGTH = "is not a length of time"
_EXAMPLES = ("20m", "1h 30m", "2 days")
_REASONS = (
    (r"(?:.*[a-z ])?([1-9][0-9]{0,5}(?:\.[0-9]{1,3})?)", r"does not say \1 what"),
    (r"(?:in )?(?:[-–−]|minus ).*|.* ago", "does not lie ahead"),
    (
        rf"(?:in )?(?:{_DECIMAL}|an?|{_WORDS}) ?(?:mos?|months?|y|yrs?|years?)",
        "has no fixed length",
    ),
    (r".*\b(?:few|couple|some|several|while|bit|soon|later)\b.*", "is not exact"),
)
_UNITS = ("seconds", "minutes", "hours", "days", "weeks")
LENGTH_CHANGES: Changes = (
    (r"(?<=[0-9]),(?=[0-9])", "."),
    (r"^((?:in )?[1-9][0-9.]{0,5})$", r"\1 minutes", r"\1 hours"),
    (r"^(in )?(?:[-–−]|minus )", r"\1"),
    (r" ago$", ""),
    (r"\b(?:a )?couple (?:of )?", "2 "),
)
_CHANGES: Changes = (
    *LENGTH_CHANGES,
    (r"^([0-9]+):([0-5][0-9])$", r"\1h \2m"),
    (r"^.* ?(?:mos?|months?|yrs?|years?)$", "30 days", "52 weeks"),
)


def parse_duration(text: str) -> timedelta:
    """The length of time that `text` names: whole seconds, more than none, at most ten years.

    Raises `BadPhrase` for everything else.
    """
    phrase = normalized(text)
    try:
        return length_of(phrase)
    except Unclear as unclear:
        near = suggestions(phrase, _changed, lambda other: [other] if seconds_in(other) else [])
        raise unclear.about(text, near, _EXAMPLES) from None


def is_duration(text: str) -> bool:
    """Whether `parse_duration` accepts the text."""
    return bool(seconds_in(normalized(text)))


def length_of(phrase: str) -> timedelta:
    """As `parse_duration`, for a normalized phrase; raises `Unclear`."""
    seconds = seconds_in(phrase)
    if seconds is None:
        raise Unclear(reason(phrase, _REASONS) or NO_LENGTH)
    if seconds > LONGEST.total_seconds():
        raise Unclear("is longer than 10 years")
    length = timedelta(seconds=round(seconds))
    if not length:
        raise Unclear("is no time at all")
    return length


def _changed(phrase: str) -> Iterator[str]:
    yield from respelled(phrase, _UNITS)
    yield from changed(phrase, _CHANGES)


def respelled(phrase: str, names: Sequence[str]) -> Iterator[str]:
    """The phrase with one misspelled word put right, if it has one."""
    for word in re.findall(r"[a-z]{4,}", phrase):
        if word not in names and (name := nearest(word, names)):
            yield re.sub(rf"\b{word}\b", name, phrase)


def seconds_in(phrase: str) -> float | None:
    """None if the phrase names no length of time."""
    for pattern, seconds_of in _FORMS:
        if found := re.fullmatch(pattern, re.sub(r"^in |(?:'s|s'?) time$", "", phrase)):
            return seconds_of(found)
    return None


def _sum_of_terms(found: re.Match[str]) -> float | None:
    total, smaller = 0.0, 0
    for term in reversed(re.findall(_TERM, found[0])):
        name = re.split(r"[0-9 ]", term)[-1]
        unit = _SECONDS[name[0]]
        if unit <= smaller:
            return None
        total, smaller = total + _count(term.removesuffix(name).strip()) * unit, unit
    return total


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
    (r"([0-9]{1,3}) ?h ?([0-5][0-9])", lambda found: int(found[1]) * 3600 + int(found[2]) * 60),
    (rf"(?P<count>{_WHOLE}) and a half {_UNIT}", _and_a_half),
    (rf"(?P<count>{_WHOLE}|an?) {_UNIT} and a half", _and_a_half),
    (rf"(?P<fraction>half)(?: an?)? {_UNIT}", _fraction),
    (rf"(?:a )?(?P<fraction>quarter|three quarters) of an? {_UNIT}", _fraction),
)
