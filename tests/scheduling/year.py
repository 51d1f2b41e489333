"""The real schedule on a machine that sleeps and stops, with an agent that does all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, cast

from tests.scheduling.hurrying import HurryingClock, HurryingLoop, Turner
from tests.stores import Stores

from ollim_bot.conversation.background_attempt import Try
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.jobs.manual_runs import ManualRuns
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.forward_schedule import UpcomingSchedule
from ollim_bot.domain.jobs import Job, JobKind, Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.domain.orders import Order
from ollim_bot.domain.schedule import JobKey
from ollim_bot.schedule.circumstances import JobRunners
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.due_jobs import DueJobs
from ollim_bot.schedule.heads_ups import HeadsUps
from ollim_bot.schedule.job_index import Changes, IndexedJob
from ollim_bot.schedule.ledger_records import ArmedJobs, Heartbeat, ScheduleRecords
from ollim_bot.schedule.must_deliveries import MustDeliveries
from ollim_bot.schedule.nags import Nags
from ollim_bot.schedule.owner_zone import OwnerZone
from ollim_bot.schedule.scheduler import Scheduler
from ollim_bot.store.job_files import JobFileChanges
from ollim_bot.store.job_formats import REMINDERS
from ollim_bot.testing.memory import MemoryShelf, memory_shelves
from ollim_bot.testing.repeating_store import RepeatingStore


class Book(MemoryShelf[Reminder]):
    """Doubles `JobIndex`, and is the shelf of the reminders too, so that what goes is noticed."""

    def __init__(self) -> None:
        super().__init__(REMINDERS)
        self.jobs: dict[JobKey, IndexedJob] = {}
        self._changes: dict[str, Any] = {}

    def put(self, *jobs: Job) -> None:
        """Files are written, new ones or in place of others."""
        for job in jobs:
            booked = IndexedJob(job, Path(job.spec.id))
            self._note("changed" if booked.key in self.jobs else "added", booked)
            self.jobs[booked.key] = booked
            if isinstance(job, Reminder):
                self.add(job)

    def remove(self, item_id: str) -> Path:
        self._note("removed", self.jobs.pop(JobKey(JobKind.REMINDER, item_id)))
        return super().remove(item_id)

    def remember(self, armed: Mapping[JobKey, str]) -> None:
        """Each file has an id of its own."""

    async def refresh(self) -> Changes:
        if not self._changes:
            return _NOTHING
        changes, self._changes = self._changes, {}
        return Changes(**changes)

    def _note(self, word: str, booked: IndexedJob) -> None:
        self._changes.setdefault(word, []).append(booked)


class Agent:
    """Doubles `BackgroundRuns`, `ForegroundJobs` and `ReminderDelivery`.

    It does all it is asked at once, but takes a while for some reminders in the background, and
    forgets to say others. `said` has each delivery to the owner, by whomever.
    """

    can_screen = True

    def __init__(self, stores: Stores, clock: HurryingClock) -> None:
        self.said: list[Occurrence] = []
        self.running: set[asyncio.Task[OccurrenceState]] = set()
        self._stores = stores
        self._clock = clock

    def start(self, job: Job, one: Occurrence, this: Try) -> asyncio.Task[OccurrenceState]:
        task = asyncio.create_task(self._run(job, one, this))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    async def _run(self, job: Job, one: Occurrence, this: Try) -> OccurrenceState:
        self._row(one, OccurrenceState.RUNNING, {"attempt": this.number})
        if isinstance(job, Reminder):
            await self._clock.sleep(_SECONDS[sum(map(ord, one.job_id)) % len(_SECONDS)])
        if this.order is not None and one.job_id[-1] in "02468":
            self._say(one, this.order)
        self._row(one, OccurrenceState.DONE, {"attempts": this.number})
        return OccurrenceState.DONE

    async def run(
        self, _job: Job, one: Occurrence, *, late_since: datetime | None
    ) -> OccurrenceState:
        assert late_since is None or late_since == one.scheduled_at
        self._row(one, OccurrenceState.RUNNING, {"attempt": 1})
        self._row(one, OccurrenceState.DONE, {"attempts": 1})
        self.said.append(one)
        return OccurrenceState.DONE

    def has(self, _: Occurrence) -> bool:
        return False

    async def deliver(self, _: Reminder, one: Occurrence, order: Order, _reason: str) -> bool:
        self._say(one, order)
        return True

    async def was_said(self, one: Occurrence) -> bool:
        return one in self.said[-500:]

    def _say(self, one: Occurrence, order: Order) -> None:
        if order.take():
            self.said.append(one)

    def _row(self, one: Occurrence, state: OccurrenceState, facts: Mapping[str, object]) -> None:
        self._stores.ledger.append(LedgerRow(self._clock.now(), state.value, one, facts))


class Teller:
    """Doubles `Notices`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, sentence: str, *, key: str | None = None, **_: bool) -> None:
        self.told.append(f"{key}: {sentence}")


