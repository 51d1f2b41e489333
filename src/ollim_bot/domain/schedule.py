"""When jobs are due, and the agenda of what is due next.

Moments are instants in UTC, because Python compares instants of one zone by wall clock, which is
wrong in the hour that occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from ollim_bot.domain.job_kinds import OccurrenceKind
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.moments import instant, offset_at
from ollim_bot.domain.occurrences import Occurrence

_DAY = timedelta(days=1)
_HAIR = datetime.resolution
_FEW = 16

ScheduledJob = Routine | Reminder
K = TypeVar("K")


class JobKey(NamedTuple):
    """Identifies a job; ids are unique only within a kind."""

    kind: OccurrenceKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def key_of(job: Job) -> JobKey:
    return JobKey(job.kind, job.spec.id)


def occurrence_at(job: Job, moment: datetime) -> Occurrence:
    return Occurrence.scheduled(job.kind, job.spec.id, moment)


def next_due(job: ScheduledJob, after: datetime, zone: tzinfo) -> datetime | None:
    """The first moment later than `after`, if any; `zone` is for jobs without their own.

    A disabled job is never due.
    """
    if not job.spec.enabled:
        return None
    if isinstance(job, Routine):
        following = job.next_after(after, zone)
        return following and following.astimezone(UTC)
    due = job.due(zone).astimezone(UTC)
    return due if due > after.astimezone(UTC) else None


def last_due(job: ScheduledJob, until: datetime, zone: tzinfo) -> datetime | None:
    """The last moment not later than `until`, if any."""
    if not job.spec.enabled:
        return None
    if isinstance(job, Routine):
        end = until.astimezone(UTC) + _HAIR
        previous = job.rhythm.previous(end, job.spec.zone(zone))
        return previous and previous.astimezone(UTC)
    due = job.due(zone).astimezone(UTC)
    return due if due <= until.astimezone(UTC) else None


def moments_between(
    job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo, limit: int | None = None
) -> Iterator[datetime]:
    """The moments later than `start` and not later than `end`, in order, computed on demand.

    At most the first `limit` of them.
    """
    return islice(_moments(job, start.astimezone(UTC), end.astimezone(UTC), zone), limit)


def _moments(job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
    if isinstance(job, Routine) and job.spec.enabled:
        moments = job.rhythm.between(start + _HAIR, end + _HAIR, job.spec.zone(zone))
        yield from (moment.astimezone(UTC) for moment in moments)
    elif (due := next_due(job, start, zone)) is not None and due <= end:
        yield due


def count_between(job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo) -> int:
    """The number of moments that `moments_between` finds, at the cost of one for each day."""
    zone = job.spec.zone(zone)
    end = end.astimezone(UTC)
    total, usual = 0, 0
    while (moment := next_due(job, start, zone)) is not None and moment <= end:
        begin, close = _day_of(moment, zone)
        # Far from a clock change, every day on which a line is due has the same times.
        is_usual = begin > start and close <= end and _runs_evenly(begin, close, zone)
        if is_usual and usual:
            total += usual
        else:
            found = sum(1 for _ in _moments(job, start, min(close - _HAIR, end), zone))
            usual = found if is_usual else usual
            total += found
        start = close - _HAIR
    return total


def _day_of(moment: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The instants at which the local day of `moment` and the next day begin."""
    local = moment.astimezone(zone)
    midnight = datetime(local.year, local.month, local.day)
    begin, close = (instant(wall, zone).astimezone(UTC) for wall in (midnight, midnight + _DAY))
    return begin, close


def _runs_evenly(begin: datetime, close: datetime, zone: tzinfo) -> bool:
    around = (begin - _DAY, begin, close, close + _DAY)
    return len({offset_at(moment, zone) for moment in around}) == 1


class Agenda(Generic[K]):
    """The next due moment of each of very many keys.

    It is a heap in which an outdated entry stays until it comes up, or until such entries are the
    majority. Keys must be comparable.
    """

    def __init__(self) -> None:
        self._at: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, K]] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def put(self, key: K, at: datetime) -> None:
        """Set the moment of `key`, replacing an earlier one."""
        at = at.astimezone(UTC)
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + _FEW:
            self._compact()

    def remove(self, key: K) -> None:
        """Remove the key, if it is there."""
        self._at.pop(key, None)
        if len(self._heap) > 2 * len(self._at) + _FEW:
            self._compact()

    @property
    def next_at(self) -> datetime | None:
        while self._heap:
            at, key = self._heap[0]
            if self._at.get(key) == at:
                return at
            heappop(self._heap)
        return None

    def due(self, now: datetime) -> list[tuple[K, datetime]]:
        """Remove and return everything due by `now`, by time, then by key.

        The caller puts recurring keys in again.
        """
        now, found = now.astimezone(UTC), []
        while (at := self.next_at) is not None and at <= now:
            _, key = heappop(self._heap)
            del self._at[key]
            found.append((key, at))
        return found

    def _compact(self) -> None:
        # A dictionary keeps the room of removed entries until it is copied.
        self._at = dict(self._at)
        self._heap = [(at, key) for key, at in self._at.items()]
        heapify(self._heap)
