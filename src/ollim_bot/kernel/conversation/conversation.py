"""The conversation: what surfaces ask of it, and how it takes messages in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.changes.item_answers import ItemAnswers, answer_reply, new_copy
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.approvals import CarefulTimes
from ollim_bot.kernel.conversation.buttons import ButtonRouter
from ollim_bot.kernel.conversation.delivery import DeliveryQueues
from ollim_bot.kernel.conversation.dispatcher import CommandDispatcher
from ollim_bot.kernel.conversation.fork_commands import Replies
from ollim_bot.kernel.conversation.message_poster import (
    MessagePoster,
    answer_name,
    note_of,
    open_question,
    undo_of_change,
)
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.conversation.turn_runner import TurnRunner
from ollim_bot.kernel.store.message_log import LoggedMessage
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.answers import is_undo
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, CommandSpec
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.inbox import Accepted, Edited, Ended, InputEnd, InputId, OwnerMessage
from ollim_bot.kernel.values.pasted_addresses import (
    AddressAnswer,
    AddressKind,
    PastedAddresses,
    TakeAddress,
    pasted_addresses,
    without_secrets,
)
from ollim_bot.kernel.values.ports import AttachmentStore, IncomingMessage, LogChange, Status
from ollim_bot.kernel.values.search import Search, terms_of
from ollim_bot.kernel.values.updates import owner_did
from ollim_bot.kernel.values.views import Views

# Answers a click on the Undo of a card that shows a change.
Undo = Callable[[str, ChatMessage, Button], Awaitable[CommandAnswer]]
# Takes a message as an answer, and returns the step that says what comes next.
Answerer = Callable[[Transaction, OwnerMessage], Step[None] | None]

_logger = logging.getLogger(__name__)


class MessageIntake:
    """Accepts, edits and withdraws the owner's messages; each decision is made inside one step.

    A message that is only a secret address goes to its taker, and the log shows what it was. The
    address is used before the message is acknowledged, so a crash loses none: the surface sends the
    message again. `set_up` asks the set-up questions where no model can.
    """

    def __init__(
        self,
        state: ConversationState,
        keeper: AttachmentStore,
        replies: Replies,
        poster: MessagePoster,
        runner: TurnRunner,
        board: StatusBoard,
        items: ItemAnswers,
        takers: Mapping[AddressKind, TakeAddress],
        undo: Undo,
        clock: Clock,
        set_up: Answerer | None,
    ) -> None:
        self._set_up = set_up
        self._state = state
        self._keeper = keeper
        self._replies = replies
        self._poster = poster
        self._runner = runner
        self._board = board
        self._items = items
        self._takers = takers
        self._undo = undo
        self._clock = clock

    async def receive(
        self, message: IncomingMessage, also: Step[None] = lambda _: None
    ) -> ChatMessage:
        """Once for an id; `also` is committed with it. When it returns, message and files are kept.

        A surface that gives up does not stop this half-way: the inbox may have the message already.
        """
        if message.quote:
            quoted = pasted_addresses(message.quote)
            quote = quoted.shown_as if quoted else without_secrets(message.quote)
            message = replace(message, quote=quote)
        meant = None
        if is_undo(message.text) and not (message.button or message.files or message.untrusted):
            meant = await self._state.read(lambda tx: undo_of_change(tx, message.reply_to))
        # A button sends a text of the agent, who may not bring an address into use.
        if not message.button and (pasted := pasted_addresses(message.text)):
            receiving = self._take(message, pasted)
        elif not message.button and (text := without_secrets(message.text)) != message.text:
            also = self._answering(message.id, [AddressAnswer(texts.ADDRESS_AMONG_WORDS)])
            receiving = self._receive(replace(message, text=text), also)
        elif meant is not None:
            receiving = self._take_back(message, *meant)
        else:
            receiving = self._receive(message, also)
        return await asyncio.shield(asyncio.ensure_future(receiving))

    async def edit(self, input_id: InputId, text: str) -> bool:
        """Change an input that is not taken yet; False if it is.

        An address is used, and what it was is shown in the place of the input.
        """
        pasted = pasted_addresses(text)
        if pasted is None:
            edited = Edited(self._clock.now(), input_id, without_secrets(text))
            return not self._is_begun(input_id) and await self._state.transact(
                lambda tx: self._change(tx, edited, edited.text)
            )
        is_waiting = await self._state.transact(lambda tx: tx.inbox.get().waits(input_id))
        if not is_waiting or self._is_begun(input_id):
            return False
        answers = await self._used(pasted)
        also = self._answering(input_id, answers)
        withdrawn = Ended(self._clock.now(), (input_id,), InputEnd.WITHDRAWN)
        is_begun = self._is_begun(input_id)

        def step(tx: Transaction) -> bool:
            also(tx)
            return not is_begun and self._change(tx, withdrawn, pasted.shown_as)

        is_changed = await self._state.transact(step)
        await self._board.tell()
        return is_changed

    async def withdraw(self, input_id: InputId) -> bool:
        """Withdraw an input that is not taken yet; False if it is."""
        row = Ended(self._clock.now(), (input_id,), InputEnd.WITHDRAWN)
        if self._is_begun(input_id) or not await self._state.transact(
            lambda tx: self._change(tx, row)
        ):
            return False
        await self._board.tell()
        return True

    def _change(self, tx: Transaction, row: Edited | Ended, text: str | None = None) -> bool:
        """Append the row, and show `text`, if the input is not taken yet; False if it is."""
        input_id = row.input if isinstance(row, Edited) else row.inputs[0]
        if not tx.inbox.get().waits(input_id):
            return False
        tx.inbox.append(row)
        known = tx.messages.get(MessageId(input_id))
        if text is not None and known is not None:
            self._poster.add_to_log(tx, replace(known, text=text))
        return True

    def _is_begun(self, input_id: InputId) -> bool:
        turn = self._state.turn
        return turn is not None and input_id in turn.inputs

    async def _receive(self, message: IncomingMessage, also: Step[None]) -> ChatMessage:
        known, quoted = await self._state.read(
            lambda tx: (
                tx.messages.get(MessageId(message.id)),
                tx.messages.get(message.reply_to) if message.reply_to else None,
            )
        )
        if known is not None:
            return known
        if not message.text.strip() and not message.files:
            raise WrongInput(texts.NOTHING_IN_IT)
        keep = self._keeper.keep
        attachments = (
            await asyncio.to_thread(lambda: tuple(keep(message.id, file) for file in message.files))
            if message.files
            else ()
        )
        reply_to = None if message.untrusted else message.reply_to
        accepted = OwnerMessage(
            message.id,
            message.surface,
            self._clock.now(),
            message.text,
            message.reply_to,
            message.quote or (quoted.text if quoted else ""),
            attachments,
            message.button,
            await self._replies.origin(reply_to) if reply_to else None,
            message.untrusted,
            message.untrusted_quote or (quoted.untrusted if quoted else None),
            message.subject,
        )
        copy = new_copy() if reply_to else ""

        def step(tx: Transaction) -> tuple[ChatMessage, DueItem | None, bool]:
            if known := tx.messages.get(MessageId(message.id)):
                return known, None, False
            shown = replace(accepted.as_message(), in_fork=tx.fork.get() is not None)
            # Words that need no agent settle the item that they reply to.
            item = None
            if reply_to and not (accepted.attachments or accepted.button):
                item = answer_reply(tx, reply_to, accepted.text, accepted.surface, copy)
            asks = self._set_up(tx, accepted) if self._set_up and not item else None
            is_for_agent = item is None and asks is None
            if is_for_agent:
                tx.inbox.append(Accepted(accepted.at, accepted))
            if shown.is_typed and (asked := open_question(tx)) and asked.card:
                answered = replace(asked, card=asked.card._replace(buttons=()))
                self._poster.add_to_log(tx, answered)
            self._poster.add_received(tx, shown, message.surface, message.refs)
            also(tx)
            if asks is not None:
                asks(tx)
            return shown, item, is_for_agent

        shown, item, is_for_agent = await self._state.transact(step)
        if item is not None:
            try:
                await self._items.carry_out(item)
            except OllimError as refused:
                note = note_of(str(refused), self._clock.now(), MessageId(item.copy))
                await self._poster.post(note)
        elif is_for_agent:
            await self._runner.make_way(accepted.id)
            await self._board.tell()
        return shown

    async def _take(self, message: IncomingMessage, pasted: PastedAddresses) -> ChatMessage:
        """Use the addresses, and add the message as what it was; only its files reach the agent."""
        if known := await self._poster.find(MessageId(message.id)):
            return known
        if message.untrusted is not None:
            words = f"A forwarded {pasted.kind} is not used. Copy the address and send it yourself."
            answers = [AddressAnswer(words)]
        else:
            answers = await self._used(pasted)
        if message.refs:
            answers.append(AddressAnswer(texts.address_stays_on(message.surface)))
        also, hidden = self._answering(message.id, answers), replace(message, text=pasted.shown_as)
        return await (self._receive if message.files else self._show)(hidden, also)

    async def _take_back(
        self, message: IncomingMessage, card: ChatMessage, button: Button
    ) -> ChatMessage:
        """Undo a change, as the button does, and say so below the owner's words."""
        answer = await self._undo(message.surface, card, button)
        note = note_of(answer.text, self._clock.now(), answer_name(message.id))
        note = replace(note, in_fork=card.in_fork, untrusted=card.untrusted)
        return await self._show(message, lambda tx: self._poster.add_to_log(tx, note))

    async def _show(self, message: IncomingMessage, also: Step[None]) -> ChatMessage:
        """Add a message that no turn answers."""
        shown = ChatMessage(
            MessageId(message.id), self._clock.now(), Author.OWNER, message.text, message.reply_to
        )

        def step(tx: Transaction) -> ChatMessage:
            if known := tx.messages.get(shown.id):
                return known
            placed = replace(shown, in_fork=tx.fork.get() is not None)
            self._poster.add_received(tx, placed, message.surface, message.refs)
            also(tx)
            return placed

        return await self._state.transact(step)

    async def _used(self, pasted: PastedAddresses) -> list[AddressAnswer]:
        take, answers = self._takers.get(pasted.kind), list[AddressAnswer]()
        for address in pasted.addresses:
            words = "here. It was not kept, and the agent has not seen it."
            answer = AddressAnswer(f"I cannot use a {pasted.kind} {words}")
            try:
                answer = answer if take is None else await take(address)
            except Exception as failed:  # noqa: BLE001 - the text of an error may hold the address
                _logger.error("A pasted address could not be used: %s", type(failed).__name__)
                answer = AddressAnswer(texts.address_unused(pasted.kind))
            answers.append(answer)
        return answers

    def _answering(self, input_id: InputId, answers: Sequence[AddressAnswer]) -> Step[None]:
        """The step that says what became of the addresses."""
        now = self._clock.now()
        words = " ".join(answer.words for answer in answers)
        untrusted = next((each.untrusted for each in answers if each.untrusted), None)
        note = replace(note_of(words, now, answer_name(input_id)), untrusted=untrusted)

        def step(tx: Transaction) -> None:
            in_fork = tx.fork.get() is not None
            self._poster.add_to_log(tx, replace(note, in_fork=in_fork))
            for number, answer in enumerate(answers):
                if answer.update:
                    leave_update(tx, owner_did(now, answer.update, f"{input_id}-{number}"))

        return step


