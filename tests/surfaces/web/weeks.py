"""A full week, rehearsed for the page from jobs of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from tests.surfaces.web.views import HOSTILE

from ollim_bot.features.week.rehearsal_findings import findings
from ollim_bot.features.week.week import WeekView, week_of
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent
from ollim_bot.kernel.values.costs import PastCosts
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.repeats import AfterDone, Rhythm, read_rhythm
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob, occurrence_at
from ollim_bot.kernel.values.simulation import Assumptions, rehearse
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

CENT = 10_000
_DAY = timedelta(days=1)


def routine(name: str, rhythm: str | Rhythm, title: str, **more: Any) -> Routine:
    when = read_rhythm(rhythm) if isinstance(rhythm, str) else rhythm
    return Routine(JobSpec(id=name, message=title, **more), when)


def jobs(now: datetime) -> Sequence[ScheduledJob]:
    """A week of a person, with an hour too full to be shown, and a hostile title."""
    day = now.date()
    return [
        routine("pills", "0 8,20 * * *", "take the pills", nag=Nag(timedelta(minutes=10), 3)),
        routine("mail", "*/10 15 * * *", "Look at the mail", background=True),
        routine("plan", "30 21 * * *", "plan tomorrow"),
        routine("news", "30 23 * * *", "read the news", background=True),
        routine("bins", f"every 2 weeks at 19:00 from {day + timedelta(days=2)}", "the bins"),
        routine("ferns", AfterDone(3, time(9), day + timedelta(days=1)), "water the ferns"),
        routine("course", f"every 1 day at 18:30 from {day} times 3", "antibiotics"),
        routine("lamp", f"cron 0 17 * * * until {day + timedelta(days=2)}", "the lamp", plain=True),
        *(
            routine(f"check{number}", f"{number * 2} 10 * * 1", f"check number {number}")
            for number in range(25)
        ),
        _reminder("dentist", now + timedelta(days=2, hours=1), "dentist", before=_BEFORE),
        _reminder("hostile", now + timedelta(minutes=30), HOSTILE),
    ]


_BEFORE = (timedelta(minutes=30),)


def _reminder(name: str, at: datetime, title: str, **more: Any) -> Reminder:
    return Reminder(JobSpec(id=name, message=title, **more), at)


def calendar(now: datetime) -> CalendarCopy:
    tomorrow = (now + timedelta(days=1)).replace(hour=14, minute=0, second=0, microsecond=0)
    day = now.date() + timedelta(days=3)
    return CalendarCopy(
        "Work",
        "calendar.example.org",
        (
            CalendarEvent(
                "e1", "Work", HOSTILE, tomorrow, tomorrow + timedelta(hours=1), location="Hall 3"
            ),
            CalendarEvent("e2", "Work", "Ada’s birthday", day, day + _DAY, all_day=True),
        ),
        as_of=now,
    )


def full_week(now: datetime, more: Sequence[ScheduledJob] = ()) -> WeekView:
    zone = now.tzinfo or UTC
    quiet = QuietSettings(zone, QuietHours(time(22), time(7)))
    all_jobs = [*jobs(now), *more]
    given = Assumptions(now, zone, PingBudget.full(now), RuntimeConfig(), quiet=quiet)
    past = [
        UsageRow(now, UsageKind.RUN, "m", Price.LISTED, 2 * CENT, occurrence=_past(job, now))
        for job in all_jobs
        if job.spec.id != "bins"
    ]
    week = rehearse(all_jobs, given, 7)
    return week_of(week, findings(week), quiet, [calendar(now)], 30, PastCosts(past))


def _past(job: ScheduledJob, now: datetime) -> str:
    return occurrence_at(job, now.replace(second=0, microsecond=0)).id
