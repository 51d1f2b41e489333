"""The open fork, and the replies that lead into a fork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from ollim_bot.conversation.chat_log import context_of
from ollim_bot.conversation.chat_sessions import ChatSession, MainSession, replace_session
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.session import ForkSession
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.digest import OF_DIGEST
from ollim_bot.domain.forks import (
    Fork,
    ForkExit,
    ForkStatus,
    Report,
    Save,
    end_id,
    entry_id,
    lookup_fork_session,
)
from ollim_bot.domain.inbox import Accepted
from ollim_bot.domain.inputs import ForkOrigin, OwnerMessage, ProgramTurn
from ollim_bot.domain.outgoing import as_number
from ollim_bot.domain.session_use import fitting_model
from ollim_bot.domain.sessions import Cause, SessionChange, SessionId
from ollim_bot.domain.taint import Taint, marked_taint, untrusted_message
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.ports import AgentEngine, Clock
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


class Forks:
    """Opens and ends the fork, of which at most one is open; `current` is the owner's session.

    A command that a crash cut off can be run again from its beginning, with the same ids.
    """

    def __init__(
        self,
        state: ConversationState,
        main: MainSession,
        session: ForkSession,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._state = state
        self._main = main
        self._session = session
        self._poster = poster
        self._clock = clock

    @property
    def open(self) -> Fork | None:
        return self._state.fork

    @property
    def current(self) -> ChatSession:
        return self._main if self._state.fork is None else self._session

    def spoken_in(self, *, in_fork: bool) -> ChatSession:
        """The session in which a turn was begun."""
        return self._session if in_fork and self.open is not None else self._main

    async def close(self) -> None:
        """End the engine's processes. The sessions can be opened again."""
        await self._session.close()
        await self._main.close()

    async def enter(
        self,
        fork_id: str,
        *,
        topic: str = "",
        idle_minutes: int | None = None,
        origin: ForkOrigin | None = None,
        first: ProgramTurn | None = None,
    ) -> None:
        """Open a fork of the main session, or of `origin`, unless a fork is open.

        `first` is the first turn of the fork.
        """
        now = self._clock.now()
        session, length = origin.session if origin else self._state.session, 0
        if session is not None:
            length = await self._state.read(lambda tx: context_of(tx, session))

        def step(tx: Transaction) -> None:
            config = tx.config.get()
            wanted = config.model_fork or config.model_main
            fitting = fitting_model(wanted, length) if wanted else None
            fork = tx.fork.get() or Fork(
                fork_id,
                session=None,
                main=tx.session.get(),
                topic=topic,
                idle_limit=timedelta(minutes=idle_minutes or config.fork_idle_timeout),
                last_activity=now,
                began=now,
                resumed_from=origin.session if origin else None,
                resumed_at=origin.at if origin else None,
                model=None if fitting == wanted else fitting,
            )
            tx.fork.put(fork)
            if first is not None:
                tx.inbox.append(Accepted(first.at, first))
            self._add_card(tx, entry_id(fork.id), cards.entry_card(fork, wanted), now)

        await self._state.transact(step)

    async def end(self, how: ForkExit) -> None:
        """End the open fork, if there is one. The caller makes sure that a save is possible."""
        fork, now = self.open, self._clock.now()
        if fork is None:
            return
        await self._session.close()
        if isinstance(how, Save):
            await self._main.close()

        def step(tx: Transaction) -> None:
            self._set_entry(tx, fork, is_open=False)
            read = Taint()
            if isinstance(how, Report):
                # What the fork had read may be in its report.
                read = marked_taint(how.untrusted).having_read(*tx.taint.get().of(fork.session))
                update = PendingUpdate(now, how.summary, f"fork-{fork.id}", read.mark)
                leave_update(tx, update)
            elif isinstance(how, Save) and fork.session is not None:
                replace_session(tx, fork.session, Cause.SAVED, now)
            self._add_card(tx, end_id(fork.id), cards.end_card(how), now, ended_after=read)
            tx.fork.put(None)

        await self._state.transact(step)

    def leave(self, tx: Transaction) -> Fork | None:
        """Close the open fork without a word about it, as a part of a larger step."""
        fork = tx.fork.get()
        if fork is not None:
            self._set_entry(tx, fork, is_open=False)
            tx.fork.put(None)
        return fork

    def reopen(self, tx: Transaction, fork: Fork, now: datetime) -> None:
        """Open a fork again that `leave` has closed."""
        self._set_entry(tx, fork, is_open=True)
        tx.fork.put(fork.touched(now))

    def obstacle_to_saving(self, fork: Fork) -> str:
        return fork.obstacle_to_saving(self._state.session)

    async def post_card(self, message_id: MessageId, card: Card) -> None:
        now = self._clock.now()
        await self._state.transact(lambda tx: self._add_card(tx, message_id, card, now))

    def _add_card(
        self,
        tx: Transaction,
        message_id: MessageId,
        card: Card,
        now: datetime,
        *,
        ended_after: Taint | None = None,
    ) -> None:
        """Post the card unless a message with its id exists.

        `ended_after` is what the fork had read, on the card at its end.
        """
        if tx.messages.get(message_id) is None:
            untrusted = untrusted_message(ended_after) if ended_after is not None else None
            in_fork = ended_after is None
            message = ChatMessage(message_id, now, Author.PROGRAM, card.text, card=card)
            message = replace(message, in_fork=in_fork, untrusted=untrusted)
            self._poster.add_to_log(tx, message)

    def _set_entry(self, tx: Transaction, fork: Fork, *, is_open: bool) -> None:
        """Give the entry card its buttons, or take them: the card at the end says what was done."""
        entry = tx.messages.get(entry_id(fork.id))
        if entry is None or entry.card is None:
            return
        buttons = cards.ways_out(fork) if is_open else ()
        self._poster.add_to_log(tx, replace(entry, card=replace(entry.card, buttons=buttons)))


