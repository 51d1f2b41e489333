"""A rehearsal predicts what the real schedule does in a night with every kind of job."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.engine import CallsTool, ScriptedEngine, ScriptedSession, Step
from tests.kernel.schedule.scene import ScheduleScene, schedule_scene
from tests.kernel.store.files.data_directory import QuickDisk

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.schedule.watcher import SCAN_SECONDS
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.jobs import is_ordered
from ollim_bot.kernel.values.occurrences import OccurrenceState, SkipReason
from ollim_bot.kernel.values.ports import Prompt, SessionSpec, Toolset
from ollim_bot.kernel.values.run_history import History, RunStory
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips, key_of, occurrence_at
from ollim_bot.kernel.values.simulation import Assumptions, Fire, Ping, Rehearsal, rehearse

# The clocks of New York go forward in this night, at 7:00.
NIGHT = datetime(2026, 3, 8, 5, 0, tzinfo=UTC)
QUIET = "05:30-06:40"
MORNING = datetime(2026, 3, 8, 7, 59, tzinfo=UTC)
RUN = timedelta(seconds=90)
PATIENCE = timedelta(seconds=60)
# After a longer step the schedule takes it that the machine was asleep.
LONGEST_STEP = timedelta(seconds=60)
STATES = frozenset(OccurrenceState)


class SlowSession(ScriptedSession):
    def __init__(self, engine: SlowPingingEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(engine, spec, tools)
        self._thinking = engine.thinking

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        await self._thinking()
        async for event in super()._run(prompt):
            yield event


class SlowPingingEngine(ScriptedEngine):
    """Every run takes `RUN`, as the rehearsal assumes, and then pings and reports."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.begun = 0
        self._time = clock

    async def thinking(self) -> None:
        self.begun += 1
        await self._time.sleep(RUN.total_seconds())

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        session = SlowSession(self, spec, tools)
        self.opened.append(session)
        yield session

    def next_script(self) -> Sequence[Step]:
        return (
            CallsTool("mcp__discord__ping_user", {"message": "Look."}),
            CallsTool("mcp__discord__report_updates", {"message": "I have looked."}),
        )


class OccurrenceEnd(NamedTuple):
    """How one occurrence ended. It has no job id: the order of jobs that are alike is not fixed."""

    alike: tuple[str, str, bool]
    state: OccurrenceState | None
    reason: object
    starts: datetime | None
    ping: Ping


def write_jobs(at: ScheduleScene) -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    at.routine("mail", "5-59/20 * * * *", background="true")
    at.routine("every-minute", "10-25 5 * * *", background="true", **{"allow-ping": "false"})
    for name in ("a", "b", "c", "d"):
        at.routine(f"together-{name}", "25 7 * * *", background="true")
    at.routine("plan", "30 7 * * *")
    at.routine("review", "30 7 * * *")
    at.routine("new-york", "30 2 * * *", background="true", timezone="America/New_York")
    at.routine("missed-long-ago", "0 1 * * *", background="true")
    at.routine("missed-for-good", "0 4 * * *", background="true", late="skip")
    at.routine("missed-dose", "0,30 1 * * *", background="true", kind="dose", late="skip")
    at.routine("missed-just-now", "50 4 * * *", background="true", late="run")
    at.routine("unskilled", "15 6 * * *", background="true", skills="[cooking]")
    at.routine("paused", "* * * * *", background="true", enabled="false")
    at.routine("left-out", "30 6 * * *", background="true")
    at.remind("water", hour)
    at.remind("soon-after", 2 * hour + 25.5 * minute)
    at.remind("in-line", 2 * hour + 30 * minute + minute / 3, background="false")
    at.remind("chained", 2 * hour + 50 * minute, **{"max-chain": "2"})
    at.remind("overdue", -7 * hour)


def prepare(at: ScheduleScene) -> Rehearsal:
    """The bot was off for six hours; two runs may run at once; one occurrence is to be skipped."""
    write_jobs(at)
    watched_until = NIGHT - timedelta(hours=6)
    jobs: list[ScheduledJob] = [one.item for one in at.stores.routines.report().jobs]
    jobs += [one.item for one in at.stores.reminders.report().jobs]
    left_out = next(job for job in jobs if job.spec.id == "left-out")
    occurrence = occurrence_at(left_out, NIGHT + timedelta(hours=1, minutes=30))

    HeartbeatFile(at.paths).write(watched_until)
    skips = Skips().with_moment(occurrence, NIGHT)
    at.stores.state.run(lambda tx: tx.skips.put(skips))
    at.configure("bg_concurrency", 2)
    at.configure("quiet_hours", QUIET)
    circumstances = Assumptions(
        NIGHT,
        UTC,
        at.store.run(lambda tx: tx.budget.get()),
        at.stores.config.read(),
        watched_until,
        skills=frozenset(),
        is_skipped=skips.has,
        quiet=at.store.query(quiet_settings),
    )
    return rehearse(jobs, circumstances, 1, length=RUN)


