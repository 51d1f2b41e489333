"""A small model of the scheduler; its ledger is always correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.definitions import Armed, Definition
from ollim_bot.kernel.values.jobs import Job, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import EFFECT, History, checkpoint_row, claiming_row

START = datetime(2026, 3, 27, 9, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
NAMES = ("a", "b", "c")
CRONS = ("30 8 * * *", "0 */3 * * *", "15 2 * * *", "0 0 1 * *")
STATE_SEQUENCES = (
    "running done",
    "running effect done",
    "running timed_out",
    "running failed",
    "failed",
    "missed",
    "skipped",
    "running cut_off running done",
    "running attempt_failed running attempt_failed running failed",
    "running effect cut_off interrupted",
    "running attempt_failed skipped",
)
_SECOND = timedelta(seconds=1)


def routine(name: str, cron: str, *, enabled: bool = True, message: str = "words") -> Routine:
    return Routine(JobSpec(id=name, message=message, enabled=enabled), Cron.parse(cron))


def reminder(name: str, at: datetime, *, enabled: bool = True) -> Reminder:
    return Reminder(JobSpec(id=name, message="words", enabled=enabled), at)


def ledger_rows(one: Occurrence, now: datetime, states: str) -> list[LedgerRow]:
    """The rows of an occurrence that was due and then had these states."""
    rows = [claiming_row(one, now)]
    attempt = 0
    for number, state in enumerate(states.split(), 1):
        attempt += state == OccurrenceState.RUNNING
        facts: dict[str, object] = {}
        if state == OccurrenceState.RUNNING:
            facts = {"attempt": attempt, "limit": 1800}
        elif state != EFFECT and OccurrenceState(state).is_end and attempt:
            facts = {"attempts": attempt}
        rows.append(LedgerRow(now + number * _SECOND, state, one, facts))
    return rows


class Scene:
    """`watched` is the moment up to which all due occurrences have rows."""

    def __init__(self, choose: Callable[[], str] = lambda: STATE_SEQUENCES[0]) -> None:
        self.now = self.watched = START
        self.rows: list[LedgerRow] = []
        self.jobs: dict[str, Job] = {}
        self.was_set_back = False
        self._choose = choose
        self._served: set[Occurrence] = set()
        self._armed = Armed()
        self.arm()

    def arm(self) -> None:
        """Write rows for the jobs as they are now."""
        wanted = [Definition.of(job, BERLIN) for job in self.jobs.values()]
        rows = self._armed.rows_for(wanted, self.now, self.watched)
        self._armed = self._armed.followed_by(rows)
        self._write(*rows)

    def put(self, job: Job) -> None:
        self.jobs[f"{job.kind} {job.spec.id}"] = job
        self.arm()

    def take(self, name: str) -> None:
        self.jobs.pop(name, None)
        self.arm()

    def wait(self, length: timedelta) -> None:
        """With the program running."""
        self.now += length
        for one in sorted(self._due(), key=lambda one: one.key):
            self._serve(one, one.scheduled_at or self.now, self._choose())
        self.watched = self.now

    def sleep(self, length: timedelta, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Without the program; of each job, only the newest occurrence is run."""
        self.now += length
        meanwhile()
        self.arm()
        missed = sorted(self._due(), key=lambda one: one.key)
        newest = {(one.kind, one.job_id): one for one in missed}
        for one in missed:
            is_newest = newest[one.kind, one.job_id] == one
            self._serve(one, self.now, self._choose() if is_newest else "skipped")
        self.watched = self.now
        self.checkpoint()

    def set_back(self, length: timedelta) -> None:
        self.was_set_back = True
        self.now -= length
        self.watched = self.now
        self.checkpoint()

    def by_hand(self, name: str) -> None:
        one = Occurrence.by_hand(JobKind.ROUTINE, name, self.now)
        if one not in self._served:
            self._serve(one, self.now, self._choose())

    def deliver(self, key: str) -> None:
        one = Occurrence(JobKind.WEBHOOK, "hook", key)
        if one not in self._served:
            self._serve(one, self.now, self._choose())

    def checkpoint(self) -> None:
        self._write(checkpoint_row(self.now, self.watched, History.of(self.rows)))

    def finish(self) -> None:
        """Remove all jobs and wait so long that no run can still be under way."""
        self.jobs.clear()
        self.arm()
        self.wait(timedelta(days=2))
        self.checkpoint()

    def _due(self) -> Iterator[Occurrence]:
        for job in self.jobs.values():
            if job.spec.enabled:
                for moment in self._moments(job):
                    one = Occurrence.scheduled(job.kind, job.spec.id, moment)
                    if one not in self._served:
                        yield one

    def _moments(self, job: Job) -> Iterator[datetime]:
        if isinstance(job, Reminder) and job.due(BERLIN) <= self.now:
            yield job.due(BERLIN)
        elif isinstance(job, Routine):
            moment = job.next_after(self.watched, BERLIN)
            while moment is not None and moment <= self.now:
                yield moment
                moment = job.next_after(moment, BERLIN)

    def _serve(self, one: Occurrence, now: datetime, states: str) -> None:
        self._served.add(one)
        self._write(*ledger_rows(one, max(now, one.scheduled_at or now), states))

    def _write(self, *rows: LedgerRow) -> None:
        self.rows += rows


def _renamed(job: Job) -> Job:
    return replace(job, spec=replace(job.spec, message=f"{job.spec.message}!"))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """One or two weeks of random events, from the first start on."""
    scene = Scene(lambda: draw(st.sampled_from(STATE_SEQUENCES)))
    hours = st.integers(1, 40).map(lambda count: timedelta(minutes=17 * count))
    names = st.sampled_from(NAMES)
    routines = st.builds(routine, names, st.sampled_from(CRONS), enabled=st.booleans())

    def reminders() -> st.SearchStrategy[Reminder]:
        at = st.integers(-20, 60).map(lambda count: scene.now + timedelta(minutes=31 * count))
        return st.builds(reminder, names, at, enabled=st.booleans())

    def edit() -> None:
        if scene.jobs:
            scene.put(_renamed(draw(st.sampled_from(list(scene.jobs.values())))))

    def remove() -> None:
        if scene.jobs:
            scene.take(draw(st.sampled_from(sorted(scene.jobs))))

    steps: list[Callable[[], None]] = [
        lambda: scene.put(draw(routines)),
        lambda: scene.put(draw(reminders())),
        edit,
        remove,
        lambda: scene.wait(draw(hours)),
        lambda: scene.sleep(4 * draw(hours)),
        lambda: scene.sleep(draw(hours), remove),
        lambda: scene.set_back(draw(hours)),
        lambda: scene.by_hand(draw(names)),
        lambda: scene.deliver(draw(names)),
        scene.checkpoint,
    ]
    for name in NAMES[: draw(st.integers(1, 3))]:
        scene.put(routine(name, draw(st.sampled_from(CRONS[:3]))))
    scene.wait(timedelta(days=1))
    for step in draw(st.lists(st.sampled_from(steps), max_size=14)):
        step()
    return scene
