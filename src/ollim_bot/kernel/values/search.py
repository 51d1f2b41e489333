"""Full-text search of the message log: what is wanted, and where a text has the wanted words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import combining, normalize

from ollim_bot.kernel.base.errors import WrongInput

# Only annotations name these: a command of the CLI imports this file, and should start fast.
if TYPE_CHECKING:
    from datetime import datetime

    from ollim_bot.kernel.base.ids import SessionId
    from ollim_bot.kernel.values.chat import ChatMessage

# Scripts that are written without spaces: each of their characters is indexed as a word.
_UNSPACED = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_QUOTED = re.compile(r'"([^"]*)"?')
# With the accents that may follow a letter as characters of their own.
_WORD = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f])*")
_QUOTES = str.maketrans("“”„«»", '"""""')
_BEFORE = 60


class Speaker(StrEnum):
    OWNER = "owner"
    BOT = "bot"
    JOB = "job"


_SPEAKERS = {"owner": Speaker.OWNER, "background": Speaker.JOB}


def who_spoke(author: str) -> Speaker:
    """Who the author of a message is, for a search."""
    return _SPEAKERS.get(author, Speaker.BOT)


class Term(NamedTuple):
    """Words that follow each other; the last may be the beginning of a longer one."""

    words: tuple[str, ...]
    is_beginning: bool = False

    def places(self, words: Sequence[tuple[str, int, int]]) -> Iterator[tuple[int, int]]:
        """Where the term is among the folded words of a text, each with its start and end."""
        *first, last = self.words
        for at in range(len(words) - len(first)):
            found = words[at : at + len(first) + 1]
            *before, end = (word for word, _, _ in found)
            is_last = end.startswith(last) if self.is_beginning else end == last
            if is_last and before == first:
                yield found[0][1], found[-1][2]


class Search(NamedTuple):
    """Messages that have all `terms`, the best `limit` of them.

    `since` is the earliest moment of a message, `until` the first moment that is too late.
    """

    terms: tuple[Term, ...]
    since: datetime | None = None
    until: datetime | None = None
    session: SessionId | None = None
    who: Speaker | None = None
    limit: int = 20

    def fits(self, message: ChatMessage) -> bool:
        """Whether the words and the speaker fit; the index decides the same for all messages."""
        is_heard = self.who is None or who_spoke(message.author) is self.who
        words = folded_words(searched_text(message))
        return is_heard and all(any(True for _ in term.places(words)) for term in self.terms)


def terms_of(typed: str) -> tuple[Term, ...]:
    """The words and quoted phrases of a typed text; raises `WrongInput` if it has none.

    The last word, unless it is quoted or short, may be the beginning of a longer one.
    """
    text = typed[:1000].translate(_QUOTES)
    terms: list[Term] = []
    at = 0
    for quoted in _QUOTED.finditer(text):
        terms += _single_terms(text[at : quoted.start()])
        terms += _phrase(quoted[1])
        at = quoted.end()
    loose = _single_terms(text[at:])
    if loose and len(loose[-1].words[-1]) >= 3:
        loose[-1] = Term(loose[-1].words, is_beginning=True)
    terms += loose
    if not terms:
        raise WrongInput("Say a word to look for.")
    return tuple(terms[:32])


def _single_terms(text: str) -> list[Term]:
    return [term for word in text.split() for term in _phrase(word)]


def _phrase(text: str) -> list[Term]:
    words = tuple(word for word, _, _ in folded_words(text))
    return [Term(words)] if words else []


def searched_text(message: ChatMessage) -> str:
    """What a message can be found by: its words, and the names of its files."""
    return "\n".join([message.text, *(each.name for each in message.attachments)])


def folded_words(text: str) -> list[tuple[str, int, int]]:
    """The words of a text without case and accents, each with its start and end in the text."""
    words: list[tuple[str, int, int]] = []
    for start, end in (place for found in _WORD.finditer(text) for place in _unspaced(found)):
        word = text[start:end]
        if word.isascii():
            words.append((word.lower(), start, end))
            continue
        plain = normalize("NFKD", normalize("NFKD", word).casefold())
        if folded := "".join(sign for sign in plain if not combining(sign)):
            words.append((folded, start, end))
    return words


def _unspaced(found: re.Match[str]) -> Iterator[tuple[int, int]]:
    at = found.start()
    for each in _UNSPACED.finditer(found.string, found.start(), found.end()):
        if at < each.start():
            yield at, each.start()
        yield each.span()
        at = each.end()
    if at < found.end():
        yield at, found.end()


class ExcerptPart(NamedTuple):
    text: str
    is_match: bool = False


def excerpt(text: str, terms: Sequence[Term], longest: int) -> tuple[ExcerptPart, ...]:
    """About `longest` characters of the text on one line, from just before the first match."""
    line = " ".join(text.split())
    places = _joined_places(line, terms)
    first = places[0][0] if places else 0
    start = 0 if first <= _BEFORE else line.rfind(" ", 0, first - _BEFORE // 2) + 1
    end = len(line) if len(line) - start <= longest else start + longest
    parts = [ExcerptPart("…")] if start else []
    at = start
    for begin, stop in places:
        if begin >= end:
            break
        parts += [
            ExcerptPart(line[at:begin]),
            ExcerptPart(line[begin : min(stop, end)], is_match=True),
        ]
        at = min(stop, end)
    parts += [ExcerptPart(line[at:end]), ExcerptPart("…" if end < len(line) else "")]
    return tuple(part for part in parts if part.text)


def _joined_places(line: str, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Where the line has any of the terms, in order and without overlaps."""
    words = folded_words(line)
    found: list[tuple[int, int]] = []
    for start, end in sorted(place for term in terms for place in term.places(words)):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
