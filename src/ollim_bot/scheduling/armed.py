"""Keeps the ledger told of which jobs are armed, at the cost of what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo

from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.jobs import Job
from ollim_bot.scheduling.job_book import Changes
from ollim_bot.stores import Stores

# How long only what changes is written, before all jobs are compared with the ledger again.
_TRUSTED = timedelta(days=1)


class ArmedJobs:
    """`since` is the moment up to which all that was due has been claimed. For a thread."""

    def __init__(self, stores: Stores, zone: tzinfo) -> None:
        self._stores = stores
        self._zone = zone
        self._armed: Armed | None = None
        self._compared_at: datetime | None = None

    def write_all(self, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """Let the ledger say that `jobs` are armed, and no others."""
        armed = self._armed or self._stores.armed_jobs()
        self._write(armed, armed, jobs, now, since)
        self._compared_at = now

    def write(self, changes: Changes, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """The same, where nothing but `changes` is new since it was last written."""
        armed, compared = self._armed, self._compared_at
        if armed is None or compared is None or not compared <= now < compared + _TRUSTED:
            self.write_all(jobs, now, since)
            return
        booked = (*changes.added, *changes.changed, *changes.removed)
        known = {key: armed.jobs[key] for one in booked if (key := one.key) in armed.jobs}
        new = [one.job for one in (*changes.added, *changes.changed)]
        self._write(armed, Armed(known, now), new, now, since)

    def _write(
        self, armed: Armed, concerned: Armed, jobs: Iterable[Job], now: datetime, since: datetime
    ) -> None:
        definitions = [Definition.of(job, self._zone) for job in jobs]
        rows = concerned.rows_for(definitions, now, since)
        # Nobody knows what it says if the writing fails.
        self._armed = None
        if rows:
            self._stores.ledger.append(*rows)
        self._armed = armed.followed_by(rows)
