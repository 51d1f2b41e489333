"""What the owner has decided for good: names, permissions, and moments to leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.tool_policy import Pattern, problems

# A skip whose moment never came, as after an edit of the job, is forgotten then.
_SKIPS_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class GivenNames:
    """In place of those that the settings and the profile give."""

    user: str | None = None
    bot: str | None = None


@dataclass(frozen=True, slots=True)
class Grants:
    """What the owner has allowed for good when asked, as patterns in words."""

    texts: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """A wrong pattern allows nothing."""
        return tuple(Pattern.of(each) for each in self.texts if not problems(each).errors)

    def granting(self, pattern: Pattern) -> Grants:
        others = (each for each in self.texts if each != str(pattern))
        return Grants((*others, str(pattern)))


@dataclass(frozen=True, slots=True)
class Skips:
    """The moment that the owner wants left out, by job: `routine:plan`."""

    moments: Mapping[str, datetime] = field(default_factory=dict)

    def has(self, occurrence: Occurrence) -> bool:
        """A run by hand is never skipped."""
        moment = self.moments.get(_job_of(occurrence))
        return moment is not None and not occurrence.manual and moment == occurrence.scheduled_at

    def with_moment(self, occurrence: Occurrence, now: datetime) -> Skips:
        """In place of an earlier moment of that job."""
        moment = occurrence.scheduled_at
        if moment is None:
            return self
        kept = {job: at for job, at in self.moments.items() if now - at < _SKIPS_KEPT}
        return Skips({**kept, _job_of(occurrence): moment})

    def without_moment(self, occurrence: Occurrence) -> Skips:
        """A later moment of the job that was skipped since stays so."""
        return self.without_job(_job_of(occurrence)) if self.has(occurrence) else self

    def without_job(self, job: str) -> Skips:
        return Skips({name: at for name, at in self.moments.items() if name != job})


def _job_of(occurrence: Occurrence) -> str:
    return f"{occurrence.kind}:{occurrence.job_id}"
