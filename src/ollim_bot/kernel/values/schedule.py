"""When jobs are due, and the agenda of what is due next.

Moments are instants in UTC, because Python compares instants of one zone by wall clock, which is
wrong in the hour that occurs twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import elapsed, midnight, offset_at
from ollim_bot.kernel.values.jobs import Job, Late, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence

_DAY = timedelta(days=1)
_HAIR = datetime.resolution
_FEW = 16
# What comes more often on a day is one line of it.
MOST_A_DAY = 6

ScheduledJob = Routine | Reminder
K = TypeVar("K")


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
        begin, close = day_of(moment, zone)
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


def _runs_evenly(begin: datetime, close: datetime, zone: tzinfo) -> bool:
    around = (begin - _DAY, begin, close, close + _DAY)
    return len({offset_at(moment, zone) for moment in around}) == 1


def moments_of_day(
    job: ScheduledJob, day: tuple[datetime, datetime], zone: tzinfo
) -> Sequence[datetime] | None:
    """All moments of a `day_of`; None if the job comes too often for a line each."""
    begin, close = day
    found = [*moments_between(job, begin - _HAIR, close - _HAIR, zone, MOST_A_DAY + 1)]
    return found if len(found) <= MOST_A_DAY else None


def day_of(moment: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The instants at which the local day of `moment` and the next day begin."""
    day = moment.astimezone(zone).date()
    begin, close = (midnight(each, zone).astimezone(UTC) for each in (day, day + _DAY))
    return begin, close


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

    def due(self, now: datetime) -> Iterator[tuple[K, datetime]]:
        """Everything due by `now`, by time, then by key.

        Each is removed once the caller has served it, unless that has put it in for another moment;
        what an error leaves unserved stays due.
        """
        now = now.astimezone(UTC)
        while (at := self.next_at) is not None and at <= now:
            key = self._heap[0][1]
            yield key, at
            if self._at.get(key) == at:
                del self._at[key]

    def _compact(self) -> None:
        # A dictionary keeps the room of removed entries until it is copied.
        self._at = dict(self._at)
        self._heap = [(at, key) for key, at in self._at.items()]
        heapify(self._heap)


STILL_ON_TIME = timedelta(seconds=60)
LONGEST_PATIENCE = timedelta(hours=2)
# A longer gap between two looks means that the machine slept, or that the program stood still.
ASLEEP = timedelta(seconds=90)


def is_late(due: datetime, now: datetime) -> bool:
    return elapsed(due, now) > STILL_ON_TIME


def late_since(occurrence: Occurrence, now: datetime) -> datetime | None:
    """The due moment, if a run that starts `now` is late. A manual run is never late."""
    due = None if occurrence.manual else occurrence.scheduled_at
    return due if due is not None and is_late(due, now) else None


def late_rule(job: ScheduledJob, due: datetime, now: datetime, zone: tzinfo) -> Late:
    """What to do with an occurrence that was due while the program was away.

    What must come runs however late. Else the job's `late` field decides, or the kind of the job. A
    job that the agent set itself never causes a message.
    """
    if job.must or not is_late(due, now):
        return Late.RUN
    late = job.spec.late or Late.RUN
    if job.spec.late is None and isinstance(job, Routine):
        following, patience = job.next_after(due, zone), LONGEST_PATIENCE
        if following is not None:
            patience = min(elapsed(due, following) / 2, patience)
        late = Late.RUN if elapsed(due, now) < patience else Late.TELL
    return Late.SKIP if late is Late.TELL and job.spec.set_by else late


T = TypeVar("T")

# A skip whose moment never came, for example after an edit of the job, is forgotten after this.
_SKIPS_KEPT = timedelta(days=30)


class GivenNames(NamedTuple):
    """Names that replace those of the settings and the profile."""

    user: str | None = None
    bot: str | None = None


@dataclass(frozen=True, slots=True)
class Skips:
    """The moment that the owner wants skipped, by job: `routine:plan`.

    `repetitions` are the moments, by job, that came by the clock of an earlier time zone; some of
    them have passed. `zone` is the one that the last move led to.
    """

    moments: Mapping[str, datetime] = field(default_factory=dict)
    repetitions: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    zone: str = ""

    def has(self, occurrence: Occurrence) -> bool:
        """Whether the occurrence is skipped; a manual run never is."""
        moment, job = occurrence.scheduled_at, _job_of(occurrence)
        if moment is None or occurrence.manual:
            return False
        return moment == self.moments.get(job) or moment in self.repetitions.get(job, ())

    def with_moment(self, occurrence: Occurrence, now: datetime) -> Skips:
        """Skip the moment; it replaces an earlier one of that job."""
        moment = occurrence.scheduled_at
        if moment is None:
            return self
        kept = {job: at for job, at in self.moments.items() if now - at < _SKIPS_KEPT}
        return replace(self, moments={**kept, _job_of(occurrence): moment})

    def without_moment(self, occurrence: Occurrence) -> Skips:
        """Remove this skip; a skip of a later moment of the job stays."""
        job, moment = _job_of(occurrence), occurrence.scheduled_at
        if not self.has(occurrence):
            return self
        rest = tuple(each for each in self.repetitions.get(job, ()) if each != moment)
        others = _without(self.repetitions, job) | ({job: rest} if rest else {})
        is_wish = self.moments.get(job) == moment
        moments = _without(self.moments, job) if is_wish else self.moments
        return replace(self, moments=moments, repetitions=others)

    def without_job(self, job: str) -> Skips:
        moments, repetitions = _without(self.moments, job), _without(self.repetitions, job)
        return replace(self, moments=moments, repetitions=repetitions)

    def moved(
        self,
        zone: str,
        moments: Mapping[str, datetime],
        repetitions: Mapping[str, tuple[datetime, ...]],
    ) -> Skips:
        """After a change of the time zone: with other moments of some jobs, and repetitions."""
        return Skips({**self.moments, **moments}, repetitions, zone)


