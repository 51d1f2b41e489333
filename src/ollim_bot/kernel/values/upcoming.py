"""What is due in the next hours, and what just came, as each run is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.values.calendar import BusyPeriod, CalendarCopy, busy_periods
from ollim_bot.kernel.values.jobs import Reminder, is_initiative
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import Agenda, ScheduledJob, key_of, last_due, next_due

GRACE = timedelta(minutes=15)
BASE_HOURS = 3
LONGEST_HOURS = 12
ENOUGH = 3
MOST_LINES = 12
MOST_COUNTED = 1000
_HOUR = timedelta(hours=1)
Firing = tuple[datetime, JobKey]


class Tag(StrEnum):
    THIS_TASK = "this task"
    JUST_FIRED = "just fired"


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """`fire_time` is in the owner's zone; `file_path` is relative to the data directory.

    `silent` means that pings are switched off.
    """

    fire_time: datetime
    label: str
    description: str
    file_path: str
    silent: bool = False
    tag: Tag | None = None


@dataclass(frozen=True, slots=True)
class UpcomingSchedule:
    """The jobs that fire within `hours` of `now`, and those that just fired, by time.

    `more` counts the moments that are not in `entries`; it is a lower bound unless `is_counted`.
    `last` is the last moment found, if any is still to come. In the `busy` periods the owner's
    calendars have an event; `calendars` are the copies that the periods come from.
    """

    now: datetime
    hours: int
    entries: tuple[ScheduleEntry, ...] = ()
    more: int = 0
    is_counted: bool = True
    last: datetime | None = None
    busy: tuple[BusyPeriod, ...] = ()
    calendars: tuple[CalendarCopy, ...] = ()

    def with_calendars(self, copies: Iterable[CalendarCopy]) -> UpcomingSchedule:
        known = tuple(copies)
        busy = busy_periods(known, self.now, self.now + self.hours * _HOUR)
        named = {period.calendar for period in busy}
        used = tuple(copy for copy in known if copy.name in named)
        return replace(self, busy=busy, calendars=used)


def build_upcoming_schedule(
    jobs: Iterable[ScheduledJob],
    now: datetime,
    current: Occurrence | None,
    zone: tzinfo,
    paths: Mapping[JobKey, str],
) -> UpcomingSchedule:
    """The schedule around `now`, in the owner's `zone`; `current` is the occurrence of the run.

    It has one line for each job that just fired, and one for each time at which a job will fire.
    """
    known = {key_of(job): job for job in jobs if job.spec.background}
    at = now.astimezone(UTC)
    own = _own(known, at, current)
    fired, agenda = _at_hand(known, at, zone)
    past = sorted(fired | own)
    coming, hours = _window(_walk(agenda, known, zone), at)
    # This run's moment gets a line, then the soonest, then those that fired last.
    before = [fire for fire in reversed(past) if fire not in own]
    shown = sorted([*own, *coming, *before][:MOST_LINES])
    tags = dict.fromkeys(past, Tag.JUST_FIRED) | dict.fromkeys(own, Tag.THIS_TASK)
    return UpcomingSchedule(
        now=now.astimezone(zone),
        hours=hours,
        entries=tuple(
            ScheduleEntry(
                moment.astimezone(zone),
                _label(known[key]),
                known[key].spec.short_title,
                # The name of the file may be made of untrusted words.
                file_path="" if known[key].spec.untrusted else paths.get(key, ""),
                silent=not known[key].spec.allow_ping,
                tag=tags.get((moment, key)),
            )
            for moment, key in shown
        ),
        more=len(past) + len(coming) - len(shown),
        is_counted=len(coming) < MOST_COUNTED,
        last=coming[-1][0].astimezone(zone) if coming else None,
    )


def _own(
    known: Mapping[JobKey, ScheduledJob], now: datetime, current: Occurrence | None
) -> set[Firing]:
    """The moment of this run, which need not be the last one of its job."""
    if current is None or current.scheduled_at is None:
        return set()
    fire = current.scheduled_at, JobKey(current.kind, current.job_id)
    return {fire} if fire[1] in known and now - GRACE <= fire[0] <= now else set()


def _at_hand(
    known: Mapping[JobKey, ScheduledJob], now: datetime, zone: tzinfo
) -> tuple[set[Firing], Agenda[JobKey]]:
    """For each job, the moment that just passed, if any, and the next one."""
    fired: set[Firing] = set()
    agenda: Agenda[JobKey] = Agenda()
    for key, job in known.items():
        moment = next_due(job, now - GRACE - datetime.resolution, zone)
        if moment is not None and moment <= now:
            last = last_due(job, now, zone) or moment
            # The moment of an occurrence has whole seconds.
            fired.add((last.replace(microsecond=0), key))
            moment = next_due(job, now, zone)
        if moment is not None:
            agenda.put(key, moment)
    return fired, agenda


def _walk(
    agenda: Agenda[JobKey], known: Mapping[JobKey, ScheduledJob], zone: tzinfo
) -> Iterator[Firing]:
    """All coming moments in order, computed on demand."""
    while (at := agenda.next_at) is not None:
        for key, moment in agenda.due(at):
            following = next_due(known[key], moment, zone)
            if following is not None:
                agenda.put(key, following)
            yield moment, key


def _window(coming: Iterator[Firing], now: datetime) -> tuple[list[Firing], int]:
    """The moments within the base window, or within the hours that contain enough of them."""
    found: list[Firing] = []
    hours = BASE_HOURS
    for fire in coming:
        wanted = -((now - fire[0]) // _HOUR)
        if wanted > hours:
            if len(found) >= ENOUGH or wanted > LONGEST_HOURS:
                break
            hours = wanted
        found.append(fire)
        if len(found) == MOST_COUNTED:
            break
    return found, hours if len(found) >= ENOUGH else LONGEST_HOURS


def _label(job: ScheduledJob) -> str:
    if not isinstance(job, Reminder):
        return job.spec.short_title if job.spec.description else "Routine"
    own = " if the budget has a ping then" if is_initiative(job) else ""
    if job.chain.max == 0:
        return f"Reminder{own}"
    return f"Chain reminder ({job.chain.depth + 1}/{job.chain.max + 1}){own}"
