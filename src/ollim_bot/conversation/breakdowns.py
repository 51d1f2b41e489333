"""The button Break it down: asks the agent for steps, or the owner where no agent makes them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Receive, Uses
from ollim_bot.conversation.tasks import refused_answer
from ollim_bot.domain.breakdowns import STEPS, TYPE_STEPS, Breakdown, Thing, steps_in
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import OF_CLICK, ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.due_items import BREAK_DOWN, UNDO
from ollim_bot.domain.inbox import InputId
from ollim_bot.domain.taint import Untrusted, marked_taint
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock, IncomingMessage
from ollim_bot.prompts.turns import break_down_request
from ollim_bot.store.breakdowns import StepWriter, ask_agent, ask_for_unanswered, ask_owner
from ollim_bot.store.store import Store

# What tells that a step may be done: a click, or any other change of the tasks.
_FOLLOWED = ("task_undos", "changes")

_logger = logging.getLogger(__name__)


class BreakdownButtons:
    """One set of steps for a thing, however often the button is pressed.

    `can_ask` says whether a model is there that can make steps; `receive` accepts the request to
    the agent as an input.
    """

    def __init__(
        self, store: Store, writer: StepWriter, receive: Receive, clock: Clock, *, can_ask: bool
    ) -> None:
        self._store = store
        self._writer = writer
        self._receive = receive
        self._clock = clock
        self._can_ask = can_ask
        # Of two presses at once, the second finds the request of the first.
        self._one_at_a_time = asyncio.Lock()
        self.actions: Mapping[str, Action] = {
            BREAK_DOWN: Action(self._press, Uses.NOTHING),
            TYPE_STEPS: Action(self._type, Uses.NOTHING),
            f"{UNDO}:{STEPS}": Action(self._undo, Uses.NOTHING),
        }

    async def run(self) -> None:
        """Follow steps and requests, until cancelled."""
        with self._store.changes("breakdowns") as has_changed:
            while True:
                has_changed.clear()
                known = (await self._store.read(lambda tx: tx.breakdowns.get())).known
                with ExitStack() as watches:
                    for name in ("inbox", *_FOLLOWED) if known else ():
                        watches.enter_context(self._store.changes(name, event=has_changed))
                    pause = None if await self._look(known) else 60.0
                    await wait_until_set(has_changed, self._clock, pause)

    async def _look(self, known: Sequence[Breakdown]) -> bool:
        """Do what is to be done now; False if the disk refuses it."""
        try:
            if any(each.asked for each in known):
                await self._store.transact(ask_for_unanswered)
            if any(each.parts for each in known):
                await self._writer.follow()
        except OllimError:
            _logger.warning("The steps of a task have to wait", exc_info=True)
            return False
        return True

    async def _press(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            try:
                thing = await self._writer.find(button.data)
                if not self._can_ask:
                    await self._store.transact(lambda tx: ask_owner(tx, thing))
                    return CommandAnswer(texts.TYPE_THE_STEPS)
                if await self._is_asked(thing):
                    return CommandAnswer(texts.STEPS_COME, is_error=True)
                await self._ask(surface, thing, button.label)
            except OllimError as refused:
                return refused_answer(refused)
        return CommandAnswer()

    async def _is_asked(self, thing: Thing) -> bool:
        """Whether the agent has the request, and has not ended its turn."""
        known, inbox = await self._store.read(lambda tx: (tx.breakdowns.get(), tx.inbox.get()))
        one = known.find(thing.key)
        return one is not None and any(each.id == one.asked for each in inbox.accepted)

    async def _ask(self, surface: str, thing: Thing, label: str) -> None:
        name, untrusted = InputId(f"{OF_CLICK}{thing.key}-{secrets.token_hex(4)}"), None
        if thing.untrusted:
            read = marked_taint(thing.untrusted).in_words
            about = f"a task that was written after reading {read}"
            untrusted = Untrusted(thing.untrusted, about)
        request = IncomingMessage(
            name,
            surface,
            break_down_request(thing.key),
            button=label,
            untrusted_quote=untrusted,
            subject=thing.words,
        )
        await self._receive(request, lambda tx: ask_agent(tx, thing, name))

    async def _type(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """The button asks, so that its data end with the words."""
        key, _, words = button.data.partition(":")
        one = (await self._store.read(lambda tx: tx.breakdowns.get())).find(key)
        if one is None or one.parts:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        try:
            await self._writer.write(one.thing.ref, steps_in(words))
        except OllimError as refused:
            return refused_answer(refused)
        return CommandAnswer()

    async def _undo(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        try:
            is_undone = await self._writer.undo(button.data.removeprefix(f"{STEPS}:"))
        except OllimError as refused:
            return refused_answer(refused)
        return CommandAnswer() if is_undone else CommandAnswer(texts.UNDO_OVER, is_error=True)
