"""When jobs are due, and the agenda of what is due next.

Moments are instants in UTC here, so that they compare as they come: two instants of one zone are
compared as its clocks show them, also in the hour that the clocks show twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from ollim_bot.domain.jobs import Job, JobKind, Reminder, Routine, kind_of
from ollim_bot.domain.moments import instant, offset_at
from ollim_bot.domain.occurrences import Occurrence

_DAY = timedelta(days=1)
_HAIR = datetime.resolution
_FEW = 16

ScheduledJob = Routine | Reminder
K = TypeVar("K")


class JobKey(NamedTuple):
    """Names one job among all; ids are unique within a kind only."""

    kind: JobKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def key_of(job: Job) -> JobKey:
    return JobKey(kind_of(job), job.spec.id)


def occurrence_at(job: Job, moment: datetime) -> Occurrence:
    return Occurrence.scheduled(kind_of(job), job.spec.id, moment)


def next_due(job: ScheduledJob, after: datetime, zone: tzinfo) -> datetime | None:
    """The first moment later than `after`, if there is one; `zone` is for jobs without their own.

    A disabled job is never due.
    """
    if not job.spec.enabled:
        return None
    if isinstance(job, Routine):
        return job.next_after(after, zone).astimezone(UTC)
    due = job.due(zone).astimezone(UTC)
    return due if due > after.astimezone(UTC) else None


def last_due(job: ScheduledJob, until: datetime, zone: tzinfo) -> datetime | None:
    """The last moment not later than `until`, if there is one."""
    if not job.spec.enabled:
        return None
    if isinstance(job, Routine):
        end = until.astimezone(UTC) + _HAIR
        return job.cron.previous(end, job.spec.zone(zone)).astimezone(UTC)
    due = job.due(zone).astimezone(UTC)
    return due if due <= until.astimezone(UTC) else None


def moments_between(
    job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo, limit: int | None = None
) -> Iterator[datetime]:
    """The moments later than `start` and not later than `end`, in order, each found when asked for.

    The first `limit` of them at most.
    """
    return islice(_moments(job, start.astimezone(UTC), end.astimezone(UTC), zone), limit)


def _moments(job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
    if isinstance(job, Routine) and job.spec.enabled:
        moments = job.cron.between(start + _HAIR, end + _HAIR, job.spec.zone(zone))
        yield from (moment.astimezone(UTC) for moment in moments)
    elif (due := next_due(job, start, zone)) is not None and due <= end:
        yield due


def count_between(job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo) -> int:
    """How many moments `moments_between` would find, at the cost of one for each day."""
    zone = job.spec.zone(zone)
    end = end.astimezone(UTC)
    total, usual = 0, 0
    while (moment := next_due(job, start, zone)) is not None and moment <= end:
        begin, close = _day_of(moment, zone)
        # Every day on which a line is due at all has the same times, far from a clock change.
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
    """The instant at which the local day of `moment` begins, and the one at which the next does."""
    local = moment.astimezone(zone)
    midnight = datetime(local.year, local.month, local.day)
    begin, close = (instant(wall, zone).astimezone(UTC) for wall in (midnight, midnight + _DAY))
    return begin, close


def _runs_evenly(begin: datetime, close: datetime, zone: tzinfo) -> bool:
    around = (begin - _DAY, begin, close, close + _DAY)
    return len({offset_at(moment, zone) for moment in around}) == 1


class Agenda(Generic[K]):
    """What is due next of very many things, each of which stands in it once.

    A heap, in which an entry that no longer holds is left until it comes up, or until such entries
    are in the majority. Keys can be compared with each other.
    """

    def __init__(self) -> None:
        self._at: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, K]] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def put(self, key: K, at: datetime) -> None:
        """`key` is due at `at`, and not when it was before."""
        at = at.astimezone(UTC)
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heappush(self._heap, (at, key))
        self._compact()

    def remove(self, key: K) -> None:
        """Does nothing if it is not there."""
        self._at.pop(key, None)
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
        """All that is due by `now`, by time, then by key.

        They are taken out; the caller puts in again what comes again.
        """
        now, found = now.astimezone(UTC), []
        while (at := self.next_at) is not None and at <= now:
            _, key = heappop(self._heap)
            del self._at[key]
            found.append((key, at))
        return found

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._at) + _FEW:
            # A dictionary, too, keeps the room of what was taken out until it is copied.
            self._at = dict(self._at)
            self._heap = [(at, key) for key, at in self._at.items()]
            heapify(self._heap)
