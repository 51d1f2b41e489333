"""Reminders that the owner has ordered: each is owed until it is delivered, then its file goes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.conversation.patient_ledger import PatientLedger
from ollim_bot.conversation.reminders.delivery import ReminderDelivery
from ollim_bot.domain.catch_up import late_since
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.orders import Order
from ollim_bot.domain.run_history import DELIVERED, RunStory
from ollim_bot.domain.run_words import late_label
from ollim_bot.ports import Clock
from ollim_bot.scheduling.work import Work

# How long the agent may take to be ready with what the owner has ordered.
_PATIENCE = timedelta(seconds=60)
_BETWEEN_TRIES = 5.0


class OwedReminders:
    """There is one order for each due moment, whoever is at it."""

    def __init__(self, delivery: ReminderDelivery, ledger: PatientLedger, clock: Clock) -> None:
        self._delivery = delivery
        self._ledger = ledger
        self._clock = clock
        self._orders: dict[Occurrence, Order] = {}

    def order_of(self, work: Work) -> Order | None:
        """None if it need not be delivered whatever happens."""
        return self._orders.setdefault(work.occurrence, Order()) if work.ordered else None

    async def note_delivery(self, work: Work, order: Order, story: RunStory) -> None:
        """Take the order if it was carried out before a crash."""
        if story.delivery is not None or await self._delivery.was_said(work.occurrence):
            order.take()

    async def until_too_late(self, work: Work) -> None:
        """Returns when the agent is not waited for any longer."""
        now = self._clock.now().astimezone(UTC)
        due = work.occurrence.scheduled_at or now
        latest = max(due, now - _PATIENCE / 2) + _PATIENCE
        await self._clock.sleep((latest - now).total_seconds())

    async def show(self, work: Work, order: Order) -> None:
        """Although nothing can be written down; it is owed nevertheless."""
        assert work.ordered is not None
        await self._delivery.flash(work.ordered, work.occurrence, order)

    async def deliver(self, work: Work, order: Order, reason: str) -> None:
        """Returns when it is delivered, by whomever; `reason` says why the program does it."""
        assert work.ordered is not None
        since = work.late_since
        while not await self._delivery.deliver(
            work.ordered, work.occurrence, order, self._labelled(reason, since)
        ):
            await self._clock.sleep(_BETWEEN_TRIES)
            since = late_since(work.occurrence, self._clock.now())

    async def settle(self, work: Work, order: Order | None, reason: str) -> None:
        """It has its end row; what had to be delivered is, and then the file goes."""
        if order is not None:
            since = late_since(work.occurrence, self._clock.now())
            await self.deliver(replace(work, late_since=since), order, reason)
            await self._ledger.append(LedgerRow(self._clock.now(), DELIVERED, work.occurrence))
            self._orders.pop(work.occurrence, None)
        if isinstance(work.job, Reminder) and not work.occurrence.manual:
            await self.put_away(work.job)

    async def put_away(self, reminder: Reminder) -> None:
        """Its moment has come to its end."""
        await asyncio.to_thread(self._delivery.take_away, reminder)

    def _labelled(self, reason: str, since: datetime | None) -> str:
        if since is None:
            return reason
        return f"{late_label(since, self._clock.now())} {reason}".rstrip()
