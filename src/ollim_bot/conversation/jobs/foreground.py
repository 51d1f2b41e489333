"""Runs jobs in the main conversation, and knows which jobs run now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from ollim_bot.conversation.background_attempt import AttemptOutcome, end_facts
from ollim_bot.conversation.chat_log import answer_of
from ollim_bot.conversation.chat_sessions import main_run
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.decision import WITHDRAWN
from ollim_bot.domain.events import Usage
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd
from ollim_bot.domain.inputs import InputId, JobTurn
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    may_follow,
)
from ollim_bot.domain.runs import Run
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.transaction import Transaction

# The time limit of a job in seconds.
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
    """Keeps waiting jobs in the inbox; the ledger has one row for the end of each."""

    def __init__(
        self, repositories: JobRepositories, state: ConversationState, clock: Clock
    ) -> None:
        self._repositories = repositories
        self._state = state
        self._clock = clock
        self._waiting: dict[InputId, asyncio.Future[OccurrenceState]] = {}

    async def run(
        self, job: Job, occurrence: Occurrence, *, late_since: datetime | None = None
    ) -> OccurrenceState:
        """Queue the job, unless it was queued before a crash, and wait for its end."""
        name = InputId(occurrence.id)
        end: asyncio.Future[OccurrenceState] = asyncio.get_running_loop().create_future()
        self._waiting[name] = end
        try:
            turn = JobTurn.of(job, name, self._clock.now(), late_since)
            ended = await self._state.transact(lambda tx: _accept(tx, turn))
            return ended or await end
        finally:
            self._waiting.pop(name, None)

    def has(self, occurrence: Occurrence) -> bool:
        """Whether the job is queued or running."""
        return self._state.inbox.has(InputId(occurrence.id))

    async def withdraw(self, occurrence: Occurrence) -> None:
        """End a queued job that is no longer needed; a running one goes on."""
        run = main_run(self._clock.now())

        def step(tx: Transaction) -> tuple[JobTurn, OccurrenceState] | None:
            waiting = (each for each in tx.inbox.get().waiting if each.id == occurrence.id)
            turn = next((each for each in waiting if isinstance(each, JobTurn)), None)
            if turn is None:
                return None
            state = self.end(tx, turn, InputEnd.WITHDRAWN, run, Usage())
            tx.inbox.append(Ended(tx.now, (turn.id,), InputEnd.WITHDRAWN))
            return turn, state

        if ended := await self._state.transact(step):
            self.note_end(*ended)

    async def begin(self, turn: JobTurn, run: Run) -> None:
        """Write the `running` row, before the agent is asked."""
        run.label, run.late_since = turn.title, turn.as_of(run.began).late_since
        run.waited_since = turn.waited_since
        run.job = await asyncio.to_thread(self._job_of, turn)
        session = run.session

        def step(tx: Transaction) -> None:
            story = tx.ledger.story(Occurrence.parse(turn.id))
            if story.state is OccurrenceState.RUNNING:
                tx.ledger.append(_row(tx, turn, OccurrenceState.CUT_OFF, {}))
            begun = {"attempt": story.attempts + 1, "job": turn.title}
            facts = {**begun, "session": session, "limit": LIMIT}
            tx.ledger.append(_row(tx, turn, OccurrenceState.RUNNING, facts))

        await self._state.transact(step)

    def end(
        self,
        tx: Transaction,
        turn: JobTurn,
        how: InputEnd,
        run: Run,
        usage: Usage,
        error: str = "",
    ) -> OccurrenceState:
        """Write how it ended, in the step that ends its input. Call `note_end` after the commit.

        `usage` has the cost of its turn. `error` says why it failed.
        """
        occurrence, state = Occurrence.parse(turn.id), _STATES[how]
        story = tx.ledger.story(occurrence)
        if story.end is not None:
            return state
        outcome = AttemptOutcome(state, usage, error or _WHY.get(how, ""))
        run = replace(run, has_answered=_has_answer(tx, turn))
        facts = end_facts(run, occurrence, outcome, tx.now, attempts=story.attempts)
        if not may_follow(story.state, state):
            # The turn was withdrawn before it began.
            state = OccurrenceState.SKIPPED
            facts["reason"] = WITHDRAWN.reason.value
        tx.ledger.append(_row(tx, turn, state, facts))
        return state

    def note_end(self, turn: JobTurn, state: OccurrenceState) -> None:
        waiting = self._waiting.get(turn.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(state)

    def _job_of(self, turn: JobTurn) -> Job | None:
        """The job of the turn; None if its file is gone."""
        try:
            job: Job = self._repositories.of(turn.kind).get(turn.job).item
        except OllimError:
            _logger.warning("The job of a turn is gone", exc_info=True)
            return None
        return job


class JobRuns:
    """The occurrences that run now, and the jobs that the owner wants to run now.

    The buttons request a run; the dispatcher takes the requests, and tracks all runs.
    """

    def __init__(self) -> None:
        self.running: dict[asyncio.Task[None], JobKey] = {}
        self._requested: asyncio.Queue[Job] = asyncio.Queue()
        self._waiting: set[JobKey] = set()

    def track(self, task: asyncio.Task[None], key: JobKey) -> None:
        """Count the task as a run of the job until it ends."""
        self.running[task] = key
        task.add_done_callback(self.running.pop)

    def request(self, job: Job) -> bool:
        """Ask for a run of `job`; False if one runs or waits already."""
        key = key_of(job)
        if key in self.running.values() or key in self._waiting:
            return False
        self._waiting.add(key)
        self._requested.put_nowait(job)
        return True

    async def take(self) -> Job:
        """Wait for the next request. The caller starts the job before it awaits anything else."""
        job = await self._requested.get()
        self._waiting.discard(key_of(job))
        return job


def _accept(tx: Transaction, turn: JobTurn) -> OccurrenceState | None:
    """Accept the turn once. Returns how it ended, if it was accepted before and has ended."""
    if not tx.inbox.has(turn.id):
        if tx.ledger.story(Occurrence.parse(turn.id)).held:
            turn = replace(turn, late_since=None, has_waited=True)
        tx.inbox.append(Accepted(turn.at, turn))
        return None
    state = tx.ledger.story(Occurrence.parse(turn.id)).state
    return state if state is not None and state.is_end else None


def _has_answer(tx: Transaction, turn: JobTurn) -> bool:
    """Whether the conversation shows an answer of the turn."""
    taken = tx.inbox.get().running
    if taken is None or turn.id not in taken.inputs:
        return False
    return answer_of(tx, taken.turn) is not None


def _row(
    tx: Transaction, turn: JobTurn, state: OccurrenceState, facts: Mapping[str, object]
) -> LedgerRow:
    return LedgerRow(tx.now, state.value, Occurrence.parse(turn.id), facts)
