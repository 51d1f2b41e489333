"""What to say when a job is added that comes at a bad time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta, tzinfo

from ollim_bot.domain.jobs import is_ordered
from ollim_bot.domain.moments import WEEKDAYS
from ollim_bot.domain.rehearsal.circumstances import Circumstances
from ollim_bot.domain.rehearsal.coming import by_timing
from ollim_bot.domain.rehearsal.findings import SEVERAL
from ollim_bot.domain.rehearsal.fires import Ping
from ollim_bot.domain.rehearsal.rehearsing import rehearse
from ollim_bot.domain.schedule import ScheduledJob, key_of, next_due

# To ask about more would take a second, and whoever has so many knows that they meet.
MOST_ASKED = 1000
DAYS = 7
_MOST_DAYS = 3


def warnings(
    job: ScheduledJob, others: Collection[ScheduledJob], given: Circumstances
) -> Sequence[str]:
    """Short sentences; none if all is well, nor where there are very many others."""
    if len(others) > MOST_ASKED:
        return ()
    found = []
    meets = _others_at_its_moment(job, others, given.now, given.zone)
    if meets + 1 >= SEVERAL:
        found.append(f"That is when {meets} others run.")
    if days := _dry_days(job, others, given):
        today = given.now.astimezone(given.zone).date()
        found.append(f"The ping budget would run dry {_when(days, today)}.")
    return found


def _others_at_its_moment(
    job: ScheduledJob, others: Collection[ScheduledJob], now: datetime, zone: tzinfo
) -> int:
    moment = next_due(job, now, zone)
    if moment is None:
        return 0
    enabled = (other for other in others if other.spec.enabled)
    return sum(
        len(same)
        for same in by_timing(enabled, zone).values()
        if next_due(same[0], moment - datetime.resolution, zone) == moment
    )


def _dry_days(
    job: ScheduledJob, others: Collection[ScheduledJob], given: Circumstances
) -> Sequence[date]:
    """Those on which it is refused itself, or leaves too little to another."""
    if is_ordered(job) or not (job.spec.enabled and job.spec.background and job.spec.allow_ping):
        return ()
    after = rehearse([*others, job], given, DAYS)
    own = {
        fire.due.astimezone(given.zone).date()
        for fire in after.fires
        if fire.ping is Ping.REFUSED and key_of(fire.job) == key_of(job)
    }
    if after.dry_days == own:
        return sorted(own)
    before = rehearse(others, given, DAYS)
    return sorted(own | (after.dry_days - before.dry_days))


def _when(days: Sequence[date], today: date) -> str:
    """`today`, `on Tue`, `tomorrow and on Wed`, `on 5 days, first today`."""
    near = {today: "today", today + timedelta(days=1): "tomorrow"}
    names = [near.get(day) or f"on {WEEKDAYS[day.weekday()]}" for day in days]
    if len(names) > _MOST_DAYS:
        return f"on {len(names)} days, first {names[0]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
