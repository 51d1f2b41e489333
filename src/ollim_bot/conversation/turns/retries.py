"""Asks the owner's messages again whose answer has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from uuid import uuid4

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.message_poster import RETRY, CommandChange, MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.ids import TurnId
from ollim_bot.domain.inbox import Accepted, CommandCall, InputId
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

RETRY_AFTER_LOGIN = "retry_after_login"

# Names the login in use, with another text after each renewal; empty if there is none.
LoginMark = Callable[[], Awaitable[str]]


class Retries:
    """Puts the messages of a failed turn into the inbox again, once, also after a restart.

    Messages that met a lost login follow by themselves when the login was renewed.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        forks: Forks,
        poster: MessagePoster,
        clock: Clock,
        *,
        login: LoginMark,
    ) -> None:
        self._store = store
        self._state = state
        self._forks = forks
        self._poster = poster
        self._clock = clock
        self._login = login
        self.actions: Mapping[str, Action] = {RETRY: Action(self._click)}

    async def run(self) -> None:
        """Ask again what waits for the login: at the start, and after each change of the login."""
        with self._store.changes("failed_turns") as changed:
            if await self._waits() and await self._login():
                await self._queue()
            while True:
                changed.clear()
                if await self._waits():
                    await self._until_renewed()
                await changed.wait()

    async def after_login(self, _: CommandCall) -> CommandChange:
        """Ask again all that waits for the login, in new processes, which read the new login."""
        now = self._clock.now()

        def step(tx: Transaction) -> str:
            for failed in tx.failed_turns.get().for_login(now):
                tx.failed_turns.take(lambda known, failed=failed: known.taken(failed.turn))  # type: ignore[misc]
                tx.inbox.append(*failed.again(now))
                for each in tx.messages.of_turn(failed.turn):
                    card = each.message.card
                    if card is not None and any(button.action == RETRY for button in card.buttons):
                        buttons = tuple(button._replace(is_used=True) for button in card.buttons)
                        shown = replace(each.message, card=card._replace(buttons=buttons))
                        self._poster.add_to_log(tx, shown)
            return ""

        return CommandChange(step, after=self._forks.close)

    async def _click(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        now, turn = self._clock.now(), TurnId(button.data)

        def step(tx: Transaction) -> bool:
            failed = tx.failed_turns.take(lambda known: known.taken(turn))
            if failed is not None:
                tx.inbox.append(*failed.again(now))
            return failed is not None

        is_asked = await self._state.transact(step)
        return CommandAnswer() if is_asked else CommandAnswer(texts.BUTTON_USED, is_error=True)

    async def _waits(self) -> bool:
        known = await self._store.read(lambda tx: tx.failed_turns.get())
        return bool(known.for_login(self._clock.now()))

    async def _until_renewed(self) -> None:
        before = await self._login()
        while await self._waits():
            await self._clock.sleep(10.0)
            now = await self._login()
            if now and now != before:
                await self._queue()
                return

    async def _queue(self) -> None:
        call = CommandCall(InputId(uuid4().hex), "", self._clock.now(), RETRY_AFTER_LOGIN)
        await self._state.append(Accepted(call.at, call))
