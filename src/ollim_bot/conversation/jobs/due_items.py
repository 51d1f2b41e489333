"""Answers due items by the buttons on their cards, and removes each Undo in time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.due_items import (
    DONE,
    ITEM,
    LET_GO,
    MOVE,
    NOT_TAKEN,
    OTHER,
    SNOOZE,
    TAKEN,
    UNDO,
    snoozed_until,
)
from ollim_bot.domain.occurrences import Answer
from ollim_bot.domain.phrases.moment import parse_moment
from ollim_bot.errors import OllimError, StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.breakdowns import end_steps_undo
from ollim_bot.store.item_answers import ItemAnswers, end_undo
from ollim_bot.store.steps import end_clear_undo
from ollim_bot.store.store import Store
from ollim_bot.store.task_undo import end_task_undo
from ollim_bot.store.transaction import Step, Transaction

# Bounds how late a sleep of the machine, or a set clock, is noticed. In seconds.
_LONGEST_SLEEP = 10.0
# Seconds until a disk that refused to remove an Undo is tried again.
_NEXT_TRY = 60.0
_WITH_UNDO = ("due_items", "cleared", "task_undos", "breakdowns")

_logger = logging.getLogger(__name__)


class ItemButtons:
    """Answers due items by their buttons; only the first click counts."""

    def __init__(self, items: ItemAnswers, clock: Clock) -> None:
        self._items = items
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: self._answering(Answer.DONE),
            TAKEN: self._answering(Answer.TAKEN),
            NOT_TAKEN: self._answering(Answer.NOT_TAKEN),
            LET_GO: self._answering(Answer.LET_GO),
            SNOOZE: self._answering(Answer.SNOOZED),
            f"{MOVE}:{ITEM}": self._answering(Answer.MOVED),
            f"{UNDO}:{ITEM}": Action(self._take_back, Uses.NOTHING),
        }

    def _answering(self, answer: Answer) -> Action:
        async def run(surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
            key, wait = button.data.removeprefix(f"{ITEM}:").partition(":")[::2]
            try:
                until = self._until(wait) if wait else None
                item = await self._items.answer(key, answer, surface, until)
            except OllimError as refused:
                return CommandAnswer(str(refused), is_error=True)
            return CommandAnswer() if item else CommandAnswer(texts.BUTTON_USED, is_error=True)

        return Action(run, Uses.NOTHING)

    def _until(self, wait: str) -> datetime:
        """Raises `BadPhrase` for words that name no moment."""
        now, (kind, _, words) = self._clock.now(), wait.partition(":")
        return parse_moment(words, now) if kind == OTHER else snoozed_until(wait, now)

    async def _take_back(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        try:
            await self._items.take_back(button.data.partition(":")[2], surface)
        except OllimError as refused:
            return CommandAnswer(str(refused), is_error=True)
        return CommandAnswer()


class UndoExpiry:
    """Removes the Undo of answered items, tasks and `/clear` from the log when its time is over."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled."""
        with self._store.changes(*_WITH_UNDO) as has_changed:
            while True:
                has_changed.clear()
                await wait_until_set(has_changed, self._clock, await self._seconds_left())

    async def _seconds_left(self) -> float | None:
        """Remove what is over; returns when to look again, None if no Undo is left."""
        now = self._clock.now().astimezone(UTC)
        ends = await self._store.read(lambda tx: _ends(tx, now))
        try:
            for end in dict.fromkeys(end for until, end in ends if until <= now):
                await self._store.transact(end)
        except StorageError:
            _logger.warning("An Undo could not be removed", exc_info=True)
            return _NEXT_TRY
        left = [(until - now).total_seconds() for until, _ in ends if until > now]
        return min(*left, _LONGEST_SLEEP) if left else None


def _ends(tx: Transaction, now: datetime) -> list[tuple[datetime, Step[None]]]:
    """When each Undo ends that a message offers, and the step that removes it."""
    cleared = tx.cleared.get().undo_left(now)
    found: list[tuple[datetime | None, Step[None]]] = [
        *((each.undo_until, end_undo) for each in tx.due_items.with_undo()),
        *((each.until, end_task_undo) for each in tx.task_undos.get().undos),
        *((each.undo_until, end_steps_undo) for each in tx.breakdowns.get().known),
        (None if cleared is None else now + cleared, end_clear_undo),
    ]
    return [(until.astimezone(UTC), end) for until, end in found if until is not None]
