"""The run in which the agent works during a turn of the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.turns.questions import Tainting
from ollim_bot.domain.events import AgentEvent, Usage
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.domain.inputs import JobTurn, TurnRequest
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.runs import Run
from ollim_bot.domain.taint import Taint
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.context import ToolContext

JobEnds = Sequence[tuple[JobTurn, OccurrenceState]]


class Watch(Protocol):
    """Yields the events of a turn unchanged, and acts on what they change."""

    def __call__(
        self, events: AsyncIterator[AgentEvent], *, in_fork: bool
    ) -> AsyncIterator[AgentEvent]: ...


class CurrentRun:
    """Connects the turn to the tools of the agent, to its jobs, and to its changes of files."""

    def __init__(
        self, context: ToolContext, jobs: ForegroundJobs, tainting: Tainting, watch: Watch
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._tainting = tainting
        self._watch = watch

    @property
    def job(self) -> Job | None:
        """The job that the turn was asked for; None if there is none, or its file is gone."""
        return self._context.run.job

    @property
    def run(self) -> Run:
        return self._context.run

    @property
    def taint(self) -> Taint:
        return self._context.run.taint

    async def begin(self, run: Run, asked: Sequence[TurnRequest], attempt: int) -> None:
        """Give the run to the tools, and write that its jobs are running."""
        self._context.run = run
        run.taint = await self._tainting.of(run, asked, attempt)
        for each in _jobs_in(asked):
            await self._jobs.begin(each, run)

    async def note_updates(self, updates: PendingUpdates) -> None:
        """The prompt of the run shows these updates, some of which may be untrusted."""
        run = self._context.run
        run.taint = await self._tainting.with_updates(run, updates)

    def watched(
        self, events: AsyncIterator[AgentEvent], *, in_fork: bool
    ) -> AsyncIterator[AgentEvent]:
        return self._watch(events, in_fork=in_fork)

    def end(
        self,
        tx: Transaction,
        asked: Sequence[TurnRequest],
        how: InputEnd,
        usage: Usage,
        error: str = "",
    ) -> JobEnds:
        """Write how the jobs ended; `error` says why they failed.

        Call `note_ends` after the commit.
        """
        run = self._context.run
        return [
            (each, self._jobs.end(tx, each, how, run, usage, error)) for each in _jobs_in(asked)
        ]

    def note_ends(self, ends: JobEnds) -> None:
        for turn, state in ends:
            self._jobs.note_end(turn, state)


def _jobs_in(asked: Sequence[TurnRequest]) -> Iterable[JobTurn]:
    return (each for each in asked if isinstance(each, JobTurn))
