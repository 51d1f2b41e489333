"""What happens in a year, and what must become of each moment at which a job is due in it.

The moments come from a walk through all minutes of the year; none of it asks the code under test.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random
from zoneinfo import ZoneInfo

from tests.domain import schedule_oracle
from tests.domain.cron_lines import Line
from tests.domain.cron_oracle import MINUTE, Pattern
from tests.domain.test_schedule_year import any_line, moments_a_year, once

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobSpec, Late, Reminder, Routine

START = datetime(2025, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)

HOME = ZoneInfo("America/New_York")
# When the clocks change forwards there, back by half an hour elsewhere, and back there.
NIGHTS = [
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
# Often, but on the days of those nights only.
OFTEN = [
    Line(
        "30 * 2,6,9 * *",
        replace(_EVERY_MINUTE, minutes=frozenset([30]), days=frozenset([2, 6, 9])),
    ),
    Line("* 1 2 * *", replace(_EVERY_MINUTE, hours=frozenset([1]), days=frozenset([2]))),
]
MOST_MOMENTS = 60


class Step(StrEnum):
    WATCH = "watch"
    SLEEP = "sleep"
    OFF = "off"
    SET_BACK = "set back"
    EDIT = "edit"


GAPS = (Step.SLEEP, Step.OFF)
BREAKS = (*GAPS, *GAPS, Step.SET_BACK, Step.EDIT)

# What happens, and what the clock shows after it.
Plan = list[tuple[Step, datetime]]


@dataclass(frozen=True)
class Size:
    """The zones, the jobs of each, and how long the machine is away and is watched at the most."""

    zones: Sequence[ZoneInfo]
    routines: int
    reminders: int
    longest_gap: timedelta
    longest_watch: timedelta


@dataclass(frozen=True)
class Version:
    """What a job is from one step of the plan up to another, and when it is due by the clock."""

    job: Routine | Reminder
    moments: Sequence[datetime]
    since: int = 0
    until: int | None = None

    def between(self, start: datetime, end: datetime) -> Sequence[datetime]:
        first, last = (bisect_right(self.moments, at) for at in (start, end))
        return self.moments[first:last]


@dataclass(frozen=True)
class End:
    """How an occurrence must end. `claimed_at` is known where the clock was watched."""

    state: str
    reason: str | None = None
    claimed_at: datetime | None = None


def a_plan(luck: Random, size: Size) -> Plan:
    """Watching, and what comes between; but in the nights the machine only nods off once."""
    plan: Plan = []
    at = START
    for night in (*NIGHTS, END):
        evening = night - 6 * HOUR
        while at < evening:
            at = min(at + _seconds_to_watch(luck, size, plan) * SECOND, evening)
            plan.append((Step.WATCH, at))
            step = luck.choice(BREAKS)
            if step in GAPS:
                gap = luck.choice([luck.randint(1, 120), luck.randint(120, 90_000), 10**7, 10**7])
                at += min(gap * SECOND, size.longest_gap, evening - at)
            elif step is Step.SET_BACK:
                at -= luck.randint(2, 10_000) * SECOND
            plan.append((step, at))
        nods = night - HOUR / 2 - 10 * SECOND
        at = min(night + 4 * HOUR, END)
        plan += [(Step.WATCH, nods), (Step.SLEEP, nods + 80 * SECOND), (Step.WATCH, at)]
    return plan


def _seconds_to_watch(luck: Random, size: Size, plan: Plan) -> int:
    """Sometimes too few for all that is late; but an edit is noticed before the next break."""
    shortest = 1200 if plan and plan[-1][0] is Step.EDIT else 20
    longest = size.longest_watch // SECOND
    return luck.choice([luck.randint(shortest, 1500), luck.randint(1500, longest)])


def some_jobs(luck: Random, size: Size, plan: Plan) -> list[Version]:
    return [version for zone in size.zones for version in _jobs_of(zone, luck, size, plan)]


def _jobs_of(zone: ZoneInfo, luck: Random, size: Size, plan: Plan) -> Iterator[Version]:
    lines = [*OFTEN, *(_a_line(luck) for _ in range(size.routines))]
    minutes = (luck.randrange(363 * 1440) for _ in range(size.reminders))
    walls = [datetime(2025, 1, 2) + minute * MINUTE for minute in minutes]
    patterns = [*(line.pattern for line in lines), *map(once, walls)]
    due = schedule_oracle.moments(patterns, zone, START, END + DAY)
    city = zone.key.rpartition("/")[2].lower().replace("_", "")
    specs = [_spec(f"{city}{number}", zone, luck) for number in range(len(patterns))]
    crons = [Cron.parse(line.text) for line in lines]
    edits = [number for number, (step, _) in enumerate(plan) if step is Step.EDIT]
    for number, (spec, cron) in enumerate(zip(specs, crons, strict=False)):
        first = Version(Routine(spec, cron), due[number])
        if not edits or luck.random() < 0.7:
            yield first
            continue
        other, edit = luck.randrange(len(lines)), luck.choice(edits)
        yield replace(first, until=edit)
        yield Version(Routine(spec, crons[other]), due[other], edit)
    for number, wall in enumerate(walls, len(lines)):
        written = _written_by(plan, due[number][0])
        yield Version(Reminder(specs[number], wall), due[number], written)


def _a_line(luck: Random) -> Line:
    while True:
        line = any_line(luck)
        if 0 < moments_a_year(line) <= MOST_MOMENTS:
            return line


def _spec(name: str, zone: ZoneInfo, luck: Random) -> JobSpec:
    return JobSpec(
        id=name,
        message="Do it.",
        timezone=None if zone is HOME else zone,
        background=luck.random() < 0.5,
        late=luck.choice([None, None, None, *Late]),
    )


def _written_by(plan: Plan, due: datetime) -> int:
    """The first watch that begins less than a month before."""
    starts = zip([START, *(at for _, at in plan)], enumerate(plan), strict=False)
    return next(
        number
        for start, (number, (step, _)) in starts
        if step is Step.WATCH and start > due - 30 * DAY
    )


def ends_by(plan: Plan, versions: Sequence[Version]) -> dict[str, End]:
    """Of every occurrence of the year, by its id. The first time that its moment comes counts."""
    ends: dict[str, End] = {}
    spans = [*zip(plan, [START, *(at for _, at in plan)], strict=False)]
    for version in versions:
        for (step, end), start in spans[version.since : version.until]:
            moments = version.between(start, end)
            if moments and step in (Step.WATCH, *GAPS):
                named = [f"{_name(version.job)}:{at:%Y-%m-%dT%H:%M:%SZ}" for at in moments]
                found = _ends(version, step, moments, end, end - start)
                for name, how in zip(named, found, strict=True):
                    ends.setdefault(name, how)
    return ends


def _name(job: Routine | Reminder) -> str:
    return f"{'routine' if isinstance(job, Routine) else 'reminder'}:{job.spec.id}"


def _ends(
    version: Version, step: Step, moments: Sequence[datetime], now: datetime, away: timedelta
) -> Iterator[End]:
    if step is Step.WATCH:
        yield from (End("done", claimed_at=moment) for moment in moments)
    elif step is Step.SLEEP and away <= 90 * SECOND:
        yield from (End("done") for _ in moments)
    else:
        yield from (End("skipped", "superseded") for _ in moments[:-1])
        yield End("done" if _is_worth_it(version, moments[-1], now) else "missed")


def _is_worth_it(version: Version, moment: datetime, now: datetime) -> bool:
    late = version.job.spec.late
    if now - moment <= 60 * SECOND or late is Late.RUN:
        return True
    if late is not None:
        return False
    following = next(iter(version.between(moment, END + DAY)), END + DAY)
    return isinstance(version.job, Reminder) or now - moment < min(
        (following - moment) / 2, 2 * HOUR
    )
