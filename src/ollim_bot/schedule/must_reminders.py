"""Delivers each `must` reminder that no run delivers, and removes the files of ended reminders."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from ollim_bot.conversation.jobs.reminders import ReminderDelivery
from ollim_bot.conversation.patient_ledger import PatientLedger
from ollim_bot.domain.decision import deliver_by
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.lateness import late_since
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.orders import Order
from ollim_bot.domain.run_history import DELIVERED, RunStory
from ollim_bot.domain.runs import late_label
from ollim_bot.ports import Clock
from ollim_bot.schedule.circumstances import DueOccurrence

_BETWEEN_TRIES = 5.0


class MustReminders:
    """Holds one order for each due occurrence, which its run and the program share."""

    def __init__(self, delivery: ReminderDelivery, ledger: PatientLedger, clock: Clock) -> None:
        self._delivery = delivery
        self._ledger = ledger
        self._clock = clock
        self._orders: dict[Occurrence, Order] = {}

    def order_of(self, due: DueOccurrence) -> Order | None:
        """None if the program does not deliver it."""
        if due.must_reminder is None:
            return None
        return self._orders.setdefault(due.occurrence, Order())

    async def note_delivery(self, due: DueOccurrence, order: Order, story: RunStory) -> None:
        """Take the order if it was carried out before a crash."""
        if story.delivery is not None or await self._delivery.was_said(due.occurrence):
            order.take()

    async def until_deadline(self, due: DueOccurrence) -> None:
        now = self._clock.now().astimezone(UTC)
        latest = deliver_by(due.occurrence.scheduled_at, now)
        await self._clock.sleep((latest - now).total_seconds())

    async def show(self, due: DueOccurrence, order: Order) -> None:
        """Show the reminder while nothing can be written; the delivery is still owed."""
        assert due.must_reminder is not None
        await self._delivery.flash(due.must_reminder, due.occurrence, order)

    async def deliver(self, due: DueOccurrence, order: Order, reason: str) -> None:
        """Return when it is delivered, by the run or by us; `reason` says why we do it."""
        assert due.must_reminder is not None
        since = due.late_since
        while not await self._delivery.deliver(
            due.must_reminder, due.occurrence, order, self._labelled(reason, since)
        ):
            await self._clock.sleep(_BETWEEN_TRIES)
            since = late_since(due.occurrence, self._clock.now())

    async def settle(self, due: DueOccurrence, order: Order | None, reason: str) -> None:
        """After the end row: deliver what is owed, note it, then remove the file."""
        if order is not None:
            since = late_since(due.occurrence, self._clock.now())
            await self.deliver(replace(due, late_since=since), order, reason)
            await self._ledger.append(LedgerRow(self._clock.now(), DELIVERED, due.occurrence))
            self._orders.pop(due.occurrence, None)
        if isinstance(due.job, Reminder) and not due.occurrence.manual:
            await self.remove_file(due.job)

    async def remove_file(self, reminder: Reminder) -> None:
        await asyncio.to_thread(self._delivery.take_away, reminder)

    def _labelled(self, reason: str, since: datetime | None) -> str:
        if since is None:
            return reason
        return f"{late_label(since, self._clock.now())} {reason}".rstrip()
