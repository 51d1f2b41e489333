"""What comes beside the moments of jobs: heads-ups, open items again, times to leave, timers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import NamedTuple

from ollim_bot.kernel.base.clock import Clock, zone_of
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.text import literal, one_line
from ollim_bot.kernel.changes.item_answers import follow_job, show_again
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.schedule.job_index import Changes, JobIndex, job_of, scheduled_jobs
from ollim_bot.kernel.schedule.scheduler import DueSource
from ollim_bot.kernel.store.calendar_files import copies_stamp, readable_copies
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem, delivery_id
from ollim_bot.kernel.values.jobs import Job, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.leave_by import Departure, departures
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.kernel.values.quiet import is_quiet
from ollim_bot.kernel.values.run_history import PLAINLY, claiming_row
from ollim_bot.kernel.values.schedule import (
    Agenda,
    ScheduledJob,
    key_of,
    moments_between,
    next_due,
    occurrence_at,
)
from ollim_bot.kernel.values.taint import marked_taint, untrusted_message
from ollim_bot.kernel.values.travel import ZoneMove

_MINUTE = timedelta(minutes=1)
# Enough for a line that is due every minute and was missed for days.
_MOST = 5000


class HeadsUp(NamedTuple):
    """One announcement: when it is due, and the moment that it announces. Both are in UTC."""

    at: datetime
    moment: datetime
    occurrence: Occurrence


def heads_ups_between(
    job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo
) -> list[HeadsUp]:
    """The heads-ups due after `start` and not after `end`, in order."""
    found = (
        HeadsUp(moment - length, moment, occurrence_at(job, moment).before(length))
        for length in job.spec.before
        for moment in moments_between(
            job, _utc(start) + length, _utc(end) + length, zone, limit=_MOST
        )
    )
    return sorted(found)


def next_heads_up(job: ScheduledJob, after: datetime, zone: tzinfo) -> datetime | None:
    """When the next one later than `after` is due, if any."""
    found = (
        moment - length
        for length in job.spec.before
        if (moment := next_due(job, _utc(after) + length, zone)) is not None
    )
    return min(found, default=None)


def announcement(spec: JobSpec, moment: datetime, now: datetime) -> str:
    """`in 30 min: dentist`."""
    left = max(_MINUTE, _MINUTE * round((moment - _utc(now)) / _MINUTE))
    return f"in {duration_in_words(left)}: {spec.owner_title}"


class HeadsUps(DueSource):
    """Sends each heads-up once, and none when its moment has come.

    Of several that are due at once for one job, only the newest is sent.
    """

    counts_from_heartbeat = True

    def __init__(self, store: Store, index: JobIndex, poster: MessagePoster, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._poster = poster
        self._clock = clock
        self._agenda: Agenda[JobKey] = Agenda()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        await self.follow_clock(since)

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Send or skip what is due of each job, and plan its next."""
        for key, at in self._agenda.due(now):
            job = job_of(self._index, key)
            if isinstance(job, Routine | Reminder):
                first = at - datetime.resolution
                found = heads_ups_between(job, first, now, zone_of(self._clock))
                step = partial(self._record, job=job, found=found, now=now)
                await self._store.transact(step)
                self._put(job, now)

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        there = [indexed.job for indexed in (*changes.added, *changes.changed)]
        announced = [job for job in there if job.spec.before]
        for key in {key_of(gone.job) for gone in changes.removed} | {
            key_of(job) for job in there if not job.spec.before
        }:
            self._agenda.remove(key)
        for job in announced:
            self._put(job, since)

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:  # noqa: ARG002
        """Those that the new clock jumped over come at once, if their moments are still ahead."""
        for job in scheduled_jobs(self._index):
            if job.spec.before and move.moves(job):
                self._put(job, move.jumped_since(job))

    async def follow_clock(self, now: datetime) -> None:
        for job in scheduled_jobs(self._index):
            if job.spec.before:
                self._put(job, now)

    def _put(self, job: Job, after: datetime) -> None:
        """Plan the next heads-up later than `after`."""
        key, at = key_of(job), None
        if job.spec.before and isinstance(job, Routine | Reminder):
            at = next_heads_up(job, after, zone_of(self._clock))
        if at is None:
            self._agenda.remove(key)
        else:
            self._agenda.put(key, at)

    def _record(
        self, tx: Transaction, job: ScheduledJob, found: list[HeadsUp], now: datetime
    ) -> None:
        title = job.spec.title
        for number, each in enumerate(found, 1):
            if tx.ledger.has(each.occurrence):
                continue
            is_newest = number == len(found) and each.moment > now
            reason = None if is_newest else SkipReason.SUPERSEDED
            if is_newest and tx.skips.get().has(each.occurrence.whole):
                reason = SkipReason.POLICY
            elif is_newest and not job.must and is_quiet(quiet_settings(tx), now):
                reason = SkipReason.QUIET
            if reason is None:
                self._poster.add_to_log(tx, _message(job, each, tx.now))
            begun = claiming_row(each.occurrence, max(now, each.at), {"job": title})
            tx.ledger.append(begun, heads_up_end(each.occurrence, title, reason, now))


