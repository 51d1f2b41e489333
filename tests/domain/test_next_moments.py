"""Kept next moments are those that a fresh look finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from ollim_bot.domain import next_moments
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobSpec, Reminder, Routine
from ollim_bot.domain.moments import midnight_after
from ollim_bot.domain.next_moments import NextMoments
from ollim_bot.domain.schedule import ScheduledJob, next_due

BERLIN = ZoneInfo("Europe/Berlin")
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


def test_a_second_look_computes_only_what_is_over_or_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, end, asked = NextMoments(), midnight_after(MORNING), []

    def noting(job: ScheduledJob, after: datetime, zone: tzinfo) -> datetime | None:
        asked.append(job.spec.id)
        return next_due(job, after, zone)

    def computed(jobs: list[ScheduledJob], now: datetime) -> list[str]:
        asked.clear()
        kept.before(end, jobs, now)
        return [*asked]

    monkeypatch.setattr(next_moments, "next_due", noting)
    assert len(computed(JOBS, MORNING)) == len(JOBS)
    assert computed(JOBS, MORNING + timedelta(minutes=29)) == []
    assert computed(JOBS, MORNING + timedelta(minutes=30)) == ["h"]
    other = replace(DAILY, rhythm=Cron.parse("0 20 * * *"))
    assert computed([other, *JOBS[2:]], MORNING + timedelta(minutes=31)) == ["d"]
