"""Brings each due moment of a job to its one end: claimed, run, and delivered if it has to be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC
from functools import partial

from ollim_bot.conversation.background.attempt import Try
from ollim_bot.conversation.background.runs import BackgroundRuns
from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.patient_ledger import PatientLedger
from ollim_bot.conversation.reminders.delivery import ReminderDelivery
from ollim_bot.domain.forward_schedule import UpcomingSchedule
from ollim_bot.domain.jobs import Job, Reminder
from ollim_bot.domain.occurrences import (
    MAX_ATTEMPTS,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.domain.orders import Order
from ollim_bot.domain.run_history import Recovery, RunStory
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.errors import StorageError
from ollim_bot.logs import log_fields
from ollim_bot.ports import Clock
from ollim_bot.scheduling import texts
from ollim_bot.scheduling.costs import DailyCosts
from ollim_bot.scheduling.owed import OwedReminders
from ollim_bot.scheduling.skips import Skips
from ollim_bot.scheduling.work import Work
from ollim_bot.stores import Stores

_PAUSES = (5.0, 30.0)
_BETWEEN_TRIES = 5.0

_logger = logging.getLogger(__name__)


class Dispatch:
    """A job never raises out of here, and none waits for another.

    `upcoming` tells what is due around an occurrence.
    """

    def __init__(
        self,
        stores: Stores,
        foreground: ForegroundJobs,
        background: BackgroundRuns,
        delivery: ReminderDelivery,
        notices: Notices,
        clock: Clock,
        upcoming: Callable[[Occurrence], UpcomingSchedule],
    ) -> None:
        self._stores = stores
        self._foreground = foreground
        self._background = background
        self._notices = notices
        self._clock = clock
        self._upcoming = upcoming
        self._costs = DailyCosts(stores, clock)
        self._skips = Skips(stores)
        self._ledger = PatientLedger(stores, notices, clock)
        self._owed = OwedReminders(delivery, self._ledger, clock)
        self._going: dict[asyncio.Task[None], JobKey] = {}

    def fire(self, work: Work) -> asyncio.Event:
        """Unless somebody else has claimed it. Returns what is set when anybody has."""
        claimed = asyncio.Event()
        self._begin(work, self._fire(work, claimed))
        return claimed

    def begin(self, work: Work) -> None:
        """What was claimed already."""
        is_running = key_of(work.job) in self._going.values()
        order = Order() if work.ordered else None
        self._begin(work, self._first(work, order, is_running=is_running))

    def run_now(self, job: Job) -> bool:
        """By hand; False if it is running already."""
        if key_of(job) in self._going.values():
            return False
        self.fire(Work.by_hand(job, self._clock.now()))
        return True

    def go_on(self, work: Work, story: RunStory) -> None:
        """With what the last stop of the program has left without an end."""
        self._begin(work, self._go_on(work, story))

    async def close(self) -> None:
        """Leave what goes on as it is: the next start goes on with it."""
        for task in self._going:
            task.cancel()
        if self._going:
            await asyncio.wait(self._going)

    def _begin(self, work: Work, doing: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._safely(work, doing))
        self._going[task] = key_of(work.job)
        task.add_done_callback(lambda done: self._going.pop(done, None))

    async def _safely(self, work: Work, doing: Coroutine[None, None, None]) -> None:
        with log_fields(run=work.occurrence.id):
            try:
                await doing
            except Exception:  # whatever becomes of one job, the others go on
                _logger.exception("A job failed in the program itself")

    async def _fire(self, work: Work, claimed: asyncio.Event) -> None:
        is_running = key_of(work.job) in self._others()
        order = self._owed.order_of(work)
        is_ours = await self._claimed(work, order)
        claimed.set()
        if is_ours:
            await self._first(work, order, is_running=is_running)
        else:
            await self._put_in_order(work)

    async def _first(self, work: Work, order: Order | None, *, is_running: bool) -> None:
        """It is claimed, and `is_running` says whether the one before it goes on."""
        if await self._is_left_out(work):
            return
        if is_running and work.goes_alone:
            await self._end(work, OccurrenceState.SKIPPED, {"reason": SkipReason.OVERLAP.value})
        else:
            await self._do(work, order, first=1)

    async def _is_left_out(self, work: Work) -> bool:
        """Whether the owner has skipped it; then that is its end."""
        if not await self._skips.has(work.occurrence):
            return False
        await self._end(work, OccurrenceState.SKIPPED, {"reason": SkipReason.POLICY.value})
        await self._skips.forget(work.occurrence)
        return True

    async def _put_in_order(self, work: Work) -> None:
        """A reminder that a crash has cut off after its last row: it is delivered, and goes."""
        if not isinstance(work.job, Reminder) or key_of(work.job) in self._others():
            return
        if work.occurrence.manual:
            return
        history = await asyncio.to_thread(self._stores.recent_history)
        story = history.stories.get(work.occurrence)
        if story is None or story.is_left_out or story.delivery is not None:
            await self.put_away(work.job)
        elif story.end is not None:
            await self._go_on(work, story)

    async def put_away(self, reminder: Reminder) -> None:
        """Its moment has come to its end."""
        await self._owed.put_away(reminder)

    async def has_plans_for(self, work: Work) -> bool:
        """Whether it stands in the line of the conversation, or the owner wants it left out."""
        is_in_line = not work.job.spec.background and self._foreground.has(work.occurrence)
        return is_in_line or await self._skips.has(work.occurrence)

    def _others(self) -> set[JobKey]:
        """What goes on beside the task that asks."""
        return {key for task, key in self._going.items() if task is not asyncio.current_task()}

    async def _claimed(self, work: Work, order: Order | None) -> bool:
        """Without the ledger nothing is run; but what the owner has ordered comes."""
        facts = {"job": work.job.spec.title}
        due = work.occurrence.scheduled_at
        while True:
            now = self._clock.now()
            # A clock that was set back meanwhile does not make it early.
            found_at = now if due is None else max(now.astimezone(UTC), due)
            try:
                return await asyncio.to_thread(
                    self._stores.claims.claim, work.occurrence, found_at, facts
                )
            except StorageError as refused:
                if order is not None:
                    await self._owed.show(work, order)
                await self._ledger.wait_for_room(refused)

    async def _go_on(self, work: Work, story: RunStory) -> None:
        order = self._owed.order_of(work)
        if order is not None:
            await self._owed.note_delivery(work, order, story)
        verdict = story.recovery
        if verdict is None:
            await self._owed.settle(work, order, "")
            return
        if verdict.ends_as is not None:
            await self._cut_off(work, verdict)
            await self._owed.settle(work, order, texts.WAS_CUT_OFF)
            return
        if story.state is OccurrenceState.DUE and await self._is_left_out(work):
            return
        if story.state is OccurrenceState.RUNNING and work.job.spec.background:
            await self._row(work, OccurrenceState.CUT_OFF.value, {})
        await self._do(work, order, first=story.attempts + 1)

    async def _cut_off(self, work: Work, verdict: Recovery) -> None:
        """Told before the ledger says so: a crash in between leads here again."""
        assert verdict.ends_as is not None
        title = work.job.spec.title
        is_interrupted = verdict is Recovery.INTERRUPT
        sentence = texts.interrupted(title) if is_interrupted else texts.given_up(title)
        while await self._notices.tell(sentence, key=f"cut off {work.occurrence.id}"):
            await self._clock.sleep(_BETWEEN_TRIES)
        await self._end(work, verdict.ends_as, {"error": sentence})

    async def _do(self, work: Work, order: Order | None, *, first: int) -> None:
        run = asyncio.create_task(self._run(work, order, first))
        is_ringing = asyncio.Event()
        alarm = asyncio.create_task(self._alarm(work, order, is_ringing))
        try:
            state = await run
            if is_ringing.is_set():
                # It may be in the middle of a delivery, which is not over before it has arrived.
                await alarm
            await self._owed.settle(work, order, texts.why_plainly(state))
        finally:
            for task in (run, alarm):
                task.cancel()
            await asyncio.wait({run, alarm})

    async def _run(self, work: Work, order: Order | None, first: int) -> OccurrenceState:
        cap = None if work.occurrence.manual else await self._costs.cap_reached()
        if cap is not None:
            await self._end(work, OccurrenceState.SKIPPED, {"reason": SkipReason.COST_CAP.value})
            today = f"{self._clock.now():%Y-%m-%d}"
            await self._notices.tell(texts.cost_cap(cap), key=f"cost cap {today}")
            return OccurrenceState.SKIPPED
        if not work.job.spec.background:
            state = await self._foreground.run(
                work.job, work.occurrence, late_since=work.late_since
            )
            if state is OccurrenceState.DONE and order is not None:
                order.take()
            return state
        for number in range(first, MAX_ATTEMPTS + 1):
            is_last = number == MAX_ATTEMPTS
            upcoming = partial(self._upcoming, work.occurrence)
            this = Try(number, work.late_since, order, not is_last, upcoming)
            # Whoever stops this leaves the run to whoever owns it.
            state = await asyncio.shield(self._background.start(work.job, work.occurrence, this))
            if state is not OccurrenceState.ATTEMPT_FAILED:
                return state
            await self._clock.sleep(_PAUSES[min(number, len(_PAUSES)) - 1])
        return OccurrenceState.FAILED

    async def _alarm(self, work: Work, order: Order | None, is_ringing: asyncio.Event) -> None:
        """What was ordered comes in time, whatever the agent does."""
        if order is None:
            return
        await self._owed.until_too_late(work)
        is_ringing.set()
        await self._owed.deliver(work, order, texts.NOT_READY)
        if not work.job.spec.background:
            await self._withdraw(work.occurrence)

    async def _withdraw(self, occurrence: Occurrence) -> None:
        while True:
            try:
                return await self._foreground.withdraw(occurrence)
            except StorageError as refused:
                await self._ledger.wait_for_room(refused)

    async def _end(self, work: Work, state: OccurrenceState, facts: Mapping[str, object]) -> None:
        named = {"job": work.job.spec.title, **texts.NOT_RUN}
        await self._row(work, state.value, {**named, **facts})

    async def _row(self, work: Work, state: str, facts: Mapping[str, object]) -> None:
        await self._ledger.append(LedgerRow(self._clock.now(), state, work.occurrence, facts))