class NoRequests:
    """Doubles `RunRequests`."""

    async def run(self) -> None: ...


class Beats:
    """Doubles `HeartbeatFile`."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def read(self) -> datetime | None:
        return self._last

    def write(self, now: datetime) -> None:
        self._last = now


class Machine:
    """What the bot runs on: it can be switched off and on, sleep, and have its clock set.

    `moments` are all at which anything may be due, in order.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        start: datetime,
        moments: Sequence[datetime],
        zone: tzinfo,
    ) -> None:
        assert isinstance(loop, HurryingLoop)
        self.clock = HurryingClock(start)
        self.book = Book()
        shelves = replace(memory_shelves(), reminders=self.book)
        self.stores = Stores(RepeatingStore(self.clock.now, is_repeating=False), shelves)
        self.agent = Agent(self.stores, self.clock)
        self.teller = Teller()
        self._turner = Turner(loop, self.clock, moments)
        self._zone = zone
        self._beats = cast("Any", Beats())
        self._life: tuple[asyncio.Task[None], Scheduler] | None = None

    async def watches(self, until: datetime) -> None:
        if self._life is None:
            agent, teller, clock = cast("Any", self.agent), cast("Any", self.teller), self.clock
            store = self.stores.state
            gate, files = DiskGate(store, teller, clock), JobFileChanges(store, self.stores.shelves)
            must = MustDeliveries(agent, gate, files, clock)
            runners = JobRunners(agent, agent, agent)
            dispatch = Dispatcher(store, gate, runners, must, clock, _no_outlook, ManualRuns())
            book, turner = cast("Any", self.book), cast("Any", self._turner)
            requests = cast("Any", NoRequests())
            poster = MessagePoster(store, cast("Any", None), (), clock)
            scheduler = Scheduler(
                book,
                turner,
                files,
                (
                    Nags(store, poster),
                    HeadsUps(store, book, poster, clock),
                    DueJobs(store, book, dispatch, gate, files, clock),
                ),
                [requests.run],
                ScheduleRecords(
                    ArmedJobs(store, clock),
                    Heartbeat(store, self._beats),
                    OwnerZone(store, clock, self._zone),
                ),
                clock,
            )
            self._life = asyncio.create_task(scheduler.run()), scheduler
        task, _ = self._life
        turning = asyncio.create_task(self._turner.turn(until))
        await asyncio.wait({task, turning}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    def sleeps(self, until: datetime) -> None:
        """Nothing goes on, and the clock on the wall shows another time afterwards."""
        self.clock.jump(until - self.clock.now())

    async def is_off(self, until: datetime) -> None:
        """The program ends at once, whatever it does."""
        assert self._life is not None
        task, scheduler = self._life
        for each in (task, *self.agent.running):
            each.cancel()
        await asyncio.gather(task, *self.agent.running, return_exceptions=True)
        await scheduler.close()
        self._life = None
        self.sleeps(until)


def _no_outlook(_: Occurrence) -> UpcomingSchedule:
    raise AssertionError("the agent of this year asks for nothing")


_NOTHING = Changes()
# How long a reminder takes: at once, too long to be in time, or a while.
_SECONDS = (0, 90, 20)
