"""Jobs for rehearsals, and the moment at which these begin."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, Routine

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 15, 14, 30, tzinfo=BERLIN)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def routine(name: str, cron: str, *, background: bool = True, **more: Any) -> Routine:
    return Routine(
        JobSpec(id=name, message=f"do {name}", background=background, **more), Cron.parse(cron)
    )


def reminder(
    name: str, at: datetime, *, follow_ups: int = 0, background: bool = True, **more: Any
) -> Reminder:
    spec = JobSpec(id=name, message=f"do {name}", background=background, **more)
    return Reminder(spec, at, Chain(follow_ups))
