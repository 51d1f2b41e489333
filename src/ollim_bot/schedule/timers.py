"""Keeps the cards of timers true: how long each runs, and that it is over or was cancelled."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from ollim_bot.clock import zone_of
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.jobs import Job, Reminder
from ollim_bot.domain.moments import describe
from ollim_bot.domain.taint import marked_taint, untrusted_message
from ollim_bot.domain.text import literal, one_line
from ollim_bot.domain.travel import ZoneMove
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.job_index import Changes, JobIndex, scheduled_jobs
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


class TimerCards:
    """Shows a card for each timer, from its file on until it is over or its file is gone.

    A timer that a run has set by itself has none: its ping is all that it may say.
    """

    def __init__(self, store: Store, index: JobIndex, poster: MessagePoster, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._poster = poster
        self._clock = clock
        self._running: dict[str, Reminder] = {}
        self._gone: dict[str, Reminder] = {}

    @property
    def next_at(self) -> datetime | None:
        """None: what a timer reminds of comes as any reminder does."""
        return None

    @property
    def is_behind(self) -> bool:
        return False

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        timers = map(_timer, scheduled_jobs(self._index))
        self._running = {each.spec.id: each for each in timers if each}

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        if not (self._running or self._gone):
            return
        try:
            await self._store.transact(self._show)
        except StorageError:
            _logger.warning("The card of a timer could not be written", exc_info=True)
        else:
            self._running, self._gone = {}, {}

    def follow_changes(self, changes: Changes, since: datetime) -> None:  # noqa: ARG002
        for one in (*changes.added, *changes.changed):
            if timer := _timer(one.job):
                self._gone.pop(timer.spec.id, None)
                self._running[timer.spec.id] = timer
        for one in changes.removed:
            if timer := _timer(one.job):
                self._running.pop(timer.spec.id, None)
                self._gone[timer.spec.id] = timer

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:  # noqa: ARG002
        """Its end is shown by the new clock."""
        await self.start(now, now)

    async def follow_clock(self, now: datetime) -> None:
        """A timer ends at its moment by any clock."""

    async def close(self) -> None:
        """Nothing goes on beside the loop."""

    def _show(self, tx: Transaction) -> None:
        now = self._clock.now()
        zone = zone_of(self._clock)
        for timer in self._running.values():
            due = timer.due(zone).astimezone(zone)
            words = f"Timer until {describe(due, now)}"
            self._put(tx, timer, Card(words, literal(_title(timer)), until=due))
        for timer in self._gone.values():
            is_over = timer.due(zone).astimezone(UTC) <= now.astimezone(UTC)
            words = "Timer over" if is_over else "Timer cancelled"
            self._put(tx, timer, Card(f"{words}: {_title(timer)}"))

    def _put(self, tx: Transaction, timer: Reminder, card: Card) -> None:
        """Add the card, or replace the one of the timer; a card that is not there stays away."""
        name = MessageId(f"timer-{timer.spec.id}")
        known = tx.messages.get(name)
        if (known is None and card.until is None) or (known is not None and known.card == card):
            return
        mark = untrusted_message(marked_taint(timer.spec.untrusted))
        at = tx.now if known is None else known.at
        message = ChatMessage(name, at, Author.PROGRAM, card.text, card=card, untrusted=mark)
        self._poster.add_to_log(tx, message)


def _title(timer: Reminder) -> str:
    return one_line(timer.spec.owner_title, 200)


def _timer(job: Job) -> Reminder | None:
    """The job, if its card shows how long it runs."""
    is_timer = isinstance(job, Reminder) and job.set_at is not None and job.spec.set_by is None
    return job if is_timer and isinstance(job, Reminder) and job.spec.enabled else None
