"""Runs jobs beside the conversation, a few at a time."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import count

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.logs import log_fields, unless_refused
from ollim_bot.kernel.conversation import background_attempt
from ollim_bot.kernel.conversation.background_attempt import (
    Attempt,
    AttemptOutcome,
    BackgroundDeps,
    Try,
    end_facts,
    why_refused,
)
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.store.steps import (
    cap_facts,
    leave_failure,
    leave_notice,
    leave_update,
    new_notice,
    note_answer,
    note_success,
)
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.decision import Skip, run_priority
from ollim_bot.kernel.values.jobs import Job, Reminder, is_initiative, is_ordered
from ollim_bot.kernel.values.notices import failing_key
from ollim_bot.kernel.values.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    Progress,
    SkipReason,
)
from ollim_bot.kernel.values.run_words import PINGS_LEFT, PINGS_OF
from ollim_bot.kernel.values.runs import Run, RunPolicy, taint_of_job
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import late_since
from ollim_bot.kernel.values.updates import PendingUpdate

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
            # A caller cancelled at this moment may already hold its slot.
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


# How many seconds runs may go on after the bot is told to stop.
_GRACE = 20.0

_logger = logging.getLogger(__name__)


_ONLY_TRY = Try()

# Leaves what the owner is told, or only the agent.
_Word = Step[None]


class BackgroundRuns:
    """`can_screen` says whether there is a language model that can judge text of strangers.

    A run begins once it `may_begin`.
    """

    def __init__(self, around: BackgroundDeps) -> None:
        self._around = around
        self._gate = DiskGate(around.store, around.notices, around.clock)
        self.can_screen = bool(around.screening)
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self._slots = Slots()
        self._tasks: set[asyncio.Task[OccurrenceState]] = set()

    def start(
        self, job: Job, occurrence: Occurrence, attempt: Try = _ONLY_TRY
    ) -> asyncio.Task[OccurrenceState]:
        """Start `run_agent_background` in a task that `close` ends."""
        task = asyncio.create_task(self.run_agent_background(job, occurrence, attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def is_idle(self) -> bool:
        """Whether no run goes on or waits for a slot."""
        return not self._tasks

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
        self, job: Job, occurrence: Occurrence, attempt: Try = _ONLY_TRY
    ) -> OccurrenceState:
        """Run the job, and raise nothing: the ledger has the outcome, and a failure is told.

        A run that is cancelled while it waits for a slot leaves no trace. A run that is cancelled
        later is cut off, and the ledger has that row before the cancellation goes on.
        """
        with log_fields(run=occurrence.id):
            reading = self._around.store.read(lambda tx: tx.config.get())
            known = await unless_refused("The settings cannot be read; the defaults hold", reading)
            config = known or RuntimeConfig()
            due = occurrence.scheduled_at or self._around.clock.now()
            await self.may_begin.wait()
            async with self._slots.slot(run_priority(job, due), config.bg_concurrency):
                run, outcome = await self._run(job, occurrence, config.bg_fork_timeout, attempt)
            # The slot is already free, so an end that waits for the disk holds up no other run.
            await _to_its_end(partial(self._end, run, occurrence, outcome, attempt.number))
            return outcome.state

    async def problems_with_skills(self, job: Job) -> tuple[Sequence[str], Sequence[str]]:
        """The skills that are missing, and sentences about tools that a skill may not add."""
        tools = self._around.tools
        return await tools.missing_skills(job), await tools.excess_tools(job)

    async def skip(self, job: Job, occurrence: Occurrence, skip: Skip) -> None:
        """End an occurrence that cannot run, and tell why."""
        name, update_id = background_attempt.label(job), f"skipped {occurrence.id}"
        if skip.reason is SkipReason.BUDGET:
            # The budget has no ping for the owner, so the text goes to the agent.
            text = background_attempt.unsaid(job, background_attempt.BUDGET_USED_UP)
            word = self._update(text, update_id, job)
            facts = {"report": text, "silent_because": background_attempt.BUDGET_USED_UP}
        else:
            sentence = skip.detail
            if skip.reason is SkipReason.MISSING_SKILL:
                why = await self._around.tools.why_unusable(skip.detail)
                sentence = f"it needs the skill {skip.detail}, which {why}"
            told = background_attempt.not_run(name, sentence)
            notice = new_notice(told, for_reminder=isinstance(job, Reminder))
            word = self._word(job, told, lambda tx: leave_notice(tx, notice, tx.now), update_id)
            facts = {"error": sentence, "silent_because": "it was not run"}
        named = {"job": name, "reason": skip.reason.value, **facts}

        def step(tx: Transaction) -> None:
            word(tx)
            tx.ledger.append(LedgerRow(tx.now, OccurrenceState.SKIPPED.value, occurrence, named))

        await _to_its_end(partial(self._commit, step))

    async def _run(
        self, job: Job, occurrence: Occurrence, limit: int, this: Try
    ) -> tuple[Run, AttemptOutcome]:
        around = self._around
        run = Run(
            RunPolicy.of_job(job, ()),
            around.clock.now(),
            background_attempt.label(job),
            job,
            occurrence.id,
            this.delivery_right,
            this.late_since,
            taint_of_job(job),
        )
        attempt = Attempt(around, job, run, this)
        facts = {"attempt": this.number, "job": run.label, "limit": limit}
        is_begun = asyncio.Event()

        async def begin(hurry: asyncio.Event) -> None:
            """Write the `running` row before anything runs; on a full disk, wait for room."""
            state = OccurrenceState.RUNNING.value

            def step(tx: Transaction) -> None:
                tx.ledger.append(LedgerRow(tx.now, state, occurrence, facts))

            if await self._commit(step, hurry):
                is_begun.set()

        try:
            await _to_its_end(begin)
            # The wait for a slot or for the disk may have made the run late.
            run.began = around.clock.now()
            run.late_since = run.late_since or late_since(occurrence, run.began)
            run.policy = replace(run.policy, tools=await around.tools.of(job))
            if not job.spec.isolated:
                run.parent = around.main()
                await attempt.inherit_taint()
            outcome = await attempt.within(limit)
        except asyncio.CancelledError:
            if is_begun.is_set():
                cut = AttemptOutcome(OccurrenceState.CUT_OFF, error=background_attempt.BOT_STOPPED)
                cut = attempt.with_usage(cut)
                hurry = asyncio.Event()
                hurry.set()
                ending = self._end(run, occurrence, cut, this.number, hurry)
                await asyncio.wait({asyncio.ensure_future(ending)})
            raise
        except Exception as error:  # a fault of one job must not reach the others
            _logger.exception("A background run failed")
            reason = str(error) if isinstance(error, OllimError) else background_attempt.FAULT
            outcome = AttemptOutcome(OccurrenceState.FAILED, error=reason)
        progress = Progress(OccurrenceState.RUNNING, this.number, run.has_effects)
        is_retried = this.may_fail and is_begun.is_set() and progress.may_retry
        may_pass = outcome.kind is None or not outcome.kind.is_lasting
        if outcome.state is OccurrenceState.FAILED and is_retried and may_pass:
            outcome = replace(outcome, state=OccurrenceState.ATTEMPT_FAILED)
        elif outcome.state is OccurrenceState.FAILED and outcome.skips_for is not None:
            outcome = replace(outcome, state=OccurrenceState.SKIPPED)
        return run, attempt.with_usage(outcome)

    async def _end(
        self,
        run: Run,
        occurrence: Occurrence,
        outcome: AttemptOutcome,
        number: int,
        hurry: asyncio.Event,
    ) -> None:
        """Write the end row, together with the notice or update that the run leaves."""
        facts = end_facts(run, occurrence, outcome, self._around.clock.now(), attempts=number)
        is_over = outcome.state not in (OccurrenceState.ATTEMPT_FAILED, OccurrenceState.CUT_OFF)
        word = self._last_word(run, occurrence, outcome) if is_over else _nothing
        over = new_notice("")
        is_paid = is_over and run.job is not None and is_initiative(run.job)

        def step(tx: Transaction) -> None:
            word(tx)
            if outcome.state is OccurrenceState.DONE:
                note_answer(tx, over, tx.now)
                note_success(tx, occurrence.job_id)
            if is_paid:
                # Return the token of a ping that was not sent.
                tx.budget.change(lambda budget: budget.released(occurrence.id, tx.now))
            tx.usage.add(*outcome.usage_rows(occurrence, tx.now))
            more = cap_facts(tx) if outcome.skips_for is SkipReason.COST_CAP else {}
            if outcome.state is OccurrenceState.DONE and run.policy.allow_ping and not run.pings:
                budget = tx.budget.get().refilled(tx.now)
                more = {PINGS_LEFT: budget.tokens, PINGS_OF: budget.capacity}
            row = LedgerRow(tx.now, outcome.state.value, occurrence, {**facts, **more})
            tx.ledger.append(row)

        await self._commit(step, hurry)
        _logger.info("A background run ended: %s", outcome.state)

    def _last_word(self, run: Run, occurrence: Occurrence, outcome: AttemptOutcome) -> _Word:
        """The notice of a failure, or the report that the agent owes and did not write."""
        assert run.job is not None
        if outcome.skips_for is SkipReason.COST_CAP:
            for_reminder, now = isinstance(run.job, Reminder), self._around.clock.now()
            capped = background_attempt.cap_notice(outcome.error, now, for_reminder=for_reminder)
            return lambda tx: leave_notice(tx, capped, tx.now)
        if outcome.skips_for is not None:
            # One update for each hook: its callers decide how often this happens.
            told = background_attempt.not_run(run.label, outcome.error)
            return self._update(told, f"{outcome.skips_for} {occurrence.job_id}")
        if outcome.error:
            sentence = background_attempt.failed(run.label, outcome.error)
            key = failing_key(occurrence.job_id, outcome.error)
            notice = new_notice(sentence, key=key, for_reminder=isinstance(run.job, Reminder))
            is_outage, label = outcome.kind is not None and outcome.kind.is_outage, run.label

            def tell(tx: Transaction) -> None:
                leave_failure(tx, notice, label, tx.now, is_outage=is_outage)

            return self._word(run.job, sentence, tell, f"run {occurrence.id}")
        update_id = os.urandom(4).hex()
        if run.owes_report:
            return self._update(f"“{run.label}” ended without its report.", update_id)
        if run.job.spec.set_by and run.refused_pings and not (run.pings or run.reports):
            unsaid = background_attempt.unsaid(run.job, why_refused(run))
            return self._update(unsaid, update_id, run.job)
        return _nothing

    def _word(self, job: Job, sentence: str, tell: _Word, update_id: str) -> _Word:
        """For the owner by `tell`, or only for the agent.

        The owner is given a `must` reminder, and needs no word of its failure. What the bot has set
        by itself is called by its own words, which are no reason to reach the owner.
        """
        if is_ordered(job):
            return self._update(background_attempt.came_all_the_same(sentence), update_id)
        return tell if job.spec.set_by is None else self._update(sentence, update_id)

    def _update(self, text: str, update_id: str, quoted: Job | None = None) -> _Word:
        """`quoted` is the job whose message stands in the text."""
        untrusted = quoted.spec.untrusted if quoted is not None else None
        update = PendingUpdate(self._around.clock.now(), text, update_id, untrusted or "")
        return lambda tx: leave_update(tx, update)

    async def _commit(self, step: Step[None], hurry: asyncio.Event) -> bool:
        """Commit, waiting for room on the disk; False if `hurry` ended the wait."""

        def done(tx: Transaction) -> bool:
            step(tx)
            return True

        writing = self._gate.commit(done, hurry)
        sentence = "A row of a background run could not be written"
        return await unless_refused(sentence, writing) or False


def _nothing(_: Transaction) -> None:
    """Nothing is to be told."""


async def _to_its_end(work: Callable[[asyncio.Event], Coroutine[None, None, object]]) -> None:
    """Finish `work` even if the caller is cancelled; the event then ends its wait for the disk."""
    hurry = asyncio.Event()
    task = asyncio.ensure_future(work(hurry))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        hurry.set()
        await asyncio.wait({task})
        raise
