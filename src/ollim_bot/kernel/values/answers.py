"""Answers to due items: in words, and as a change keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.base.moments import describe, midnight_after
from ollim_bot.kernel.values.due_items import (
    DueItem,
    Settlement,
    done,
    let_go,
    not_today,
    snoozed_until,
)
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.phrases.moment import is_moment, parse_moment
from ollim_bot.kernel.values.schedule import next_moment

if TYPE_CHECKING:
    from ollim_bot.kernel.values.schedule import ScheduledJob, Skips


_WORDS: Mapping[str, Sequence[str]] = {
    "done": (
        *("done", "all done", "done it", "its done", "already done", "finished", "had it"),
        *("i had it", "did", "did it", "did that", "i did", "i did it", "just did", "just did it"),
        *("already did", "taken", "took it", "i took it", "just took it", "took them"),
        "i took them",
    ),
    "later": ("later", "not now", "a bit later", "remind me later", "in a bit"),
    "not today": ("not today", "another day", "some other day", "tomorrow"),
    "let go": ("skip", "skip it", "skipped", "let it go", "never mind", "nevermind"),
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


# The state of an item without an answer.
OPEN = "open"
# The reminder that a snooze made must not be due before its removal.
_MARGIN = timedelta(seconds=5)
_STATES = {
    Answer.DONE: "done",
    Answer.TAKEN: "taken",
    Answer.NOT_TAKEN: "skipped",
    Answer.LET_GO: "let go",
    Answer.SNOOZED: "snoozed until",
    Answer.MOVED: "moved to",
}
_PUT_OFF = re.compile(rf"({_STATES[Answer.SNOOZED]}|{_STATES[Answer.MOVED]}) (\S+)")


def state_text(item: DueItem) -> str:
    """The state of the item and its title, as a change keeps them."""
    state = OPEN if item.answer is None else _STATES[item.answer]
    if item.is_put_off and item.until is not None:
        state = f"{state} {item.until.isoformat(timespec='seconds')}"
    return f"{state}\n{item.owner_title}\n"


def settlement_in(text: str | None) -> Settlement | None:
    """The answer that a text of `state_text` has; None for an open item and for other texts."""
    state = (text or "").partition("\n")[0]
    answers = {words: answer for answer, words in _STATES.items()}
    if put_off := _PUT_OFF.fullmatch(state):
        try:
            return Settlement(answers[put_off[1]], datetime.fromisoformat(put_off[2]))
        except ValueError:
            return None
    found = answers.get(state)
    return None if found in (None, Answer.SNOOZED, Answer.MOVED) else Settlement(found)


def state_words(text: str | None, now: datetime) -> str:
    """The state in a text of `state_text`, for people."""
    state = (text or "").partition("\n")[0]
    said = settlement_in(text)
    if said is None or said.until is None:
        return state
    return f"{_STATES[said.answer]} {describe(said.until, now)}"


def why_not_undone(item: DueItem, now: datetime, job: ScheduledJob | None, skips: Skips) -> str:
    """Why the answer is not taken back, as a sentence; empty if it can be.

    `job` is the job of the item as it is now; None if it is gone.
    """
    title, moment = f"“{item.owner_title}”", now.astimezone(UTC)
    if item.answer is None or item.answered_at is None:
        return f"{title} is open: there is no answer to take back."
    answered = item.answered_at.astimezone(now.tzinfo)
    if item.until is not None and moment >= item.until.astimezone(UTC) - _MARGIN:
        return f"{title} has come again, to the moment of its snooze: answer it there."
    since = max(answered, item.due).astimezone(now.tzinfo)
    following = None if job is None else next_moment(job, skips, since)
    if item.has_later or (following is not None and following.astimezone(UTC) <= moment):
        return f"The next moment of {title} has come since, so this answer stays."
    if moment >= midnight_after(answered).astimezone(UTC):
        when = describe(answered, now)
        return f"An answer can be taken back until midnight; {title} was answered {when}."
    return ""
