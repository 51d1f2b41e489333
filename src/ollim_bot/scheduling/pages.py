"""The pages of the job book: what each file holds, what counts of it, and what is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ollim_bot.domain.jobs import Job, JobKind, kind_of
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.errors import DuplicateId
from ollim_bot.storage.jobs.form import JobFormat, JobReading
from ollim_bot.storage.jobs.reminders import REMINDERS
from ollim_bot.storage.jobs.routines import ROUTINES
from ollim_bot.storage.jobs.webhooks import WEBHOOKS

FORMS: Mapping[JobKind, JobFormat[Any]] = {
    form.kind: form for form in (ROUTINES, REMINDERS, WEBHOOKS)
}

# Editors that empty a file before they fill it, or save by renaming, are done within these.
SECONDS_TO_MEND = 1.0
SECONDS_TO_COME_BACK = 0.5


@dataclass(frozen=True, slots=True)
class BookedJob:
    job: Job
    path: Path

    @property
    def key(self) -> JobKey:
        return key_of(self.job)

    @property
    def definition(self) -> str:
        """The same for two versions of a job exactly if nothing is different about them."""
        written = FORMS[kind_of(self.job)].written(self.job)
        text = json.dumps([written, self.job.spec.message], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Page:
    """One job file, and what it held when it was last there.

    `job` is its newest right version, which counts as long as there is no newer one. `since` is
    when the file was first seen as it is.
    """

    path: Path
    reading: JobReading[Any]
    job: Job | None
    since: float
    is_away: bool = False

    @property
    def is_right(self) -> bool:
        return self.reading.job is not None and not self.is_away

    @property
    def settles_at(self) -> float | None:
        """When what is wrong with it is no longer a matter of the moment."""
        if self.is_right:
            return None
        return self.since + (SECONDS_TO_COME_BACK if self.is_away else SECONDS_TO_MEND)

    def is_wrong_at(self, now: float) -> bool:
        """Wrong, and not just for a moment."""
        return not self.is_away and self.settles_at is not None and now >= self.settles_at

    @property
    def shown(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    def turned(self, reading: JobReading[Any], now: float, *, touched: bool) -> Page:
        if reading == self.reading and not (touched or self.is_away):
            return self
        return Page(self.path, reading, reading.job or self.job, now)

    def away(self, now: float) -> Page:
        return self if self.is_away else replace(self, is_away=True, since=now)


class Mistake(NamedTuple):
    """`key` names what is wrong; the sentence may change with time."""

    key: str
    sentence: str
    stands_at: float


def turned(
    pages: Mapping[str, Page],
    folder: Path,
    readings: Mapping[str, JobReading[Any]],
    touched: Container[str],
    kept: Mapping[str, Job],
    now: float,
) -> dict[str, Page]:
    """The pages of a folder by file name, after another look at it.

    `touched` are the files that were written since. `kept` are the last good versions of files
    that are wrong when they are first seen.
    """
    after: dict[str, Page] = {}
    for name, reading in readings.items():
        page = pages.get(name)
        if page is None:
            after[name] = Page(folder / name, reading, reading.job or kept.get(name), now)
        else:
            after[name] = page.turned(reading, now, touched=name in touched)
    for name in pages.keys() - readings.keys():
        gone = pages[name].away(now)
        if now < gone.since + SECONDS_TO_COME_BACK:
            after[name] = gone
    return after


def claims(pages: Iterable[Page]) -> dict[str, list[Page]]:
    """The pages that claim each id: those that are right, else those that once were."""
    claimed: dict[str, list[Page]] = {}
    for page in pages:
        if page.job is not None:
            claimed.setdefault(page.job.spec.id, []).append(page)
    for job_id, rivals in claimed.items():
        if len(rivals) > 1:
            claimed[job_id] = [page for page in rivals if page.is_right] or rivals
    return claimed


def first(rivals: Sequence[Page], before: BookedJob | None) -> Page:
    """The one that had the id before, else the first by name."""
    if before is None or len(rivals) == 1:
        return rivals[0]
    return next((page for page in rivals if page.path == before.path), rivals[0])


def mistake_of(page: Page) -> Mistake | None:
    if not page.reading.problems:
        return None
    problems = "; ".join(problem.sentence(page.shown) for problem in page.reading.problems)
    end = (
        "It does not run until it is mended."
        if page.job is None
        else "Until it is mended, the version before stays in use."
    )
    return Mistake(page.shown, f"{_ended(problems)} {end}", page.since + SECONDS_TO_MEND)


def doubled(rivals: Sequence[Page], holder: Page) -> Mistake:
    """Of an id that several right files claim."""
    assert holder.job is not None
    job_id, files = holder.job.spec.id, [page.shown for page in rivals]
    sentence = f"{DuplicateId(job_id, files)} Until then, {holder.shown} is in use."
    stands_at = max(page.since for page in rivals) + SECONDS_TO_MEND
    return Mistake(f"{kind_of(holder.job)} {job_id}", sentence, stands_at)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."
