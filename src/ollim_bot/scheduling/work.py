"""One due moment of one job, as it is handed on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.jobs import Job, Reminder, Routine, kind_of
from ollim_bot.domain.occurrences import Occurrence


@dataclass(frozen=True, slots=True)
class Work:
    """One due moment of one job."""

    job: Job
    occurrence: Occurrence
    late_since: datetime | None = None

    @classmethod
    def by_hand(cls, job: Job, now: datetime) -> Work:
        return cls(job, Occurrence.by_hand(kind_of(job), job.spec.id, now))

    @property
    def goes_alone(self) -> bool:
        """Whether it is left out while another run of its job goes on."""
        return isinstance(self.job, Routine) or self.occurrence.manual

    @property
    def ordered(self) -> Reminder | None:
        """The reminder, if it has to be delivered whatever happens."""
        is_ordered = isinstance(self.job, Reminder) and self.job.must
        return self.job if is_ordered and isinstance(self.job, Reminder) else None
