"""Commands about the conversation and its sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ollim_bot.conversation import texts
from ollim_bot.conversation.approvals import Approvals
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.sessions.main_session import MainSession
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.chat import ChatMessage, TurnCost
from ollim_bot.domain.events import EndCause
from ollim_bot.domain.forks import Discard
from ollim_bot.domain.inputs import CommandCall
from ollim_bot.domain.moments import describe
from ollim_bot.domain.provider import Price
from ollim_bot.domain.session_use import (
    began_at,
    compacted_history,
    percent_used,
    thousands,
)
from ollim_bot.domain.sessions import Cause, SessionChange, SessionId
from ollim_bot.domain.text import counted
from ollim_bot.errors import WrongInput
from ollim_bot.ports import AgentEngine, Clock, StoredSession
from ollim_bot.prompts.first_words import first_words
from ollim_bot.store.messages import LoggedMessage
from ollim_bot.store.steps import Spending, spending_since
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


class ConversationCommands:
    """The commands that stop a turn, begin a new conversation or change sessions."""

    def __init__(
        self, turns: TurnRunner, approvals: Approvals, forks: Forks, session: MainSession
    ) -> None:
        self._turns = turns
        self._approvals = approvals
        self._forks = forks
        self._session = session

    async def stop(self) -> bool:
        """Interrupt the running turn; False if none runs."""
        return await self._turns.interrupt()

    async def interrupt(self, _: CommandCall) -> str:
        return "" if await self.stop() else texts.NOTHING_RUNS

    async def clear(self, _: CommandCall) -> str:
        await self._approvals.reset()
        await self._forks.end(Discard())
        return texts.CLEARED if await self._session.clear() else texts.NOTHING_TO_CLEAR


class Compaction:
    def __init__(self, store: Store, forks: Forks, turns: TurnRunner, clock: Clock) -> None:
        self._store = store
        self._forks = forks
        self._turns = turns
        self._clock = clock

    async def run(self, call: CommandCall) -> str:
        session_id = self._forks.current.id
        if session_id is None:
            return texts.NOTHING_TO_COMPACT
        began = await self._began(session_id)
        line = f"/compact {call.arguments.get('instructions', '')}".strip()
        turn, end = await self._turns.run_command(call.id, line)
        if end.failure is not None:
            return end.failure.sentence
        if turn.compacted is None:
            return texts.STOPPED if end.cause is EndCause.INTERRUPTED else texts.COMPACTED_NOTHING
        now = self._clock.now()
        logged = await self._store.read(lambda tx: tx.messages.since(began))
        messages = [each.message for each in logged]
        return str(
            compacted_history(session_id, began, now, messages, turn.compacted.tokens_before or 0)
        )

    async def _began(self, session_id: SessionId) -> datetime:
        events = await self._store.read(lambda tx: tx.session_history.all())
        return began_at(session_id, events) or self._clock.now()


_LISTED = 15
_LOOKED_AT = 200
_SHOWN_ID = 8
_SHORTEST_PREFIX = 4
_NO_COST = {Price.FREE: "free", Price.UNKNOWN: "at a price that only your server knows"}
_BACKGROUND = (SessionChange.BG_FORK, SessionChange.ISOLATED_BG)


class SessionCommands:
    def __init__(
        self,
        engine: AgentEngine,
        store: Store,
        session: MainSession,
        clock: Clock,
        working_directory: Path,
        *,
        price: Price,
    ) -> None:
        self._engine = engine
        self._store = store
        self._session = session
        self._clock = clock
        self._folder = working_directory
        self._price = price

    async def list(self, _: CommandCall) -> str:
        stored = (await self._conversations())[:_LISTED]
        if not stored:
            return "There are no earlier conversations."
        return "\n".join(self._line(each) for each in stored)

    async def resume(self, call: CommandCall) -> str:
        found = await self._found(call.arguments["id"].strip().lower())
        if found.id == self._session.id:
            return "That is the conversation you are in."
        await self._session.swap(found.id, Cause.RESUMED)
        when = self._when(found)
        return f"Back in the conversation of {when}: “{first_words(found.first_prompt)}”."

    async def cost(self, _: CommandCall) -> str:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

        def question(tx: Transaction) -> tuple[Spending, Sequence[LoggedMessage]]:
            return spending_since(tx, midnight), tx.messages.since(midnight)

        today, logged = await self._store.read(question)
        number = counted(today.answers, "answer")
        if today.runs:
            number += f" and {counted(today.runs, 'background run')}"
        cost = _NO_COST.get(self._price) or f"${today.cost_usd:.2f}"
        return f"Today: {number}, {cost}.{_fullness([each.message for each in logged])}"

    async def prefixes(self) -> Sequence[str]:
        return [each.id[:_SHOWN_ID] for each in (await self._conversations())[:_LISTED]]

    async def _found(self, prefix: str) -> StoredSession:
        if len(prefix) < _SHORTEST_PREFIX:
            raise WrongInput("That is too short. Give the first letters that `/sessions` shows.")
        found = [each for each in await self._conversations() if each.id.startswith(prefix)]
        if not found:
            raise WrongInput(f"There is no conversation `{prefix}`. `/sessions` shows them.")
        if len(found) > 1:
            raise WrongInput(f"Several conversations begin with `{prefix}`. Give more of it.")
        return found[0]

    async def _conversations(self) -> Sequence[StoredSession]:
        """Sessions in which the owner talked; background runs are left out.

        A session without words of the owner shows those of the session it branched off from.
        """
        events = await self._store.read(lambda tx: tx.session_history.all())
        background = {event.session_id for event in events if event.event in _BACKGROUND}
        stored = await self._engine.sessions(self._folder, _LOOKED_AT)
        prompts = {each.id: each.first_prompt for each in stored}
        parents = {event.session_id: event.parent_session_id for event in events}
        return [
            replace(each, first_prompt=_spoken(each.id, prompts, parents))
            for each in stored
            if each.id not in background
        ]

    def _line(self, stored: StoredSession) -> str:
        mark = " (this one)" if stored.id == self._session.id else ""
        size = f"{max(1, stored.size // 1000)} kB"
        words = first_words(stored.first_prompt) or "no words yet"
        return f"- `{stored.id[:_SHOWN_ID]}` {self._when(stored)} · {size} · {words}{mark}"

    def _when(self, stored: StoredSession) -> str:
        return describe(stored.changed_at.replace(second=0, microsecond=0), self._clock.now())


def _spoken(
    session: SessionId,
    prompts: Mapping[SessionId, str],
    parents: Mapping[SessionId, SessionId | None],
) -> str:
    """The owner's first prompt in the session, or else in its nearest ancestor; may be empty."""
    seen: set[SessionId] = set()
    at: SessionId | None = session
    while at is not None and at not in seen:
        seen.add(at)
        if first_words(prompts.get(at, "")):
            return prompts[at]
        at = parents.get(at)
    return ""


def _fullness(messages: Sequence[ChatMessage]) -> str:
    last: TurnCost | None = next(
        (message.spent for message in reversed(messages) if message.spent), None
    )
    percent = percent_used(last.context, last.window) if last else None
    if last is None or percent is None:
        return ""
    return f" The context is {percent}% full ({thousands(last.context)} tokens)."
