"""Tells the owner when to leave for the events of their calendars."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta

from ollim_bot.clock import zone_of
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.leave_by import Departure, departures
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.quiet import is_quiet
from ollim_bot.domain.run_history import claiming_row
from ollim_bot.domain.travel import ZoneMove
from ollim_bot.errors import StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock
from ollim_bot.schedule.extra_times import heads_up_end
from ollim_bot.schedule.job_index import Changes
from ollim_bot.store.calendars import copies_stamp, readable_copies
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


class Departures:
    """Sends each heads-up once, and none when its event has begun or while it is quiet.

    It follows the copies of the calendars: an event that is moved is told for its new time, one
    that is cancelled not at all, and one that is found late at once.
    """

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
        self._unrecorded_since: datetime | None = None
        self._config_changed = asyncio.Event()
        self._config_changed.set()
        self._watches = ExitStack()

    @property
    def next_at(self) -> datetime | None:
        return self._next_at

    @property
    def is_behind(self) -> bool:
        return self._unrecorded_since is not None

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Notice a new value of the setting from now on."""
        self._watches.enter_context(self._store.changes("config", event=self._config_changed))

    async def close(self) -> None:
        self._watches.close()

    async def serve_due(self, since: datetime, now: datetime) -> None:
        since = min(since, self._unrecorded_since or since)
        try:
            await self._follow_config()
            await self._follow_calendars()
            due = [each for each in self._departures if _is_due(each, since, now)]
            new = [each for each in due if each.occurrence not in self._recorded]
            if new:
                await self._store.transact(lambda tx: self._record(tx, new, now))
                self._recorded |= {each.occurrence for each in new}
        except StorageError:
            _logger.warning("A time to leave could not be recorded", exc_info=True)
            self._unrecorded_since, self._next_at = since, now + timedelta(seconds=10)
            return
        self._unrecorded_since = None
        self._next_at = next((each.at for each in self._departures if each.at > now), None)

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        """No job file says anything about events."""

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:
        """An event is at its moment by any clock."""

    async def follow_clock(self, now: datetime) -> None:
        """What was told stays told."""

    async def _follow_config(self) -> None:
        if self._config_changed.is_set():
            self._config_changed.clear()
            try:
                minutes = await self._store.read(lambda tx: tx.config.get().travel_minutes)
            except StorageError:
                self._config_changed.set()
                raise
            if minutes != self._minutes:
                self._minutes, self._stamp, self._departures = minutes, None, ()

    async def _follow_calendars(self) -> None:
        if self._minutes is None:
            return
        stamp = await asyncio.to_thread(copies_stamp, self._paths)
        if stamp == self._stamp:
            return
        self._departures = departures(
            await asyncio.to_thread(readable_copies, self._paths), self._minutes
        )
        self._stamp = stamp
        self._recorded &= {each.occurrence for each in self._departures}

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


def _is_due(departure: Departure, since: datetime, now: datetime) -> bool:
    """Whether it is time to leave, or was since the last look."""
    return departure.at <= now and (departure.begins > now or departure.at > since)
