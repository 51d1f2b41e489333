"""The run in which the agent works during a turn of the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Protocol

from ollim_bot.conversation.chat_log import newest_typed
from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.events import AgentEvent, Usage
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.domain.inputs import JobTurn, OwnerMessage, TurnRequest
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.runs import Run, RunKind
from ollim_bot.domain.taint import ATTACHMENT, PICTURE, Taint, addresses_in, marked_taint
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.context import ToolContext

# How many of the owner's latest messages are searched for addresses that the owner typed.
_REMEMBERED = 100

JobEnds = Sequence[tuple[JobTurn, OccurrenceState]]


class Watch(Protocol):
    """Yields the events of a turn unchanged, and acts on what they change."""

    def __call__(
        self, events: AsyncIterator[AgentEvent], *, in_fork: bool
    ) -> AsyncIterator[AgentEvent]: ...


class CurrentRun:
    """Connects the turn to the tools of the agent, to its jobs, and to its changes of files."""

    def __init__(
        self, context: ToolContext, jobs: ForegroundJobs, state: ConversationState, watch: Watch
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._state = state
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
        run.taint = await self._first_taint(run, asked, attempt)
        for each in _jobs_in(asked):
            await self._jobs.begin(each, run)

    async def note_updates(self, updates: PendingUpdates) -> None:
        """The prompt of the run shows these updates, some of which may be untrusted."""
        run = self._context.run
        marks = (marked_taint(each.untrusted) for each in updates.entries)
        sources = tuple(source for mark in marks for source in mark.sources)
        if sources:
            run.taint = run.taint.having_read(*await self._note_reading(run, sources, ends=False))

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

    async def _first_taint(self, run: Run, asked: Sequence[TurnRequest], attempt: int) -> Taint:
        """The taint with which the turn begins, and the addresses that the owner typed.

        The owner's own words end an earlier taint of the session, but not what an earlier attempt
        at answering them has read, and not what the session begins with as a branch. The store has
        the taint, so a restart does not clear it.
        """
        typed = await self._state.read(lambda tx: newest_typed(tx, _REMEMBERED))
        addresses = frozenset(one for text in typed for one in addresses_in(text))
        sources = tuple(_sources(asked))
        ends_taint = attempt == 1 and any(map(_is_owners_word, asked))
        return Taint(await self._note_reading(run, sources, ends=ends_taint), addresses)

    async def _note_reading(
        self, run: Run, sources: Sequence[str], *, ends: bool
    ) -> tuple[str, ...]:
        """Record what the turn reads; returns all that taints it."""
        session = run.session
        assert session is not None
        fork = self._state.fork if run.policy.kind is RunKind.FORK else None
        origin = fork.parent if fork is not None and fork.session is None else None

        def step(tx: Transaction) -> tuple[str, ...]:
            known = tx.taint.get()
            known = known.after_owner(session) if ends else known
            inherited = tx.taint.get().of(origin) if origin is not None else ()
            known = known.with_read(session, inherited).after_turn(session, sources, tx.now)
            return tx.taint.change(lambda _: known).of(session)

        before = await self._state.read(lambda tx: tx.taint.get())
        standing = before.of(session)
        is_new = bool(sources or before.of(origin)) or (ends and bool(standing))
        return await self._state.transact(step) if is_new else standing


def _is_owners_word(asked: TurnRequest) -> bool:
    if not isinstance(asked, OwnerMessage) or asked.button:
        return False
    return asked.as_message().is_typed and bool(asked.text.strip())


def _sources(asked: Sequence[TurnRequest]) -> Iterator[str]:
    for each in asked:
        if isinstance(each, JobTurn):
            yield from marked_taint(each.untrusted).sources
        elif isinstance(each, OwnerMessage):
            yield from (one.source for one in (each.untrusted_quote, each.untrusted) if one)
            yield from (PICTURE if one.is_image else ATTACHMENT for one in each.attachments)


def _jobs_in(asked: Sequence[TurnRequest]) -> Iterable[JobTurn]:
    return (each for each in asked if isinstance(each, JobTurn))
