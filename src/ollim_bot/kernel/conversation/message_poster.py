"""Adds messages to the log, and answers questions about it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from uuid import uuid4

from ollim_bot.kernel.base import errors
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.moments import late_label, waited_label
from ollim_bot.kernel.base.text import PROGRAM, with_program
from ollim_bot.kernel.changes.item_answers import add_item
from ollim_bot.kernel.conversation.chat_sessions import ChatSession
from ollim_bot.kernel.conversation.delivery import DeliveryQueue, record_fork_message, until
from ollim_bot.kernel.conversation.job_cards import is_undo_of_change
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.prompts.prompt_context import joined
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.store.message_log import MAIN, Sender
from ollim_bot.kernel.store.steps import hold, quiet_settings, store_prompts, was_held
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.tools.message_tools import REMINDED
from ollim_bot.kernel.tools.tool_context import Arrival, Payment
from ollim_bot.kernel.values.cards import Button, ButtonPrompt, Card, Color
from ollim_bot.kernel.values.chat import Author, ChatMessage, TurnCost, numbered_id
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.due_items import DueItem, delivery_id
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import short_title
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.pings import Charge, PingAllowed, PingBudget, PingRefused, PingVerdict
from ollim_bot.kernel.values.quiet import quiet_until
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.sessions import context_warning
from ollim_bot.kernel.values.taint import Taint, addresses_in, untrusted_message
from ollim_bot.kernel.values.usage import Usage, cost_of

RETRY = "retry"
_UNTAINTED = Taint()


@dataclass(frozen=True, slots=True)
class CommandChange:
    """What a queued command changes and says, in the step that also ends it.

    `after` runs once the step is committed.
    """

    step: Step[str | Card]
    after: Callable[[], Awaitable[None]]


def answer_name(command: InputId) -> MessageId:
    """The id of the message that answers a command."""
    return MessageId(f"answer-{command}")


def note_of(
    words: str | Card, now: datetime, message_id: MessageId, turn: TurnId | None = None
) -> ChatMessage:
    """A message of the program."""
    card = words if isinstance(words, Card) else None
    text = words if isinstance(words, str) else words.text
    return ChatMessage(message_id, now, Author.PROGRAM, text, turn=turn, card=card)


class MessagePoster:
    """Implements `Poster`. A committed message is paid for and will be delivered.

    Commands in the program's own messages are written as `program` is called in a terminal.
    """

    def __init__(
        self,
        store: Store,
        fanout: SurfaceFanout,
        queues: Sequence[DeliveryQueue],
        clock: Clock,
        *,
        program: str = PROGRAM,
    ) -> None:
        self._store = store
        self._fanout = fanout
        self._queues = queues
        self._clock = clock
        self._program = program
        self._unkept: dict[MessageId, ChatMessage] = {}

    @property
    def unkept(self) -> Sequence[ChatMessage]:
        """The messages that are shown although the log cannot be written."""
        return tuple(self._unkept.values())

    async def post(
        self, message: ChatMessage, sender: Sender = MAIN, *, may_wait: bool = False
    ) -> None:
        """Add the message to the log, or replace the one with its id. Raises `StorageError`.

        One that `may_wait` is kept for the digest while it is quiet. To commit the message together
        with other rows, call `add_to_log` or `hold_or_add` in the step.
        """
        add = self.hold_or_add if may_wait else self.add_to_log
        await self._store.transact(lambda tx: add(tx, message, sender))
        self._unkept.pop(message.id, None)

    def hold_or_add(
        self, tx: Transaction, message: ChatMessage, sender: Sender = MAIN, key: str = ""
    ) -> datetime | None:
        """Add the message to the log, or keep it for the digest while it is quiet.

        Returns until when it waits, if it does. Of those with one `key` only the newest waits.
        """
        until = quiet_until(quiet_settings(tx), tx.now)
        if until is None or tx.messages.get(message.id) is not None:
            self.add_to_log(tx, message, sender)
            return None
        hold(tx, HeldMessage(message, key, sender.charge, sender.fork, sender.parent), until)
        return until

    def add_to_log(self, tx: Transaction, message: ChatMessage, sender: Sender = MAIN) -> None:
        is_new = tx.messages.get(message.id) is None
        if message.author is Author.PROGRAM:
            card = message.card
            if card is not None:
                card = card._replace(description=with_program(card.description, self._program))
            message = replace(message, text=with_program(message.text, self._program), card=card)
        tx.messages.add(message, sender)
        if is_new:
            if sender.fork is not None:
                record_fork_message(tx, message, sender)
            for queue in self._queues:
                queue.recorded(tx, message)

    def add_received(
        self, tx: Transaction, message: ChatMessage, surface: str, refs: Mapping[str, str]
    ) -> None:
        """Add what the owner wrote on a surface, which does not get it back."""
        tx.messages.add(message)
        joined = {each.name for each in tx.channels.all()} if self._queues else set()
        for name in joined & {surface, *refs}:
            tx.deliveries.note_received(name, message.id, refs.get(name, "").split())

    async def send(
        self,
        message: ChatMessage,
        run: Run,
        pay: Payment | None = None,
        prompts: Sequence[ButtonPrompt] = (),
        item: DueItem | None = None,
        *,
        waits_as: str | None = None,
    ) -> PingVerdict:
        fork = None if run.is_main else run.session
        parent = None if fork is None else run.parent

        def step(tx: Transaction) -> PingVerdict:
            if tx.messages.get(message.id) is not None or was_held(tx, message):
                return PingAllowed(Charge.NOTHING)
            if item is not None:
                # The program or the sentinel may have delivered it; a refusal does not count.
                plain = delivery_id(Occurrence.parse(item.occurrence))
                if tx.messages.get(plain) is not None and not tx.deliveries.is_refused(plain):
                    return PingRefused(REMINDED)
            verdict: PingVerdict = PingAllowed(Charge.NOTHING)
            if pay is not None:
                verdict = tx.budget.take(pay)
            if not isinstance(verdict, PingAllowed):
                return verdict
            if prompts:
                store_prompts(tx, prompts)
            sender = Sender(verdict.charge, fork, parent)
            # What costs a token is the bot's own initiative.
            if verdict.charge is Charge.TOKEN or waits_as is not None:
                held_until = self.hold_or_add(tx, message, sender, waits_as or "")
                verdict = replace(verdict, held_until=held_until)
            else:
                self.add_to_log(tx, message, sender)
            if item is not None:
                add_item(tx, item)
            return verdict

        try:
            verdict = await self._store.transact(step)
        except errors.StorageError as refused:
            raise errors.NotStored(str(refused)) from refused
        self._unkept.pop(message.id, None)
        return verdict

    async def arrival(self, message_id: MessageId) -> Arrival:
        async def decided() -> Arrival | None:
            """None while undecided. Raises `DeliveryFailed` if every channel has refused."""
            deliveries = await self._store.read(lambda tx: tx.deliveries.of_message(message_id))
            states = {each.state for each in deliveries}
            if not states or DeliveryState.CONFIRMED in states:
                return Arrival.SENT
            if DeliveryState.OPEN in states:
                return None
            if DeliveryState.REFUSED in states and DeliveryState.UNKNOWN not in states:
                raise errors.DeliveryFailed(next(each.reason for each in deliveries if each.reason))
            return Arrival.SENT

        arrival = await decided()
        if arrival is None:
            arrival = await until(self._store, self._clock, decided, 10.0)
        return arrival or Arrival.ON_ITS_WAY

    async def find(self, message_id: MessageId) -> ChatMessage | None:
        return await self._store.read(lambda tx: tx.messages.get(message_id))

    async def budget(self) -> PingBudget:
        return await self._store.read(lambda tx: tx.budget.get())

    async def show_unkept(self, message: ChatMessage) -> None:
        """Show and send a message that cannot be committed now.

        Post it under the same id when the log can be written. A further call sends only the parts
        that have not arrived.
        """
        if self.put_up(message):
            await self._fanout.show(message)
        await asyncio.gather(*(queue.hand_over(message) for queue in self._queues))

    def put_up(self, message: ChatMessage) -> bool:
        """Add the message to `unkept`; False if it is there already."""
        is_new = message.id not in self._unkept
        self._unkept[message.id] = message
        return is_new

    def answer(
        self,
        dialogue: ChatSession,
        turn: TurnId,
        text: str,
        usage: Usage,
        *,
        session: SessionId | None = None,
        is_cut_off: bool = False,
        late_since: datetime | None = None,
        waited_since: datetime | None = None,
        job: str = "",
        began: datetime | None = None,
        remarks: Sequence[str] = (),
        taint: Taint = _UNTAINTED,
    ) -> ChatMessage:
        """`late_since` is when the answer was due, if that is long ago.

        `job` is the title of the job that it belongs to, if it does, and `waited_since` the due
        moment of one that has waited for the end of the quiet.
        `session` is the one that said it, where `dialogue` has no id yet. `remarks` are
        sentences about what could not be used or was refused on the way to it. `taint` is what the
        turn had read.
        """
        now = self._clock.now()
        cost = cost_of(dialogue.usage_rows(usage, now, turn))
        late = "" if late_since is None else late_label(late_since, now)
        late = late if waited_since is None else waited_label(waited_since, now)
        fullness = context_warning(usage) if usage.window and not is_cut_off else ""
        footer = joined(" ", late, *remarks, fullness)
        return ChatMessage(
            numbered_id(now, secrets.randbits(20)),
            now,
            Author.ASSISTANT,
            text,
            turn=turn,
            session=dialogue.id or session,
            is_cut_off=is_cut_off,
            spent=TurnCost(cost, usage.context, usage.window),
            footer=footer,
            job=short_title(job) if job else "",
            in_fork=dialogue.in_fork,
            began=began,
            untrusted=untrusted_message(taint) if taint.sources else None,
        )

    def note(
        self, words: str | Card, turn: TurnId | None = None, *, name: str | None = None
    ) -> ChatMessage:
        """A note; with a `name` it is posted only once, under that id."""
        return note_of(words, self._clock.now(), MessageId(name or uuid4().hex), turn)

    def failure(
        self, sentence: str, turn: TurnId, *, has_words: bool, name: str | None = None
    ) -> ChatMessage:
        """A note with a button that asks the messages of the turn again.

        `has_words`: a part of the answer stands above it.
        """
        title = "The answer was cut off" if has_words else "No answer"
        retry = Button("Retry", RETRY, turn)
        card = Card(title, sentence, color=Color.RED, buttons=(retry,))
        return replace(self.note(sentence, turn, name=name), card=card)

    def add_item(self, tx: Transaction, card: ChatMessage, item: DueItem) -> None:
        """Add a due item with its card."""
        self.add_to_log(tx, card)
        add_item(tx, item)

    def add_note(self, tx: Transaction, note: ChatMessage) -> None:
        """Add the note, in the open fork if there is one."""
        in_fork = tx.fork.get() is not None
        self.add_to_log(tx, replace(note, in_fork=in_fork))


_NEWEST = 500
# How many of the owner's latest messages are searched for addresses that the owner typed.
_REMEMBERED = 100
_NEAREST = 20


def answer_of(tx: Transaction, turn: TurnId) -> ChatMessage | None:
    """The answer with which a turn ended; None if it was cut off or not committed."""
    for each in reversed(tx.messages.of_turn(turn)):
        if each.message.author is Author.ASSISTANT and not each.message.is_cut_off:
            return each.message
    return None


def open_items(tx: Transaction) -> tuple[Sequence[DueItem], DueItem | None]:
    """The open items, and the one whose card is the newest thing that the bot has said.

    None is, where another open card stands right above it.
    """
    waiting = tx.due_items.open()
    if not waiting:
        return (), None
    cards = {each.card: each for each in waiting}
    newest = (each.message for each in tx.messages.newest(_NEAREST))
    said = (each.id for each in newest if each.author is not Author.OWNER)
    last, above = next(said, None), next(said, None)
    return waiting, None if last is None or above in cards else cards.get(last)


def open_question(tx: Transaction) -> ChatMessage | None:
    """The card on which the agent has just asked something, with a button for each answer."""
    for each in tx.messages.newest(_NEAREST):
        message, card = each.message, each.message.card
        if message.author is Author.OWNER:
            return None
        if message.author is Author.ASSISTANT and card is not None and card.is_question:
            return message
    return None


def context_of(tx: Transaction, session: SessionId) -> int:
    """The number of tokens in a session at its last answer; 0 if unknown."""
    for each in tx.messages.newest_of_session(session, 20):
        if each.message.spent is not None:
            return each.message.spent.context
    return 0


def with_open_button(tx: Transaction, action: str) -> list[ChatMessage]:
    """The newest messages that have an unused button of this action."""
    newest = (each.message for each in tx.messages.page(_NEWEST))
    with_buttons = ((each, each.card.buttons) for each in newest if each.card)
    return [
        each
        for each, buttons in with_buttons
        if any(button.action == action and not button.is_used for button in buttons)
    ]


def undo_of_change(
    tx: Transaction, replied_to: MessageId | None
) -> tuple[ChatMessage, Button] | None:
    """The card of a change that can be undone: the one replied to, else the only one since the
    owner's last message.
    """
    newest = (each.message for each in tx.messages.newest(_NEAREST))
    since = takewhile(lambda each: each.author is not Author.OWNER, newest)
    quoted = None if replied_to is None else tx.messages.get(replied_to)
    found = [
        (each, button)
        for each in (since if replied_to is None else [quoted])
        for button in (each.card.buttons if each and each.card else ())
        if each is not None and is_undo_of_change(button)
    ]
    return found[0] if len(found) == 1 else None


class TypedAddresses:
    """The web addresses in the owner's latest messages.

    Each change of the log is looked at once: to read the latest messages again for every turn would
    take longer than all else before the model is asked.
    """

    def __init__(self) -> None:
        self._change = 0
        self._by_place: dict[int, frozenset[str]] = {}

    def read(self, tx: Transaction) -> frozenset[str]:
        changed = tx.messages.since_change(self._change, _NEWEST) if self._change else []
        if not self._change or len(changed) == _NEWEST:
            changed = tx.messages.page(_NEWEST)
        for each in changed:
            self._change = max(self._change, each.change)
            self._by_place.pop(each.seq, None)
            if each.message.is_typed:
                self._by_place[each.seq] = addresses_in(each.message.text)
        newest = sorted(self._by_place)[-_REMEMBERED:]
        self._by_place = {place: self._by_place[place] for place in newest}
        return frozenset().union(*self._by_place.values())
