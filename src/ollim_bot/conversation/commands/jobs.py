"""`/today`, `/routines`, `/reminders` and `/runs`: what comes, and the outcome of past runs."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.conversation.jobs.overviews import Overviews
from ollim_bot.domain.inbox import CommandCall
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.run_history import History, RunStory, part_in_words
from ollim_bot.domain.runs import in_words, outcome
from ollim_bot.domain.text import shortened
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store

_MOST_RUNS = 10
_NEWEST_ROWS = 400
_LONGEST_WORDS = 120


class JobCommands:
    """`overviews` posts what is scheduled; the ledger says what ran."""

    def __init__(self, store: Store, overviews: Overviews, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.today = overviews.showing("today")
        self.routines = overviews.showing("routines")
        self.reminders = overviews.showing("reminders")

    async def runs(self, _: CommandCall) -> str:
        rows = await self._store.read(lambda tx: tx.ledger.tail(_NEWEST_ROWS))
        found = History.of(rows).newest_first
        stories = [story for story in found if story.state is not OccurrenceState.PLANNED]
        if not stories:
            return "Nothing has run yet."
        now = self._clock.now()
        lines = [_line(story, now) for story in stories[:_MOST_RUNS]]
        return "\n".join([*lines, "`ollim-bot runs` in a terminal shows more."])


def _line(story: RunStory, now: datetime) -> str:
    name, is_delivered = _short(story.title), story.is_delivered
    state = "delivered" if is_delivered else in_words(story.state) if story.state else "begun"
    note = _short(outcome(story.facts, is_delivered=is_delivered))
    fired = describe(story.fired.replace(second=0, microsecond=0), now)
    by_hand = ", by hand" if story.occurrence.manual else ""
    notes = "; ".join(each for each in (part_in_words(story.occurrence), note) if each)
    return f"- {fired}{by_hand}: {name}, {state}" + (f" ({notes})" if notes else "")


def _short(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return shortened(line, _LONGEST_WORDS)
