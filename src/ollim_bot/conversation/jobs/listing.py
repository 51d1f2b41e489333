"""All jobs for the page: read away from the loop, and kept until one of them or its past changes.

Only the jobs that are shown have their past read, each from its own part of the ledger.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from ollim_bot.conversation.quick_add import QuickAdds
from ollim_bot.domain.costs import PAST
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.job_list import (
    JobLine,
    JobList,
    JobPast,
    first_moment,
    line_of,
    past_of,
    since_when,
)
from ollim_bot.domain.jobs import Job, Routine, list_order
from ollim_bot.domain.moments import midnight_after
from ollim_bot.domain.overviews import skipped_moment
from ollim_bot.domain.run_history import RunStory
from ollim_bot.domain.schedule import Skips
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.transaction import Transaction

# The ledger has a row for each change of a job; a change by the page or a command has one sooner.
_MADE_OF = ("ledger", "changes", "usage", "zone", "skips")
_ADD, _OF_LINE = "add", ("line", "reading", "key")
# How many moments before the last 30 days are looked at to find the last run.
_EARLIER = 5

# Does what a button of a job's form does.
ActOnJob = Callable[[str, str, Mapping[str, str]], Awaitable[ViewAnswer]]


class _Known(NamedTuple):
    """A job with its next `moment`; `text` has its words in small letters, and its id."""

    job: Job
    moment: datetime | None
    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """All jobs in order, and the past of those that were shown; right until `until`."""

    jobs: Sequence[_Known]
    problems: Sequence[str]
    warnings: Sequence[str]
    skips: Skips
    at: datetime
    until: datetime
    past: dict[str, JobPast] = field(default_factory=dict)

    def by_object(self, now: datetime) -> dict[int, _Known]:
        """The jobs whose next moment is the same at `now`, by the identity of the job."""
        if now.tzinfo != self.at.tzinfo or now < self.at:
            return {}
        return {id(each.job): each for each in self.jobs if _is_to_come(each, now)}


class JobListing:
    """An `ActingView` of the jobs that have all `words` and the `kind` of the address.

    Of them, it reads `most`. The actions are `pause` and `resume` of the job `id`, and `add`, which
    adds what a `line` says.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        clock: Clock,
        act_on_job: ActOnJob,
        lines: QuickAdds,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._act_on_job = act_on_job
        self._lines = lines
        self._watches = ExitStack()
        self._has_changed = self._watches.enter_context(store.changes(*_MADE_OF))
        self._one_at_a_time = asyncio.Lock()
        self._kept: _Kept | None = None

    async def look(self, asked: Mapping[str, str]) -> JobList:
        async with self._one_at_a_time:
            now, kept = self._clock.now(), self._kept
            is_old = kept is None or now.astimezone(UTC) >= kept.until
            if kept is None or is_old or self._has_changed.is_set():
                self._has_changed.clear()
                kept = self._kept = await asyncio.to_thread(self._read, now)
            return await asyncio.to_thread(self._list, kept, asked, now)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == _ADD:
            answer = await self._lines.add(*(fields.get(each, "") for each in _OF_LINE))
        elif action in ("pause", "resume"):
            answer = await self._act_on_job(surface, action, {"id": fields.get("id", "")})
        else:
            return ViewAnswer("There is no such button here.", is_error=True)
        self._has_changed.set()
        return answer

    async def preview(self, action: str, fields: Mapping[str, str]) -> Preview:
        return await self._lines.preview(fields.get("line", "")) if action == _ADD else Preview()

    def _read(self, now: datetime) -> _Kept:
        reports = [each.report() for each in self._repositories.by_kind.values()]
        jobs: list[Job] = [stored.item for each in reports for stored in each.jobs]
        before = {} if self._kept is None else self._kept.by_object(now)
        known = [before.get(id(job)) or _known(job, now) for job in jobs]
        same = Counter(job.spec.id for job in jobs)
        named = [each._replace(key=_key(each.job, same)) for each in known]
        named.sort(key=lambda each: list_order(each.job, each.moment))
        utc, midnight = now.astimezone(UTC), midnight_after(now).astimezone(UTC)
        coming = (each.moment.astimezone(UTC) for each in known if each.moment is not None)
        until = min((each for each in coming if each > utc), default=midnight)
        problems = [problem for each in reports for problem in each.problems]
        warnings = [warning for each in reports for warning in each.warnings]
        skips = self._store.query(lambda tx: tx.skips.get())
        return _Kept(named, problems, warnings, skips, now, min(until, midnight))

    def _list(self, kept: _Kept, asked: Mapping[str, str], now: datetime) -> JobList:
        words, wanted = asked.get("words", ""), asked.get("kind", "")
        kind = JobKind(wanted) if wanted in [*JobKind] else None
        most = int(asked["most"]) if asked.get("most", "").isdecimal() else 100
        terms = words.casefold().split()
        fitting = [each for each in kept.jobs if all(term in each.text for term in terms)]
        found = [each for each in fitting if kind in (None, each.job.kind)]
        shown = found[:most]
        unread = [each for each in shown if each.key not in kept.past]
        if unread:
            read = self._store.query(lambda tx: {k.key: _past(tx, k.job, now) for k in unread})
            kept.past.update(read)
        return JobList(
            now,
            [_line(each, kept, now) for each in shown],
            len(found),
            len(kept.jobs),
            words,
            kind,
            kept.problems,
            Counter(each.job.kind for each in fitting),
            kept.warnings,
        )


def _is_to_come(known: _Known, now: datetime) -> bool:
    return known.moment is None or known.moment.astimezone(UTC) > now.astimezone(UTC)


def _known(job: Job, now: datetime) -> _Known:
    spec = job.spec
    return _Known(job, first_moment(job, now), f"{spec.words} {spec.id}".casefold())


def _key(job: Job, same: Mapping[str, int]) -> str:
    job_id = job.spec.id
    return job_id if same[job_id] == 1 else f"{job.kind}:{job_id}"


def _line(known: _Known, kept: _Kept, now: datetime) -> JobLine:
    job, is_skipped = known.job, False
    if isinstance(job, Routine) and job.spec.enabled:
        is_skipped = skipped_moment(job, kept.skips, now) is not None
    return line_of(job, known.key, now, kept.past[known.key], is_skipped=is_skipped)


def _past(tx: Transaction, job: Job, now: datetime) -> JobPast:
    kind, job_id = job.kind, job.spec.id
    stories: list[RunStory] = tx.ledger.stories_since(kind, job_id, since_when(now))
    if not stories and kind.has_moments:
        earlier = islice(tx.ledger.moments_of(kind, job_id), _EARLIER)
        stories = [tx.ledger.story(each) for each in earlier]
    spent = [] if job.is_plain else tx.usage.of_job(kind, job_id, now - PAST)
    return past_of(job, stories, spent, now)
