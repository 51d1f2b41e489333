"""How long each definition of a job held, by the rows of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from ollim_bot.domain.definitions import (
    ARMED,
    CHANGED,
    REMOVED,
    ROSTER,
    Definition,
    key_of,
    roster_of,
    since_of,
)
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.schedule import JobKey

_STATES = frozenset({ARMED, CHANGED, REMOVED, ROSTER})
_SECOND = timedelta(seconds=1)

# Rows that are written at once may stand in another order than their moments.
_JITTER = timedelta(minutes=1)


@dataclass(slots=True)
class Tenure:
    """A definition that counts for the moments later than `after`, up to `until` if it has ended.

    `earliest` is before `after` if the clock was set back meanwhile. `is_first` if the job may have
    been armed before the ledger began.
    """

    definition: Definition
    after: datetime
    is_first: bool
    earliest: datetime
    until: datetime | None = None

    def expected(self, horizon: datetime) -> Iterator[datetime]:
        """The moments that must have come by `horizon`."""
        end = horizon if self.until is None else min(horizon, self.until)
        if not self.definition.enabled or end <= self.after:
            return iter(())
        due = takewhile(lambda moment: moment <= end, self.definition.moments(self.after))
        # Before a ledger that was cut off, a reminder may have been served unseen.
        return (moment for moment in due if moment > self.after or not self.is_first)

    def allows(self, moment: datetime) -> bool:
        """Whether an occurrence of that moment can have come while it was held."""
        # A reminder that was overdue when it was armed comes all the same.
        if self.definition.key.kind is JobKind.ROUTINE and moment <= self.earliest:
            return False
        return next(self.definition.moments(moment - _SECOND), None) == moment


class Tenures:
    """All that are known after the rows given to `note`, which come in the order of the ledger.

    `has_begun` tells whether all jobs that are armed are known.
    """

    def __init__(self) -> None:
        self.of: dict[JobKey, list[Tenure]] = {}
        self.findings: list[str] = []
        self.has_begun = False
        self._clock: datetime | None = None

    def note(self, row: LedgerRow) -> None:
        if self._clock is not None and row.ts < self._clock - _JITTER:
            self._set_back(row.ts)
            self._clock = None
        self._clock = max(self._clock or row.ts, row.ts)
        if row.state in _STATES:
            try:
                self._note(row, since_of(row))
            except ValueError:
                when = row.ts.isoformat(timespec="seconds")
                self.findings.append(f"The row `{row.state}` of {when} cannot be understood.")

    def held(self, key: JobKey) -> Tenure | None:
        """The one that lasts; None if the job is not armed."""
        last = self.of.get(key, [None])[-1]
        return None if last is None or last.until is not None else last

    def _set_back(self, to: datetime) -> None:
        for held in filter(None, map(self.held, self.of)):
            held.earliest = min(held.earliest, to)

    def _note(self, row: LedgerRow, since: datetime) -> None:
        if row.state == ROSTER:
            self._roster(roster_of(row), since)
        elif row.state == REMOVED:
            self._remove(key_of(row), since)
        else:
            self._arm(Definition.read(row.facts), since, is_new=row.state == ARMED)

    def _roster(self, jobs: list[Definition], since: datetime) -> None:
        """The first one begins the ledger; a later one repeats what is known."""
        known = {key: held.definition for key in self.of if (held := self.held(key)) is not None}
        listed = {job.key: job for job in jobs}
        for key in known.keys() | listed.keys():
            if known.get(key) == listed.get(key):
                continue
            if self.has_begun:
                self.findings.append(f"{key}: the roster does not fit what was said before it.")
            self._end(key, since)
            if key in listed:
                self._begin(listed[key], since, is_first=not self.has_begun)
        self.has_begun = True

    def _arm(self, job: Definition, since: datetime, *, is_new: bool) -> None:
        held = self.held(job.key)
        if self.has_begun and is_new is not (held is None):
            word = "armed, but it was already" if is_new else "changed, but it was not armed"
            self.findings.append(f"{job.key}: is said to be {word}.")
        elif self.has_begun and held is not None and held.definition == job:
            self.findings.append(f"{job.key}: is said to be changed, but it is as it was.")
        self._end(job.key, since)
        self._begin(job, since, is_first=False)

    def _remove(self, key: JobKey, since: datetime) -> None:
        if self.has_begun and self.held(key) is None:
            self.findings.append(f"{key}: is said to be removed, but it was not armed.")
        self._end(key, since)

    def _begin(self, job: Definition, since: datetime, *, is_first: bool) -> None:
        job.moments(since)
        self.of.setdefault(job.key, []).append(Tenure(job, since, is_first, since))

    def _end(self, key: JobKey, since: datetime) -> None:
        held = self.held(key)
        if held is not None:
            held.until = since
