"""Jobs that are done in the main conversation: put in line, and written down when they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from ollim_bot.conversation.background_attempt import Outcome, end_facts
from ollim_bot.conversation.sessions.main_session import main_run
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.decision import WITHDRAWN
from ollim_bot.domain.events import Usage
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd
from ollim_bot.domain.inputs import InputId, JobTurn
from ollim_bot.domain.jobs import Job, JobKind, Reminder
from ollim_bot.domain.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    may_follow,
)
from ollim_bot.domain.run_history import RunStory
from ollim_bot.domain.runs import Run
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock
from ollim_bot.store.transaction import Transaction
from ollim_bot.stores import Stores

# Seconds that a job may take.
LIMIT = 300

_STATES: Mapping[InputEnd, OccurrenceState] = {
    InputEnd.ANSWERED: OccurrenceState.DONE,
    InputEnd.SUPERSEDED: OccurrenceState.INTERRUPTED,
    InputEnd.STOPPED: OccurrenceState.INTERRUPTED,
    InputEnd.FAILED: OccurrenceState.FAILED,
    InputEnd.TIMED_OUT: OccurrenceState.TIMED_OUT,
    InputEnd.WITHDRAWN: OccurrenceState.DONE,
    InputEnd.SET_ASIDE: OccurrenceState.FAILED,
}
_WHY: Mapping[InputEnd, str] = {
    InputEnd.STOPPED: "It was stopped.",
    InputEnd.FAILED: "It failed. The conversation says why.",
    InputEnd.TIMED_OUT: "It took too long and was stopped.",
    InputEnd.SET_ASIDE: "It could not be done in two attempts.",
}

_logger = logging.getLogger(__name__)


class ForegroundJobs:
    """The inbox keeps a job that waits; the ledger says what became of it, in one row."""

    def __init__(self, stores: Stores, state: ConversationState, clock: Clock) -> None:
        self._stores = stores
        self._state = state
        self._clock = clock
        self._waiting: dict[InputId, asyncio.Future[OccurrenceState]] = {}

    async def run(
        self, job: Job, occurrence: Occurrence, *, late_since: datetime | None = None
    ) -> OccurrenceState:
        """Put it in line, unless it is there from before a crash, and wait for its end."""
        name = InputId(occurrence.id)
        end: asyncio.Future[OccurrenceState] = asyncio.get_running_loop().create_future()
        self._waiting[name] = end
        try:
            turn = JobTurn.of(job, name, self._clock.now(), late_since)
            if not await self._state.transact(lambda tx: _is_accepted(tx, turn)):
                story = await self._story(occurrence)
                if story.state is not None and story.state.is_end:
                    return story.state
            return await end
        finally:
            self._waiting.pop(name, None)

    def has(self, occurrence: Occurrence) -> bool:
        """Whether it stands in line, or is being done."""
        return self._state.inbox.has(InputId(occurrence.id))

    async def withdraw(self, occurrence: Occurrence) -> None:
        """What it was for has been done; nothing, if it is being done now."""
        waiting = (each for each in self._state.inbox.waiting if each.id == occurrence.id)
        turn = next((each for each in waiting if isinstance(each, JobTurn)), None)
        if turn is not None:
            now = self._clock.now()
            run = main_run(now)
            state = await self.end(turn, InputEnd.WITHDRAWN, run, Usage(), has_answer=False)
            await self._state.append(Ended(now, (turn.id,), InputEnd.WITHDRAWN))
            self.announce_end(turn, state)

    async def begin(self, turn: JobTurn, run: Run) -> None:
        """The agent is about to be asked."""
        run.label, run.late_since = turn.title, turn.as_of(run.began).late_since
        run.job = await asyncio.to_thread(self._chained, turn)
        story = await self._story(Occurrence.parse(turn.id))
        if story.state is OccurrenceState.RUNNING:
            await self._row(turn, OccurrenceState.CUT_OFF, {})
        begun = {"attempt": story.attempts + 1, "job": turn.title}
        facts = {**begun, "session": run.session, "limit": LIMIT}
        await self._row(turn, OccurrenceState.RUNNING, facts)

    async def end(
        self, turn: JobTurn, how: InputEnd, run: Run, usage: Usage, *, has_answer: bool
    ) -> OccurrenceState:
        """Before its turn has ended in the inbox; a crash in between leads here again.

        `has_answer` says that the owner reads something of it in the conversation.
        """
        occurrence, now = Occurrence.parse(turn.id), self._clock.now()
        story, state = await self._story(occurrence), _STATES[how]
        if story.end is None:
            run.has_answered = has_answer
            # What it cost stands with its answer.
            outcome = Outcome(state, replace(usage, cost_usd=0.0), _WHY.get(how, ""))
            facts = end_facts(run, occurrence, outcome, now, attempts=story.attempts)
            if not may_follow(story.state, state):
                # The turn was withdrawn before it began.
                state = OccurrenceState.SKIPPED
                facts["reason"] = WITHDRAWN.reason.value
            await self._row(turn, state, facts)
        return state

    def announce_end(self, turn: JobTurn, state: OccurrenceState) -> None:
        """All that came of the job is committed."""
        waiting = self._waiting.get(turn.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(state)

    async def _story(self, occurrence: Occurrence) -> RunStory:
        history = await asyncio.to_thread(self._stores.recent_history)
        return history.stories.get(occurrence) or RunStory(occurrence, ())

    async def _row(
        self, turn: JobTurn, state: OccurrenceState, facts: Mapping[str, object]
    ) -> None:
        row = LedgerRow(self._clock.now(), state.value, Occurrence.parse(turn.id), facts)
        await asyncio.to_thread(self._stores.ledger.append, row)

    def _chained(self, turn: JobTurn) -> Reminder | None:
        """The reminder whose follow-up the agent may set."""
        if turn.kind is not JobKind.REMINDER:
            return None
        try:
            return self._stores.reminders.get(turn.job).item
        except OllimError:
            _logger.warning("The reminder of a turn is gone", exc_info=True)
            return None


def _is_accepted(tx: Transaction, turn: JobTurn) -> bool:
    """False where it was accepted before."""
    is_new = not tx.inbox.has(turn.id)
    tx.inbox.append(Accepted(turn.at, turn))
    return is_new
