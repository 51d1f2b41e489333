"""`/routines`, `/reminders` and `/runs`: the schedule, and the outcome of past runs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from ollim_bot.conversation.jobs.echo import Post
from ollim_bot.conversation.jobs.overview import job_overview, next_moment
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage, numbered_id
from ollim_bot.domain.inputs import CommandCall
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.domain.moments import describe
from ollim_bot.domain.run_history import History, RunStory
from ollim_bot.domain.runs import in_words, outcome
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.text import shortened
from ollim_bot.ports import Clock, JobShelves, Shelf
from ollim_bot.store.store import Store

_MOST_CARDS = 5
_MOST_RUNS = 10
_NEWEST_ROWS = 400
_LONGEST_WORDS = 120

_NONE = {
    "routine": "There are no routines. Tell me what to do again and again, and when.",
    "reminder": "There are no reminders. Tell me what to remind you of, and when.",
}


class JobCommands:
    """Shows the soonest jobs as cards with their buttons, and counts the others."""

    def __init__(
        self,
        store: Store,
        shelves: JobShelves,
        clock: Clock,
        post: Post,
        *,
        in_fork: Callable[[], bool],
    ) -> None:
        self._store = store
        self._shelves = shelves
        self._clock = clock
        self._post = post
        self._in_fork = in_fork

    async def routines(self, _: CommandCall) -> str:
        return await self._show("routine", self._shelves.routines)

    async def reminders(self, _: CommandCall) -> str:
        return await self._show("reminder", self._shelves.reminders)

    async def runs(self, _: CommandCall) -> str:
        rows = await self._store.read(lambda tx: tx.ledger.tail(_NEWEST_ROWS))
        stories = [*History.of(rows).stories.values()]
        if not stories:
            return "Nothing has run yet."
        stories.sort(key=lambda story: story.rows[0].ts.timestamp(), reverse=True)
        now = self._clock.now()
        lines = [_line(story, now) for story in stories[:_MOST_RUNS]]
        return "\n".join([*lines, "`ollim-bot runs` in a terminal shows more."])

    async def _show(self, kind: str, shelf: Shelf[Routine] | Shelf[Reminder]) -> str:
        now = self._clock.now()
        cards, more, problems = await asyncio.to_thread(self._cards, shelf, now)
        chance = secrets.randbits(18)
        for number, card in enumerate(cards):
            await self._post(
                ChatMessage(
                    numbered_id(now, chance + number),
                    now,
                    Author.PROGRAM,
                    card.text,
                    card=card,
                    in_fork=self._in_fork(),
                )
            )
        if not cards and not problems:
            return _NONE[kind]
        return _rest(kind, more, problems)

    def _cards(
        self, shelf: Shelf[Routine] | Shelf[Reminder], now: datetime
    ) -> tuple[Sequence[Card], int, int]:
        """The cards, soonest first and paused jobs last; how many jobs are left out; problems."""
        report, skips = shelf.report(), self._store.query(lambda tx: tx.skips.get())
        jobs: list[ScheduledJob] = [shelved.item for shelved in report.jobs]

        def order(job: ScheduledJob) -> tuple[bool, float, str]:
            # An overdue reminder has no next moment, and is the most urgent of all.
            moment = next_moment(job, skips, now)
            return not job.spec.enabled, moment.timestamp() if moment else 0, job.spec.id

        jobs.sort(key=order)
        cards = [job_overview(job, skips, now) for job in jobs[:_MOST_CARDS]]
        return cards, len(jobs) - len(cards), len(report.problems)


def _rest(kind: str, more: int, problems: int) -> str:
    """A line about the jobs without a card; empty if there are none."""
    left = [_counted(more, f"more {kind}", f"more {kind}s")] if more else []
    if problems:
        left.append(_counted(problems, "mistake in a file", "mistakes in files"))
    return f"Not shown: {' and '.join(left)}. `ollim-bot {kind} list` shows all." if left else ""


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _line(story: RunStory, now: datetime) -> str:
    facts: dict[str, object] = {}
    for row in story.rows:
        facts |= row.facts
    name = _short(str(facts.get("job") or story.occurrence.job_id))
    is_delivered = story.delivery is not None
    state = "delivered" if is_delivered else in_words(story.state) if story.state else "begun"
    note = _short(outcome(facts, is_delivered=is_delivered))
    fired = describe(story.rows[0].ts.replace(second=0, microsecond=0), now)
    by_hand = ", by hand" if story.occurrence.manual else ""
    return f"- {fired}{by_hand}: {name}, {state}" + (f" ({note})" if note else "")


def _short(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return shortened(line, _LONGEST_WORDS)
