"""What the owner's words say of a due item."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from ollim_bot.domain.due_items import DueItem, Settlement, done, let_go, not_today, snoozed_until
from ollim_bot.domain.occurrences import Answer
from ollim_bot.domain.phrases.moment import is_moment, parse_moment

_WORDS: Mapping[str, frozenset[str]] = {
    "done": frozenset(
        (
            "done",
            "all done",
            "done it",
            "its done",
            "did",
            "did it",
            "did that",
            "had it",
            "i had it",
            "i did",
            "i did it",
            "just did",
            "just did it",
            "finished",
            "taken",
            "took it",
            "i took it",
            "took them",
            "i took them",
            "just took it",
            "already did",
            "already done",
        )
    ),
    "later": frozenset(("later", "not now", "a bit later", "remind me later", "in a bit")),
    "not today": frozenset(("not today", "another day", "some other day", "tomorrow")),
    "let go": frozenset(("skip", "skip it", "skipped", "let it go", "never mind", "nevermind")),
}


_ENDS = ".!… "


_UNDO = re.compile(
    r"(?:(?:ok|no|oh|oops|please|actually|wait|sorry)[ ,]+)*"
    r"(?:undo(?: (?:it|that|this))?|(?:take|bring) (?:it|that) back)(?:,? please)?",
    re.IGNORECASE,
)


_COURTESY = re.compile(r"^(?:ok(?:ay)?|yes|yep|no|sorry),? |,? (?:please|thanks|thank you)$")


_BEFORE_A_MOMENT = re.compile(
    r"^(?:(?:remind me(?: again)?|again|make it|give me"
    r"|(?:snooze|push|move|postpone|delay|shift)(?: (?:it|this|that))?) )?(?:back )?"
    r"(?:(?:for|to|until|till|by) )?"
)


_MORE = re.compile(r"\banother | more\b")


class ReplyMeaning(NamedTuple):
    """`kind` is one of `done`, `later`, `not today`, `let go`, or `until` with a phrase."""

    kind: str
    phrase: str = ""


def meaning_of(words: str, now: datetime) -> ReplyMeaning | None:
    """What the words say of a due item; None if they are for the agent."""
    said = " ".join(words.casefold().replace("'", "").replace("’", "").split()).strip(_ENDS)
    said = _COURTESY.sub("", said).strip(_ENDS)
    for kind, phrases in _WORDS.items():
        if said in phrases:
            return ReplyMeaning(kind)
    moment = _BEFORE_A_MOMENT.sub("", said)
    if moment in _WORDS["not today"]:
        return ReplyMeaning("not today")
    # `20 minutes` is from now.
    readings = (moment, f"in {_MORE.sub('', moment)}")
    found = next((each for each in readings if is_moment(each, now)), None)
    return ReplyMeaning("until", found) if found else None


def is_undo(words: str) -> bool:
    """Whether the words only say that what was just done is to be taken back."""
    return _UNDO.fullmatch(words.strip(_ENDS)) is not None


def settlement(words: str, item: DueItem, now: datetime) -> Settlement | None:
    """The answer that the words give to the item; None if they are for the agent."""
    meant = meaning_of(words, now)
    if meant is None:
        return None
    match meant.kind:
        case "done":
            return done(item)
        case "until":
            return Settlement(Answer.SNOOZED, parse_moment(meant.phrase, now))
        case "later":
            return Settlement(Answer.SNOOZED, snoozed_until("1h", now))
        case "not today":
            return not_today(item, now)
        case _:
            return let_go(item)
