"""Begins due occurrences, each exactly once, and ends them in the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from ollim_bot.conversation.background import BackgroundRuns
from ollim_bot.conversation.background_attempt import Try
from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.jobs.reminders import ReminderDelivery
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.patient_ledger import PatientLedger
from ollim_bot.domain.catch_up import late_since
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.forward_schedule import UpcomingSchedule
from ollim_bot.domain.jobs import Job, Reminder, Routine, kind_of
from ollim_bot.domain.occurrences import (
    MAX_ATTEMPTS,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.domain.orders import Order
from ollim_bot.domain.run_history import DELIVERED, Recovery, RunStory
from ollim_bot.domain.runs import late_label
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.domain.session_use import answers
from ollim_bot.errors import StorageError
from ollim_bot.logs import log_fields
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.stores import Stores

NOT_READY = "The agent was not ready in time, so here it is as you wrote it."
WAS_CUT_OFF = "The bot was stopped before the agent could say it, so here it is as you wrote it."

# What the ledger says of whatever ends without having been begun.
NOT_RUN: Mapping[str, object] = {"silent_because": "it was not run"}

_WHY: Mapping[OccurrenceState, str] = {
    OccurrenceState.FAILED: "The agent could not do it, so here it is as you wrote it.",
    OccurrenceState.TIMED_OUT: "The agent took too long, so here it is as you wrote it.",
    OccurrenceState.SKIPPED: "The agent could not be asked, so here it is as you wrote it.",
    OccurrenceState.INTERRUPTED: "The agent was stopped, so here it is as you wrote it.",
}


def why_plainly(state: OccurrenceState) -> str:
    """Why a reminder comes from the program; empty where the agent just did not say it."""
    return _WHY.get(state, "")


def interrupted(title: str) -> str:
    return (
        f"“{title}” was cut off by a restart after it had begun to act, so it was not repeated. "
        "Look whether all of it was done."
    )


def given_up(title: str) -> str:
    return f"“{title}” was cut off by restarts again and again, and was given up."


def cost_cap(dollars: float) -> str:
    return (
        f"Today has cost ${dollars:.2f} or more, so jobs do not ask the model until tomorrow. "
        "`/config daily_cost_cap` changes that."
    )


@dataclass(frozen=True, slots=True)
class Work:
    """One due moment of one job."""

    job: Job
    occurrence: Occurrence
    late_since: datetime | None = None

    @classmethod
    def by_hand(cls, job: Job, now: datetime) -> Work:
        return cls(job, Occurrence.by_hand(kind_of(job), job.spec.id, now))

    @property
    def goes_alone(self) -> bool:
        """Whether it is left out while another run of its job goes on."""
        return isinstance(self.job, Routine) or self.occurrence.manual

    @property
    def ordered(self) -> Reminder | None:
        """The reminder, if it has to be delivered whatever happens."""
        is_ordered = isinstance(self.job, Reminder) and self.job.must
        return self.job if is_ordered and isinstance(self.job, Reminder) else None


class DailyCosts:
    def __init__(self, stores: Stores, store: Store, clock: Clock) -> None:
        self._stores = stores
        self._store = store
        self._clock = clock

    async def cap_reached(self) -> float | None:
        """The cap, if today has cost as much; None if there is none, or it is not reached."""
        cap = (await asyncio.to_thread(self._stores.config.read)).daily_cost_cap
        if cap is None:
            return None
        return cap if await self._today() >= cap else None

    async def _today(self) -> float:
        """In dollars, of the conversation and of all runs."""
        midnight = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        logged = await self._store.read(lambda tx: tx.messages.since(midnight))
        said = answers([each.message for each in logged])
        talk = sum(message.spent.cost_usd for message in said if message.spent)
        ended = (await asyncio.to_thread(self._stores.ledger.read, midnight)).entries
        costs = (row.facts.get("cost_usd") for row in ended if row.occurrence is not None)
        return talk + sum(float(cost) for cost in costs if isinstance(cost, int | float))


_logger = logging.getLogger(__name__)


class Skips:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def has(self, occurrence: Occurrence) -> bool:
        return (await asyncio.to_thread(self.read)).is_skipped(occurrence)

    def read(self) -> Facts:
        """Nothing is skipped where that cannot be known: better once too often than not at all."""
        try:
            return Facts(self._stores.memory.read())
        except StorageError:
            _logger.warning("What is to be skipped cannot be read", exc_info=True)
            return Facts({})

    async def forget(self, occurrence: Occurrence) -> None:
        """It has been left out; a later moment that was skipped meanwhile stays so."""

        def step(raw: Mapping[str, object]) -> tuple[Mapping[str, object], None]:
            facts = Facts(raw)
            is_this = facts.is_skipped(occurrence)
            job = f"{occurrence.kind}:{occurrence.job_id}"
            return (facts.without_skip(job) if is_this else facts).raw, None

        try:
            await asyncio.to_thread(self._stores.memory.transact, step)
        except StorageError:  # the moment is over, so it does no harm
            _logger.warning("A skip could not be forgotten", exc_info=True)


# How long the agent may take to be ready with what the owner has ordered.
_PATIENCE = timedelta(seconds=60)
_BETWEEN_TRIES = 5.0


class OwedReminders:
    """There is one order for each due moment, whoever is at it."""

    def __init__(self, delivery: ReminderDelivery, ledger: PatientLedger, clock: Clock) -> None:
        self._delivery = delivery
        self._ledger = ledger
        self._clock = clock
        self._orders: dict[Occurrence, Order] = {}

    def order_of(self, work: Work) -> Order | None:
        """None if it need not be delivered whatever happens."""
        return self._orders.setdefault(work.occurrence, Order()) if work.ordered else None

    async def note_delivery(self, work: Work, order: Order, story: RunStory) -> None:
        """Take the order if it was carried out before a crash."""
        if story.delivery is not None or await self._delivery.was_said(work.occurrence):
            order.take()

    async def until_too_late(self, work: Work) -> None:
        """Returns when the agent is not waited for any longer."""
        now = self._clock.now().astimezone(UTC)
        due = work.occurrence.scheduled_at or now
        latest = max(due, now - _PATIENCE / 2) + _PATIENCE
        await self._clock.sleep((latest - now).total_seconds())

    async def show(self, work: Work, order: Order) -> None:
        """Although nothing can be written down; it is owed nevertheless."""
        assert work.ordered is not None
        await self._delivery.flash(work.ordered, work.occurrence, order)

    async def deliver(self, work: Work, order: Order, reason: str) -> None:
        """Returns when it is delivered, by whomever; `reason` says why the program does it."""
        assert work.ordered is not None
        since = work.late_since
        while not await self._delivery.deliver(
            work.ordered, work.occurrence, order, self._labelled(reason, since)
        ):
            await self._clock.sleep(_BETWEEN_TRIES)
            since = late_since(work.occurrence, self._clock.now())

    async def settle(self, work: Work, order: Order | None, reason: str) -> None:
        """It has its end row; what had to be delivered is, and then the file goes."""
        if order is not None:
            since = late_since(work.occurrence, self._clock.now())
            await self.deliver(replace(work, late_since=since), order, reason)
            await self._ledger.append(LedgerRow(self._clock.now(), DELIVERED, work.occurrence))
            self._orders.pop(work.occurrence, None)
        if isinstance(work.job, Reminder) and not work.occurrence.manual:
            await self.put_away(work.job)

    async def put_away(self, reminder: Reminder) -> None:
        """Its moment has come to its end."""
        await asyncio.to_thread(self._delivery.take_away, reminder)

    def _labelled(self, reason: str, since: datetime | None) -> str:
        if since is None:
            return reason
        return f"{late_label(since, self._clock.now())} {reason}".rstrip()


_PAUSES = (5.0, 30.0)


class Dispatch:
    """A job never raises out of here, and none waits for another.

    `upcoming` tells what is due around an occurrence.
    """

    def __init__(
        self,
        stores: Stores,
        store: Store,
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
        self._costs = DailyCosts(stores, store, clock)
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
            await self._owed.settle(work, order, WAS_CUT_OFF)
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
        sentence = interrupted(title) if is_interrupted else given_up(title)
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
            await self._owed.settle(work, order, why_plainly(state))
        finally:
            for task in (run, alarm):
                task.cancel()
            await asyncio.wait({run, alarm})

    async def _run(self, work: Work, order: Order | None, first: int) -> OccurrenceState:
        cap = None if work.occurrence.manual else await self._costs.cap_reached()
        if cap is not None:
            await self._end(work, OccurrenceState.SKIPPED, {"reason": SkipReason.COST_CAP.value})
            today = f"{self._clock.now():%Y-%m-%d}"
            await self._notices.tell(cost_cap(cap), key=f"cost cap {today}")
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
        await self._owed.deliver(work, order, NOT_READY)
        if not work.job.spec.background:
            await self._withdraw(work.occurrence)

    async def _withdraw(self, occurrence: Occurrence) -> None:
        while True:
            try:
                return await self._foreground.withdraw(occurrence)
            except StorageError as refused:
                await self._ledger.wait_for_room(refused)

    async def _end(self, work: Work, state: OccurrenceState, facts: Mapping[str, object]) -> None:
        named = {"job": work.job.spec.title, **NOT_RUN}
        await self._row(work, state.value, {**named, **facts})

    async def _row(self, work: Work, state: str, facts: Mapping[str, object]) -> None:
        await self._ledger.append(LedgerRow(self._clock.now(), state, work.occurrence, facts))
