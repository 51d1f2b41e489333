"""When jobs are due: to the second, never early, also on the nights when the clocks change."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import ClassVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.kernel.values import cron_oracle
from tests.kernel.values.cron_lines import NIGHTS, Line, lines
from tests.kernel.values.strategies import instants, reminders, zones

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.moments import midnight_after
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import Job, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.presence import DailyRecord, is_due
from ollim_bot.kernel.values.schedule import (
    Agenda,
    NextMoments,
    ScheduledJob,
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


def test_a_reminder_with_a_part_of_a_second_waits_for_it() -> None:
    half = NOON + timedelta(milliseconds=500)
    assert next_due(reminder(half), NOON, UTC) == half
    agenda: Agenda[str] = Agenda()
    agenda.put("a", half)
    assert [*agenda.due(half - HAIR)] == []
    assert [*agenda.due(half)] == [("a", half)]


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
    assert [*agenda.due(first_time)] == [("early", first_time.astimezone(UTC))]
    assert [*agenda.due(second_time)] == [("late", second_time.astimezone(UTC))]


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
    due = cron_oracle.due(line.pattern, zone, first, first + 32 * HOUR + MINUTE)
    job, wanted = routine(line.text), [moment for moment in due if start < moment <= end]
    assert list(moments_between(job, start, end, zone)) == wanted
    if wanted:
        assert next_due(job, start, zone) == wanted[0]
        assert last_due(job, end, zone) == wanted[-1]


@settings(deadline=None, max_examples=30)
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


MORNING = datetime(2026, 10, 24, 9, 30, tzinfo=BERLIN)

HOURLY = Routine(JobSpec(id="h", message="x"), Cron.parse("0 * * * *"))

DAILY = Routine(JobSpec(id="d", message="x"), Cron.parse("30 2,14 * * *"))

JOBS: list[ScheduledJob] = [
    HOURLY,
    DAILY,
    Routine(JobSpec(id="w", message="x"), Cron.parse("0 8 * * 1")),
    Routine(JobSpec(id="z", message="x", timezone=ZoneInfo("Asia/Tokyo")), Cron.parse("0 1 * * *")),
    Routine(JobSpec(id="off", message="x", enabled=False), Cron.parse("* * * * *")),
    Reminder(JobSpec(id="r", message="x"), datetime(2026, 10, 24, 14)),
    Reminder(JobSpec(id="past", message="x"), datetime(2026, 10, 1, 9)),
]


def test_kept_moments_are_those_of_a_fresh_look() -> None:
    kept, wrong = NextMoments(), []
    other = replace(HOURLY, rhythm=Cron.parse("15 * * * *"))
    changed: list[ScheduledJob] = [other, *JOBS[1:5]]
    night = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    looks = [(MORNING + timedelta(minutes=7 * n), JOBS) for n in range(500)]
    looks += [(MORNING, JOBS), (MORNING, changed), (MORNING, []), (MORNING, JOBS)]
    # Here the day ends in both zones at once, and half past two is not at the same moment.
    looks += [(night.astimezone(zone), JOBS) for zone in (BERLIN, ZoneInfo("Africa/Lagos"))]
    for now, jobs in looks:
        end = midnight_after(now)
        found = kept.before(end, jobs, now)
        if found != NextMoments().before(end, jobs, now):
            wrong.append((now, found))
    assert not wrong


class AskedRoutine(Routine):
    asked: ClassVar[list[str]] = []

    def next_after(self, moment: datetime, default_zone: tzinfo) -> datetime | None:
        self.asked.append(self.spec.id)
        return self.rhythm.next(moment, self.spec.zone(default_zone))


def test_a_second_look_computes_only_what_is_over_or_changed() -> None:
    kept, end = NextMoments(), midnight_after(MORNING)
    routines = (job for job in JOBS if isinstance(job, Routine))
    jobs = [AskedRoutine(job.spec, job.rhythm) for job in routines if job.spec.enabled]

    def computed(jobs: list[AskedRoutine], now: datetime) -> list[str]:
        AskedRoutine.asked.clear()
        kept.before(end, jobs, now)
        return [*dict.fromkeys(AskedRoutine.asked)]

    assert computed(jobs, MORNING) == ["h", "d", "w", "z"]
    assert computed(jobs, MORNING + timedelta(minutes=29)) == []
    assert computed(jobs, MORNING + timedelta(minutes=30)) == ["h"]
    other = replace(jobs[1], rhythm=Cron.parse("0 20 * * *"))
    assert computed([other, *jobs[2:]], MORNING + timedelta(minutes=31)) == ["d"]


class AgendaAgainstAList(RuleBasedStateMachine):
    """Compares the agenda with a plain dictionary that is sorted for each question."""

    def __init__(self) -> None:
        super().__init__()
        self.agenda: Agenda[int] = Agenda()
        self.model: dict[int, datetime] = {}

    keys, minutes = st.integers(0, 6), st.integers(0, 20)

    @rule(key=keys, minute=minutes, zone=st.sampled_from([UTC, BERLIN]))
    def put(self, key: int, minute: int, zone: ZoneInfo) -> None:
        self.model[key] = NOON + minute * MINUTE
        self.agenda.put(key, self.model[key].astimezone(zone))

    @rule(key=keys)
    def remove(self, key: int) -> None:
        self.model.pop(key, None)
        self.agenda.remove(key)

    @rule(key=keys, minute=minutes)
    def put_to_and_fro(self, key: int, minute: int) -> None:
        for turn in range(40):
            self.put(key, minute + turn % 2, UTC)

    @rule(minute=minutes)
    def take(self, minute: int) -> None:
        now = NOON + minute * MINUTE
        due = sorted((at, key) for key, at in self.model.items() if at <= now)
        assert [*self.agenda.due(now)] == [(key, at) for at, key in due]
        for _, key in due:
            del self.model[key]

    @invariant()
    def agrees(self) -> None:
        assert self.agenda.next_at == min(self.model.values(), default=None)
        assert len(self.agenda) == len(self.model)
        assert [key for key in range(7) if key in self.agenda] == sorted(self.model)


TestAgendaAgainstAList = AgendaAgainstAList.TestCase

TestAgendaAgainstAList.settings = settings(deadline=None, max_examples=30)


def put_again_and_again(agenda: Agenda[int]) -> None:
    for number in range(5_000):
        agenda.put(0, NOON + number * MINUTE)


def put_and_remove(agenda: Agenda[int]) -> None:
    for number in range(5_000):
        agenda.put(number, NOON + number * MINUTE)
    for number in range(5_000):
        agenda.remove(number)


@pytest.mark.parametrize("changes", [put_again_and_again, put_and_remove])
def test_what_does_not_hold_any_more_takes_no_room(changes: Callable[[Agenda[int]], None]) -> None:
    agenda: Agenda[int] = Agenda()
    tracemalloc.start()
    try:
        changes(agenda)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 200_000


SPRING, AUTUMN = date(2026, 3, 29), date(2026, 10, 25)


def begun_on(day: date, hour: int, *, only_in_hour: bool) -> list[datetime]:
    """The moments at which a task begins when the clock is read each ten minutes of three days."""
    begun: date | None = None
    found = []
    start = datetime.combine(day - timedelta(days=1), datetime.min.time(), BERLIN).astimezone(UTC)
    for minute in range(0, 3 * 24 * 60, 10):
        now = (start + timedelta(minutes=minute)).astimezone(BERLIN)
        if is_due(now, hour, begun, only_in_hour=only_in_hour):
            begun = now.date()
            found.append(now)
    return found


@pytest.mark.parametrize("day", [SPRING, AUTUMN, date(2026, 7, 1)])
@pytest.mark.parametrize("hour", [0, 1, 2, 3, 6, 23])
def test_it_begins_once_on_each_day(day: date, hour: int) -> None:
    for only_in_hour in (True, False):
        found = begun_on(day, hour, only_in_hour=only_in_hour)
        days = [moment.date() for moment in found]
        # The last of the three days may end before its hour: a day has 23 to 25 hours.
        assert days[:2] == [day - timedelta(days=1), day]
        assert len(days) == len(set(days))
        expected = 3 if (day, hour) == (SPRING, 2) else hour
        assert found[1].hour == expected


def test_a_missed_hour_is_caught_up_on_the_same_day_if_the_task_allows_it() -> None:
    late = datetime(2026, 11, 16, 17, 30, tzinfo=BERLIN)
    yesterday = date(2026, 11, 15)
    assert is_due(late, 6, yesterday, only_in_hour=False)
    assert not is_due(late, 6, yesterday, only_in_hour=True)
    assert not is_due(late, 18, yesterday, only_in_hour=False)
    assert not is_due(late, 6, late.date(), only_in_hour=False)


@given(st.datetimes(timezones=st.just(BERLIN)), st.integers(0, 23))
def test_it_is_never_due_twice_on_one_day(now: datetime, hour: int) -> None:
    record = DailyRecord().with_task("backup", now.date())
    assert not is_due(now, hour, record.begun["backup"], only_in_hour=False)
