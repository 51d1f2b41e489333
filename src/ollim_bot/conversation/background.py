"""Runs jobs beside the conversation, a few at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import count

from ollim_bot.conversation import background_attempt
from ollim_bot.conversation.background_attempt import (
    Attempt,
    BackgroundDeps,
    Outcome,
    Try,
    end_facts,
    why_refused,
)
from ollim_bot.conversation.patient_ledger import PatientLedger
from ollim_bot.domain.decision import Progress, Skip, run_priority
from ollim_bot.domain.initiative import is_initiative
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.runs import Run, RunPolicy
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import OllimError, StorageError
from ollim_bot.logs import log_fields

Rank = tuple[int, float]


class Slots:
    """Gives slots to the lowest rank first, then in order of arrival.

    `most` is how many slots there are from now on, for all callers.
    """

    def __init__(self) -> None:
        self._most = 0
        self._running = 0
        self._is_closed = False
        self._order = count()
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, rank: Rank, most: int) -> AsyncIterator[None]:
        if self._is_closed:
            raise asyncio.CancelledError
        self._most = most
        ticket = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._order), ticket))
        self._call_up()
        try:
            await ticket
            yield
        finally:
            # A cancelled caller may have got its slot in the same moment.
            if ticket.done() and not ticket.cancelled():
                self._running -= 1
                self._call_up()

    def close(self) -> None:
        """Cancel all waiting and coming callers; those that have a slot keep it."""
        self._is_closed = True
        for _, _, ticket in self._waiting:
            ticket.cancel()

    def _call_up(self) -> None:
        while self._waiting and self._running < self._most:
            _, _, ticket = heappop(self._waiting)
            if not ticket.done():
                self._running += 1
                ticket.set_result(None)


# How long runs may go on when the bot is to stop.
_GRACE = 20.0

_logger = logging.getLogger(__name__)


_ONLY_TRY = Try()

# Work that finishes at once when the event is set.
_Work = Callable[[asyncio.Event], Coroutine[None, None, None]]


class BackgroundRuns:
    def __init__(self, around: BackgroundDeps) -> None:
        self._around = around
        self._ledger = PatientLedger(around.stores, around.notices, around.clock)
        self._slots = Slots()
        self._tasks: set[asyncio.Task[OccurrenceState]] = set()

    def start(
        self,
        job: Job,
        occurrence: Occurrence,
        attempt: Try = _ONLY_TRY,
    ) -> asyncio.Task[OccurrenceState]:
        """Start `run_agent_background` in a task that `close` ends."""
        task = asyncio.create_task(self.run_agent_background(job, occurrence, attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Give the runs a while to end, then cut them off; waiting runs do not start."""
        self._slots.close()
        alarm = asyncio.ensure_future(self._around.clock.sleep(_GRACE))
        while self._tasks and not alarm.done():
            await asyncio.wait({alarm, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (alarm, *self._tasks):
            task.cancel()
        await asyncio.wait({alarm, *self._tasks})

    async def run_agent_background(
        self,
        job: Job,
        occurrence: Occurrence,
        attempt: Try = _ONLY_TRY,
    ) -> OccurrenceState:
        """Raise nothing: the ledger says what happened, and a failure is told.

        Cancelled while it waits for its slot, it leaves no trace; cancelled later, it is cut off,
        and the ledger says so before the cancellation goes on.
        """
        with log_fields(run=occurrence.id):
            config = await self._config()
            due = occurrence.scheduled_at or self._around.clock.now()
            async with self._slots.slot(run_priority(job, due), config.bg_concurrency):
                run, outcome = await self._run(job, occurrence, config.bg_fork_timeout, attempt)
            # The slot is free: an end that waits for room on the disk holds up no other run.
            await _to_its_end(partial(self._end, run, occurrence, outcome, attempt.number))
            return outcome.state

    async def missing_skills(self, job: Job) -> Sequence[str]:
        return await self._around.tools.missing_skills(job)

    async def reserve_ping(self, occurrence: Occurrence) -> bool:
        """Set a token of the ping budget aside, once for each occurrence; False if none is left.

        The ping of the run uses it, and a run that ends without a ping gives it back.
        """

        now, store = self._around.clock.now(), self._around.store
        while True:
            try:
                return await store.transact(
                    lambda tx: tx.budget.take(lambda budget: budget.set_aside(occurrence.id, now))
                )
            except StorageError as refused:
                await self._ledger.wait_for_room(refused)

    async def skip(self, job: Job, occurrence: Occurrence, skip: Skip) -> None:
        """End an occurrence that cannot run in the background, and tell why."""
        if skip.reason is SkipReason.BUDGET:
            await self._leave_unsaid(job, occurrence)
            return
        is_skill = skip.reason is SkipReason.MISSING_SKILL
        sentence = background_attempt.no_such_skill(skip.detail) if is_skill else skip.detail
        told = background_attempt.not_run(background_attempt.label(job), sentence)
        if job.spec.set_by is None:
            await self._around.notices.tell(told)
        else:
            await self._leave_patiently(told, occurrence)
        facts = {"error": sentence, "silent_because": "it was not run"}
        await self._skipped(job, occurrence, skip.reason, facts)

    async def _run(
        self, job: Job, occurrence: Occurrence, limit: int, this: Try
    ) -> tuple[Run, Outcome]:
        around = self._around
        run = Run(
            RunPolicy.of_job(job, ()),
            around.clock.now(),
            background_attempt.label(job),
            job,
            occurrence.id,
            this.order,
            this.late_since,
        )
        attempt = Attempt(around, job, run, this)
        facts = {"attempt": this.number, "job": run.label, "limit": limit}
        begun, is_begun = self._row(occurrence, OccurrenceState.RUNNING, facts), asyncio.Event()
        try:
            await _to_its_end(partial(self._begin, begun, is_begun))
            attempt.begin(around.clock.now())
            run.policy = replace(run.policy, tools=await around.tools.of(job))
            run.parent = None if job.spec.isolated else around.main()
            outcome = await attempt.within(limit)
        except asyncio.CancelledError:
            if is_begun.is_set():
                cut = Outcome(
                    OccurrenceState.CUT_OFF, attempt.usage, background_attempt.BOT_STOPPED
                )
                await _at_once(partial(self._close, run, occurrence, cut, this.number))
            raise
        except Exception as error:  # a fault of one job must not reach the others
            _logger.exception("A background run failed")
            reason = str(error) if isinstance(error, OllimError) else background_attempt.FAULT
            outcome = Outcome(OccurrenceState.FAILED, attempt.usage, reason)
        progress = Progress(OccurrenceState.RUNNING, this.number, run.has_effects)
        is_retried = this.may_fail and is_begun.is_set() and progress.may_retry
        if outcome.state is OccurrenceState.FAILED and is_retried:
            outcome = replace(outcome, state=OccurrenceState.ATTEMPT_FAILED)
        return run, outcome

    async def _begin(self, row: LedgerRow, is_begun: asyncio.Event, hurry: asyncio.Event) -> None:
        """Write the `running` row before anything runs; on a full disk, wait for room."""
        if await self._ledger.append(row, hurry):
            is_begun.set()

    async def _end(
        self, run: Run, occurrence: Occurrence, outcome: Outcome, number: int, hurry: asyncio.Event
    ) -> None:
        """An attempt that is repeated leaves only its row."""
        if outcome.state is not OccurrenceState.ATTEMPT_FAILED:
            try:
                await self._settle(run, occurrence, outcome)
                if run.job is not None and is_initiative(run.job):
                    await self._give_back(occurrence)
            except Exception:  # the row is worth more than the word about it
                _logger.exception("What a background run leaves could not be kept")
        await self._close(run, occurrence, outcome, number, hurry)

    async def _give_back(self, occurrence: Occurrence) -> None:
        """Return the token of a ping that did not come."""
        now = self._around.clock.now()
        await self._around.store.transact(
            lambda tx: tx.budget.change(lambda budget: budget.released(occurrence.id, now))
        )

    async def _settle(self, run: Run, occurrence: Occurrence, outcome: Outcome) -> None:
        """The duty to report is met by the program if the agent did not, and a failure is told."""
        assert run.job is not None
        if outcome.error:
            sentence = background_attempt.failed(run.label, outcome.error)
            await self._tell(run.job, sentence, key=f"run {occurrence.id}")
        elif run.owes_report:
            await self._leave(background_attempt.without_report(run.label))
        elif run.job.spec.set_by and run.refused_pings and not (run.pings or run.reports):
            await self._leave(background_attempt.unsaid(run.job, why_refused(run)))

    async def _tell(self, job: Job, sentence: str, *, key: str) -> None:
        """The owner, or only the agent where the bot has set the job by itself.

        Else what such a job is called would reach the owner without a ping of the budget.
        """
        if job.spec.set_by is None:
            await self._around.notices.tell(sentence, key=key)
        else:
            await self._leave(sentence, key)

    async def _leave(self, sentence: str, update_id: str | None = None) -> None:
        now = self._around.clock.now()
        await asyncio.to_thread(self._around.stores.leave_update, sentence, now, update_id)

    async def _close(
        self, run: Run, occurrence: Occurrence, outcome: Outcome, number: int, hurry: asyncio.Event
    ) -> None:
        now = self._around.clock.now()
        facts = end_facts(run, occurrence, outcome, now, attempts=number)
        await self._last_row(self._row(occurrence, outcome.state, facts), hurry)
        _logger.info("A background run ended: %s", outcome.state)

    async def _leave_unsaid(self, job: Job, occurrence: Occurrence) -> None:
        """Leave the text to the agent: the budget has no ping for the owner."""
        text = background_attempt.unsaid(job, background_attempt.BUDGET_USED_UP)
        await self._leave_patiently(text, occurrence)
        facts = {"report": text, "silent_because": background_attempt.BUDGET_USED_UP}
        await self._skipped(job, occurrence, SkipReason.BUDGET, facts)

    async def _leave_patiently(self, text: str, occurrence: Occurrence) -> None:
        """Leave it under one id before the row is written: a crash in between leads here again."""
        while True:
            try:
                return await self._leave(text, f"skipped {occurrence.id}")
            except StorageError as refused:
                await self._ledger.wait_for_room(refused)

    async def _skipped(
        self, job: Job, occurrence: Occurrence, reason: SkipReason, facts: Mapping[str, object]
    ) -> None:
        named = {"job": background_attempt.label(job), "reason": reason.value, **facts}
        row = self._row(occurrence, OccurrenceState.SKIPPED, named)
        await _to_its_end(partial(self._last_row, row))

    async def _last_row(self, row: LedgerRow, hurry: asyncio.Event) -> None:
        """The row is on disk when this returns, unless `hurry` is set."""
        try:
            await self._ledger.append(row, hurry)
        except Exception:  # no caller could do anything about it
            _logger.exception("The end of a background run could not be written down")

    def _row(
        self, occurrence: Occurrence, state: OccurrenceState, facts: Mapping[str, object]
    ) -> LedgerRow:
        return LedgerRow(self._around.clock.now(), state.value, occurrence, facts)

    async def _config(self) -> RuntimeConfig:
        try:
            return await asyncio.to_thread(self._around.stores.config.read)
        except StorageError:
            _logger.warning("The settings cannot be read; the defaults hold", exc_info=True)
            return RuntimeConfig()


async def _to_its_end(work: _Work) -> None:
    """Finish `work` even if the caller is cancelled; then it does not wait for room on the disk."""
    hurry = asyncio.Event()
    task = asyncio.ensure_future(work(hurry))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        hurry.set()
        await asyncio.wait({task})
        raise


async def _at_once(work: _Work) -> None:
    hurry = asyncio.Event()
    hurry.set()
    await asyncio.wait({asyncio.ensure_future(work(hurry))})
