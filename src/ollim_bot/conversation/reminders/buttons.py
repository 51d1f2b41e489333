"""Done and Snooze: what the owner does about a reminder that came."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress

from ollim_bot.conversation import texts
from ollim_bot.conversation.clicks import Action, Uses
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inquiries import Inquiries, Inquiry
from ollim_bot.domain.moments import describe
from ollim_bot.domain.snoozing import DONE, SNOOZE, reminder_from, root_in, snoozed_until
from ollim_bot.errors import NotFound, OllimError
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores


class ReminderButtons:
    """The note behind the buttons is taken once, so that only the first click counts."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: Action(self._done, Uses.ALL),
            SNOOZE: Action(self._snooze, Uses.ALL),
        }

    async def _done(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """The rest of its chain is not needed any more."""
        return await asyncio.to_thread(self._finish, button.data)

    async def _snooze(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        key, _, wait = button.data.partition(":")
        return await asyncio.to_thread(self._put_off, key, wait)

    def _finish(self, key: str) -> CommandAnswer:
        found = self._taken(key)
        if found is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        now = self._clock.now()
        reminder = reminder_from(found.prompt, key, now)
        self._end_chain(root_in(found.prompt))
        said = f"The owner is done with the reminder “{reminder.spec.title}”."
        self._stores.leave_update(said, now, f"done-{key}")
        return CommandAnswer()

    def _put_off(self, key: str, wait: str) -> CommandAnswer:
        found = self._taken(key)
        if found is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        now = self._clock.now()
        reminder = reminder_from(found.prompt, os.urandom(4).hex(), snoozed_until(wait, now))
        try:
            # What was to ask again about the one that was put off comes from the new one.
            self._end_chain(root_in(found.prompt))
            self._stores.reminders.add(reminder)
        except OllimError as refused:
            self._stores.inquiries.transact(lambda known: (known.stored(found), None))
            return CommandAnswer(str(refused), is_error=True)
        when = describe(reminder.run_at, now)
        title = reminder.spec.title.removesuffix(".")
        return CommandAnswer(f"Reminder set: {title}, {when}.")

    def _end_chain(self, root: str) -> None:
        for shelved in self._stores.reminders.all():
            if shelved.item.chain.parent == root:
                with suppress(NotFound):
                    self._stores.reminders.remove(shelved.item.spec.id)

    def _taken(self, key: str) -> Inquiry | None:
        now = self._clock.now().timestamp()

        def step(known: Inquiries) -> tuple[Inquiries, Inquiry | None]:
            return known.taken(key, now)

        return self._stores.inquiries.transact(step)