def _without(values: Mapping[str, T], job: str) -> dict[str, T]:
    return {name: value for name, value in values.items() if name != job}


def _job_of(occurrence: Occurrence) -> str:
    return f"{occurrence.kind}:{occurrence.job_id}"


_NEVER = datetime.max.replace(tzinfo=UTC)


class NextMoment(NamedTuple):
    """The next moment of a job, and the `others` that follow it before `end`.

    Of a job that comes too often for a line each, only their number is known: `more`.
    """

    job: ScheduledJob
    moment: datetime | None
    end: datetime
    more: int | None = None
    others: Sequence[datetime] = ()

    def holds(self, now: datetime, end: datetime) -> bool:
        """Whether it is as true at `now`, which is not earlier, for the time before `end`."""
        if self.moment is None:
            return True
        return self.moment > now and (self.moment >= end or self.end == end)


class DayMoment(NamedTuple):
    """A moment of a job; `is_next` says whether it is the first to come.

    Of a job that comes too often for a line each there is only the first, with how many `more`
    follow.
    """

    job: ScheduledJob
    moment: datetime
    is_next: bool
    more: int | None


class _Look(NamedTuple):
    """What was known at `now`: the next moment of each job, and all before `end` in order.

    `found` is by the identity of the job, which it keeps alive; `until` is the first moment of all.
    """

    jobs: Sequence[ScheduledJob]
    now: datetime
    end: datetime
    until: datetime
    zone: tzinfo
    found: Mapping[int, NextMoment]
    coming: Sequence[DayMoment]

    @classmethod
    def at(
        cls,
        jobs: Sequence[ScheduledJob],
        now: datetime,
        end: datetime,
        zone: tzinfo,
        found: Mapping[int, NextMoment],
    ) -> _Look:
        moments = [(each.moment, each) for each in found.values() if each.moment is not None]
        coming = [
            DayMoment(each.job, at, at is moment, each.more)
            for moment, each in moments
            if moment < end
            for at in (moment, *each.others)
        ]
        coming.sort(key=lambda each: each.moment)
        until = min((moment for moment, _ in moments), default=_NEVER)
        return cls(jobs, now, end, until, zone, found, coming)


class NextMoments:
    """Computes the moment of a job again once it is over or the job is another.

    Threads may share it: a look replaces what is known as a whole.
    """

    def __init__(self) -> None:
        self._last: _Look | None = None

    def before(
        self, end: datetime, jobs: Sequence[ScheduledJob], now: datetime
    ) -> Sequence[DayMoment]:
        """What comes after `now` and before `end`, the end of its day, by time.

        It costs nothing while `jobs` is the same object and no moment is over.
        """
        zone, now, end = now.tzinfo or UTC, now.astimezone(UTC), end.astimezone(UTC)
        last = self._last
        if last is not None and (last.zone != zone or now < last.now):
            last = None
        if last and last.jobs is jobs and last.end == end and last.until > now:
            return last.coming
        known, day = last.found if last else {}, day_of(end - _HAIR, zone)
        found = {id(job): _next(job, known.get(id(job)), now, day, zone) for job in jobs}
        self._last = _Look.at(jobs, now, end, zone, found)
        return self._last.coming


def _next(
    job: ScheduledJob,
    kept: NextMoment | None,
    now: datetime,
    day: tuple[datetime, datetime],
    zone: tzinfo,
) -> NextMoment:
    """What is kept, if it is still true, else the moment computed anew."""
    _, end = day
    if kept is not None and kept.holds(now, end):
        return kept
    moment = next_due(job, now, zone)
    if moment is None or moment >= end:
        return NextMoment(job, moment, end)
    whole_day = moments_of_day(job, day, zone)
    if whole_day is None:
        more = count_between(job, moment, end - _HAIR, zone)
        return NextMoment(job, moment, end, more)
    return NextMoment(job, moment, end, others=[each for each in whole_day if each > moment])


def next_moment(job: ScheduledJob, skips: Skips, now: datetime) -> datetime | None:
    """The first moment that is not skipped; None if there is none."""
    moment = next_due(job, now, now.tzinfo or UTC)
    while moment is not None and skips.has(occurrence_at(job, moment)):
        moment = next_due(job, moment, now.tzinfo or UTC)
    return moment


def skipped_moment(job: ScheduledJob, skips: Skips, now: datetime) -> datetime | None:
    """The moment that a skip would leave out; None if there is none."""
    moment = next_due(job, now, now.tzinfo or UTC)
    is_skipped = moment is not None and skips.has(occurrence_at(job, moment))
    return moment if is_skipped else None
