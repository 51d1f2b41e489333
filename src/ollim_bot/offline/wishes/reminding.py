"""A wish to be reminded once: which words are the moment, and which are the task.

wish  = frame when link task | frame link task when | when frame link task
frame = remind me | set a reminder | can you remind me …
link  = to | that | about | of
when  = a moment as `parse_moment` knows it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.domain.phrases import parse_moment
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts
from ollim_bot.offline.wishes import vocabulary
from ollim_bot.offline.wishes.wish import Remind, Unsure

POLITELY = (
    r"(?:(?:please|pls|plz) |(?:can|could|would) (?:you|u) (?:(?:please|pls|plz) )?"
    r"|i(?:['’]d| would) like you to |i (?:want|need) you to )"
)
_FRAME = re.compile(
    rf"{POLITELY}?(?:remind me(?: again)?"
    r"|(?P<noun>(?:(?:set(?: up)?|make|create|add|give|i need|i want|i(?:['’]d| would) like)"
    r" (?:me )?)?(?:an? |another )?(?:new )?reminder))(?=[\s:,]|$)[:,]?",
    re.IGNORECASE,
)
_LINKS = ("to", "that", "about", "of")
# The names of days and months that are words of another kind too.
_ALSO_A_WORD = frozenset({"sun", "sat", "may", "march", "mar", "wed"})

_Split = tuple[list[str], str, list[str]]


def reminding(text: str, now: datetime) -> Remind | Unsure | None:
    """None if it is no wish to be reminded."""
    frame = _FRAME.search(text)
    if frame is None:
        return None
    before, words = text[: frame.start()].split(), text[frame.end() :].split()
    if before:
        return _moment_before(before, words, now)
    if frame["noun"] and words and words[0].lower() == "for":
        # `set a reminder for 5pm to …`, and `set a reminder for the laundry in 30 minutes`.
        found = _moment_in_front(words[1:], now)
        return found or _moment_behind("for", words[1:], now)
    return _moment_in_front(words, now) or _linked(words, now)


def _linked(words: Sequence[str], now: datetime) -> Remind | Unsure | None:
    if not words or words[0].lower() not in _LINKS:
        return None
    return _moment_behind(words[0].lower(), words[1:], now)


def _moment_before(
    before: Sequence[str], words: Sequence[str], now: datetime
) -> Remind | Unsure | None:
    """`In 10 minutes, remind me to …`."""
    if not vocabulary.tells_time(before) or not vocabulary.names_time(" ".join(before)):
        return None
    if not words or words[0].lower() not in _LINKS:
        return Unsure(texts.LINK if words else texts.SAY_WHAT)
    if vocabulary.names_time(" ".join(words)):
        return Unsure(texts.MOMENT_FIRST)
    return _wish(before, words[1:], now)


def _moment_in_front(words: Sequence[str], now: datetime) -> Remind | Unsure | None:
    splits = [split for split in _splits(words) if vocabulary.tells_time(split[0])]
    for head, _, task in splits:
        if _problem(head, now) is None:
            return _wish(head, task, now)
    if splits:
        head, _, task = splits[0]
        return _wish(head, task, now)
    if words and _problem(words, now) is None:
        return Unsure(texts.SAY_WHAT)
    starts_with_time = any(_problem(words[:end], now) is None for end in range(1, len(words)))
    return Unsure(texts.LINK) if starts_with_time else None


def _splits(words: Sequence[str]) -> Iterator[_Split]:
    """Every way to cut the words into a head, a link and the rest."""
    for place in range(1, len(words)):
        word = words[place].lower()
        if word in _LINKS:
            yield list(words[:place]), word, list(words[place + 1 :])
        elif words[place - 1].endswith((":", ",")):
            head = [*words[: place - 1], words[place - 1][:-1]]
            yield head, "", list(words[place:])


def _moment_behind(link: str, words: Sequence[str], now: datetime) -> Unsure | Remind | None:
    """`remind me to call mum at 5pm`: only where the moment can be of nothing in the task."""
    for start in range(1, len(words)):
        if _problem(words[start:], now) is None:
            task, when = words[:start], words[start:]
            return (
                Unsure(texts.MOMENT_FIRST) if _clings(link, task, when) else _wish(when, task, now)
            )
    for start in range(1, len(words)):
        when = words[start:]
        if vocabulary.tells_time(when) and vocabulary.names_time(" ".join(when)):
            return Unsure(_problem(when, now) or texts.MOMENT_FIRST)
    if not words:
        return None
    return Unsure(texts.MOMENT_FIRST if vocabulary.names_time(" ".join(words)) else texts.WHEN)


def _clings(link: str, task: Sequence[str], when: Sequence[str]) -> bool:
    """Whether the moment may be when something in the task takes place."""
    is_length = when[0].lower() == "in" or when[-1].lower() == "now"
    if link == "that" or (link != "to" and not is_length):
        return True
    return when[0].lower() in _ALSO_A_WORD or vocabulary.holds_a_moment_of_its_own(" ".join(task))


def _wish(when: Sequence[str], words: Sequence[str], now: datetime) -> Remind | Unsure:
    """With the moment `when`, unless something about the task leaves a doubt."""
    phrase, task = " ".join(when).rstrip(",:"), " ".join(words)
    if problem := _problem(when, now):
        return Unsure(problem)
    if vocabulary.is_nothing(task):
        return Unsure(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(task) or _FRAME.search(task) or "\\" in task:
        return Unsure(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(task):
        return Unsure(texts.DOUBT)
    if vocabulary.names_rhythm(task):
        return Unsure(texts.RHYTHM)
    has_other_day = vocabulary.names_day(task) and not _has_day(phrase)
    if has_other_day or vocabulary.names_length(task) or _starts_with_time(words):
        return Unsure(texts.MOMENT_FIRST)
    return Remind(task, phrase)


def _has_day(phrase: str) -> bool:
    return vocabulary.names_day(phrase) or phrase.lower().startswith("in ")


def _starts_with_time(words: Sequence[str]) -> bool:
    return any(
        vocabulary.tells_time(words[:end]) and vocabulary.names_time(" ".join(words[:end]))
        for end in range(1, len(words) + 1)
    )


def _problem(words: Sequence[str], now: datetime) -> str | None:
    """Why the words are not one moment ahead; None if they are."""
    try:
        parse_moment(" ".join(words).rstrip(",:"), now)
    except BadPhrase as refused:
        return texts.unclear_moment(str(refused))
    return None
