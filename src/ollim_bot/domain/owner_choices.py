"""The owner's lasting decisions: names, permissions, and moments to skip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.tool_patterns import problems
from ollim_bot.domain.tool_policy import Pattern

T = TypeVar("T")

# A skip whose moment never came, for example after an edit of the job, is forgotten after this.
_SKIPS_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class GivenNames:
    """Names that replace those of the settings and the profile."""

    user: str | None = None
    bot: str | None = None


@dataclass(frozen=True, slots=True)
class Grants:
    """The patterns that the owner has allowed for good when asked, as texts."""

    texts: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The valid patterns; an invalid one allows nothing."""
        return tuple(Pattern.of(each) for each in self.texts if not problems(each).errors)

    def granting(self, pattern: Pattern) -> Grants:
        others = (each for each in self.texts if each != str(pattern))
        return Grants((*others, str(pattern)))


@dataclass(frozen=True, slots=True)
class Skips:
    """The moment that the owner wants skipped, by job: `routine:plan`.

    `repetitions` are the moments that come a second time by a new time zone, by job.
    """

    moments: Mapping[str, datetime] = field(default_factory=dict)
    repetitions: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)

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
        return Skips(_without(self.moments, job) if is_wish else self.moments, others)

    def without_job(self, job: str) -> Skips:
        return Skips(_without(self.moments, job), _without(self.repetitions, job))

    def moved(
        self, moments: Mapping[str, datetime], repetitions: Mapping[str, tuple[datetime, ...]]
    ) -> Skips:
        """After a change of the time zone: with other moments of some jobs, and repetitions."""
        return Skips({**self.moments, **moments}, repetitions)


def _without(values: Mapping[str, T], job: str) -> dict[str, T]:
    return {name: value for name, value in values.items() if name != job}


def _job_of(occurrence: Occurrence) -> str:
    return f"{occurrence.kind}:{occurrence.job_id}"