def _number_of(message_id: MessageId, tx: Transaction) -> int | None:
    """The number under which a fork is known as the sender; None if no fork sent the message."""
    if not message_id.startswith(OF_DIGEST):
        return as_number(message_id)
    # Only a digest with one line has a sender.
    logged = tx.messages.logged(message_id)
    has_fork = logged is not None and logged.sender.fork is not None
    return as_number(message_id.removeprefix(OF_DIGEST)) if has_fork else None


class Replies:
    """Routes a reply to a message of a fork or of a background run into a fork of its own."""

    def __init__(
        self,
        engine: AgentEngine,
        store: Store,
        state: ConversationState,
        forks: Forks,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._store = store
        self._state = state
        self._forks = forks
        self._clock = clock

    async def origin(self, reply_to: MessageId) -> ForkOrigin | None:
        """The fork or background run that sent the message; None for the main session."""
        number = await self._store.read(partial(_number_of, reply_to))
        if number is None:
            return None
        records = await self._store.read(lambda tx: tx.fork_messages.get())
        now = self._clock.now()
        found = lookup_fork_session(records, number, now.timestamp())
        if found.record is None:
            return None
        sent = datetime.fromtimestamp(found.record.ts, now.tzinfo)
        is_expired = found.status is ForkStatus.EXPIRED
        return ForkOrigin(found.record.fork_session_id, sent, is_expired)

    async def route(self, replies: Sequence[OwnerMessage]) -> tuple[str, ...]:
        """Open a fork for a reply that needs one; returns notes for the owner."""
        notes: list[str] = []
        for message in replies:
            if message.origin is not None:
                notes += await self._route(message, message.origin)
        return tuple(dict.fromkeys(notes))

    async def _route(self, message: OwnerMessage, origin: ForkOrigin) -> Sequence[str]:
        fork = self._forks.open
        if fork is not None:
            is_its_own = message.id == fork.id or origin.session == fork.session
            return [] if is_its_own else [cards.TAKEN_HERE]
        if origin.is_expired:
            return [cards.EXPIRED]
        is_known = await self._engine.knows(origin.session)
        if is_known and not await self._is_main(origin.session):
            await self._forks.enter(message.id, origin=origin)
        return []

    async def _is_main(self, session: SessionId) -> bool:
        """Whether the session is, or once became, the main conversation."""
        if session == self._state.session:
            return True
        events = await self._store.read(lambda tx: tx.session_history.all())
        return any((e.session_id, e.event) == (session, SessionChange.SWAPPED) for e in events)