def heads_up_end(
    occurrence: Occurrence, title: str, reason: SkipReason | None, now: datetime
) -> LedgerRow:
    """The last row of a heads-up, which came if there is no reason."""
    if reason is None:
        return LedgerRow(now, OccurrenceState.DONE.value, occurrence, {"job": title, **PLAINLY})
    facts = {"job": title, "reason": reason.value}
    return LedgerRow(now, OccurrenceState.SKIPPED.value, occurrence, facts)


def _message(job: ScheduledJob, one: HeadsUp, now: datetime) -> ChatMessage:
    spec = job.spec
    return ChatMessage(
        delivery_id(one.occurrence),
        now,
        Author.BACKGROUND,
        announcement(spec, one.moment, now),
        job=spec.short_title,
        occurrence=one.occurrence.id,
        untrusted=untrusted_message(marked_taint(spec.untrusted)),
        must=job.must,
    )


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


class Nags(DueSource):
    """Shows each planned time of an open item once, as a new message.

    After downtime only the newest time is shown. It ends when the job is paused or its file is
    removed, and goes on when the job is back.
    """

    def __init__(self, store: Store, index: JobIndex) -> None:
        self._store = store
        self._index = index
        self._agenda: Agenda[str] = Agenda()
        self._items_changed = asyncio.Event()
        self._has_read_items = False
        # At a start any job may have changed.
        self._has_changed_jobs = True
        self._was_set_back = False
        self._watches = ExitStack()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Notice new and answered items from now on."""
        self._watches.enter_context(self._store.changes("due_items", event=self._items_changed))

    async def close(self) -> None:
        self._watches.close()

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        if self._has_changed_jobs or self._was_set_back:
            await self._store.transact(partial(self._follow_jobs_and_clock, now=now))
            self._has_changed_jobs = self._was_set_back = False
        if self._items_changed.is_set():
            self._items_changed.clear()
            self._has_read_items = False
        if not self._has_read_items:
            items = await self._store.read(lambda tx: tx.due_items.to_come_again())
            self._agenda, self._has_read_items = Agenda(), True
            for item in items:
                if item.again_at is not None:
                    self._agenda.put(item.key, item.again_at)
        for key, _ in self._agenda.due(now):
            await self._store.transact(partial(self._show, key=key, now=now))

    def follow_changes(self, changes: Changes, since: datetime) -> None:  # noqa: ARG002
        """An open item keeps the nag that its job had when it came."""
        self._has_changed_jobs |= bool(changes.added or changes.changed or changes.removed)

    async def follow_clock(self, now: datetime) -> None:  # noqa: ARG002
        """After the clock was set back, bring no time later than its pause."""
        self._was_set_back = True

    def _follow_jobs_and_clock(self, tx: Transaction, now: datetime) -> None:
        for item in tx.due_items.open():
            if item.nag is not None:
                follow_job(tx, item, self._job(item))
        for item in tx.due_items.to_come_again() if self._was_set_back else ():
            nag, at = item.nag, item.again_at
            if nag is not None and at is not None and at > now + nag.pause:
                tx.due_items.put(replace(item, again_at=now + nag.pause))

    def _show(self, tx: Transaction, key: str, now: datetime) -> None:
        item = tx.due_items.get(key)
        if item is not None:
            show_again(tx, key, now, self._job(item))

    def _job(self, item: DueItem) -> Job | None:
        occurrence = Occurrence.parse(item.occurrence)
        return job_of(self._index, JobKey(occurrence.kind, occurrence.job_id))


class Departures(DueSource):
    """Sends each heads-up once, and none when its event has begun or while it is quiet.

    It follows the copies of the calendars: an event that is moved is told for its new time, one
    that is cancelled not at all, and one that is found late at once.
    """

    counts_from_heartbeat = True

    def __init__(self, store: Store, paths: DataPaths, poster: MessagePoster, clock: Clock) -> None:
        self._store = store
        self._paths = paths
        self._poster = poster
        self._clock = clock
        self._minutes: int | None = None
        self._stamp: object = None
        self._departures: Sequence[Departure] = ()
        self._recorded: set[Occurrence] = set()
        self._next_at: datetime | None = None
        self._config_changed = asyncio.Event()
        self._has_read_config = False
        self._watches = ExitStack()

    @property
    def next_at(self) -> datetime | None:
        return self._next_at

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Notice a new value of the setting from now on."""
        self._watches.enter_context(self._store.changes("config", event=self._config_changed))

    async def close(self) -> None:
        self._watches.close()

    async def serve_due(self, since: datetime, now: datetime) -> None:
        """What is due is where it is time to leave, or was since the last look."""
        if self._config_changed.is_set():
            self._config_changed.clear()
            self._has_read_config = False
        if not self._has_read_config:
            minutes = await self._store.read(lambda tx: tx.config.get().travel_minutes)
            self._has_read_config = True
            if minutes != self._minutes:
                self._minutes, self._stamp, self._departures = minutes, None, ()
        if self._minutes is not None:
            stamp = await asyncio.to_thread(copies_stamp, self._paths)
            if stamp != self._stamp:
                copies = await asyncio.to_thread(readable_copies, self._paths)
                self._departures, self._stamp = departures(copies, self._minutes), stamp
                self._recorded &= {each.occurrence for each in self._departures}
        new = [
            each
            for each in self._departures
            if each.at <= now
            and (each.begins > now or each.at > since)
            and each.occurrence not in self._recorded
        ]
        if new:
            await self._store.transact(lambda tx: self._record(tx, new, now))
            self._recorded |= {each.occurrence for each in new}
        self._next_at = next((each.at for each in self._departures if each.at > now), None)

    def _record(self, tx: Transaction, due: Sequence[Departure], now: datetime) -> None:
        quiet = quiet_settings(tx)
        for each in due:
            if tx.ledger.has(each.occurrence):
                continue
            is_late = each.begins <= now
            reason = SkipReason.QUIET if is_quiet(quiet, now) else None
            if not is_late and reason is None:
                self._poster.add_to_log(tx, each.message(tx.now.astimezone(zone_of(self._clock))))
            begun = claiming_row(each.occurrence, max(now, each.at), {"job": each.title})
            end = heads_up_end(each.occurrence, each.title, reason, now)
            if is_late:
                facts = {"job": each.title, "reason": "the event had begun"}
                end = LedgerRow(now, OccurrenceState.MISSED.value, each.occurrence, facts)
            tx.ledger.append(begun, end)


class TimerCards(DueSource):
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

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        timers = map(_timer, scheduled_jobs(self._index))
        self._running = {each.spec.id: each for each in timers if each}

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        if self._running or self._gone:
            await self._store.transact(self._show)
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
