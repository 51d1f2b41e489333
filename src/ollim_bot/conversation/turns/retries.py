"""Asks the owner's messages again whose answer has failed."""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action
from ollim_bot.conversation.posting import RETRY
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage, TurnId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.ports import Clock
from ollim_bot.store.transaction import Transaction


class Retries:
    """Puts the messages of a failed turn into the inbox again, once, also after a restart."""

    def __init__(self, state: ConversationState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self.actions: Mapping[str, Action] = {RETRY: Action(self._click)}

    async def _click(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        now, turn = self._clock.now(), TurnId(button.data)

        def step(tx: Transaction) -> bool:
            failed = tx.failed_turns.take(lambda known: known.taken(turn))
            if failed is not None:
                tx.inbox.append(*failed.again(now))
            return failed is not None

        is_asked = await self._state.transact(step)
        return CommandAnswer() if is_asked else CommandAnswer(texts.BUTTON_USED, is_error=True)
