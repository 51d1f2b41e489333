"""Answers as changes: their words, and how long Today and `ollim-bot undo` take one back.

A card takes an answer back for ten minutes. The others do until the next moment of the job or
midnight, whichever is first.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.domain.due_items import DueItem, Settlement
from ollim_bot.domain.moments import describe, midnight_after
from ollim_bot.domain.occurrences import Answer
from ollim_bot.domain.overviews import next_moment

if TYPE_CHECKING:
    from ollim_bot.domain.schedule import ScheduledJob, Skips

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
    return f"{_STATES[said.answer]} {describe(said.until.replace(second=0), now)}"


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
        when = describe(answered.replace(second=0, microsecond=0), now)
        return f"An answer can be taken back until midnight; {title} was answered {when}."
    return ""