class Conversation:
    """Implements `ChatService` by delegating to the parts of the conversation."""

    def __init__(
        self,
        store: Store,
        intake: MessageIntake,
        dispatcher: CommandDispatcher,
        buttons: ButtonRouter,
        runner: TurnRunner,
        poster: MessagePoster,
        deliveries: DeliveryQueues,
        board: StatusBoard,
        views: Views,
        careful: CarefulTimes,
    ) -> None:
        self.views = views
        self.go_on = careful.go_on
        self._store = store
        self.receive, self.edit, self.withdraw = intake.receive, intake.edit, intake.withdraw
        self.interrupt, self.completions = runner.interrupt, dispatcher.completions
        self.message = poster.find
        self.by_ref, self.by_refs = deliveries.by_ref, deliveries.by_refs
        self._dispatcher = dispatcher
        self._buttons = buttons
        self._poster = poster
        self._deliveries = deliveries
        self._board = board

    @property
    def commands(self) -> Sequence[CommandSpec]:
        return self._dispatcher.commands

    @property
    def status(self) -> Status:
        return self._board.current

    async def command(self, surface: str, line: str) -> CommandAnswer:
        answer = await self._dispatcher.call(surface, line)
        await self._board.load()
        await self._board.tell()
        return self._as_typed(answer)

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        return self._as_typed(await self._buttons.click(surface, message_id, custom_id, words))

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        found = await self._store.read(lambda tx: tx.messages.page(limit, before))
        messages = [each.message for each in found]
        # What is shown though the disk did not take it stands at the end.
        return messages if before is not None else [*messages, *self._poster.unkept][-limit:]

    async def caught_up(self, surface: str) -> None:
        await self._deliveries.caught_up(surface)

    async def search(self, words: str, limit: int) -> Sequence[ChatMessage]:
        wanted = Search(terms_of(words), limit=limit)
        found = await self._store.read(lambda tx: tx.messages.search(wanted))
        return [each.message for each in found]

    async def around(self, message_id: MessageId, limit: int) -> Sequence[ChatMessage]:
        found = await self._store.read(lambda tx: tx.messages.around(message_id, limit))
        return [each.message for each in found]

    async def place_of(self, message_id: MessageId) -> int | None:
        found = await self._store.read(lambda tx: tx.messages.logged(message_id))
        return None if found is None else found.seq

    async def trouble(self, sentence: str) -> None:
        await self._board.trouble(sentence)
        if not sentence:
            self._deliveries.nudge()

    def _as_typed(self, answer: CommandAnswer) -> CommandAnswer:
        if not answer.text:
            return answer
        return replace(answer, text=with_program(answer.text, self.status.program))

    async def last_change(self) -> int:
        return await self._store.read(lambda tx: tx.messages.last_change())

    async def changes_since(self, change: int, limit: int) -> Sequence[LogChange] | None:
        def changes(tx: Transaction) -> tuple[int, list[LoggedMessage]]:
            return tx.messages.last_change(), tx.messages.since_change(change, limit + 1)

        last, found = await self._store.read(changes)
        if change > last or len(found) > limit:
            return None
        unkept = [LogChange(each, 0) for each in self._poster.unkept]
        return [*(LogChange(each.message, each.change) for each in found), *unkept]