def end_of(fire: Fire) -> datetime:
    if fire.starts is not None:
        return fire.starts + RUN
    is_withdrawn = is_ordered(fire.job) and not fire.job.spec.background
    return fire.due + PATIENCE if is_withdrawn else fire.at


def moments(fires: Sequence[Fire]) -> Iterator[datetime]:
    """The moments of the rehearsal, and more between them, so that no step is too long."""
    found = {moment for fire in fires for moment in (fire.at, fire.starts, end_of(fire)) if moment}
    found |= {max(fire.due, NIGHT) + PATIENCE for fire in fires if is_ordered(fire.job)}
    now = NIGHT
    yield now
    for moment in sorted(found | {MORNING}):
        while moment - now > LONGEST_STEP:
            now += LONGEST_STEP
            yield now
        if now < moment <= MORNING:
            now = moment
            yield now


async def agrees(at: ScheduleScene, engine: SlowPingingEngine, plan: Rehearsal) -> bool:
    """Wait until as many runs have begun and ended as predicted; False if that does not happen."""
    now = at.clock.now()
    begun = sum(1 for fire in plan.fires if fire.starts is not None and fire.starts <= now)
    ended = sum(1 for fire in plan.fires if end_of(fire) <= now) + plan.superseded
    with suppress(TimeoutError):
        await at.until(lambda: is_awake(at) and (engine.begun, ends(at)) == (begun, ended))
        return True
    return False


def is_awake(at: ScheduleScene) -> bool:
    age = at.scheduler.heartbeat_age
    return age is not None and age <= SCAN_SECONDS


def ends(at: ScheduleScene) -> int:
    return sum(OccurrenceState(row.state).is_end for row in at.rows if row.state in STATES)


def predicted(fires: Sequence[Fire]) -> Iterator[OccurrenceEnd]:
    for fire in fires:
        occurrence = occurrence_at(fire.job, fire.due)
        alike = (occurrence.kind.value, occurrence.key, fire.job.spec.background)
        yield OccurrenceEnd(alike, fire.state, fire.reason, fire.starts, fire.ping)


def observed(at: ScheduleScene, jobs: Mapping[JobKey, ScheduledJob]) -> Iterator[OccurrenceEnd]:
    for occurrence, story in History.of(at.rows).stories.items():
        job = jobs[JobKey(occurrence.kind, occurrence.job_id)]
        alike = (occurrence.kind.value, occurrence.key, job.spec.background)
        begun = [row.ts for state, row in story.steps if state is OccurrenceState.RUNNING]
        reason = story.end.facts.get("reason") if story.end else None
        starts = begun[0].astimezone(UTC) if begun else None
        yield OccurrenceEnd(alike, story.state, reason, starts, ping_of(job, story))


def ping_of(job: ScheduledJob, story: RunStory) -> Ping:
    facts = story.end.facts if story.end else {}
    if story.delivery is not None:
        return Ping.ORDERED
    if not job.spec.background or not (facts.get("pings") or facts.get("refused_pings")):
        return Ping.NONE
    if facts.get("pings"):
        return Ping.HELD if story.held else Ping.SENT
    return Ping.REFUSED if "budget is used up" in str(facts["refused_pings"]) else Ping.NONE


async def test_the_real_schedule_does_what_the_rehearsal_has_said(tmp_path: Path) -> None:
    clock = ManualClock(NIGHT)
    clock.jump(-A_FRACTION.total_seconds())
    engine = SlowPingingEngine(clock)
    async with schedule_scene(
        engine, tmp_path, clock=clock, runs=False, disk=QuickDisk()
    ) as before:
        plan = prepare(before)
    fires = [fire for fire in plan.fires if fire.at <= MORNING]
    async with schedule_scene(engine, tmp_path, clock=clock, disk=QuickDisk()) as at:
        for moment in moments(fires):
            await clock.advance(max(0.0, (moment - clock.now()).total_seconds()))
            if not await agrees(at, engine, plan):
                break
        jobs = {key_of(fire.job): fire.job for fire in plan.fires}
        real = Counter(observed(at, jobs))
    superseded = [story for story in real.elements() if story.reason == SkipReason.SUPERSEDED]
    real.subtract(superseded)
    assert +real == Counter(predicted(fires))
    assert {Ping.SENT, Ping.HELD, Ping.ORDERED} <= {fire.ping for fire in fires}
    assert len(superseded) == plan.superseded > 0
    assert clock.now() == MORNING
