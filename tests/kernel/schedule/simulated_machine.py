"""The real schedule on a simulated machine that sleeps and stops, with a fake agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import Any, cast

from devtools.doubles.memory import MemoryJobRepository, memory_repositories
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.schedule.virtual_time import FakeWatcher, IdleAwareLoop, VirtualClock
from tests.stores import Stores

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.conversation.background_attempt import Try
from ollim_bot.kernel.conversation.foreground import JobRuns
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.schedule.dispatch import Dispatcher
from ollim_bot.kernel.schedule.due_jobs import DueJobs
from ollim_bot.kernel.schedule.extra_times import HeadsUps, Nags
from ollim_bot.kernel.schedule.job_index import AnswerPlans, Changes, IndexedJob
from ollim_bot.kernel.schedule.ledger_records import (
    ArmedJobs,
    Heartbeat,
    OwnerZone,
    ScheduleRecords,
)
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.values.jobs import Job, Reminder
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.runs import DeliveryRight
from ollim_bot.kernel.values.schedule import key_of
from ollim_bot.kernel.values.upcoming import UpcomingSchedule


class FakeJobIndex(MemoryJobRepository[Reminder]):
    """Doubles `JobIndex`. It also holds the reminders, so that it notices removals."""

    def __init__(self) -> None:
        super().__init__(REMINDERS)
        self.jobs: dict[JobKey, IndexedJob] = {}
        self.days: dict[str, date] = {}
        self._changes: dict[str, Any] = {}

    def put(self, *jobs: Job) -> None:
        """Write the files of these jobs, new ones or in place of others."""
        for job in jobs:
            indexed = IndexedJob(job, Path(job.spec.id))
            self._note("changed" if key_of(job) in self.jobs else "added", indexed)
            self.jobs[key_of(job)] = indexed
            if isinstance(job, Reminder):
                self.add(job)

    def remove(self, item_id: str) -> Path:
        self._note("removed", self.jobs.pop(JobKey(JobKind.REMINDER, item_id)))
        return super().remove(item_id)

    def remember(self, armed: Mapping[JobKey, str]) -> None:
        """Does nothing: no two files of a test have the same id."""

    async def refresh(self) -> Changes:
        if not self._changes:
            return _NO_CHANGES
        changes, self._changes = self._changes, {}
        return Changes(**changes)

    def _note(self, word: str, indexed: IndexedJob) -> None:
        self._changes.setdefault(word, []).append(indexed)


class FakeAgent:
    """Doubles `BackgroundRuns`, `ForegroundJobs` and `PlainDelivery`.

    Each run ends at once, except background runs of reminders, which take `_RUN_SECONDS`. A
    background run delivers its reminder only if the id of the job ends in an even digit. `said`
    has each delivery to the owner.
    """

    can_screen = True

    def __init__(self, stores: Stores, clock: VirtualClock) -> None:
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
            await self._clock.sleep(_RUN_SECONDS[sum(map(ord, one.job_id)) % len(_RUN_SECONDS)])
        if this.delivery_right is not None and one.job_id[-1] in "02468":
            self._say(one, this.delivery_right)
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

    async def deliver(
        self, _: Reminder, one: Occurrence, right: DeliveryRight, _reason: str
    ) -> bool:
        self._say(one, right)
        return True

    async def was_said(self, one: Occurrence) -> bool:
        return one in self.said[-500:]

    def _say(self, one: Occurrence, right: DeliveryRight) -> None:
        if right.take():
            self.said.append(one)

    def _row(self, one: Occurrence, state: OccurrenceState, facts: Mapping[str, object]) -> None:
        self._stores.ledger.append(LedgerRow(self._clock.now(), state.value, one, facts))


class FakeNotices:
    """Doubles `Notices`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, sentence: str, *, key: str | None = None, **_: bool) -> None:
        self.told.append(f"{key}: {sentence}")


class NoRunRequests:
    """Doubles `RunRequests`."""

    async def run(self) -> None: ...


class MemoryHeartbeat:
    """Doubles `HeartbeatFile`."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def read(self) -> datetime | None:
        return self._last

    def write(self, now: datetime) -> None:
        self._last = now


class SimulatedMachine:
    """Runs the bot; it can be switched off and on, sleep, and have its clock set.

    `moments` are all moments at which anything may be due, in order.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        start: datetime,
        moments: Sequence[datetime],
        zone: tzinfo,
    ) -> None:
        assert isinstance(loop, IdleAwareLoop)
        self.clock = VirtualClock(start)
        self.index = FakeJobIndex()
        repositories = replace(memory_repositories(), reminders=self.index)
        self.stores = Stores(RepeatingStore(self.clock.now, is_repeating=False), repositories)
        self.agent = FakeAgent(self.stores, self.clock)
        self.notices = FakeNotices()
        self._watcher = FakeWatcher(loop, self.clock, moments)
        self._zone = zone
        self._heartbeat = cast("Any", MemoryHeartbeat())
        self._running: tuple[asyncio.Task[None], Scheduler] | None = None

    async def run(self, until: datetime) -> None:
        if self._running is None:
            agent, notices, clock = cast("Any", self.agent), cast("Any", self.notices), self.clock
            store = self.stores.state
            gate, files = (
                DiskGate(store, notices, clock),
                JobFileChanges(store, self.stores.repositories),
            )
            dispatch = Dispatcher(
                store, gate, agent, agent, agent, files, clock, _no_outlook, JobRuns()
            )
            index, watcher = cast("Any", self.index), cast("Any", self._watcher)
            requests = cast("Any", NoRunRequests())
            poster = MessagePoster(store, cast("Any", None), (), clock)
            scheduler = Scheduler(
                index,
                watcher,
                files,
                (
                    Nags(store, index),
                    HeadsUps(store, index, poster, clock),
                    DueJobs(store, index, dispatch, gate, files, clock),
                ),
                [requests.run],
                ScheduleRecords(
                    ArmedJobs(store, clock),
                    Heartbeat(store, self._heartbeat),
                    OwnerZone(store, clock, self._zone),
                ),
                AnswerPlans(store, index, clock),
                clock,
            )
            self._running = asyncio.create_task(scheduler.run()), scheduler
        task, _ = self._running
        watching = asyncio.create_task(self._watcher.run_until(until))
        await asyncio.wait({task, watching}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    def sleep(self, until: datetime) -> None:
        """No task runs, and the wall clock shows `until` afterwards."""
        self.clock.jump((until - self.clock.now()).total_seconds())

    async def switch_off(self, until: datetime) -> None:
        """The program ends at once, in the middle of its work, and is off until `until`."""
        assert self._running is not None
        task, scheduler = self._running
        for each in (task, *self.agent.running):
            each.cancel()
        await asyncio.gather(task, *self.agent.running, return_exceptions=True)
        await scheduler.close()
        self._running = None
        self.sleep(until)


def _no_outlook(_: Occurrence) -> UpcomingSchedule:
    raise AssertionError("the fake agent asks for no outlook")


_NO_CHANGES = Changes()
# How long background runs of reminders take; the second is longer than a reminder may wait.
_RUN_SECONDS = (0, 90, 20)
