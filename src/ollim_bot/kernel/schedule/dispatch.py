"""Starts due occurrences, each exactly once, and brings each to its end in the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import assert_never

from ollim_bot.kernel.base.clock import Clock, wait_until_set, zone_of
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.logs import log_fields
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.changes.job_files import JobFileChanges, remove_reminder
from ollim_bot.kernel.conversation.background import BackgroundRuns
from ollim_bot.kernel.conversation.background_attempt import Try, cap_notice, cost_cap
from ollim_bot.kernel.conversation.foreground import ForegroundJobs, JobRuns, PlainDelivery
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.schedule.job_index import JobIndex, scheduled_jobs
from ollim_bot.kernel.store.steps import (
    cap_facts,
    known_deeds,
    new_notice,
    quiet_settings,
    reached_cost_cap,
)
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.catch_up_decision import claim_facts
from ollim_bot.kernel.values.decision import (
    Abandon,
    Circumstances,
    Decision,
    DeliverPlainly,
    GiveUp,
    Miss,
    RunInBackground,
    RunInForeground,
    Settle,
    Skip,
    WaitForQuietEnd,
    decide,
    deliver_by,
    needs_ping_token,
)
from ollim_bot.kernel.values.due_items import why_now
from ollim_bot.kernel.values.hook_jobs import CalledJob
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine, is_ordered
from ollim_bot.kernel.values.notices import Notice
from ollim_bot.kernel.values.occurrences import (
    MAX_ATTEMPTS,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    Progress,
    SkipReason,
    is_unwanted,
)
from ollim_bot.kernel.values.quiet import quiet_until
from ollim_bot.kernel.values.run_history import DELIVERED, HELD, PLAINLY, RunStory
from ollim_bot.kernel.values.run_words import deeds
from ollim_bot.kernel.values.runs import DeliveryRight
from ollim_bot.kernel.values.schedule import key_of, late_since, next_due
from ollim_bot.kernel.values.upcoming import UpcomingSchedule, build_upcoming_schedule

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
_CLAIMED = Progress(OccurrenceState.DUE)
# A deadline that is noticed so much later was slept through.
_OVERSLEPT = timedelta(minutes=1)
# The wall clock may be set, or the machine may sleep.
_LONGEST_SLEEP = 30.0
_QUIET_CHANGES = frozenset({"held", "quiet", "config", "zone"})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueOccurrence:
    """An occurrence with its job; `late_since` is its due moment if it is late.

    `overtaken` is set when its run is not waited for any more, and is soon to end.
    """

    job: Job
    occurrence: Occurrence
    late_since: datetime | None = None
    overtaken: asyncio.Event = field(default_factory=asyncio.Event, compare=False)

    @classmethod
    def by_hand(cls, job: Job, now: datetime) -> DueOccurrence:
        return cls(job, Occurrence.by_hand(job.kind, job.spec.id, now))

    @property
    def ordered(self) -> Reminder | Routine | None:
        """The job, if the program delivers it where no run does."""
        job = self.job
        return job if isinstance(job, Reminder | Routine) and is_ordered(job) else None


def interrupted(title: str, known: Mapping[str, object]) -> str:
    """`known` are the known facts of the run."""
    did = " and ".join(deeds(known))
    return (
        f"“{title}” was cut off by a restart after it had {did or 'begun to act'}, so it was not "
        "repeated. Look whether all of it was done."
    )


def given_up(title: str) -> str:
    return f"“{title}” was cut off by restarts again and again, and was given up."


def circumstances(
    tx: Transaction, job: Job | None, one: Occurrence, progress: Progress
) -> Circumstances:
    """All that the store knows that a decision about the occurrence depends on."""
    is_free = one.manual or job is None or job.is_plain
    keeps_quiet = job is not None and job.keeps_quiet
    return Circumstances(
        one.scheduled_at,
        tx.now,
        tx.now.tzinfo or UTC,
        progress,
        is_manual=one.manual,
        is_skipped=tx.skips.get().has(one),
        is_queued=tx.inbox.get().has(InputId(one.id)),
        reached_cost_cap=None if is_free else reached_cost_cap(tx),
        quiet_until=quiet_until(quiet_settings(tx), tx.now) if keeps_quiet else None,
    )


class Dispatcher:
    """Runs each occurrence in a task of its own, which raises nothing and waits for no other job.

    What must be delivered is delivered by its run or by the program, which share one right for each
    occurrence. `upcoming` gives the schedule around an occurrence.
    """

    def __init__(
        self,
        store: Store,
        gate: DiskGate,
        foreground: ForegroundJobs,
        background: BackgroundRuns,
        delivery: PlainDelivery,
        files: JobFileChanges,
        clock: Clock,
        upcoming: Callable[[Occurrence], UpcomingSchedule],
        runs: JobRuns,
    ) -> None:
        self._store = store
        self._gate = gate
        self._foreground = foreground
        self._background = background
        self._delivery = delivery
        self._files = files
        self._clock = clock
        self._upcoming = upcoming
        self._runs = runs
        self._waits = QuietWaits(store, gate, clock)
        self._rights: dict[Occurrence, DeliveryRight] = {}

    def claim_and_start(self, due: DueOccurrence) -> asyncio.Event:
        """Claim the occurrence and start it, unless another process has claimed it.

        The returned event is set once it is claimed, by us or by another process.
        """
        claimed = asyncio.Event()
        self._start_task(due, self._claim_and_run(due, claimed))
        return claimed

    def start_claimed(self, due: DueOccurrence) -> None:
        """Start an occurrence whose claim the caller has written."""
        is_running = self._has_other_run(key_of(due.job))
        self._start_task(due, self._run_to_end(due, _CLAIMED, is_running=is_running))

    def resume(self, due: DueOccurrence, story: RunStory) -> asyncio.Event:
        """Start an occurrence that has rows and no end. The returned event is set at its end."""
        return self._start_task(due, self._resume(due, story))

    async def serve_manual_runs(self) -> None:
        """Start the jobs that the owner runs by button, until cancelled."""
        while True:
            job = await self._runs.take()
            self.claim_and_start(DueOccurrence.by_hand(job, self._clock.now()))

    async def close(self) -> None:
        """Cut off all occurrences; the next start resumes them."""
        running = set(self._runs.running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _start_task(self, due: DueOccurrence, work: Coroutine[None, None, None]) -> asyncio.Event:
        """Start the work; the returned event is set at its end."""
        ended = asyncio.Event()

        async def run() -> None:
            with log_fields(run=due.occurrence.id):
                try:
                    await work
                except Exception:  # a fault of one job must not reach the others
                    _logger.exception("A job failed in the program itself")

        task = asyncio.create_task(run())
        self._runs.track(task, key_of(due.job))
        task.add_done_callback(lambda _: ended.set())
        return ended

    async def _claim_and_run(self, due: DueOccurrence, claimed: asyncio.Event) -> None:
        """Claim and run; on a full disk, show what must be delivered, and wait."""
        is_running = self._has_other_run(key_of(due.job))
        facts, scheduled, ordered = claim_facts(due.job), due.occurrence.scheduled_at, due.ordered

        def claim(tx: Transaction) -> bool:
            # The clock may have been set back: a claim is never earlier than its scheduled moment.
            found_at = tx.now if scheduled is None else max(tx.now.astimezone(UTC), scheduled)
            return tx.ledger.claim(due.occurrence, found_at, facts)

        async def flash() -> None:
            if ordered is not None:
                right = self._right_of(due.occurrence)
                await self._delivery.flash(ordered, due.occurrence, right)

        is_ours = await self._gate.commit(claim, meanwhile=flash)
        claimed.set()
        if is_ours:
            await self._run_to_end(due, _CLAIMED, is_running=is_running)
        elif isinstance(due.job, Reminder) and not due.occurrence.manual:
            await self._settle_ended(due)

    def _has_other_run(self, key: JobKey, *, and_waiting: bool = False) -> bool:
        """Whether another occurrence of the job runs, or also one waits for the quiet."""
        tasks = (task for task, each in self._runs.running.items() if each == key)
        others = sum(task is not asyncio.current_task() for task in tasks)
        return others > (0 if and_waiting else self._waits.waiting[key])

    def _right_of(self, occurrence: Occurrence) -> DeliveryRight:
        return self._rights.setdefault(occurrence, DeliveryRight())

    async def _settle_ended(self, due: DueOccurrence) -> None:
        """Finish a reminder that a crash cut off after its end row: deliver it, remove its file."""
        if self._has_other_run(key_of(due.job), and_waiting=True):
            return
        story = await self._store.read(lambda tx: tx.ledger.story(due.occurrence))
        if story.is_left_out or story.delivery is not None:
            await self._settle(due, None, "")
        elif story.end is not None:
            await self._resume(due, story)

    async def _resume(self, due: DueOccurrence, story: RunStory) -> None:
        is_delivered = due.ordered is not None and (
            story.delivery is not None or await self._delivery.was_said(due.occurrence)
        )
        if is_delivered:
            self._right_of(due.occurrence).take()
        await self._run_to_end(due, story.progress, is_running=False)

    async def _run_to_end(
        self, due: DueOccurrence, progress: Progress, *, is_running: bool
    ) -> None:
        right = None if due.ordered is None else self._right_of(due.occurrence)
        run = asyncio.create_task(self._carry_out(due, right, progress, is_running=is_running))
        is_delivering = asyncio.Event()
        alarm = asyncio.create_task(self._deliver_at_deadline(due, right, is_delivering))
        try:
            why = await run
            if is_delivering.is_set():
                await alarm
            if why is not None:
                await self._settle(due, right, why)
        finally:
            for task in (run, alarm):
                task.cancel()
            await asyncio.wait({run, alarm})

    async def _deliver_at_deadline(
        self, due: DueOccurrence, right: DeliveryRight | None, is_delivering: asyncio.Event
    ) -> None:
        """Deliver when a run has had its time, but not while a ping of the run waits."""
        if right is None:
            return
        now = self._clock.now().astimezone(UTC)
        latest = deliver_by(due.occurrence.scheduled_at, now)
        await self._clock.sleep((latest - now).total_seconds())
        while right.has_ready_ping:
            await self._clock.sleep(1.0)
        is_delivering.set()
        is_hanging, since = not right.is_taken, due.late_since
        if elapsed(latest, self._clock.now()) > _OVERSLEPT:
            since = late_since(due.occurrence, self._clock.now())
        await self._deliver(due, right, NOT_READY, since)
        if is_hanging:
            # Its slot and its file are not to be kept until the limit of all runs.
            due.overtaken.set()
        if not due.job.spec.background:
            await self._gate.repeat(partial(self._foreground.withdraw, due.occurrence))

    async def _carry_out(
        self,
        due: DueOccurrence,
        right: DeliveryRight | None,
        progress: Progress,
        *,
        is_running: bool,
        has_just_failed: bool = False,
    ) -> str | None:
        """Decide and act until the end row is written.

        Returns why the program delivers what must be delivered and no run has delivered; None if
        the occurrence was not wanted.
        """
        decision = await self._decide(
            due, progress, is_running=is_running, has_just_failed=has_just_failed
        )
        match decision:
            case RunInForeground():
                late = due.late_since
                state = await self._foreground.run(due.job, due.occurrence, late_since=late)
                if state is OccurrenceState.DONE and right is not None:
                    right.take()
                return await self._why_plainly(due, state)
            case RunInBackground():
                if decision.pause:
                    await self._clock.sleep(decision.pause.total_seconds())
                this = Try(
                    decision.attempt,
                    due.late_since,
                    right,
                    decision.attempt < MAX_ATTEMPTS,
                    partial(self._upcoming, due.occurrence),
                    due.overtaken,
                )
                # The background runs own this run: a cancelled dispatch must not cancel it.
                running = self._background.start(due.job, due.occurrence, this)
                state = await asyncio.shield(running)
                if state is not OccurrenceState.ATTEMPT_FAILED:
                    return await self._why_plainly(due, state)
                failed = Progress(state, decision.attempt)
                return await self._carry_out(
                    due, right, failed, is_running=False, has_just_failed=True
                )
            case DeliverPlainly() if isinstance(due.job, CalledJob):
                await self._delivery.deliver_call(due.job, due.occurrence)
                return ""
            case DeliverPlainly():
                # The reminder is delivered after the end row.
                await self._end(due, OccurrenceState.DONE, PLAINLY, None)
                return ""
            case Skip():
                await self._skip(due, decision)
                is_over = is_unwanted(decision.reason, is_manual=due.occurrence.manual)
                return None if is_over else _WHY[OccurrenceState.SKIPPED]
            case GiveUp():
                await self._give_up(due, decision)
                return WAS_CUT_OFF
            case Settle():
                return ""
            case Miss() | Abandon() | WaitForQuietEnd():
                raise AssertionError(f"{decision} is carried out before dispatch")
            case _:
                assert_never(decision)

    async def _decide(
        self, due: DueOccurrence, progress: Progress, *, is_running: bool, has_just_failed: bool
    ) -> Decision:
        """Decide in one step, after the quiet; it reserves a ping, and notes a run cut off."""
        job, one = due.job, due.occurrence
        missing: Sequence[str] = ()
        excess: Sequence[str] = ()
        if job.spec.skills:
            missing, excess = await self._background.problems_with_skills(job)

        def step(tx: Transaction) -> Decision:
            given = circumstances(tx, job, one, progress)._replace(
                is_running=is_running,
                has_just_failed=has_just_failed,
                missing_skills=missing,
                excess_tools=excess,
                can_screen=self._background.can_screen,
            )
            decision = decide(job, given)
            if isinstance(decision, RunInBackground) and needs_ping_token(
                job, is_manual=one.manual
            ):
                # Once for each occurrence: a run that ends without a ping returns it.
                has_token = tx.budget.take(lambda budget: budget.set_aside(one.id, tx.now))
                decision = decide(job, given._replace(has_ping_token=has_token))
            is_cut_off = progress.state is OccurrenceState.RUNNING
            if is_cut_off and isinstance(decision, RunInBackground | DeliverPlainly | Skip):
                tx.ledger.append(LedgerRow(tx.now, OccurrenceState.CUT_OFF.value, one, {}))
            return decision

        while isinstance(decision := await self._gate.commit(step), WaitForQuietEnd):
            if not await self._waits.wait(due, decision.until):
                return Skip(SkipReason.QUIET, LATER_WAITED)
            is_running = False
        return decision

    async def _why_plainly(self, due: DueOccurrence, state: OccurrenceState) -> str:
        """Why the program delivers it; empty where the agent just did not say it."""
        if due.ordered is None or state is not OccurrenceState.FAILED:
            return _WHY.get(state, "")
        end = await self._store.read(lambda tx: tx.ledger.story(due.occurrence).end)
        error = "" if end is None else str(end.facts.get("error", ""))
        if not error:
            return _WHY[state]
        reason = error.partition(". ")[0].removesuffix(".")
        return f"The agent could not do it ({reason}), so here it is as you wrote it."

    async def _skip(self, due: DueOccurrence, skip: Skip) -> None:
        of_tools = (SkipReason.INVALID_TOOLS, SkipReason.MISSING_SKILL)
        if skip.reason in (*of_tools, SkipReason.BUDGET, SkipReason.SCREENING):
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

    async def _deliver(
        self, due: DueOccurrence, right: DeliveryRight, reason: str, since: datetime | None
    ) -> None:
        """Return once the run or the program has delivered; `reason` says why the program does."""
        assert due.ordered is not None
        while not await self._delivery.deliver(
            due.ordered, due.occurrence, right, why_now(reason, since, self._clock.now())
        ):
            await self._clock.sleep(5.0)
            since = late_since(due.occurrence, self._clock.now())

    async def _settle(self, due: DueOccurrence, right: DeliveryRight | None, reason: str) -> None:
        """After the end row: deliver the reminder if owed, record that, and remove its file."""
        if right is not None:
            await self._deliver(due, right, reason, late_since(due.occurrence, self._clock.now()))

        def step(tx: Transaction) -> None:
            if right is not None and tx.ledger.story(due.occurrence).delivery is None:
                tx.ledger.append(LedgerRow(tx.now, DELIVERED, due.occurrence))
            if isinstance(due.job, Reminder) and not due.occurrence.manual:
                tx.job_ops.add(remove_reminder(due.job, due.occurrence.id))

        await self._gate.commit(step)
        await self._files.make()
        self._rights.pop(due.occurrence, None)


class QuietWaits:
    """Lets turns of routines wait until the quiet has ended and the digest has come.

    Of each routine only the newest moment waits. `waiting` counts the waiting ones of each job.
    """

    def __init__(self, store: Store, gate: DiskGate, clock: Clock) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock
        self.waiting: Counter[JobKey] = Counter()

    async def wait(self, due: DueOccurrence, until: datetime) -> bool:
        """Return when the occurrence may run; False if a newer moment takes its place."""
        key, one = key_of(due.job), due.occurrence

        def note(tx: Transaction) -> None:
            if not tx.ledger.story(one).held:
                tx.ledger.append(LedgerRow(tx.now, HELD, one, {"until": until.isoformat()}))

        self.waiting[key] += 1
        try:
            with self._store.changes(*_QUIET_CHANGES) as changed:
                await self._gate.commit(note)
                while not self._has_newer(due):
                    changed.clear()
                    seconds = await self._seconds_left()
                    if not seconds:
                        return not self._has_newer(due)
                    await wait_until_set(changed, self._clock, seconds)
                return False
        finally:
            self.waiting[key] -= 1

    def _has_newer(self, due: DueOccurrence) -> bool:
        """Whether a later moment of the routine is due, such as one at the end of the quiet."""
        job, at = due.job, due.occurrence.scheduled_at
        if not isinstance(job, Routine) or at is None:
            return False
        following = next_due(job, at, zone_of(self._clock))
        return following is not None and following <= self._clock.now()

    async def _seconds_left(self) -> float:
        """How long to wait before the next look; 0 if the wait is over."""
        settings, has_waiting = await self._store.read(
            lambda tx: (quiet_settings(tx), bool(tx.held.get().waiting))
        )
        now = self._clock.now()
        until = quiet_until(settings, now)
        if until is None:
            return _LONGEST_SLEEP if has_waiting else 0.0
        return min(_LONGEST_SLEEP, elapsed(now, until).total_seconds())


def upcoming_reader(
    index: JobIndex, clock: Clock, root: Path, calendars: Callable[[], Sequence[CalendarCopy]]
) -> Callable[[Occurrence], UpcomingSchedule]:
    """Gives the schedule around an occurrence. Slow with very many jobs: call it in a thread."""

    def upcoming(current: Occurrence) -> UpcomingSchedule:
        now, indexed = clock.now(), [*index.jobs.values()]
        paths = {key_of(one.job): str(one.path.relative_to(root)) for one in indexed}
        jobs, zone = [*scheduled_jobs(index)], now.tzinfo or UTC
        schedule = build_upcoming_schedule(jobs, now, current, zone, paths)
        copies = calendars()
        return schedule.with_calendars(copies) if copies else schedule

    return upcoming
