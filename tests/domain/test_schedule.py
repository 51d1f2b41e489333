"""When a job is due: to the second, never early, also on the nights when the clocks change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.domain import cron_oracle
from tests.domain.cron_lines import NIGHTS, Line, lines
from tests.domain.strategies import instants, reminders, zones

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.hook_jobs import WebhookSpec
from ollim_bot.domain.job_kinds import JobKey, JobKind
from ollim_bot.domain.jobs import Job, JobSpec, Reminder, Routine
from ollim_bot.domain.schedule import (
    Agenda,
    count_between,
    key_of,
    last_due,
    moments_between,
    next_due,
)

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HAIR, MINUTE = datetime.resolution, timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def routine(cron: str, zone: ZoneInfo | None = None) -> Routine:
    return Routine(JobSpec(id="a", message="x", timezone=zone), Cron.parse(cron))


def reminder(run_at: datetime, zone: ZoneInfo | None = None) -> Reminder:
    return Reminder(JobSpec(id="a", message="x", timezone=zone), run_at)


def shown(moments: Iterable[datetime], zone: ZoneInfo) -> str:
    return " ".join(moment.astimezone(zone).strftime("%H:%M%z") for moment in moments)


@pytest.mark.parametrize(
    "job", [routine("0 12 * * *"), reminder(NOON), reminder(datetime(2026, 11, 16, 12))]
)
def test_a_job_is_due_at_its_moment_and_not_a_hair_before(job: Routine | Reminder) -> None:
    assert next_due(job, NOON - HAIR, UTC) == NOON
    assert next_due(job, NOON - DAY + HAIR, UTC) == NOON
    assert last_due(job, NOON, UTC) == NOON
    assert last_due(job, NOON - HAIR, UTC) in (None, NOON - DAY)
    assert list(moments_between(job, NOON - HAIR, NOON, UTC)) == [NOON]
    assert list(moments_between(job, NOON - MINUTE, NOON - HAIR, UTC)) == []
    assert list(moments_between(job, NOON, NOON + HOUR, UTC)) == []


def test_a_moment_that_has_come_does_not_come_again() -> None:
    assert next_due(routine("0 12 * * *"), NOON, UTC) == NOON + DAY
    assert next_due(reminder(NOON), NOON, UTC) is None


def test_a_reminder_with_a_part_of_a_second_waits_for_it() -> None:
    half = NOON + timedelta(milliseconds=500)
    assert next_due(reminder(half), NOON, UTC) == half
    agenda: Agenda[str] = Agenda()
    agenda.put("a", half)
    assert agenda.due(half - HAIR) == []
    assert agenda.due(half) == [("a", half)]


def test_a_disabled_job_is_never_due() -> None:
    for job in (routine("* * * * *"), reminder(NOON + HOUR)):
        off = replace(job, spec=replace(job.spec, enabled=False))
        assert next_due(off, NOON, UTC) is None
        assert last_due(off, NOON + DAY, UTC) is None
        assert list(moments_between(off, NOON, NOON + DAY, UTC)) == []
        assert count_between(off, NOON, NOON + DAY, UTC) == 0


@pytest.mark.parametrize("job", [routine("0 9 * * *"), reminder(datetime(2026, 11, 17, 9))])
def test_the_zone_of_the_job_counts_else_the_one_given(job: Routine | Reminder) -> None:
    own = replace(job, spec=replace(job.spec, timezone=NEW_YORK))
    start, end = NOON + 8 * HOUR, NOON + 29 * HOUR
    for each, zone, moment in ((own, NEW_YORK, "09:00-0500"), (job, BERLIN, "09:00+0100")):
        assert shown([next_due(each, start, BERLIN) or NOON], zone) == moment
        assert shown([last_due(each, end, BERLIN) or NOON], zone) == moment
        assert shown(moments_between(each, start, end, BERLIN), zone) == moment


@pytest.mark.parametrize(
    ("zone", "day", "wall", "expected"),
    [
        (NEW_YORK, datetime(2025, 3, 9), "2:30", "03:00-0400"),
        (NEW_YORK, datetime(2025, 11, 2), "1:30", "01:30-0400"),
        (BERLIN, datetime(2025, 3, 30), "2:30", "03:00+0200"),
        (BERLIN, datetime(2025, 10, 26), "2:30", "02:30+0200"),
        (LORD_HOWE, datetime(2025, 10, 5), "2:15", "02:30+1100"),
        (LORD_HOWE, datetime(2025, 4, 6), "1:45", "01:45+1100"),
    ],
)
def test_on_both_nights_a_time_is_due_once(
    zone: ZoneInfo, day: datetime, wall: str, expected: str
) -> None:
    """At the end of the gap, or the first time; a routine as well as a reminder."""
    hour, minute = map(int, wall.split(":"))
    start = day.replace(tzinfo=zone).astimezone(UTC) - HAIR
    for job in (routine(f"{minute} {hour} * * *"), reminder(day.replace(hour=hour, minute=minute))):
        assert shown(moments_between(job, start, start + 20 * HOUR, zone), zone) == expected
        first = next_due(job, start, zone)
        assert first is not None
        assert shown([first], zone) == expected
        following = next_due(job, first, zone)
        assert following is None or following - first > 20 * HOUR


@pytest.mark.parametrize(
    ("zone", "day", "count"),
    [
        (NEW_YORK, datetime(2025, 3, 9), 23 * 4),
        (NEW_YORK, datetime(2025, 11, 2), 25 * 4),
        (BERLIN, datetime(2025, 3, 30), 23 * 4),
        (BERLIN, datetime(2025, 10, 26), 25 * 4),
        (LORD_HOWE, datetime(2025, 10, 5), 23 * 4 + 2),
        (LORD_HOWE, datetime(2025, 4, 6), 24 * 4 + 2),
    ],
)
def test_what_runs_every_quarter_of_an_hour_goes_on_evenly_through_both_nights(
    zone: ZoneInfo, day: datetime, count: int
) -> None:
    job = routine("*/15 * * * *")
    start, end = (each.replace(tzinfo=zone).astimezone(UTC) - HAIR for each in (day, day + DAY))
    moments = list(moments_between(job, start, end, zone))
    assert moments == [start + HAIR + number * 15 * MINUTE for number in range(count)]


def test_in_the_hour_that_comes_twice_instants_are_compared_and_not_clocks() -> None:
    """1:15 for the second time is later than 1:30 for the first time."""
    job = reminder(datetime(2025, 11, 2, 1, 30))
    second_time = datetime(2025, 11, 2, 1, 15, tzinfo=NEW_YORK, fold=1)
    first_time = second_time.replace(minute=45, fold=0)
    due = datetime(2025, 11, 2, 5, 30, tzinfo=UTC)
    assert next_due(job, second_time, NEW_YORK) is None
    assert last_due(job, second_time, NEW_YORK) == due
    assert list(moments_between(job, first_time, second_time, NEW_YORK)) == []
    agenda: Agenda[str] = Agenda()
    agenda.put("late", second_time)
    agenda.put("early", first_time)
    assert agenda.next_at == first_time.astimezone(UTC)
    assert agenda.due(first_time) == [("early", first_time.astimezone(UTC))]
    assert agenda.due(second_time) == [("late", second_time.astimezone(UTC))]


def test_moments_are_found_only_when_asked_for_and_no_more_than_wanted() -> None:
    endless = moments_between(routine("* * * * *"), NOON, NOON + 10_000 * DAY, UTC)
    assert next(endless) == NOON + MINUTE
    few = moments_between(routine("* * * * *"), NOON, NOON + 10_000 * DAY, UTC, limit=3)
    assert list(few) == [NOON + number * MINUTE for number in (1, 2, 3)]


@settings(deadline=None)
@given(
    lines,
    st.sampled_from(NIGHTS),
    st.timedeltas(timedelta(0), 32 * HOUR),
    st.timedeltas(-HOUR, 32 * HOUR),
)
def test_start_is_left_out_and_end_is_not(
    line: Line, night: tuple[str, datetime], begin: timedelta, length: timedelta
) -> None:
    """Agrees with the oracle in any span of time, and its parts agree with the whole."""
    zone, first = ZoneInfo(night[0]), night[1].replace(tzinfo=UTC) - 20 * HOUR
    start = first + begin
    end = min(start + length, first + 32 * HOUR)
    due = cron_oracle.moments(line.pattern, zone, first, first + 32 * HOUR + MINUTE)
    job, wanted = routine(line.text), [moment for moment in due if start < moment <= end]
    assert list(moments_between(job, start, end, zone)) == wanted
    if wanted:
        assert next_due(job, start, zone) == wanted[0]
        assert last_due(job, end, zone) == wanted[-1]


@settings(deadline=None, max_examples=60)
@given(
    lines,
    st.sampled_from(NIGHTS),
    st.timedeltas(-5 * DAY, timedelta(0)),
    st.timedeltas(-HOUR, 5 * DAY),
)
def test_moments_are_counted_as_if_each_were_looked_at(
    line: Line, night: tuple[str, datetime], before: timedelta, after: timedelta
) -> None:
    zone, midnight = ZoneInfo(night[0]), night[1].replace(tzinfo=UTC)
    job, start, end = routine(line.text), midnight + before, midnight + after
    each = sum(1 for _ in moments_between(job, start, end, zone))
    assert count_between(job, start, end, zone) == each


def test_a_year_of_minutes_is_counted() -> None:
    year = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    for zone in (NEW_YORK, LORD_HOWE):
        assert count_between(routine("* * * * *"), *year, zone) == 365 * 24 * 60
    # On the night in spring 4 times are left out, and due at 3:00 with what is due then anyway.
    assert count_between(routine("*/15 2-3 * * *"), *year, NEW_YORK) == 365 * 8 - 4


@given(reminders, instants, zones)
def test_a_reminder_is_due_once(job: Reminder, after: datetime, zone: ZoneInfo) -> None:
    moment = next_due(job, after, zone)
    is_to_come = job.spec.enabled and job.due(zone).astimezone(UTC) > after
    assert (moment is not None) == is_to_come
    if moment is not None:
        assert moment == job.due(zone).astimezone(UTC)
        assert next_due(job, moment, zone) is None
        assert next_due(job, moment - HAIR, zone) == moment


def test_a_job_is_named_by_its_kind_and_its_id() -> None:
    spec = JobSpec(id="a", message="x")
    routine = Routine(spec, Cron.parse("@daily"))
    jobs: list[Job] = [routine, Reminder(spec, NOON), WebhookSpec(spec, {})]
    assert [key_of(job) for job in jobs] == [JobKey(kind, "a") for kind in JobKind]
