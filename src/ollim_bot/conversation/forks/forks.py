"""The fork that is open, and the replies that lead into one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.session import ForkSession, ForkState
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.sessions.dialogue import ChatSession
from ollim_bot.conversation.sessions.main_session import MainSession
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.forks import (
    Discard,
    Fork,
    ForkExit,
    ForkLife,
    Report,
    Save,
    lookup_fork_session,
)
from ollim_bot.domain.inputs import ForkOrigin, OwnerMessage, TurnRequest
from ollim_bot.domain.session_use import fitting_model
from ollim_bot.domain.sessions import Cause, SessionChange, SessionId
from ollim_bot.ports import AgentEngine, Clock, OpenFork
from ollim_bot.store.store import Store
from ollim_bot.stores import Stores


class Forks:
    """At most one is open. Whoever speaks, speaks with `current`.

    What a crash cuts off is done again from its beginning, under the same names, until it is whole.
    """

    def __init__(
        self,
        stores: Stores,
        kept: ForkState,
        main: MainSession,
        session: ForkSession,
        chat: ChatLog,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._kept = kept
        self._main = main
        self._session = session
        self._chat = chat
        self._poster = poster
        self._clock = clock

    @property
    def open(self) -> Fork | None:
        return self._kept.fork

    @property
    def current(self) -> ChatSession:
        return self._main if self.open is None else self._session

    @property
    def shown(self) -> OpenFork | None:
        fork = self.open
        return None if fork is None else OpenFork(fork.topic, cards.entry_id(fork.id))

    def spoken_in(self, *, in_fork: bool) -> ChatSession:
        """Where a turn was begun."""
        return self._session if in_fork and self.open is not None else self._main

    async def load(self) -> None:
        await self._kept.load()

    async def close(self) -> None:
        """End the engine's processes; everything can be opened again."""
        await self._session.close()
        await self._main.close()

    async def enter(
        self,
        fork_id: str,
        *,
        topic: str = "",
        idle_minutes: int | None = None,
        origin: ForkOrigin | None = None,
    ) -> Fork:
        """`origin` is what it goes on from, where that is not the main session."""
        config = await asyncio.to_thread(self._stores.config.read)
        now, wanted = self._clock.now(), config.model_fork or config.model_main
        source = origin.session if origin else self._main.id
        fitting = fitting_model(wanted, await self._length_of(source)) if wanted else None
        fork = self.open or Fork(
            fork_id,
            session=None,
            main=self._main.id,
            topic=topic,
            idle_limit=timedelta(minutes=idle_minutes or config.fork_idle_timeout),
            last_activity=now,
            began=now,
            resumed_from=origin.session if origin else None,
            resumed_at=origin.at if origin else None,
            model=None if fitting == wanted else fitting,
        )
        if self.open is None:
            await self._kept.keep(fork)
        await self.post_card(cards.entry_id(fork.id), cards.entry_card(fork, wanted))
        return fork

    async def end(self, how: ForkExit) -> None:
        """Saving has to have no obstacle."""
        fork = self.open
        if fork is None:
            return
        await self._session.close()
        match how:
            case Save():
                if fork.session is not None and fork.session != self._main.id:
                    await self._main.swap(fork.session, Cause.SAVED)
            case Report(summary):
                now, name = self._clock.now(), f"fork-{fork.id}"
                await asyncio.to_thread(self._stores.leave_update, summary, now, name)
            case Discard():
                pass
        await self._close_entry(fork)
        await self.post_card(MessageId(f"fork-end-{fork.id}"), cards.end_card(how), in_fork=False)
        await self._kept.keep(None)

    async def prompted(self) -> None:
        """The agent is being told that nobody says anything."""
        await self._kept.change(lambda fork: fork.prompted(self._clock.now()))

    def obstacle_to_saving(self, fork: Fork) -> str:
        """Empty also where a crash has cut off the saving after the main session was replaced."""
        if fork.session is not None and fork.session == self._main.id:
            return ""
        return fork.obstacle_to_saving(self._main.id)

    async def post_card(self, message_id: MessageId, card: Card, *, in_fork: bool = True) -> None:
        if await self._chat.find(message_id) is None:
            await self._poster.post(
                ChatMessage(
                    message_id,
                    self._clock.now(),
                    Author.PROGRAM,
                    card.text,
                    card=card,
                    in_fork=in_fork,
                )
            )

    async def _close_entry(self, fork: Fork) -> None:
        """Its buttons lead nowhere any more."""
        entry = await self._chat.find(cards.entry_id(fork.id))
        if entry is None or entry.card is None:
            return
        used = tuple(replace(button, is_used=True) for button in entry.card.buttons)
        await self._poster.post(replace(entry, card=replace(entry.card, buttons=used)))

    async def _length_of(self, session: SessionId | None) -> int:
        """In tokens, as its last answer told; 0 where that is not known."""
        return await self._chat.context_of(session) if session is not None else 0


class Replies:
    def __init__(
        self,
        engine: AgentEngine,
        stores: Stores,
        store: Store,
        main: MainSession,
        forks: Forks,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._stores = stores
        self._store = store
        self._main = main
        self._forks = forks
        self._clock = clock

    async def origin(self, reply_to: MessageId | None) -> ForkOrigin | None:
        """Which session had sent what is replied to, if it was a fork or a background run."""
        if reply_to is None or not reply_to.isdecimal():
            return None
        records = await self._store.read(lambda tx: tx.fork_messages.get())
        now = self._clock.now()
        found = lookup_fork_session(records, int(reply_to), now.timestamp())
        if found.record is None:
            return None
        sent = datetime.fromtimestamp(found.record.ts, now.tzinfo)
        is_expired = found.life is ForkLife.EXPIRED
        return ForkOrigin(found.record.fork_session_id, sent, is_expired)

    async def route(self, asked: Sequence[TurnRequest]) -> tuple[str, ...]:
        """Open a fork where a reply wants one; gives what has to be said about it."""
        notes: list[str] = []
        for message in asked:
            if isinstance(message, OwnerMessage) and message.origin is not None:
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
        """Whether it is, or once became, the main conversation."""
        if session == self._main.id:
            return True
        events = (await asyncio.to_thread(self._stores.session_history.read)).entries
        return any((e.session_id, e.event) == (session, SessionChange.SWAPPED) for e in events)
