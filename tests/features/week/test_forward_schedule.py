"""The forward schedule: what just fired, and what comes within a window that grows if need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.values.cron_lines import texts

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of, moments_between
from ollim_bot.kernel.values.upcoming import (
    MOST_COUNTED,
    MOST_LINES,
    ScheduleEntry,
    Tag,
    UpcomingSchedule,
    build_upcoming_schedule,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HAIR, SECOND, MINUTE = datetime.resolution, timedelta(seconds=1), timedelta(minutes=1)
HOUR = timedelta(hours=1)


def spec(name: str = "a", message: str = "Do it.", description: str = "") -> JobSpec:
    return JobSpec(id=name, message=message, description=description, background=True)


def routine(cron: str, name: str = "a", description: str = "") -> Routine:
    return Routine(spec(name, description=description), Cron.parse(cron))


def reminder(at: datetime, name: str = "b") -> Reminder:
    return Reminder(spec(name), at)


def reminders(minutes: Sequence[float]) -> list[ScheduledJob]:
    """One reminder for each number of minutes from now."""
    return [reminder(NOON + each * MINUTE, f"r{n}") for n, each in enumerate(minutes)]


def upcoming(
    jobs: Sequence[ScheduledJob], current: Occurrence | None = None, now: datetime = NOON
) -> UpcomingSchedule:
    return build_upcoming_schedule(jobs, now, current, UTC, {})


def times(found: UpcomingSchedule) -> str:
    return " ".join(f"{entry.fire_time:%H:%M}" for entry in found.entries)


def tags(found: UpcomingSchedule) -> list[Tag | None]:
    return [entry.tag for entry in found.entries]


@pytest.mark.parametrize(
    ("minutes", "hours", "listed"),
    [
        pytest.param([], 12, 0, id="nothing"),
        pytest.param([60, 120, 180], 3, 3, id="enough-within-the-base"),
        pytest.param([60, 120, 180, 181], 3, 3, id="no-further-than-needed"),
        pytest.param([60, 120, 181], 4, 3, id="an-hour-more"),
        pytest.param([60, 120, 180 + 1 / 60], 4, 3, id="a-second-more"),
        pytest.param([60, 120, 190, 235, 240, 241], 4, 5, id="the-whole-of-that-hour"),
        pytest.param([400, 500, 600], 10, 3, id="far-away"),
        pytest.param([400, 500, 719], 12, 3, id="at-the-very-end"),
        pytest.param([400, 720], 12, 2, id="twelve-hours-are-within"),
        pytest.param([60, 120, 720 + 1 / 60], 12, 2, id="never-past-twelve-hours"),
        pytest.param([10, 20, 30, 40, 700], 3, 4, id="many-soon"),
        pytest.param([-5, 60, 70], 12, 3, id="what-just-fired-is-not-counted-as-to-come"),
        pytest.param([0, 60, 70, 400], 7, 4, id="now-is-not-to-come"),
    ],
)
def test_the_window_grows_until_three_are_to_come(
    minutes: list[float], hours: int, listed: int
) -> None:
    found = upcoming(reminders(minutes))
    assert (found.hours, len(found.entries), found.more) == (hours, listed, 0)


@pytest.mark.parametrize(
    ("back", "is_listed"),
    [(timedelta(0), True), (15 * MINUTE, True), (15 * MINUTE + SECOND, False), (HOUR, False)],
)
def test_what_fired_in_the_last_quarter_of_an_hour_is_still_listed(
    back: timedelta, is_listed: bool
) -> None:
    found = upcoming([reminder(NOON - back)])
    assert tags(found) == [Tag.JUST_FIRED] * is_listed
    assert found.last is None


def test_this_task_is_told_from_what_else_just_fired() -> None:
    jobs: list[ScheduledJob] = [routine("0 12 * * *", name) for name in "ab"]
    jobs.append(reminder(NOON + HOUR, "b"))
    found = upcoming(jobs, Occurrence.scheduled(JobKind.ROUTINE, "b", NOON), NOON + MINUTE)
    assert times(found) == "12:00 12:00 13:00"
    assert tags(found) == [Tag.JUST_FIRED, Tag.THIS_TASK, None]


def test_a_job_that_fires_often_has_one_line_for_the_past_and_one_for_each_time_to_come() -> None:
    found = upcoming([routine("*/5 * * * *")], now=NOON + MINUTE)
    assert times(found) == "12:05 12:10 12:15 12:20 12:25 12:30 12:35 12:40 12:45 12:50 12:55 13:00"
    found = upcoming([routine("*/5 12 * * *")], now=NOON + 31 * MINUTE)
    assert times(found) == "12:30 12:35 12:40 12:45 12:50 12:55"
    assert tags(found) == [Tag.JUST_FIRED, *[None] * 5]


def test_this_task_has_its_line_also_when_its_job_has_fired_again_since() -> None:
    current = Occurrence.scheduled(JobKind.ROUTINE, "a", NOON + 20 * MINUTE)
    found = upcoming([routine("*/5 12 * * *")], current, NOON + 31 * MINUTE)
    assert times(found) == "12:20 12:30 12:35 12:40 12:45 12:50 12:55"
    assert tags(found) == [Tag.THIS_TASK, Tag.JUST_FIRED, *[None] * 5]


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(Occurrence.scheduled(JobKind.ROUTINE, "a", NOON - HOUR), id="very-late"),
        pytest.param(Occurrence.scheduled(JobKind.ROUTINE, "gone", NOON), id="removed-meanwhile"),
        pytest.param(Occurrence(JobKind.WEBHOOK, "a", "delivery"), id="a-webhook"),
        None,
    ],
)
def test_where_this_task_is_not_among_them_no_line_says_so(current: Occurrence | None) -> None:
    assert Tag.THIS_TASK not in tags(upcoming([routine("0 * * * *")], current))


def test_a_run_by_hand_is_this_task_at_its_own_moment() -> None:
    current = Occurrence.by_hand(JobKind.ROUTINE, "a", NOON)
    found = upcoming([routine("0 13 * * *")], current, NOON + SECOND)
    assert (times(found), tags(found)) == ("12:00 13:00", [Tag.THIS_TASK, None])


def test_a_reminder_with_a_part_of_a_second_has_one_line() -> None:
    at = NOON + timedelta(milliseconds=500)
    current = Occurrence.scheduled(JobKind.REMINDER, "b", at)
    assert tags(upcoming([reminder(at)], current, NOON + SECOND)) == [Tag.THIS_TASK]


def test_foreground_and_disabled_jobs_are_left_out() -> None:
    job = reminder(NOON + HOUR)
    for other in (replace(job.spec, background=False), replace(job.spec, enabled=False)):
        assert upcoming([replace(job, spec=other)]) == UpcomingSchedule(NOON, 12)


def test_an_entry_says_what_and_where() -> None:
    jobs: list[ScheduledJob] = [
        Routine(spec("a", "Look.", "Morning briefing"), Cron.parse("0 14 * * *")),
        Routine(
            replace(spec("b", "Look at\nthe mail."), allow_ping=False), Cron.parse("5 14 * * *")
        ),
        Reminder(spec("a", "Call. " * 30), NOON + 70 * MINUTE),
        Reminder(spec("d", "Is it done?", "Check the wash"), NOON + 80 * MINUTE, Chain(3, 1, "c")),
    ]
    paths = {
        JobKey(JobKind.ROUTINE, "a"): "routines/daily.md",
        JobKey(JobKind.ROUTINE, "b"): "routines/b-2.md",
        JobKey(JobKind.REMINDER, "a"): "reminders/call.md",
    }
    found = build_upcoming_schedule(jobs, NOON, None, BERLIN, paths)
    at = datetime(2026, 11, 16, 14, tzinfo=BERLIN)
    cut = "Call. Call. Call. Call. Call. Call. Call. Call. Call. Call.…"
    assert len(cut) == 60
    assert found.entries == (
        ScheduleEntry(at, "Morning briefing", "Morning briefing", "routines/daily.md"),
        ScheduleEntry(
            at + 5 * MINUTE, "Routine", "Look at the mail", "routines/b-2.md", silent=True
        ),
        ScheduleEntry(at + 10 * MINUTE, "Reminder", cut, "reminders/call.md"),
        ScheduleEntry(at + 20 * MINUTE, "Chain reminder (2/4)", "Check the wash", ""),
    )
    assert {entry.fire_time.tzinfo for entry in found.entries} == {BERLIN}
    assert found.last == at + 20 * MINUTE


def test_twelve_lines_at_most_and_the_rest_is_counted() -> None:
    found = upcoming(reminders(range(1, 31)))
    assert (len(found.entries), found.more, found.is_counted) == (12, 18, True)
    assert found.entries[-1].fire_time == NOON + 12 * MINUTE
    assert found.last == NOON + 30 * MINUTE


def test_what_just_fired_gives_way_to_what_comes_but_this_task_never() -> None:
    jobs = reminders([*[-1] * 10, -2, -14, *range(1, 10)])
    current = Occurrence.scheduled(JobKind.REMINDER, "r11", NOON - 14 * MINUTE)
    found = upcoming(jobs, current)
    assert tags(found) == [Tag.THIS_TASK, *[Tag.JUST_FIRED] * 2, *[None] * 9]
    assert times(found).startswith("11:46 11:59 11:59 12:01")
    assert found.more == 9
    crowded = upcoming([*jobs, routine("* * * * *")], current)
    assert tags(crowded) == [Tag.THIS_TASK, *[None] * 11]


def test_of_very_very_many_it_says_that_there_are_still_more() -> None:
    found = upcoming([routine("* * * * *", f"a{number}") for number in range(20)])
    assert len(found.entries) == MOST_LINES
    assert found.more == MOST_COUNTED + 20 - MOST_LINES
    assert not found.is_counted


def slowly(
    jobs: Sequence[ScheduledJob], now: datetime, zone: ZoneInfo
) -> tuple[int, list[tuple[datetime, JobKey]]]:
    """The rule word by word: all moments of twelve hours, hour after hour."""
    ahead = sorted(
        (moment, key_of(job))
        for job in jobs
        for moment in moments_between(job, now, now + 12 * HOUR, zone)
    )
    for hours in range(3, 13):
        found = [each for each in ahead if each[0] <= now + hours * HOUR]
        if len(found) >= 3:
            return hours, found
    return 12, ahead


@settings(deadline=None)
@given(
    st.lists(texts, max_size=4),
    st.datetimes(datetime(2025, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)),
)
def test_it_is_what_the_slow_way_finds(lines: list[str], now: datetime) -> None:
    jobs = [routine(line, f"a{number}") for number, line in enumerate(lines)]
    hours, ahead = slowly(jobs, now, BERLIN)
    ago = now - 15 * MINUTE - HAIR
    fired = [job for job in jobs if list(moments_between(job, ago, now, BERLIN, limit=1))]
    found = build_upcoming_schedule(jobs, now, None, BERLIN, {})
    to_come = [entry.fire_time.astimezone(UTC) for entry in found.entries if entry.tag is None]
    assert found.hours == hours
    assert to_come == [moment for moment, _ in ahead][:MOST_LINES]
    assert len(found.entries) + found.more == len(fired) + len(ahead)
    assert found.is_counted
    last = found.last and found.last.astimezone(UTC)
    assert last == (ahead[-1][0] if ahead else None)
    moments = [entry.fire_time.astimezone(UTC) for entry in found.entries]
    assert moments == sorted(moments)
