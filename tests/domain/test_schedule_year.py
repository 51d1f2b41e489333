"""A year of routines and reminders: each is due exactly when the oracle says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from tests.domain import cron_oracle
from tests.domain.cron_lines import MONTHS as MONTH_NAMES
from tests.domain.cron_lines import WEEKDAYS as WEEKDAY_NAMES
from tests.domain.cron_lines import CronField, Line
from tests.domain.cron_oracle import MINUTE, Pattern

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.jobs import JobSpec, Reminder, Routine
from ollim_bot.domain.schedule import Agenda, ScheduledJob, key_of, next_due

START = datetime(2025, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, tzinfo=UTC)
ELSEWHERE = ZoneInfo("Asia/Kolkata")
LINES = 40
WALLS = 300
MOST_MOMENTS = 150

HOURS, DAYS = frozenset(range(24)), frozenset(range(1, 32))
MONTHS, WEEKDAYS = frozenset(range(1, 13)), frozenset(range(7))

# The nights in which the clocks go forward and back.
ZONES = {
    "America/New_York": (datetime(2025, 3, 9), datetime(2025, 11, 2)),
    "Europe/Berlin": (datetime(2025, 3, 30), datetime(2025, 10, 26)),
    "Australia/Lord_Howe": (datetime(2025, 10, 5), datetime(2025, 4, 6)),
    "America/Santiago": (datetime(2025, 9, 7), datetime(2025, 4, 5, 22)),
}


def field(rng: Random, low: int, high: int, top: int, names: Sequence[str] = ()) -> CronField:
    """Values up to `high` in a field that goes up to `top`."""
    first, last = sorted(rng.choices(range(low, high + 1), k=2))
    step = rng.randint(2, 7)
    name = names[first - low] if names else str(first)
    return rng.choice(
        [
            CronField(name, frozenset([first])),
            CronField(f"{first},{last}", frozenset([first, last])),
            CronField(f"{name}-{last}", frozenset(range(first, last + 1))),
            CronField(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
            CronField(f"*/{step}", frozenset(range(low, top + 1, step))),
        ]
    )


def any_line(rng: Random) -> Line:
    minute = field(rng, 0, 59, 59)
    hour = rng.choice([CronField("*", HOURS), field(rng, 0, 23, 23), field(rng, 0, 4, 23)])
    day = rng.choice([CronField("*", DAYS), field(rng, 1, 31, 31)])
    month = rng.choice([CronField("*", MONTHS), field(rng, 1, 12, 12, MONTH_NAMES)])
    weekday = rng.choice([CronField("*", WEEKDAYS), field(rng, 0, 6, 6, WEEKDAY_NAMES)])
    pattern = Pattern(
        minute.values,
        hour.values,
        day.values,
        month.values,
        weekday.values,
        either=not (day.text.startswith("*") or weekday.text.startswith("*")),
    )
    return Line(" ".join(each.text for each in (minute, hour, day, month, weekday)), pattern)


def moments_a_year(line: Line) -> int:
    time = timedelta(hours=min(line.pattern.hours), minutes=min(line.pattern.minutes))
    days = (datetime(2025, 1, 1) + timedelta(days=number) + time for number in range(365))
    times_a_day = len(line.pattern.hours) * len(line.pattern.minutes)
    return times_a_day * sum(map(line.pattern.matches, days))


def some_lines(rng: Random, nights: Sequence[datetime]) -> list[Line]:
    """One line that is due every hour in the months of `nights`, and random lines due rarely."""
    months = sorted({night.month for night in nights})
    half_past = Pattern(frozenset([30]), HOURS, DAYS, frozenset(months), WEEKDAYS, either=False)
    lines = [Line(f"30 * * {','.join(map(str, months))} *", half_past)]
    while len(lines) < LINES:
        line = any_line(rng)
        if 0 < moments_a_year(line) <= MOST_MOMENTS:
            lines.append(line)
    return lines


def some_walls(rng: Random, nights: Sequence[datetime]) -> list[datetime]:
    """Random times of the year, and many times in both nights."""
    nightly = [night + n * MINUTE for night in nights for n in range(0, 240, 7)]
    others = range(WALLS - len(nightly))
    return nightly + [datetime(2025, 1, 3) + rng.randrange(360 * 1440) * MINUTE for _ in others]


def once(wall: datetime) -> Pattern:
    fields = (wall.minute, wall.hour, wall.day, wall.month)
    minute, hour, day, month = (frozenset([value]) for value in fields)
    return Pattern(minute, hour, day, month, WEEKDAYS, either=False)


def fired_in_a_year(jobs: Sequence[ScheduledJob], zone: ZoneInfo) -> dict[JobKey, list[datetime]]:
    known = {key_of(job): job for job in jobs}
    fired: dict[JobKey, list[datetime]] = {key: [] for key in known}
    agenda: Agenda[JobKey] = Agenda()

    def arm(key: JobKey, after: datetime) -> None:
        at = next_due(known[key], after, zone)
        if at is not None:
            agenda.put(key, at)

    for key in known:
        arm(key, START - datetime.resolution)
    while (at := agenda.next_at) is not None and at <= END:
        assert [*agenda.due(at - datetime.resolution)] == []
        for key, moment in agenda.due(at):
            fired[key].append(moment)
            arm(key, moment)
    return fired


@pytest.mark.parametrize("name", ZONES)
def test_a_year_agrees_with_a_watched_clock(name: str) -> None:
    """Half of the jobs have a zone of their own, the others that of the bot."""
    rng, zone = Random(name), ZoneInfo(name)
    lines, walls = some_lines(rng, ZONES[name]), some_walls(rng, ZONES[name])
    spec = [JobSpec(id=f"{n}", message="x", timezone=(zone, None)[n % 2]) for n in range(WALLS)]
    jobs: list[ScheduledJob] = [
        *(Routine(spec[n], Cron.parse(line.text)) for n, line in enumerate(lines)),
        *(Reminder(spec[n], wall) for n, wall in enumerate(walls)),
    ]
    patterns = [*(line.pattern for line in lines), *map(once, walls)]
    expected = cron_oracle.moments(patterns, zone, START, END)
    fired = fired_in_a_year([job for job in jobs if job.spec.timezone], ELSEWHERE)
    fired |= fired_in_a_year([job for job in jobs if not job.spec.timezone], zone)
    assert fired == dict(zip(map(key_of, jobs), expected, strict=True))
