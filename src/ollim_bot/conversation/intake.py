"""Accepts, edits and withdraws the owner's messages; keeps secret addresses out of the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ollim_bot.conversation import texts
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.forks.forks import Replies
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.posting import Posting, answer_name, note_of
from ollim_bot.conversation.set_up_talk import SetUpTalk
from ollim_bot.conversation.state import ConversationState
from ollim_bot.conversation.status_board import StatusBoard
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.inbox import Accepted, Edited, Ended, InputEnd
from ollim_bot.domain.inputs import InputId, OwnerMessage
from ollim_bot.domain.pasted_addresses import (
    AddressAnswer,
    AddressKind,
    PastedAddresses,
    TakeAddress,
    pasted_addresses,
    without_secrets,
)
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.ports import AttachmentStore, Clock, IncomingMessage
from ollim_bot.store.database import Step
from ollim_bot.store.item_answers import ItemAnswers, answer_reply, new_copy
from ollim_bot.store.steps import leave_update
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


class OwnerMessages:
    """Makes inputs of incoming messages: stores their files and finds the quoted message."""

    def __init__(
        self, keeper: AttachmentStore, chat: ChatLog, replies: Replies, clock: Clock
    ) -> None:
        self._keeper = keeper
        self._chat = chat
        self._replies = replies
        self._clock = clock

    async def made(self, message: IncomingMessage) -> OwnerMessage:
        attachments = await asyncio.to_thread(self._kept, message)
        quoted = await self._chat.find(message.reply_to) if message.reply_to else None
        return OwnerMessage(
            message.id,
            message.surface,
            self._clock.now(),
            message.text,
            message.reply_to,
            message.quote or (quoted.text if quoted else ""),
            attachments,
            message.button,
            None if message.untrusted else await self._replies.origin(message.reply_to),
            message.untrusted,
            message.untrusted_quote or (quoted.untrusted if quoted else None),
        )

    def _kept(self, message: IncomingMessage) -> tuple[Attachment, ...]:
        return tuple(self._keeper.keep(message.id, file) for file in message.files)


class MessageIntake:
    """Accepts, edits and withdraws; each decision is made inside one step.

    `set_up` asks the set-up questions where no model can.
    """

    def __init__(
        self,
        state: ConversationState,
        messages: OwnerMessages,
        poster: MessagePoster,
        runner: TurnRunner,
        board: StatusBoard,
        items: ItemAnswers,
        clock: Clock,
        set_up: SetUpTalk | None = None,
    ) -> None:
        self._set_up = set_up
        self._state = state
        self._messages = messages
        self._poster = poster
        self._runner = runner
        self._board = board
        self._items = items
        self._clock = clock

    async def receive(self, message: IncomingMessage) -> ChatMessage:
        """Once for an id. When it returns, the message is on disk with its files."""
        return await self.receive_with(message, lambda _: None)

    async def receive_with(self, message: IncomingMessage, also: Step[None]) -> ChatMessage:
        """As `receive`; `also` is committed with the message."""
        # A surface that gives up must not stop this half-way: the inbox may have it already.
        return await asyncio.shield(asyncio.ensure_future(self._receive(message, also)))

    async def edit(self, input_id: InputId, text: str) -> bool:
        """Change an input that is not taken yet; False if it is."""
        row = Edited(self._clock.now(), input_id, text)

        def step(tx: Transaction) -> bool:
            known = tx.messages.get(MessageId(input_id))
            is_changed = _is_changed(tx, row, input_id)
            if is_changed and known is not None:
                self._poster.add_to_log(tx, replace(known, text=text))
            return is_changed

        return not self._is_begun(input_id) and await self._state.transact(step)

    async def withdraw(self, input_id: InputId) -> bool:
        """Withdraw an input that is not taken yet; False if it is."""
        row = Ended(self._clock.now(), (input_id,), InputEnd.WITHDRAWN)
        if self._is_begun(input_id) or not await self._state.transact(
            lambda tx: _is_changed(tx, row, input_id)
        ):
            return False
        await self._board.tell()
        return True

    async def find(self, input_id: InputId) -> ChatMessage | None:
        """The message of the log that the input became."""
        return await self._poster.find(MessageId(input_id))

    async def receive_hidden(
        self, message: IncomingMessage, shown_as: str, also: Step[None]
    ) -> ChatMessage:
        """Add the message to the log as `shown_as`; only its files, if any, reach the agent."""
        hidden = replace(message, text=shown_as)
        if message.files:
            return await self._receive(hidden, also)
        shown = ChatMessage(
            MessageId(message.id), self._clock.now(), Author.OWNER, shown_as, message.reply_to
        )

        def step(tx: Transaction) -> ChatMessage:
            if known := tx.messages.get(shown.id):
                return known
            placed = replace(shown, in_fork=tx.fork.get() is not None)
            self._poster.add_received(tx, placed, message.surface, message.refs)
            also(tx)
            return placed

        return await self._state.transact(step)

    async def hide_waiting(self, input_id: InputId, shown_as: str, also: Step[None]) -> bool:
        """Withdraw an input that is not taken yet and show `shown_as` in its place.

        `also` is committed in any case.
        """
        row = Ended(self._clock.now(), (input_id,), InputEnd.WITHDRAWN)
        is_begun = self._is_begun(input_id)

        def step(tx: Transaction) -> bool:
            known = tx.messages.get(MessageId(input_id))
            is_changed = not is_begun and _is_changed(tx, row, input_id)
            if is_changed and known is not None:
                self._poster.add_to_log(tx, replace(known, text=shown_as))
            also(tx)
            return is_changed

        is_changed = await self._state.transact(step)
        await self._board.tell()
        return is_changed

    async def waits(self, input_id: InputId) -> bool:
        """Whether the input can still be changed."""
        is_waiting = await self._state.transact(lambda tx: tx.inbox.get().waits(input_id))
        return is_waiting and not self._is_begun(input_id)

    def _is_begun(self, input_id: InputId) -> bool:
        turn = self._state.turn
        return turn is not None and input_id in turn.inputs

    async def _receive(self, message: IncomingMessage, also: Step[None]) -> ChatMessage:
        if known := await self._poster.find(MessageId(message.id)):
            return known
        if not message.text.strip() and not message.files:
            raise WrongInput(texts.NOTHING_IN_IT)
        accepted, copy = await self._messages.made(message), new_copy()

        def step(tx: Transaction) -> tuple[ChatMessage, DueItem | None, bool]:
            if known := tx.messages.get(MessageId(message.id)):
                return known, None, False
            shown = replace(accepted.as_message(), in_fork=tx.fork.get() is not None)
            item = _answered(tx, accepted, copy)
            asks = self._set_up.answered(tx, accepted) if self._set_up and not item else None
            is_for_agent = item is None and asks is None
            if is_for_agent:
                tx.inbox.append(Accepted(accepted.at, accepted))
            self._poster.add_received(tx, shown, message.surface, message.refs)
            also(tx)
            if asks is not None:
                asks(tx)
            return shown, item, is_for_agent

        shown, item, is_for_agent = await self._state.transact(step)
        if item is not None:
            await self._carry_out(item)
        elif is_for_agent:
            await self._runner.make_way(accepted.id)
            await self._board.tell()
        return shown

    async def _carry_out(self, item: DueItem) -> None:
        """Change the job files that belong to the answer; tell the owner if that failed."""
        try:
            await self._items.carry_out(item)
        except OllimError as refused:
            await self._poster.post(note_of(str(refused), self._clock.now(), MessageId(item.copy)))


class AddressIntake:
    """Hands secret addresses to the program, and every other message to the agent.

    An address is used before its message is acknowledged, so a crash loses none: the surface sends
    the message again.
    """

    def __init__(
        self,
        intake: MessageIntake,
        posting: Posting,
        takers: Mapping[AddressKind, TakeAddress],
        clock: Clock,
    ) -> None:
        self._intake = intake
        self._posting = posting
        self._takers = takers
        self._clock = clock

    async def receive(self, message: IncomingMessage) -> ChatMessage:
        """As `MessageIntake.receive`."""
        quoted = pasted_addresses(message.quote)
        quote = quoted.shown_as if quoted else without_secrets(message.quote)
        message = replace(message, quote=quote)
        # A button sends a text of the agent, who may not bring an address into use.
        pasted = None if message.button else pasted_addresses(message.text)
        if pasted is None:
            return await self._receive_words(message)
        return await asyncio.shield(asyncio.ensure_future(self._take(message, pasted)))

    async def edit(self, input_id: InputId, text: str) -> bool:
        """As `MessageIntake.edit`. A message that was taken before stays as it was."""
        pasted = pasted_addresses(text)
        if pasted is None:
            return await self._intake.edit(input_id, without_secrets(text))
        if not await self._intake.waits(input_id):
            return False
        answers = await self._used(pasted)
        also = self._answering(input_id, answers)
        return await self._intake.hide_waiting(input_id, pasted.shown_as, also)

    async def withdraw(self, input_id: InputId) -> bool:
        return await self._intake.withdraw(input_id)

    async def _receive_words(self, message: IncomingMessage) -> ChatMessage:
        """Hide an address that stands among words, and say how it could be used."""
        text = without_secrets(message.text)
        if text == message.text or message.button:
            return await self._intake.receive(message)
        also = self._answering(message.id, [AddressAnswer(texts.ADDRESS_AMONG_WORDS)])
        return await self._intake.receive_with(replace(message, text=text), also)

    async def _take(self, message: IncomingMessage, pasted: PastedAddresses) -> ChatMessage:
        if known := await self._intake.find(message.id):
            return known
        if message.untrusted is not None:
            answers = [AddressAnswer(texts.address_forwarded(pasted.kind))]
        else:
            answers = await self._used(pasted)
        if message.refs:
            answers.append(AddressAnswer(texts.address_stays_on(message.surface)))
        also = self._answering(message.id, answers)
        return await self._intake.receive_hidden(message, pasted.shown_as, also)

    async def _used(self, pasted: PastedAddresses) -> list[AddressAnswer]:
        return [await self._use(pasted.kind, each) for each in pasted.addresses]

    async def _use(self, kind: AddressKind, address: str) -> AddressAnswer:
        take = self._takers.get(kind)
        if take is None:
            return AddressAnswer(texts.address_useless(kind))
        try:
            return await take(address)
        except Exception as failed:  # noqa: BLE001 - the text of an error may hold the address
            _logger.error("A pasted address could not be used: %s", type(failed).__name__)
            return AddressAnswer(texts.address_unused(kind))

    def _answering(self, input_id: InputId, answers: Sequence[AddressAnswer]) -> Step[None]:
        now = self._clock.now()
        words = " ".join(answer.words for answer in answers)
        untrusted = next((each.untrusted for each in answers if each.untrusted), None)
        note = replace(self._posting.note(words, name=answer_name(input_id)), untrusted=untrusted)

        def step(tx: Transaction) -> None:
            self._posting.add_note(tx, note)
            for number, answer in enumerate(answers):
                if answer.update:
                    leave_update(tx, owner_did(now, answer.update, f"{input_id}-{number}"))

        return step


def _answered(tx: Transaction, reply: OwnerMessage, copy: str) -> DueItem | None:
    """The due item that the reply answers, in words that need no agent."""
    is_plain = not (reply.attachments or reply.button or reply.untrusted)
    if not is_plain or reply.reply_to is None:
        return None
    return answer_reply(tx, reply.reply_to, reply.text, reply.surface, copy)


def _is_changed(tx: Transaction, row: Edited | Ended, input_id: InputId) -> bool:
    """Append the row if its input is not taken yet."""
    is_waiting = tx.inbox.get().waits(input_id)
    if is_waiting:
        tx.inbox.append(row)
    return is_waiting
