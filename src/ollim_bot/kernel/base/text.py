"""Functions on short texts: shortening, slugs, near words, invisible characters, differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import dropwhile
from unicodedata import category, normalize

from ollim_bot.kernel.base.job_kinds import JobKind

PROGRAM = "ollim-bot"
LONGEST_SLUG = 50
# Stands in lists for a text that only a fence may show, and before an update from such text.
FROM_UNTRUSTED = "(from untrusted content)"
# Only the beginning of a longer text is used.
_READ = 1000
# Expressions are compiled where they are first used: every command loads this module.
# Letters and marks without a shape: fillers, joiners, and emoji variation selectors. The other
# invisible characters have the category of format characters.
_INVISIBLE = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNSEEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
# Elsewhere the word is the name of the bot, or part of a path.
_NOUNS = (
    "about-me|auth|backup|cal|changes|completion|config|cost|doctor|doses|forget|gmail|google|help|"
    "history|marks|mcp|messages|push|receipt|rehearse|restore|runs|sentinel|service|setup|skill|"
    f"standby|tasks|today|undo|update|version|web|{'|'.join(JobKind)}"
)
_COMMAND = rf"(?<![\w./-]){PROGRAM}(?= (?:{_NOUNS})\b|`)"
_MARKUP = r"([\\`*_~|<>\[\]:#])"
# One joins emoji into families, the other separates words of Persian.
_JOINERS = "\u200c\u200d"
_SHORTEST_PART = 3
_MOST_LINES = 6
_LONGEST_LINE = 160
# How many equal characters are shown before the first difference.
_LEAD = 30


class PromptMark(StrEnum):
    """What may stand behind the tag of a prompt, as `[late: was scheduled for 9:00 AM]`."""

    LATE = "late"
    WAS_DUE = "was due"
    STALE_FORK = "stale-fork"

    def of(self, words: str) -> str:
        return f"[{self}: {words}]"


def shortened(text: str, longest: int) -> str:
    """The text if it has at most `longest` characters, else its beginning and `…` within those."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def with_program(text: str, program: str) -> str:
    """The text with its commands as they are typed where the program is called `program`."""
    return text if program == PROGRAM else re.sub(_COMMAND, lambda _: program, text)


def has_words(text: str, words: str) -> bool:
    """Whether the text has all the words; of a long word, its beginning is enough."""
    said, wanted = (re.findall(r"\w+", each.lower()) for each in (text, words))
    return bool(wanted) and all(
        part in said
        or (len(part) >= _SHORTEST_PART and any(word.startswith(part) for word in said))
        for part in wanted
    )


def nearest(word: str, names: Iterable[str], most: int = 2) -> str | None:
    """The name that `word` misspells: `most` keystrokes apart, fewer in a short word."""
    slips = min(most, (len(word) - 2) // 2)
    close = (name for name in names if abs(len(name) - len(word)) <= slips)
    distance, name = min(((_keystrokes(word, name), name) for name in close), default=(3, ""))
    return name if distance <= slips else None


def _keystrokes(one: str, other: str) -> int:
    """How many keystrokes apart the two are; two letters in the wrong order are one."""
    above: list[int] = []
    row = list(range(len(other) + 1))
    for typed, letter in enumerate(one, 1):
        before, above, row = above, row, [typed]
        for column, wanted in enumerate(other):
            ways = [above[column] + (letter != wanted), above[column + 1] + 1, row[column] + 1]
            if typed > 1 and column and (letter, one[typed - 2]) == (other[column - 1], wanted):
                ways.append(before[column - 1] + 1)
            row.append(min(ways))
    return row[-1]


def slug(text: str) -> str:
    """Lower-case letters and digits with single hyphens between; empty if there are none."""
    shaped = re.sub(_INVISIBLE, "", text[:_READ])
    visible = "".join(sign for sign in shaped if category(sign) != "Cf")
    # Lowering decomposes some capitals, so the text is normalised again.
    folded = normalize("NFKC", normalize("NFKC", visible).lower())
    kept = "".join(sign if sign.isalnum() or _is_mark(sign) else "-" for sign in folded)
    words = ("".join(dropwhile(_is_mark, part)) for part in kept.split("-"))
    return "-".join(filter(None, words))[:LONGEST_SLUG].rstrip("-")


def _is_mark(sign: str) -> bool:
    # Many scripts write vowels as marks on the letter before; without them words fall apart.
    return category(sign) in ("Mn", "Mc")


def visible(text: str, *, besides: str = "\n\t") -> str:
    """Replace each character that is invisible, or changes other text, by a code.

    The characters in `besides` stay.
    """
    return "".join(
        each if each in besides or category(each) not in _UNSEEN else f"\\u{ord(each):04x}"
        for each in text
    )


def fenced(text: str) -> str:
    """Make the text visible, and unable to end a code fence."""
    return re.sub("`{3,}", lambda run: "\u200b".join(run[0]), visible(text))


def one_line(text: str, longest: int) -> str:
    """The beginning of the text, visible, on one line of at most `longest` characters."""
    words = " ".join(text.split())[: longest + 1]
    return shortened(visible(words, besides=_JOINERS), longest)


def comma_parts(text: str) -> tuple[str, ...]:
    """The parts between the commas, without empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def as_code(text: str, longest: int) -> str:
    """The text on one line between backticks, which it cannot end."""
    return f"`{one_line(text, longest).replace('`', chr(0x2035))}`"


def literal(text: str) -> str:
    """Escape the text, so that markdown shows each character unchanged."""
    return re.sub(_MARKUP, r"\\\1", text)


def shown_literally(text: str) -> str:
    """The text as markdown shows it where `literal` has escaped it."""
    return re.sub(rf"\\{_MARKUP}", r"\1", text)


def difference(before: str, after: str) -> tuple[list[str], int]:
    """The first changed lines, and how many further lines lie up to the last change.

    `- ` precedes a removed line and `+ ` an added one; both are visible and shortened. Lines
    without words are left out. The time grows with the length of the texts only.
    """
    old, new = _lines(before), _lines(after)
    head, tail = common_ends(old, new)
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    # The first column to show, so that a late change in a long line is visible.
    if not gone or not come:
        start = 0
    else:
        same = _same(gone[0], come[0])
        start = same - _LEAD if same > _LONGEST_LINE - _LEAD else 0
    shown = [*_marked("-", gone, start), *_marked("+", come, start)]
    return shown, len(gone) + len(come) - len(shown)


def _lines(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return [line for line in lines if line]


def common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines at the beginning are the same, and how many of the others at the end."""
    head = _same(before, after)
    return head, _same(before[head:][::-1], after[head:][::-1])


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _marked(mark: str, lines: Sequence[str], start: int) -> Iterator[str]:
    for number, line in enumerate(lines[:_MOST_LINES]):
        words = f"…{line[start:]}" if number == 0 and start else line
        yield f"{mark} {one_line(words, _LONGEST_LINE)}"


def joined(words: Iterable[str], last: str = "and") -> str:
    """`a, b and c`, with the word `last` before the last; empty without words."""
    *others, end = words or [""]
    return f"{', '.join(others)} {last} {end}" if others else end


def counted(number: int, noun: str) -> str:
    """`1 routine`, `2 routines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
