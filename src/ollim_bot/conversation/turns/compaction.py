"""`/compact`: makes the history shorter, and says what became of it."""

from __future__ import annotations

import asyncio
from datetime import datetime

from ollim_bot.conversation import texts
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.turns.answering import Answering
from ollim_bot.domain.events import EndCause
from ollim_bot.domain.inputs import CommandCall
from ollim_bot.domain.session_statistics import began_at, stretch
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores


class Compaction:
    def __init__(self, stores: Stores, forks: Forks, answering: Answering, clock: Clock) -> None:
        self._stores = stores
        self._forks = forks
        self._answering = answering
        self._clock = clock

    async def run(self, call: CommandCall) -> str:
        session_id = self._forks.current.id
        if session_id is None:
            return texts.NOTHING_TO_COMPACT
        began = await self._began(session_id)
        line = f"/compact {call.arguments.get('instructions', '')}".strip()
        turn, end = await self._answering.run_command(call.id, line)
        if end.failure is not None:
            return end.failure.sentence
        if turn.compacted is None:
            return texts.STOPPED if end.cause is EndCause.INTERRUPTED else texts.COMPACTED_NOTHING
        now = self._clock.now()
        messages = (await asyncio.to_thread(self._stores.messages.read, began)).entries
        return str(stretch(session_id, began, now, messages, turn.compacted.tokens_before or 0))

    async def _began(self, session_id: SessionId) -> datetime:
        events = (await asyncio.to_thread(self._stores.session_history.read)).entries
        return began_at(session_id, events) or self._clock.now()
