"""Job definitions as the ledger records them: the timing, since when, and a hash of the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.errors import BadCron, BadRepeat
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind, OccurrenceKind
from ollim_bot.kernel.base.moments import instant, length_text, parse_length
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.repeats import REPEATS, Rhythm, read_rhythm
from ollim_bot.kernel.values.run_history import ARMED, CHANGED, REMOVED, ROSTER

# The maximum age of the last roster: it bounds how far a start has to read back.
_ROSTER_HOLDS = timedelta(days=31)
_NEVER = datetime(9000, 1, 1, tzinfo=UTC)


def mark_of(job: Job) -> str:
    """The same for two versions of a job exactly if nothing is different about them."""
    return hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def holder_among(rivals: Sequence[Job], armed: Mapping[JobKey, str]) -> int:
    """Which of several jobs with one id is in use: the one that is armed, else the first.

    `armed` has the marks of the armed jobs.
    """
    mark = armed.get(JobKey(rivals[0].kind, rivals[0].spec.id))
    marks = [mark_of(job) for job in rivals]
    return marks.index(mark) if mark in marks else 0


@dataclass(frozen=True, slots=True)
class Definition:
    """`timing` is the text of a rhythm, a `run-at`, or empty for a job that is called.

    `before` are the lengths at which heads-ups precede its moments.
    """

    key: JobKey
    mark: str
    timing: str
    zone: str
    enabled: bool
    before: tuple[timedelta, ...] = ()

    @classmethod
    def of(cls, job: Job, default_zone: tzinfo) -> Definition:
        key, spec = JobKey(job.kind, job.spec.id), job.spec
        zone = str(spec.zone(default_zone))
        return cls(key, mark_of(job), job.timing, zone, spec.enabled, spec.before)

    @classmethod
    def read(cls, facts: Mapping[str, object]) -> Definition:
        """The inverse of `facts`; raises `ValueError` for anything else."""
        kind, job, mark, zone = (facts.get(name) for name in ("kind", "job", "definition", "zone"))
        if not (isinstance(job, str) and isinstance(mark, str) and isinstance(zone, str)):
            raise ValueError("not a definition")
        key = JobKey(JobKind(str(kind)), job)
        timing = str(facts.get(_TIMING.get(key.kind, ""), facts.get(_REPEAT, "")))
        before = facts.get("before")
        lengths = [parse_length(str(each)) for each in before] if isinstance(before, list) else ()
        return cls(key, mark, timing, zone, facts.get("enabled") is True, tuple(lengths))

    @property
    def facts(self) -> dict[str, object]:
        """The facts of the row that records it."""
        name = _REPEAT if self.timing.startswith(REPEATS) else _TIMING.get(self.key.kind, "")
        timing = {name: self.timing} if self.timing else {}
        before = {"before": [length_text(each) for each in self.before]} if self.before else {}
        return {
            "kind": self.key.kind.value,
            "job": self.key.id,
            "definition": self.mark,
            **timing,
            "zone": self.zone,
            "enabled": self.enabled,
            **before,
        }

    def moments(self, after: datetime) -> Iterator[datetime]:
        """The due moments later than `after`, in UTC; for a reminder, its only one.

        Raises `ValueError` if the timing or the zone cannot be understood.
        """
        try:
            zone = ZoneInfo(self.zone)
            if self.key.kind is JobKind.ROUTINE:
                return _from(read_rhythm(self.timing), after, zone)
            if self.key.kind is JobKind.REMINDER:
                moment = instant(datetime.fromisoformat(self.timing), zone)
                return iter([moment.astimezone(UTC).replace(microsecond=0)])
        except (BadCron, BadRepeat, KeyError, OSError) as wrong:
            raise ValueError(str(wrong)) from None
        return iter(())


_REPEAT = "repeat"
_TIMING: Mapping[OccurrenceKind, str] = {job.kind: job.timing_name for job in (Routine, Reminder)}


def _from(rhythm: Rhythm, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    # Most ask for the first moment only, which is remembered for the jobs that share a line.
    first = rhythm.next(after, zone)
    if first is not None:
        yield first.astimezone(UTC)
        start = first.astimezone(UTC) + datetime.resolution
        yield from (each.astimezone(UTC) for each in rhythm.between(start, _NEVER, zone))


def armed_row(
    new: Definition, now: datetime, since: datetime, *, is_changed: bool = False
) -> LedgerRow:
    """The row of a new or changed job; until `since`, the earlier definition counts."""
    state = CHANGED if is_changed else ARMED
    return LedgerRow(now, state, facts={**new.facts, "since": since.isoformat()})


def removed_row(key: JobKey, now: datetime, since: datetime) -> LedgerRow:
    """The row of a removed job, whose moments are all claimed until `since`."""
    facts = {"kind": key.kind.value, "job": key.id, "since": since.isoformat()}
    return LedgerRow(now, REMOVED, facts=facts)


def roster_row(jobs: Iterable[Definition], now: datetime, since: datetime) -> LedgerRow:
    """The row of all armed jobs, and no others: nothing before it needs to be read."""
    facts = {"jobs": [job.facts for job in jobs], "since": since.isoformat()}
    return LedgerRow(now, ROSTER, facts=facts)


@dataclass(frozen=True, slots=True)
class Armed:
    """The armed jobs according to the ledger; `rostered` is the moment of the last roster."""

    jobs: Mapping[JobKey, Definition] = field(default_factory=dict)
    rostered: datetime | None = None

    @property
    def marks(self) -> Mapping[JobKey, str]:
        return {key: job.mark for key, job in self.jobs.items()}

    def current(self, new: Definition, now: datetime) -> Definition:
        """`new`, but a reminder that has come due keeps the zone in which it did."""
        armed = self.jobs.get(new.key)
        if new.key.kind is JobKind.REMINDER and armed is not None and armed.mark == new.mark:
            with suppress(ValueError):
                return armed if next(armed.moments(now)) <= now.astimezone(UTC) else new
        return new

    def followed_by(self, rows: Iterable[LedgerRow]) -> Armed:
        jobs, rostered = dict(self.jobs), self.rostered
        for row in rows:
            with suppress(ValueError):
                if row.state == ROSTER:
                    jobs = {job.key: job for job in roster_of(row)}
                    rostered = row.ts
                elif row.state in (ARMED, CHANGED):
                    job = Definition.read(row.facts)
                    jobs[job.key] = job
                elif row.state == REMOVED:
                    jobs.pop(key_of(row), None)
        return Armed(jobs, rostered)

    def with_changes(
        self, concerned: Iterable[JobKey], jobs: Iterable[Definition], rows: Iterable[LedgerRow]
    ) -> Armed:
        """The state after `rows`, by which `jobs` and no others of the `concerned` are armed.

        The same as `followed_by(rows)`, without reading the rows again.
        """
        gone = frozenset(concerned)
        kept = {key: job for key, job in self.jobs.items() if key not in gone}
        rosters = (row.ts for row in rows if row.state == ROSTER)
        return Armed(kept | {job.key: job for job in jobs}, next(rosters, self.rostered))

    def rows_for(
        self, jobs: Iterable[Definition], now: datetime, since: datetime
    ) -> list[LedgerRow]:
        """The rows, for one append, after which exactly `jobs` are armed."""
        wanted = {job.key: job for job in jobs}
        rows = [removed_row(key, now, since) for key in self.jobs if key not in wanted]
        for key, job in wanted.items():
            if self.jobs.get(key) != job:
                rows.append(armed_row(job, now, since, is_changed=key in self.jobs))
        if self.rostered is None:
            return [roster_row(wanted.values(), now, since)]
        if abs(now - self.rostered) > _ROSTER_HOLDS:
            rows.append(roster_row(wanted.values(), now, since))
        return rows


def roster_of(row: LedgerRow) -> list[Definition]:
    """The jobs of a roster. Raises `ValueError` if the row is not a valid one."""
    jobs = row.facts.get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise ValueError("not a roster")
    return [Definition.read(job) for job in jobs]


def key_of(row: LedgerRow) -> JobKey:
    """The job that the row names. Raises `ValueError` if it names none."""
    return JobKey(JobKind(str(row.facts.get("kind"))), str(row.facts.get("job")))


def since_of(row: LedgerRow) -> datetime:
    """The moment `since` of the row. Raises `ValueError` if it has none."""
    since = datetime.fromisoformat(str(row.facts.get("since")))
    if since.tzinfo is None:
        raise ValueError("a moment without an offset")
    return since
