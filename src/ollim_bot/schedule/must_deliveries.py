"""Delivers what must be delivered and no run delivers, and removes files of ended reminders."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.jobs.reminders import ReminderDelivery
from ollim_bot.domain.decision import deliver_by
from ollim_bot.domain.delivery_right import DeliveryRight
from ollim_bot.domain.item_messages import why_now
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.lateness import late_since
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import DELIVERED, RunStory
from ollim_bot.ports import Clock
from ollim_bot.schedule.circumstances import DueOccurrence
from ollim_bot.store.job_files import JobFileChanges, remove_reminder
from ollim_bot.store.transaction import Transaction

_BETWEEN_TRIES = 5.0
_BETWEEN_LOOKS = 1.0


class MustDeliveries:
    """Holds one delivery right for each due occurrence, which the run and the program share."""

    def __init__(
        self, delivery: ReminderDelivery, gate: DiskGate, files: JobFileChanges, clock: Clock
    ) -> None:
        self._delivery = delivery
        self._gate = gate
        self._files = files
        self._clock = clock
        self._rights: dict[Occurrence, DeliveryRight] = {}

    def right_of(self, due: DueOccurrence) -> DeliveryRight | None:
        """The order of the occurrence; None if the program does not deliver it."""
        if due.ordered is None:
            return None
        return self._rights.setdefault(due.occurrence, DeliveryRight())

    async def note_delivery(
        self, due: DueOccurrence, right: DeliveryRight, story: RunStory
    ) -> None:
        """Take the right if the reminder was delivered before a crash."""
        if story.delivery is not None or await self._delivery.was_said(due.occurrence):
            right.take()

    async def until_deadline(self, due: DueOccurrence, right: DeliveryRight) -> None:
        """Wait for the moment at which the program delivers; not while a ping of the run waits."""
        now = self._clock.now().astimezone(UTC)
        latest = deliver_by(due.occurrence.scheduled_at, now)
        await self._clock.sleep((latest - now).total_seconds())
        while right.has_ready_ping:
            await self._clock.sleep(_BETWEEN_LOOKS)

    async def show(self, due: DueOccurrence, right: DeliveryRight) -> None:
        """Show the reminder while the disk refuses writes; the delivery is still owed."""
        assert due.ordered is not None
        await self._delivery.flash(due.ordered, due.occurrence, right)

    async def deliver(self, due: DueOccurrence, right: DeliveryRight, reason: str) -> None:
        """Return once the run or the program has delivered; `reason` says why the program does."""
        assert due.ordered is not None
        since = due.late_since
        while not await self._delivery.deliver(
            due.ordered, due.occurrence, right, why_now(reason, since, self._clock.now())
        ):
            await self._clock.sleep(_BETWEEN_TRIES)
            since = late_since(due.occurrence, self._clock.now())

    async def settle(self, due: DueOccurrence, right: DeliveryRight | None, reason: str) -> None:
        """After the end row: deliver the reminder if owed, record that, and remove its file."""
        if right is not None:
            since = late_since(due.occurrence, self._clock.now())
            await self.deliver(replace(due, late_since=since), right, reason)
        await self.finish(due, is_delivered=right is not None)
        self._rights.pop(due.occurrence, None)

    async def finish(self, due: DueOccurrence, *, is_delivered: bool) -> None:
        """Remove the file of a reminder whose occurrence is over."""

        def step(tx: Transaction) -> None:
            if is_delivered and tx.ledger.story(due.occurrence).delivery is None:
                tx.ledger.append(LedgerRow(tx.now, DELIVERED, due.occurrence))
            if isinstance(due.job, Reminder) and not due.occurrence.manual:
                tx.job_ops.add(remove_reminder(due.job, due.occurrence.id))

        await self._gate.commit(step)
        await self._files.make()
