"""The contents of the job book at one moment, and how they follow from what the files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ollim_bot.domain.jobs import Job, JobKind
from ollim_bot.domain.schedule import JobKey
from ollim_bot.scheduling.pages import (
    FORMS,
    SECONDS_TO_MEND,
    BookedJob,
    Mistake,
    Page,
    claims,
    doubled,
    first,
    mistake_of,
    turned,
)
from ollim_bot.storage.jobs.form import JobReading

Readings = Mapping[str, JobReading[Any]]
Pages = Mapping[JobKind, Mapping[str, Page]]


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found in the folders: the readings of each kind by file name.

    A kind whose folder could not be listed is in `refusals` instead, with a sentence. `touched` has
    the names of files that were written or removed since the look before, whether or not they say
    the same.
    """

    readings: Mapping[JobKind, Readings]
    refusals: Mapping[JobKind, str] = field(default_factory=dict)
    touched: Mapping[JobKind, Set[str]] = field(default_factory=dict)

    def shows_the_same_as(self, other: Sight) -> bool:
        """Quickly told, as a look that finds nothing new returns the readings of the one before."""
        return self.refusals == other.refusals and all(
            other.readings.get(kind) is readings for kind, readings in self.readings.items()
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """`settles_at` is when time alone will change something."""

    sight: Sight | None = None
    pages: Pages = field(default_factory=lambda: {kind: {} for kind in FORMS})
    jobs: Mapping[JobKey, BookedJob] = field(default_factory=dict)
    mistakes: Sequence[Mistake] = ()
    refusals: Mapping[JobKind, Mistake] = field(default_factory=dict)
    settles_at: float | None = None

    def after(
        self,
        sight: Sight,
        folders: Mapping[JobKind, Path],
        last_good: Mapping[JobKind, Mapping[str, Job]],
        now: float,
    ) -> Contents:
        """What follows from another look. `last_good` counts for files not seen before."""
        has_settled = self.settles_at is not None and now >= self.settles_at
        if self.sight is not None and sight.shows_the_same_as(self.sight) and not has_settled:
            return self
        pages = dict(self.pages)
        for kind, readings in sight.readings.items():
            own, folder, kept = self.pages[kind], folders[kind], last_good[kind]
            touched = sight.touched.get(kind, frozenset())
            pages[kind] = turned(own, folder, readings, touched, kept, now)
        refusals = self._refusals(sight, folders, now)
        jobs, doubles = self._assigned(pages)
        every = [page for own in pages.values() for page in own.values()]
        wrong = [mistake for page in every if (mistake := mistake_of(page))]
        mistakes = [*refusals.values(), *wrong, *doubles]
        moments = [mistake.stands_at for mistake in mistakes]
        moments += [page.settles_at for page in every if page.settles_at is not None]
        settles_at = min((moment for moment in moments if moment > now), default=None)
        return Contents(sight, pages, jobs, mistakes, refusals, settles_at)

    def _refusals(
        self, sight: Sight, folders: Mapping[JobKind, Path], now: float
    ) -> dict[JobKind, Mistake]:
        return {
            kind: self.refusals.get(kind)
            or Mistake(str(folders[kind]), sentence, now + SECONDS_TO_MEND)
            for kind, sentence in sight.refusals.items()
        }

    def _assigned(self, pages: Pages) -> tuple[dict[JobKey, BookedJob], list[Mistake]]:
        """Each id to the one file that has it, and what to say of the others."""
        jobs: dict[JobKey, BookedJob] = {}
        doubles: list[Mistake] = []
        for kind, own in pages.items():
            for job_id, rivals in claims(own.values()).items():
                key = JobKey(kind, job_id)
                before = self.jobs.get(key)
                holder = first(rivals, before)
                jobs[key] = _booked(holder, before)
                if len(rivals) > 1 and holder.is_right:
                    doubles.append(doubled(rivals, holder))
        return jobs, doubles


def _booked(page: Page, before: BookedJob | None) -> BookedJob:
    """The same object where nothing is different, which is the quickest to compare."""
    assert page.job is not None
    if before is not None and before.job is page.job and before.path is page.path:
        return before
    return BookedJob(page.job, page.path)
