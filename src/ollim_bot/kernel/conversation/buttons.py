"""Routes clicks on the buttons of cards to the parts that carry them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import EventNotFound, OllimError, TaskNotFound
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import OF_CLICK, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.kernel.values.taint import Taint, Untrusted

Receive = Callable[[IncomingMessage, Step[None]], Awaitable[ChatMessage]]


Press = Callable[[str, ChatMessage, Button], Awaitable[CommandAnswer]]
# Presses the button with that id on a card that is no message of the log.
PressOn = Callable[[str, ChatMessage, str, str], Awaitable[CommandAnswer]]

_GONE = {TaskNotFound: texts.TASK_GONE, EventNotFound: texts.EVENT_GONE}


class Uses(Enum):
    """Which buttons of a card are used up by a click: of `ALL`, those not clicked go."""

    NOTHING = "nothing"
    ITSELF = "itself"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Action:
    """What a button does, called with the surface, the message and the button.

    At the end of the data of a button that asks are the words of the answer.
    """

    run: Press
    uses: Uses = Uses.ITSELF


def refusable(run: Press, uses: Uses = Uses.NOTHING) -> Action:
    """An action that answers with the sentence of its `OllimError`."""

    async def answer(surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        try:
            return await run(surface, message, button)
        except OllimError as refused:
            sentence = _GONE.get(type(refused)) or str(refused)
            return CommandAnswer(sentence, is_error=True)

    return Action(answer, uses)


class ButtonRouter:
    """Finds the action of a clicked button, runs it and marks the button as used.

    `actions` come from other parts; `undo:clear` is the action `undo` for data that begin with
    `clear:`. `receive` accepts the prompt behind a button as an input whose
    id is made from the prompt's key, so that a second click adds nothing.
    """

    def __init__(
        self,
        store: Store,
        poster: MessagePoster,
        clock: Clock,
        *,
        receive: Receive,
        actions: Mapping[str, Action],
    ) -> None:
        self._store = store
        self._poster = poster
        self._clock = clock
        self._receive = receive
        self._actions = {"agent": Action(self._ask), "dismiss": Action(nothing), **actions}

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        """`words` answer the question of the button, if it asks one."""
        message = await self._poster.find(message_id)
        if message is None:
            return CommandAnswer(texts.BUTTON_GONE, is_error=True)
        return await self.press(surface, message, custom_id, words)

    async def press(
        self, surface: str, message: ChatMessage, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        """As `click`, on a card that need not be in the log."""
        buttons = message.card.buttons if message.card else ()
        button = next((each for each in buttons if each.custom_id == custom_id), None)
        if button is None:
            return CommandAnswer(texts.BUTTON_GONE, is_error=True)
        if button.is_used:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        kind = button.data.partition(":")[0]
        action = self._actions.get(f"{button.action}:{kind}") or self._actions.get(button.action)
        if action is None:
            return CommandAnswer(texts.BUTTON_IDLE, is_error=True)
        said = button._replace(data=f"{button.data}:{words}") if button.asks else button
        answer = await action.run(surface, message, said)
        if action.uses is not Uses.NOTHING and (
            not answer.is_error or answer.text == texts.BUTTON_USED
        ):
            # What was clicked is done all the same.
            marking = self._store.transact(
                lambda tx: self._mark_used(tx, message.id, button, action.uses)
            )
            await unless_refused("A button could not be shown as used", marking)
        return answer

    async def _ask(self, surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        now = self._clock.now().timestamp()
        _, inquiry = (await self._store.read(lambda tx: tx.inquiries.get())).taken(button.data, now)
        if inquiry is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        untrusted = None
        if inquiry.untrusted:
            read = Taint(inquiry.untrusted).in_words
            about = f"a card that was made after reading {read}"
            untrusted = Untrusted(inquiry.untrusted[0], about)
        click = IncomingMessage(
            InputId(f"{OF_CLICK}{button.data}"),
            surface,
            inquiry.prompt,
            reply_to=message.id,
            quote=message.text,
            button=button.label,
            untrusted_quote=untrusted,
        )

        def take(tx: Transaction) -> None:
            tx.inquiries.take(lambda known: known.taken(button.data, now))
            self._mark_used(tx, message.id, button, Uses.ITSELF)

        await self._receive(click, take)
        return CommandAnswer()

    def _mark_used(
        self, tx: Transaction, message_id: MessageId, button: Button, uses: Uses
    ) -> None:
        message = tx.messages.get(message_id)
        if message is None or message.card is None:
            return
        buttons = tuple(
            each._replace(is_used=each.is_used or each == button)
            for each in message.card.buttons
            # Of a card with lines, only the others of the same line go.
            if not (uses is Uses.ALL and each != button and each.line == button.line)
        )
        card = message.card._replace(buttons=buttons)
        self._poster.add_to_log(tx, replace(message, card=card))


async def nothing(_: str, __: ChatMessage, ___: Button) -> CommandAnswer:
    return CommandAnswer()
