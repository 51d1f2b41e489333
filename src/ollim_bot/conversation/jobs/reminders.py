"""Delivers reminders and routines without the agent."""

from __future__ import annotations

import logging
from typing import Protocol

from ollim_bot.conversation.chat_sessions import main_run
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.delivery_right import DeliveryRight
from ollim_bot.domain.item_messages import delivery_id, item_message
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import ScheduledJob, key_of
from ollim_bot.errors import DeliveryFailed, NotStored
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.tools.context import Poster

_NOT_KEPT = "The disk cannot be written, so this is not kept."

_logger = logging.getLogger(__name__)


class ReminderPoster(Poster, Protocol):
    async def show_unkept(self, message: ChatMessage) -> None:
        """Show a message that cannot be stored. It is sent again under the same id later."""


class ReminderDelivery:
    """Delivers what must be delivered exactly once.

    On a full disk it is only shown, and stays owed until the log has it.
    """

    def __init__(self, store: Store, poster: ReminderPoster, clock: Clock) -> None:
        self._store = store
        self._poster = poster
        self._clock = clock
        self._shown: set[Occurrence] = set()

    async def deliver(
        self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight, reason: str
    ) -> bool:
        """Deliver the text of the job; False if that failed for now.

        `reason` says why the program does it.
        """
        if not right.take() and occurrence not in self._shown:
            return True
        now = self._clock.now()
        message, item = item_message(job, occurrence, now, reason)
        try:
            # What need not come waits for the end of the quiet; of one job, only the newest. What
            # the owner runs by hand does not.
            waits_as = None if job.must or occurrence.manual else f"plain {key_of(job)}"
            await self._poster.send(message, main_run(now), item=item, waits_as=waits_as)
            await self._poster.arrival(message.id)
        except NotStored:
            await self._show(job, occurrence)
            return False
        except DeliveryFailed:
            _logger.warning("A reminder could not be delivered", exc_info=True)
            right.give_back()
            return False
        self._shown.discard(occurrence)
        return True

    async def was_said(self, occurrence: Occurrence) -> bool:
        """Whether the log has a message for the occurrence, from the agent or from the program."""
        return bool(await self._store.read(lambda tx: tx.messages.of_occurrence(occurrence.id)))

    async def flash(self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight) -> None:
        """Show the text although it cannot be stored: a full disk must not swallow it."""
        if right.take() or occurrence in self._shown:
            await self._show(job, occurrence)

    async def _show(self, job: ScheduledJob, occurrence: Occurrence) -> None:
        self._shown.add(occurrence)
        now, words = self._clock.now(), job.spec.words
        name = delivery_id(occurrence)
        called = job.spec.short_title
        message = ChatMessage(name, now, Author.BACKGROUND, words, footer=_NOT_KEPT, job=called)
        await self._poster.show_unkept(message)
