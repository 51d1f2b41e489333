"""What a run reads about the other background tasks before it decides to ping."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from tests.kernel.prompts.prompt_parts import NOW, hostile

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.prompts.prompt_context import lookalikes
from ollim_bot.kernel.prompts.turn_prompts import Briefing, build_bg_preamble, upcoming_lines
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, ReportMode, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.upcoming import (
    ScheduleEntry,
    Tag,
    UpcomingSchedule,
    build_upcoming_schedule,
)

MINUTE = timedelta(minutes=1)
FULL = PingBudget.full(NOW)
ZONE = NOW.tzinfo or UTC


def at(hour: int, minute: int = 0, day: int = 24) -> datetime:
    """A time on the day of `NOW` (10:15), or on another day."""
    return datetime(2026, 2, day, hour, minute, tzinfo=NOW.tzinfo)


def entry(moment: datetime, tag: Tag | None = None, silent: bool = False) -> ScheduleEntry:
    return ScheduleEntry(moment, "Reminder", "Tea", "reminders/tea.md", silent, tag)


def upcoming(*entries: ScheduleEntry, hours: int = 3, more: int = 0) -> UpcomingSchedule:
    last = max((each.fire_time for each in entries if each.fire_time > NOW), default=None)
    return UpcomingSchedule(NOW, hours, entries, more, last=last)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (entry(at(11)), "- 11:00 AM Reminder: Tea (reminders/tea.md)"),
        (entry(at(12, 5)), "- 12:05 PM Reminder: Tea (reminders/tea.md)"),
        (entry(at(0, 5, 25)), "- tomorrow 12:05 AM Reminder: Tea (reminders/tea.md)"),
        (entry(at(23, 58, 23)), "- yesterday 11:58 PM Reminder: Tea (reminders/tea.md)"),
        (
            entry(at(10, 15), Tag.THIS_TASK),
            "- 10:15 AM Reminder: Tea (reminders/tea.md) [this task]",
        ),
        (
            entry(at(10, 5), Tag.JUST_FIRED, silent=True),
            "- 10:05 AM Reminder (silent): Tea (reminders/tea.md) [just fired]",
        ),
        (
            ScheduleEntry(at(11), "Morning", "Morning", "routines/a.md", silent=True),
            "- 11:00 AM Morning (silent) (routines/a.md)",
        ),
        (
            ScheduleEntry(at(11), "Chain reminder (2/4)", "Wash", "reminders/my  wash.md"),
            "- 11:00 AM Chain reminder (2/4): Wash (reminders/my  wash.md)",
        ),
        (ScheduleEntry(at(11), "Routine", "Wash", ""), "- 11:00 AM Routine: Wash"),
    ],
)
def test_a_task_is_one_line(given: ScheduleEntry, line: str) -> None:
    assert upcoming_lines(upcoming(given), FULL).splitlines()[1] == line


@pytest.mark.parametrize(
    ("available", "last", "said"),
    [
        (5.0, at(11), "No refill of the budget comes before the last of them."),
        (5.0, at(11, 45), "1 refill of the budget comes before the last of them."),
        (0.0, at(13, 14), "1 refill of the budget comes before the last of them."),
        (0.0, at(13, 15), "2 refills of the budget come before the last of them."),
        (2.5, at(11), "1 refill of the budget comes before the last of them."),
        (0.0, at(22, 15), "8 refills of the budget come before the last of them."),
    ],
)
def test_it_says_how_many_refills_come_before_the_last_of_them(
    available: float, last: datetime, said: str
) -> None:
    """This holds for a full budget too, since pings that are spent now are refilled."""
    budget = replace(FULL, available=available)
    assert upcoming_lines(upcoming(entry(last)), budget).splitlines()[-1] == said


def test_where_nothing_comes_there_is_no_last_of_them() -> None:
    lines = upcoming_lines(upcoming(entry(at(10, 15), Tag.THIS_TASK), hours=12), FULL)
    assert lines == (
        "Upcoming bg tasks (next 12h):\n- 10:15 AM Reminder: Tea (reminders/tea.md) [this task]"
    )
    assert upcoming_lines(upcoming(hours=12), FULL) == ""


@pytest.mark.parametrize(("is_counted", "said"), [(True, "+18 more"), (False, "+18 more at least")])
def test_what_found_no_place_is_counted(is_counted: bool, said: str) -> None:
    schedule = replace(upcoming(entry(at(11)), more=18), is_counted=is_counted)
    assert upcoming_lines(schedule, FULL).splitlines()[2] == said


def background(name: str, message: str, description: str = "", ping: bool = True) -> JobSpec:
    return JobSpec(
        id=name, message=message, description=description, background=True, allow_ping=ping
    )


def test_a_morning_reads_like_this() -> None:
    jobs: list[ScheduledJob] = [
        Routine(background("brief", "x", "Morning briefing"), Cron.parse("15 10 * * *")),
        Routine(background("mail", "Sort the mail.", ping=False), Cron.parse("*/45 10-12 * * *")),
        Reminder(background("pills", "Take the pills."), at(10, 5)),
        Reminder(background("wash", "Is the wash\ndone?"), at(12, 40), Chain(3, 1)),
    ]
    paths = {
        JobKey(JobKind.ROUTINE, "brief"): "routines/morning-briefing.md",
        JobKey(JobKind.ROUTINE, "mail"): "routines/mail.md",
        JobKey(JobKind.REMINDER, "pills"): "reminders/take-the-pills.md",
        JobKey(JobKind.REMINDER, "wash"): "reminders/wash-2.md",
    }
    current = Occurrence.scheduled(JobKind.ROUTINE, "brief", at(10, 15))
    now = NOW + timedelta(seconds=4)
    schedule = build_upcoming_schedule(jobs, now, current, ZONE, paths)
    budget = replace(FULL, available=3.0)
    briefing = Briefing(
        ReportMode.ON_PING,
        allow_ping=True,
        budget=budget.status_line(NOW),
        schedule=upcoming_lines(schedule, budget),
    )
    assert build_bg_preamble(briefing).split("\n\n")[2] == (
        "budget: 3/5 (next refill in 90 min)\n"
        "Upcoming bg tasks (next 3h):\n"
        "- 10:05 AM Reminder: Take the pills (reminders/take-the-pills.md) [just fired]\n"
        "- 10:15 AM Morning briefing (routines/morning-briefing.md) [this task]\n"
        "- 10:45 AM Routine (silent): Sort the mail (routines/mail.md)\n"
        "- 11:00 AM Routine (silent): Sort the mail (routines/mail.md)\n"
        "- 11:45 AM Routine (silent): Sort the mail (routines/mail.md)\n"
        "- 12:00 PM Routine (silent): Sort the mail (routines/mail.md)\n"
        "- 12:40 PM Chain reminder (2/4): Is the wash done? (reminders/wash-2.md)\n"
        "- 12:45 PM Routine (silent): Sort the mail (routines/mail.md)\n"
        "1 refill of the budget comes before the last of them.\n"
        "One ping for each run. Ping only what the owner would regret missing; otherwise report, "
        "or stay silent. `critical=True` skips the budget, for what cannot wait."
    )


@given(hostile, hostile, hostile)
def test_nothing_in_a_job_can_pose_as_ours(label: str, description: str, path: str) -> None:
    """It stays one line, with a backslash before everything that imitates the program's marks."""
    task = ScheduleEntry(at(11), label, description, path)
    lines = upcoming_lines(upcoming(task), FULL).splitlines()
    assert len(lines) == 3
    assert all(lines[1][place - 1] == "\\" for place in lookalikes(lines[1]))


def test_tasks_that_fire_while_it_is_quiet_are_marked() -> None:
    quiet = QuietSettings(ZONE, QuietHours.parse("11:30-12:30"))
    lines = upcoming_lines(upcoming(entry(at(11)), entry(at(12), silent=True)), FULL, quiet)
    assert lines.splitlines()[1:3] == [
        "- 11:00 AM Reminder: Tea (reminders/tea.md)",
        "- 12:00 PM Reminder (silent) (quiet): Tea (reminders/tea.md)",
    ]
