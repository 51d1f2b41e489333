"""Shows open due items again, until they are answered."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.item_messages import again_message, delivery_id
from ollim_bot.domain.lateness import is_late
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.domain.quiet import quiet_until
from ollim_bot.domain.run_history import HELD, PLAINLY, PLANNED_AT
from ollim_bot.domain.schedule import Agenda
from ollim_bot.domain.travel import ZoneMove
from ollim_bot.errors import StorageError
from ollim_bot.schedule.job_index import Changes
from ollim_bot.store.item_answers import move_card
from ollim_bot.store.item_times import held_time, plan_next, planned_time, skip_passed
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_BETWEEN_TRIES = timedelta(seconds=10)

_logger = logging.getLogger(__name__)


class Nags:
    """Shows each planned time of an open item once, as a new message.

    The message, the end of this time and the plan of the next one are one step. After downtime only
    the newest time is shown. While it is quiet, what need not come waits for the end.
    """

    def __init__(self, store: Store, poster: MessagePoster) -> None:
        self._store = store
        self._poster = poster
        self._agenda: Agenda[str] = Agenda()
        self._items_changed = asyncio.Event()
        self._items_changed.set()
        self._watches = ExitStack()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    @property
    def is_behind(self) -> bool:
        """Never: the planned time of an item is in the ledger, also while it cannot be shown."""
        return False

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Notice new and answered items from now on."""
        self._watches.enter_context(self._store.changes("due_items", event=self._items_changed))

    async def close(self) -> None:
        self._watches.close()

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        if self._items_changed.is_set():
            await self._try_to_read_items()
        for key, _ in self._agenda.due(now):
            try:
                await self._store.transact(partial(self._show, key=key, now=now))
            except StorageError:
                _logger.warning("A due item could not be shown again", exc_info=True)
                self._agenda.put(key, now + _BETWEEN_TRIES)

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        """An open item keeps the nag that its job had when it came."""

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:
        """An open item comes again after its pause, by any clock."""

    async def follow_clock(self, now: datetime) -> None:
        """After the clock was set back, bring no time later than its pause."""

        def step(tx: Transaction) -> None:
            for item in tx.due_items.to_come_again():
                nag, at = item.nag, item.again_at
                if nag is not None and at is not None and at > now + nag.pause:
                    tx.due_items.put(replace(item, again_at=now + nag.pause))

        try:
            await self._store.transact(step)
        except StorageError:
            _logger.warning("Due items could not follow the clock", exc_info=True)

    async def _try_to_read_items(self) -> None:
        self._items_changed.clear()
        try:
            items = await self._store.read(lambda tx: tx.due_items.to_come_again())
        except StorageError:
            _logger.warning("The due items cannot be read", exc_info=True)
            self._items_changed.set()
            return
        self._agenda = Agenda()
        for item in items:
            if item.again_at is not None:
                self._agenda.put(item.key, item.again_at)

    def _show(self, tx: Transaction, key: str, now: datetime) -> None:
        item = tx.due_items.get(key)
        if item is None or not item.is_open or item.again_at is None or item.again_at > now:
            return
        if held_time(tx, item) is not None:
            # The digest brings it when the quiet ends.
            return
        item = skip_passed(tx, item, now)
        time = planned_time(tx, item)
        if time is None or item.nag is None or item.again_at is None:
            tx.due_items.put(replace(item, again_at=None))
            return
        until = None if item.as_reminder.must else quiet_until(quiet_settings(tx), now)
        if until is not None:
            tx.due_items.put(replace(item, again_at=until))
            tx.ledger.append(_held_row(item, time, until, tx.now))
            return
        message = again_message(item, time, tx.now)
        self._poster.add_to_log(tx, message)
        facts = {"job": message.job, **PLAINLY}
        tx.ledger.append(LedgerRow(tx.now, OccurrenceState.DONE.value, time, facts))
        since = now if is_late(item.again_at, now) else item.again_at
        after = plan_next(tx, replace(item, shown=item.shown + 1), since + item.nag.pause)
        move_card(tx, after, message.id)


def _held_row(item: DueItem, time: Occurrence, until: datetime, now: datetime) -> LedgerRow:
    facts = {"message": delivery_id(time), "text": item.title}
    moments = dict.fromkeys(("until", PLANNED_AT), until.isoformat())
    return LedgerRow(now, HELD, time, {**facts, **moments})
