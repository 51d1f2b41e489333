"""Replies to what a fork or a background run had said: they go on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from ollim_bot.agent import AgentEngine
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.sessions.main_session import MainSession
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.fork_messages import ForkLife, lookup_fork_session
from ollim_bot.domain.inputs import Asked, ForkOrigin, OwnerMessage
from ollim_bot.domain.sessions import SessionChange, SessionId
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores


class Replies:
    def __init__(
        self, engine: AgentEngine, stores: Stores, main: MainSession, forks: Forks, clock: Clock
    ) -> None:
        self._engine = engine
        self._stores = stores
        self._main = main
        self._forks = forks
        self._clock = clock

    async def origin(self, reply_to: MessageId | None) -> ForkOrigin | None:
        """Which session had sent what is replied to, if it was a fork or a background run."""
        if reply_to is None or not reply_to.isdecimal():
            return None
        records = await asyncio.to_thread(self._stores.fork_messages.read)
        now = self._clock.now()
        found = lookup_fork_session(records, int(reply_to), now.timestamp())
        if found.record is None:
            return None
        sent = datetime.fromtimestamp(found.record.ts, now.tzinfo)
        is_expired = found.life is ForkLife.EXPIRED
        return ForkOrigin(found.record.fork_session_id, sent, is_expired)

    async def route(self, asked: Sequence[Asked]) -> tuple[str, ...]:
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
