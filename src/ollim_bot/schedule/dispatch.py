"""Starts due occurrences, each exactly once, and brings each to its end in the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC
from functools import partial
from typing import assert_never

from ollim_bot.conversation.background_attempt import Try, cap_notice, cost_cap
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.jobs.manual_runs import ManualRuns
from ollim_bot.domain.decision import (
    Abandon,
    Circumstances,
    Decision,
    DeliverPlainly,
    GiveUp,
    Miss,
    Progress,
    RunInBackground,
    RunInForeground,
    Settle,
    Skip,
    WaitForQuietEnd,
    decide,
    is_unwanted,
    needs_ping_token,
)
from ollim_bot.domain.delivery_right import DeliveryRight
from ollim_bot.domain.forward_schedule import UpcomingSchedule
from ollim_bot.domain.jobs import Job, Reminder, WebhookSpec
from ollim_bot.domain.notices import Notice
from ollim_bot.domain.occurrences import (
    MAX_ATTEMPTS,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.domain.run_history import PLAINLY, RunStory, claim_facts
from ollim_bot.domain.runs import deeds
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.errors import StorageError
from ollim_bot.logs import log_fields
from ollim_bot.ports import Clock
from ollim_bot.schedule.circumstances import CircumstanceReader, DueOccurrence, JobRunners
from ollim_bot.schedule.must_deliveries import MustDeliveries
from ollim_bot.schedule.quiet_waits import QuietWaits
from ollim_bot.store.steps import cap_facts, known_deeds, new_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

LATER_WAITED = "a later moment of it came in its place"
NOT_READY = "The agent was not ready in time, so here it is as you wrote it."
WAS_CUT_OFF = "The bot was stopped before the agent could say it, so here it is as you wrote it."

# The facts of an occurrence that ends without a run.
NOT_RUN: Mapping[str, object] = {"silent_because": "it was not run"}

_WHY: Mapping[OccurrenceState, str] = {
    OccurrenceState.FAILED: "The agent could not do it, so here it is as you wrote it.",
    OccurrenceState.TIMED_OUT: "The agent took too long, so here it is as you wrote it.",
    OccurrenceState.SKIPPED: "The agent could not be asked, so here it is as you wrote it.",
    OccurrenceState.INTERRUPTED: "The agent was stopped, so here it is as you wrote it.",
}
_DEEDS = {"pings": "pinged", "report": "reported"}
_CLAIMED = Progress(OccurrenceState.DUE)

_logger = logging.getLogger(__name__)


def why_plainly(state: OccurrenceState, error: str = "") -> str:
    """Why the program delivers it; empty where the agent just did not say it."""
    if not error:
        return _WHY.get(state, "")
    reason = error.partition(". ")[0].removesuffix(".")
    return f"The agent could not do it ({reason}), so here it is as you wrote it."


def interrupted(title: str, known: Mapping[str, object]) -> str:
    """`known` are the known facts of the run."""
    did = " and ".join(deeds(known))
    return (
        f"“{title}” was cut off by a restart after it had {did or 'begun to act'}, so it was not "
        "repeated. Look whether all of it was done."
    )


def given_up(title: str) -> str:
    return f"“{title}” was cut off by restarts again and again, and was given up."


class Dispatcher:
    """Runs each occurrence in a task of its own, which raises nothing and waits for no other job.

    `upcoming` gives the schedule around an occurrence.
    """

    def __init__(
        self,
        store: Store,
        gate: DiskGate,
        runners: JobRunners,
        must: MustDeliveries,
        clock: Clock,
        upcoming: Callable[[Occurrence], UpcomingSchedule],
        manual_runs: ManualRuns,
    ) -> None:
        self._store = store
        self._gate = gate
        self._foreground = runners.foreground
        self._background = runners.background
        self._plain_calls = runners.plain_calls
        self._must = must
        self._clock = clock
        self._upcoming = upcoming
        self._manual_runs = manual_runs
        self._reader = CircumstanceReader(store, runners, clock)
        self._waits = QuietWaits(store, gate, clock)
        self._running: dict[asyncio.Task[None], JobKey] = {}

    def claim_and_start(self, due: DueOccurrence) -> asyncio.Event:
        """Claim the occurrence and start it, unless another process has claimed it.

        The returned event is set once it is claimed, by us or by another process.
        """
        claimed = asyncio.Event()
        self._in_task(due, self._claim_and_run(due, claimed))
        return claimed

    def start_claimed(self, due: DueOccurrence) -> None:
        """Start an occurrence whose claim the caller has written."""
        is_running = self._is_running(key_of(due.job))
        right = self._must.right_of(due)
        self._in_task(due, self._run_to_end(due, right, _CLAIMED, is_running=is_running))

    def resume(self, due: DueOccurrence, story: RunStory) -> asyncio.Event:
        """Start an occurrence that has rows and no end. The returned event is set at its end."""
        return self._in_task(due, self._resume(due, story))

    async def serve_manual_runs(self) -> None:
        """Start the jobs that the owner runs by button, until cancelled."""
        while True:
            job = await self._manual_runs.take()
            self.claim_and_start(DueOccurrence.by_hand(job, self._clock.now()))

    async def decide_at_start(
        self, job: Job | None, occurrence: Occurrence, given: Circumstances
    ) -> Decision:
        """Decide about an unfinished occurrence before any part of it is resumed."""
        return decide(job, await self._reader.at_start(occurrence, given))

    async def close(self) -> None:
        """Cut off all occurrences; the next start resumes them."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _in_task(self, due: DueOccurrence, work: Coroutine[None, None, None]) -> asyncio.Event:
        ended = asyncio.Event()
        task = asyncio.create_task(self._logged(due, work))
        self._running[task] = key_of(due.job)
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: ended.set())
        self._manual_runs.note_start(key_of(due.job))
        return ended

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._manual_runs.note_end(self._running.pop(task))

    async def _logged(self, due: DueOccurrence, work: Coroutine[None, None, None]) -> None:
        with log_fields(run=due.occurrence.id):
            try:
                await work
            except Exception:  # a fault of one job must not reach the others
                _logger.exception("A job failed in the program itself")

    async def _claim_and_run(self, due: DueOccurrence, claimed: asyncio.Event) -> None:
        is_running = self._is_running(key_of(due.job))
        right = self._must.right_of(due)
        is_ours = await self._claim(due, right)
        claimed.set()
        if is_ours:
            await self._run_to_end(due, right, _CLAIMED, is_running=is_running)
        else:
            await self._settle_ended(due)

    def _others(self) -> set[JobKey]:
        """The jobs of all running occurrences except the caller's."""
        return {key for task, key in self._running.items() if task is not asyncio.current_task()}

    def _is_running(self, key: JobKey) -> bool:
        """Whether another occurrence of the job runs; one that waits for the quiet does not."""
        tasks = (task for task, each in self._running.items() if each == key)
        others = sum(task is not asyncio.current_task() for task in tasks)
        return others > self._waits.count(key)

    async def _claim(self, due: DueOccurrence, right: DeliveryRight | None) -> bool:
        """Claim the occurrence; False if it was already claimed.

        On a full disk, show what must be delivered, and wait.
        """
        facts = claim_facts(due.job)
        scheduled = due.occurrence.scheduled_at

        def step(tx: Transaction) -> bool:
            # The clock may have been set back: a claim is never earlier than its scheduled moment.
            found_at = tx.now if scheduled is None else max(tx.now.astimezone(UTC), scheduled)
            return tx.ledger.claim(due.occurrence, found_at, facts)

        while True:
            try:
                return await self._store.transact(step)
            except StorageError as refused:
                if right is not None:
                    await self._must.show(due, right)
                await self._gate.wait(refused)

    async def _settle_ended(self, due: DueOccurrence) -> None:
        """Finish a reminder that a crash cut off after its end row: deliver it, remove its file."""
        if not isinstance(due.job, Reminder) or due.occurrence.manual:
            return
        if key_of(due.job) in self._others():
            return
        story = await self._store.read(lambda tx: tx.ledger.story(due.occurrence))
        if story.is_left_out or story.delivery is not None:
            await self._must.finish(due, is_delivered=False)
        elif story.end is not None:
            await self._resume(due, story)

    async def _resume(self, due: DueOccurrence, story: RunStory) -> None:
        right = self._must.right_of(due)
        if right is not None:
            await self._must.note_delivery(due, right, story)
        await self._run_to_end(due, right, story.progress, is_running=False)

    async def _run_to_end(
        self,
        due: DueOccurrence,
        right: DeliveryRight | None,
        progress: Progress,
        *,
        is_running: bool,
    ) -> None:
        run = asyncio.create_task(self._carry_out(due, right, progress, is_running=is_running))
        is_delivering = asyncio.Event()
        alarm = asyncio.create_task(self._deliver_at_deadline(due, right, is_delivering))
        try:
            why = await run
            if is_delivering.is_set():
                await alarm
            if why is not None:
                await self._must.settle(due, right, why)
        finally:
            for task in (run, alarm):
                task.cancel()
            await asyncio.wait({run, alarm})

    async def _deliver_at_deadline(
        self, due: DueOccurrence, right: DeliveryRight | None, is_delivering: asyncio.Event
    ) -> None:
        if right is None:
            return
        await self._must.until_deadline(due, right)
        is_delivering.set()
        is_hanging = not right.is_taken
        await self._must.deliver(due, right, NOT_READY)
        if is_hanging:
            # Its slot and its file are not to be kept until the limit of all runs.
            due.overtaken.set()
        if not due.job.spec.background:
            await self._withdraw(due.occurrence)

    async def _withdraw(self, occurrence: Occurrence) -> None:
        while True:
            try:
                return await self._foreground.withdraw(occurrence)
            except StorageError as refused:
                await self._gate.wait(refused)

    async def _carry_out(
        self,
        due: DueOccurrence,
        right: DeliveryRight | None,
        progress: Progress,
        *,
        is_running: bool,
    ) -> str | None:
        """Decide and act until the end row is written.

        Returns why the program delivers what must be delivered and no run has delivered; None if
        the occurrence was not wanted.
        """
        given = await self._reader.read(due, progress, is_running=is_running)
        while True:
            decision = await self._decide(due, given)
            match decision:
                case RunInForeground():
                    return await self._why_plainly(due, await self._run_in_foreground(due, right))
                case RunInBackground():
                    await self._note_cut_off(due, given.progress)
                    state = await self._run_in_background(due, right, decision)
                    if state is not OccurrenceState.ATTEMPT_FAILED:
                        return await self._why_plainly(due, state)
                    given = await self._reader.after_failure(due, given, decision.attempt)
                case DeliverPlainly():
                    await self._note_cut_off(due, given.progress)
                    await self._deliver_plainly(due)
                    return ""
                case Skip():
                    await self._note_cut_off(due, given.progress)
                    return await self._skip(due, decision)
                case GiveUp():
                    await self._give_up(due, decision)
                    return WAS_CUT_OFF
                case Settle():
                    return ""
                case Miss() | Abandon() | WaitForQuietEnd():
                    raise AssertionError(f"{decision} is carried out before dispatch")
                case _:
                    assert_never(decision)

    async def _deliver_plainly(self, due: DueOccurrence) -> None:
        if isinstance(due.job, WebhookSpec):
            await self._plain_calls.deliver(due.job, due.occurrence)
        else:
            # The reminder is delivered after the end row.
            await self._end(due, OccurrenceState.DONE, PLAINLY, None)

    async def _why_plainly(self, due: DueOccurrence, state: OccurrenceState) -> str:
        if due.ordered is None or state is not OccurrenceState.FAILED:
            return why_plainly(state)
        end = await self._store.read(lambda tx: tx.ledger.story(due.occurrence).end)
        return why_plainly(state, "" if end is None else str(end.facts.get("error", "")))

    async def _decide(self, due: DueOccurrence, given: Circumstances) -> Decision:
        decision = decide(due.job, given)
        while isinstance(decision, WaitForQuietEnd):
            if not await self._waits.wait(due, decision.until):
                return Skip(SkipReason.QUIET, LATER_WAITED)
            given = await self._reader.read(due, given.progress, is_running=False)
            decision = decide(due.job, given)
        needs_token = needs_ping_token(due.job, is_manual=given.is_manual)
        if isinstance(decision, RunInBackground) and needs_token:
            has_token = await self._background.reserve_ping(due.occurrence)
            decision = decide(due.job, given._replace(has_ping_token=has_token))
        return decision

    async def _run_in_foreground(
        self, due: DueOccurrence, right: DeliveryRight | None
    ) -> OccurrenceState:
        state = await self._foreground.run(due.job, due.occurrence, late_since=due.late_since)
        if state is OccurrenceState.DONE and right is not None:
            right.take()
        return state

    async def _run_in_background(
        self, due: DueOccurrence, right: DeliveryRight | None, run: RunInBackground
    ) -> OccurrenceState:
        if run.pause:
            await self._clock.sleep(run.pause.total_seconds())
        upcoming = partial(self._upcoming, due.occurrence)
        may_fail = run.attempt < MAX_ATTEMPTS
        this = Try(run.attempt, due.late_since, right, may_fail, upcoming, due.overtaken)
        # The background runs own this run: a cancelled dispatch must not cancel it.
        return await asyncio.shield(self._background.start(due.job, due.occurrence, this))

    async def _skip(self, due: DueOccurrence, skip: Skip) -> str | None:
        """Returns as `_carry_out` does."""
        await self._end_as_skipped(due, skip)
        is_over = is_unwanted(skip.reason, is_manual=due.occurrence.manual)
        return None if is_over else why_plainly(OccurrenceState.SKIPPED)

    async def _end_as_skipped(self, due: DueOccurrence, skip: Skip) -> None:
        match skip.reason:
            case (
                SkipReason.INVALID_TOOLS
                | SkipReason.MISSING_SKILL
                | SkipReason.BUDGET
                | SkipReason.SCREENING
            ):
                await self._background.skip(due.job, due.occurrence, skip)
                return
        notice, for_reminder = None, isinstance(due.job, Reminder)
        if skip.reason is SkipReason.COST_CAP:
            sentence = cost_cap(skip.detail)
            notice = cap_notice(sentence, self._clock.now(), for_reminder=for_reminder)
        facts = {**NOT_RUN, "reason": skip.reason.value}
        if skip.reason in (SkipReason.DISABLED, SkipReason.QUIET):
            facts["why"] = skip.detail
        await self._end(due, OccurrenceState.SKIPPED, facts, notice)

    async def _give_up(self, due: DueOccurrence, decision: GiveUp) -> None:
        title = due.job.spec.title
        known = await self._store.read(lambda tx: known_deeds(tx, tx.ledger.story(due.occurrence)))
        is_interrupted = decision.state is OccurrenceState.INTERRUPTED
        sentence = interrupted(title, known) if is_interrupted else given_up(title)
        # A reminder that is given up is delivered, and says why itself.
        is_told = is_interrupted or due.ordered is None
        key, for_reminder = f"cut off {due.occurrence.id}", isinstance(due.job, Reminder)
        notice = new_notice(sentence, key=key, for_reminder=for_reminder) if is_told else None
        await self._end(due, decision.state, {**known, "error": sentence}, notice)

    async def _note_cut_off(self, due: DueOccurrence, progress: Progress) -> None:
        if progress.state is OccurrenceState.RUNNING:
            state = OccurrenceState.CUT_OFF.value
            await self._gate.commit(
                lambda tx: tx.ledger.append(LedgerRow(tx.now, state, due.occurrence, {}))
            )

    async def _end(
        self,
        due: DueOccurrence,
        state: OccurrenceState,
        facts: Mapping[str, object],
        notice: Notice | None,
    ) -> None:
        """Write the end row, together with the notice."""
        named = {"job": due.job.spec.title, **facts}

        def step(tx: Transaction) -> None:
            if tx.skips.get().has(due.occurrence):
                # Remove this skip only; a skip of a later moment stays.
                tx.skips.change(lambda skips: skips.without_moment(due.occurrence))
            more = cap_facts(tx) if facts.get("reason") == SkipReason.COST_CAP else {}
            tx.ledger.append(LedgerRow(tx.now, state.value, due.occurrence, {**named, **more}))

        await self._gate.commit(step, notice=notice)
