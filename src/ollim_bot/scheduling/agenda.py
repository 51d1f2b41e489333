"""The next moment of every job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.schedule import Agenda, JobKey, ScheduledJob, key_of, next_due


class JobAgenda:
    """`zone` is for jobs without their own."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._agenda: Agenda[JobKey] = Agenda()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    def due(self, now: datetime) -> list[tuple[JobKey, datetime]]:
        """All that is due by `now`, taken out."""
        return self._agenda.due(now)

    def remove(self, key: JobKey) -> None:
        self._agenda.remove(key)

    def catch_up(
        self, jobs: Iterable[ScheduledJob], since: datetime, now: datetime
    ) -> list[ScheduledJob]:
        """Put in what comes after `now`; gives those that were due between `since` and then.

        One look at each is enough for both.
        """
        missed = []
        for job in jobs:
            at = next_due(job, since, self._zone)
            if at is not None and at <= now:
                missed.append(job)
                self.put_next(job, now)
            elif at is not None:
                self._agenda.put(key_of(job), at)
        return missed

    def put_all(self, jobs: Iterable[ScheduledJob], now: datetime) -> None:
        """What comes after `now`; reminders of before are somebody else's."""
        for job in jobs:
            if isinstance(job, Routine) or job.due(self._zone).astimezone(UTC) > now:
                self.put(job, now)

    def put(self, job: Job, after: datetime) -> None:
        """A reminder of the past is due at once; whoever has claimed it has it."""
        if isinstance(job, Reminder) and job.spec.enabled:
            self._agenda.put(key_of(job), job.due(self._zone))
        else:
            self.put_next(job, after)

    def put_next(self, job: Job, after: datetime) -> None:
        """Only what comes again has one."""
        at = next_due(job, after, self._zone) if isinstance(job, Routine) else None
        if at is not None:
            self._agenda.put(key_of(job), at)
        else:
            self._agenda.remove(key_of(job))
