"""What happens in a simulated year, and how each occurrence of a job in it must end.

The due moments come from a walk through all minutes of the year, without the code under test.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random
from zoneinfo import ZoneInfo

from tests.kernel.values import cron_oracle
from tests.kernel.values.cron_lines import Line, any_line, moments_a_year, once
from tests.kernel.values.cron_oracle import MINUTE, Pattern

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Late, Reminder, Routine

START = datetime(2025, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)

HOME = ZoneInfo("America/New_York")
# The clocks go forward in `HOME`, back by half an hour in Lord Howe, and back in `HOME`.
CLOCK_CHANGES = [
    datetime(2025, 3, 9, 7, tzinfo=UTC),
    datetime(2025, 4, 5, 15, tzinfo=UTC),
    datetime(2025, 11, 2, 6, tzinfo=UTC),
]

_EVERY_MINUTE = Pattern(
    minutes=frozenset(range(60)),
    hours=frozenset(range(24)),
    days=frozenset(range(1, 32)),
    months=frozenset(range(1, 13)),
    weekdays=frozenset(range(7)),
    either=False,
)
# Due often, but only on the days of the clock changes.
FREQUENT_LINES = [
    Line(
        "30 * 2,6,9 * *", replace(_EVERY_MINUTE, minutes=frozenset([30]), days=frozenset([2, 6, 9]))
    ),
    Line("* 1 2 * *", replace(_EVERY_MINUTE, hours=frozenset([1]), days=frozenset([2]))),
]
MOST_MOMENTS_A_YEAR = 60


class PlanStep(StrEnum):
    WATCH = "watch"
    SLEEP = "sleep"
    OFF = "off"
    SET_BACK = "set back"
    EDIT = "edit"


GAPS = (PlanStep.SLEEP, PlanStep.OFF)
BREAKS = (*GAPS, *GAPS, PlanStep.SET_BACK, PlanStep.EDIT)

# Each step, with the time that the clock shows after it.
Plan = list[tuple[PlanStep, datetime]]


@dataclass(frozen=True)
class YearSize:
    """How many jobs in which zones, and the longest gap and the longest stretch without one."""

    zones: Sequence[ZoneInfo]
    routines: int
    reminders: int
    longest_gap: timedelta
    longest_watch: timedelta


@dataclass(frozen=True)
class JobVersion:
    """A job as it is from step `since` of the plan up to step `until`, and when it is due."""

    job: Routine | Reminder
    moments: Sequence[datetime]
    since: int = 0
    until: int | None = None

    def between(self, start: datetime, end: datetime) -> Sequence[datetime]:
        first, last = (bisect_right(self.moments, at) for at in (start, end))
        return self.moments[first:last]


@dataclass(frozen=True)
class ExpectedEnd:
    """How an occurrence must end. `claimed_at` is set if the machine was on at its moment."""

    state: str
    reason: str | None = None
    claimed_at: datetime | None = None


def random_plan(rng: Random, size: YearSize) -> Plan:
    """`WATCH` in turn with breaks. Near a clock change, the only break is one short sleep."""
    plan: Plan = []
    at = START
    for change in (*CLOCK_CHANGES, END):
        evening = change - 6 * HOUR
        while at < evening:
            at = min(at + _seconds_to_watch(rng, size, plan) * SECOND, evening)
            plan.append((PlanStep.WATCH, at))
            step = rng.choice(BREAKS)
            if step in GAPS:
                gap = rng.choice([rng.randint(1, 120), rng.randint(120, 90_000), 10**7, 10**7])
                at += min(gap * SECOND, size.longest_gap, evening - at)
            elif step is PlanStep.SET_BACK:
                at -= rng.randint(2, 10_000) * SECOND
            plan.append((step, at))
        sleeps = change - HOUR / 2 - 10 * SECOND
        at = min(change + 4 * HOUR, END)
        plan += [
            (PlanStep.WATCH, sleeps),
            (PlanStep.SLEEP, sleeps + 80 * SECOND),
            (PlanStep.WATCH, at),
        ]
    return plan


def _seconds_to_watch(rng: Random, size: YearSize, plan: Plan) -> int:
    """Sometimes too few for all late jobs, but enough to notice an edit before the next break."""
    shortest = 1200 if plan and plan[-1][0] is PlanStep.EDIT else 20
    longest = size.longest_watch // SECOND
    return rng.choice([rng.randint(shortest, 1500), rng.randint(1500, longest)])


def random_jobs(rng: Random, size: YearSize, plan: Plan) -> list[JobVersion]:
    return [version for zone in size.zones for version in _jobs_of(zone, rng, size, plan)]


def _jobs_of(zone: ZoneInfo, rng: Random, size: YearSize, plan: Plan) -> Iterator[JobVersion]:
    lines = [*FREQUENT_LINES, *(_random_line(rng) for _ in range(size.routines))]
    minutes = (rng.randrange(363 * 1440) for _ in range(size.reminders))
    walls = [datetime(2025, 1, 2) + minute * MINUTE for minute in minutes]
    patterns = [*(line.pattern for line in lines), *map(once, walls)]
    due = cron_oracle.moments(patterns, zone, START, END + DAY)
    city = zone.key.rpartition("/")[2].lower().replace("_", "")
    specs = [_spec(f"{city}{number}", zone, rng) for number in range(len(patterns))]
    crons = [Cron.parse(line.text) for line in lines]
    edits = [number for number, (step, _) in enumerate(plan) if step is PlanStep.EDIT]
    for number, (spec, cron) in enumerate(zip(specs, crons, strict=False)):
        first = JobVersion(Routine(spec, cron), due[number])
        if not edits or rng.random() < 0.7:
            yield first
            continue
        other, edit = rng.randrange(len(lines)), rng.choice(edits)
        yield replace(first, until=edit)
        yield JobVersion(Routine(spec, crons[other]), due[other], edit)
    for number, wall in enumerate(walls, len(lines)):
        written = _written_by(plan, due[number][0])
        yield JobVersion(Reminder(specs[number], wall), due[number], written)


def _random_line(rng: Random) -> Line:
    while True:
        line = any_line(rng)
        if 0 < moments_a_year(line) <= MOST_MOMENTS_A_YEAR:
            return line


def _spec(name: str, zone: ZoneInfo, rng: Random) -> JobSpec:
    return JobSpec(
        id=name,
        message="Do it.",
        timezone=None if zone is HOME else zone,
        background=rng.random() < 0.5,
        late=rng.choice([None, None, None, *Late]),
    )


def _written_by(plan: Plan, due: datetime) -> int:
    """The number of the first `WATCH` that begins less than a month before `due`."""
    starts = zip([START, *(at for _, at in plan)], enumerate(plan), strict=False)
    return next(
        number
        for start, (number, (step, _)) in starts
        if step is PlanStep.WATCH and start > due - 30 * DAY
    )


def expected_ends(plan: Plan, versions: Sequence[JobVersion]) -> dict[str, ExpectedEnd]:
    """By the id of the occurrence. If the clock shows its moment twice, the first time counts."""
    ends: dict[str, ExpectedEnd] = {}
    spans = [*zip(plan, [START, *(at for _, at in plan)], strict=False)]
    for version in versions:
        for (step, end), start in spans[version.since : version.until]:
            moments = version.between(start, end)
            if moments and step in (PlanStep.WATCH, *GAPS):
                named = [f"{_name(version.job)}:{at:%Y-%m-%dT%H:%M:%SZ}" for at in moments]
                found = _expected_ends(version, step, moments, end, end - start)
                for name, how in zip(named, found, strict=True):
                    ends.setdefault(name, how)
    return ends


def _name(job: Routine | Reminder) -> str:
    return f"{'routine' if isinstance(job, Routine) else 'reminder'}:{job.spec.id}"


def _expected_ends(
    version: JobVersion, step: PlanStep, moments: Sequence[datetime], now: datetime, away: timedelta
) -> Iterator[ExpectedEnd]:
    if step is PlanStep.WATCH:
        yield from (ExpectedEnd("done", claimed_at=moment) for moment in moments)
    elif step is PlanStep.SLEEP and away <= 90 * SECOND:
        yield from (ExpectedEnd("done") for _ in moments)
    else:
        yield from (ExpectedEnd("skipped", "superseded") for _ in moments[:-1])
        yield ExpectedEnd("done" if _still_runs(version, moments[-1], now) else "missed")


def _still_runs(version: JobVersion, moment: datetime, now: datetime) -> bool:
    late = version.job.spec.late
    if now - moment <= 60 * SECOND or late is Late.RUN or version.job.must:
        return True
    if late is not None:
        return False
    following = next(iter(version.between(moment, END + DAY)), END + DAY)
    return isinstance(version.job, Reminder) or now - moment < min(
        (following - moment) / 2, 2 * HOUR
    )
