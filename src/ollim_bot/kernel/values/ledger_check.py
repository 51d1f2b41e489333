"""Checks that the ledger obeys its laws."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile

from ollim_bot.kernel.base.job_kinds import EventKind, JobKey, JobKind
from ollim_bot.kernel.values.answer_plans import AnswerPlan, after_done_of
from ollim_bot.kernel.values.definitions import Definition, key_of, roster_of, since_of
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState, may_follow
from ollim_bot.kernel.values.run_history import (
    ARMED,
    CHANGED,
    CHECKPOINT,
    PLAINLY,
    PLANNED_AT,
    REMOVED,
    ROSTER,
    STARTED,
    History,
    RunStory,
    moment_in,
)
from ollim_bot.kernel.values.schedule import Agenda

_STATES = frozenset({ARMED, CHANGED, REMOVED, ROSTER})

# Rows that are written together may be in another order than their moments.
_JITTER = timedelta(minutes=1)


@dataclass(slots=True)
class DefinitionPeriod:
    """A definition that counts for the moments later than `after`, and until `until` if set.

    `earliest` is before `after` if the clock was set back in between. `is_first` says that the job
    may have been armed before the ledger began.
    """

    definition: Definition
    after: datetime
    is_first: bool
    earliest: datetime
    until: datetime | None = None

    def expected(self, horizon: datetime, since: datetime | None = None) -> Iterator[datetime]:
        """The moments that must have occurrences by `horizon`; of routines, those after `since`."""
        end = horizon if self.until is None else min(horizon, self.until)
        if not self.definition.enabled or end <= self.after:
            return iter(())
        start = max(self.after, since or self.after)
        due = takewhile(lambda moment: moment <= end, self.definition.moments(start))
        # Before the first row of a truncated ledger, a reminder may already have been served.
        return (moment for moment in due if moment > self.after or not self.is_first)

    def expected_before(self, horizon: datetime) -> Iterator[tuple[datetime, timedelta]]:
        """The moments and lengths of the heads-ups that must have occurrences by `horizon`."""
        end = horizon if self.until is None else min(horizon, self.until)
        for length in self.definition.before if self.definition.enabled else ():
            for moment in self.definition.moments(self.after + length):
                if moment - length > end:
                    break
                if moment - length > self.after:
                    yield moment, length

    def allows(self, one: Occurrence) -> bool:
        """Whether the occurrence is possible in this period."""
        moment = one.whole.scheduled_at
        if one.comes_before not in (None, *self.definition.before) or moment is None:
            return False
        # A reminder that was overdue when it was armed still comes.
        if self.definition.key.kind is JobKind.ROUTINE and moment <= self.earliest:
            return False
        return next(self.definition.moments(moment - timedelta(seconds=1)), None) == moment


class DefinitionHistory:
    """The periods of all definitions, from rows passed to `note` in the order of the ledger.

    `has_begun` says that all armed jobs are known. `touched` are the jobs with new periods. The bot
    has claimed everything that was due until `watched_until`, and runs since `started`.
    """

    def __init__(self) -> None:
        self.of: dict[JobKey, list[DefinitionPeriod]] = {}
        self.touched: set[JobKey] = set()
        self.findings: list[str] = []
        self.has_begun = False
        self.watched_until: datetime | None = None
        self.started: datetime | None = None
        self._clock: datetime | None = None

    def note(self, row: LedgerRow) -> None:
        at = row.ts
        if self._clock is not None and at < self._clock - _JITTER:
            for held in filter(None, map(self.held, self.of)):
                held.earliest = min(held.earliest, at)
            self._clock = None
        self._clock = max(self._clock or at, at)
        if row.state == CHECKPOINT:
            self.watched_until = moment_in(row.facts, "watched_until") or self.watched_until
        elif row.state == STARTED:
            self.started = row.ts
        elif row.state in _STATES:
            try:
                self._note(row, since_of(row))
            except ValueError:
                when = row.ts.isoformat(timespec="seconds")
                self.findings.append(f"The row `{row.state}` of {when} cannot be understood.")

    def held(self, key: JobKey) -> DefinitionPeriod | None:
        """The current period of the job; None if the job is not armed."""
        last = self.of.get(key, [None])[-1]
        return None if last is None or last.until is not None else last

    def _note(self, row: LedgerRow, since: datetime) -> None:
        if row.state == ROSTER:
            self._roster(roster_of(row), since)
        elif row.state == REMOVED:
            key = key_of(row)
            if self.has_begun and self.held(key) is None:
                self.findings.append(f"{key}: is said to be removed, but it was not armed.")
            self._end(key, since)
        else:
            self._arm(Definition.read(row.facts), since, is_new=row.state == ARMED)

    def _roster(self, jobs: list[Definition], since: datetime) -> None:
        """The first roster begins the ledger; a later one repeats what is known."""
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

    def _begin(self, job: Definition, since: datetime, *, is_first: bool) -> None:
        job.moments(since)
        self.of.setdefault(job.key, []).append(DefinitionPeriod(job, since, is_first, since))

    def _end(self, key: JobKey, since: datetime) -> None:
        self.touched.add(key)
        held = self.held(key)
        if held is not None:
            held.until = since


class ExpectedMoments:
    """The moments from `start` on and before `end` that must have occurrences.

    Its `definitions` note the rows of the ledger. It looks at each moment once, however often it
    is asked.
    """

    def __init__(self, start: datetime, end: datetime) -> None:
        self._start = self._horizon = start - datetime.resolution
        self._end = end
        self.definitions = DefinitionHistory()
        self._agenda: Agenda[JobKey] = Agenda()
        self._missing: list[Occurrence] = []

    def missing(self, horizon: datetime, known: Container[Occurrence]) -> Sequence[Occurrence]:
        """Those not later than `horizon` that are not `known`; what was known stays known."""
        definitions, before, self._horizon = self.definitions, self._horizon, horizon
        anew = set(definitions.of) if horizon < before else definitions.touched
        definitions.touched = set()
        found = [one for one in self._missing if JobKey(one.kind, one.job_id) not in anew]
        for key in anew:
            found += self._planned(key, self._start, horizon)
        for key, _ in self._agenda.due(horizon):
            # A reminder that was overdue when it was armed is expected from then on.
            since = before if key.kind is JobKind.ROUTINE else self._start
            found += self._planned(key, since, horizon)
        self._missing = [one for one in found if one not in known]
        return self._missing

    def _planned(self, key: JobKey, since: datetime, horizon: datetime) -> Iterator[Occurrence]:
        """The moments of a job later than `since`; those after `horizon` are left for later."""
        for period in self.definitions.of[key]:
            for moment in period.expected(horizon, since):
                if since < moment < self._end:
                    yield Occurrence.scheduled(key.kind, key.id, moment)
        self._agenda.remove(key)
        held = self.definitions.held(key)
        if held is not None and held.definition.enabled:
            coming = next(held.definition.moments(max(horizon, held.after)), self._end)
            at = max(coming, held.after + datetime.resolution)
            if horizon < at < self._end:
                self._agenda.put(key, at)


# An occurrence without a `limit` waits for its turn, or for the owner's conversation.
_PATIENCE = timedelta(days=1)
_GRACE = timedelta(minutes=5)
_MOST = 10**9
# What the program delivers without an attempt may follow these.
_BEFORE_PLAIN = frozenset(
    {OccurrenceState.DUE, OccurrenceState.ATTEMPT_FAILED, OccurrenceState.CUT_OFF}
)


def check(
    rows: Iterable[LedgerRow], now: datetime, watched_until: datetime | None = None
) -> list[str]:
    """A sentence for each violation, which begins with the occurrence or the job.

    `watched_until` is the moment until which, as the program says, everything due is claimed; by
    default, that of the last checkpoint. Later moments are not wrong yet: the next start handles
    them. Downtime excuses nothing, because the next start has to record the end of each occurrence.
    """
    found = _Reading(rows)
    watched_until = watched_until or found.definitions.watched_until
    horizon = None if watched_until is None else min(now, watched_until)
    expected = {} if horizon is None else found.expected(horizon)
    return [
        *found.definitions.findings,
        *(text for story in found.stories for text in found.wrong_with(story, horizon)),
        *(
            f"{story.occurrence.id}: has no cause; no such job was due then."
            for story in found.stories
            if not found.has_cause(story, expected)
        ),
        *(
            f"{one.id}: was due, and nothing is known of it."
            for one in expected
            if one not in found.history.stories
        ),
    ]


class _Reading:
    """The content of the rows. Occurrences from before the first roster may lack rows."""

    def __init__(self, rows: Iterable[LedgerRow]) -> None:
        self.definitions = DefinitionHistory()
        self._oldest: set[Occurrence] = set()
        # The definition that was in force at the first row of each occurrence.
        self._causes: dict[Occurrence, DefinitionPeriod | None] = {}
        self.history = History.of(self._noted(rows))
        self.stories = list(self.history.stories.values())

    def _noted(self, rows: Iterable[LedgerRow]) -> Iterator[LedgerRow]:
        for row in rows:
            self.definitions.note(row)
            one = row.occurrence
            if one is not None and one not in self._causes:
                self._causes[one] = self.definitions.held(JobKey(one.kind, one.job_id))
                if not self.definitions.has_begun:
                    self._oldest.add(one)
            yield row

    def expected(self, horizon: datetime) -> dict[Occurrence, None]:
        """The occurrences that must have rows by `horizon`."""
        found: dict[Occurrence, None] = {}
        for key, definitions in self.definitions.of.items():
            for period in definitions:
                for moment in period.expected(horizon):
                    found[Occurrence.scheduled(key.kind, key.id, moment)] = None
                for moment, length in period.expected_before(horizon):
                    found[Occurrence.scheduled(key.kind, key.id, moment).before(length)] = None
        return found

    def has_cause(self, story: RunStory, expected: dict[Occurrence, None]) -> bool:
        """Whether a job caused it. Deliveries, manual runs and events are caused from outside."""
        one = story.occurrence
        if isinstance(one.kind, EventKind):
            return True
        if one.is_again:
            return one.whole in self.history.stories or one in self._oldest
        if one in expected or one.manual or one.scheduled_at is None or one in self._oldest:
            return True
        cause = self._causes[one]
        return cause is not None and (cause.allows(one) or self._follows_answer(one, cause))

    def _follows_answer(self, one: Occurrence, cause: DefinitionPeriod) -> bool:
        """Whether it is the planned moment of a routine that comes after it is done."""
        story = self.history.stories.get(one.whole)
        is_planned = story is not None and AnswerPlan.read(story) is not None
        is_announced = one.comes_before in (None, *cause.definition.before)
        return is_planned and is_announced and after_done_of(cause.definition) is not None

    def wrong_with(self, story: RunStory, horizon: datetime | None) -> Iterator[str]:
        """At most one violation: a doubled end is out of order as well."""
        steps, ends = story.steps, story.ends
        if len(ends) > 1:
            states = ", ".join(end.state for end in ends)
            yield f"{story.occurrence.id}: has {len(ends)} ends: {states}."
        elif text := self._disorder(story):
            yield f"{story.occurrence.id}: {text}."
        elif story.occurrence not in self._oldest and not _has_all_attempts(steps):
            yield f"{story.occurrence.id}: an attempt is missing."
        elif not ends and horizon and is_given_up(story, horizon, self.definitions.started):
            yield f"{story.occurrence.id}: has no end; the last word is `{story.state}`."

    def _disorder(self, story: RunStory) -> str | None:
        one, steps = story.occurrence, story.steps
        if steps and steps[0][0] not in _firsts(one) and one not in self._oldest:
            return f"begins with `{steps[0][0]}`"
        for (before, _), (after, row) in pairwise(steps):
            # Whether the row ends what the program delivered without an attempt.
            is_plain = before in _BEFORE_PLAIN and (
                row.state == OccurrenceState.DONE and PLAINLY.items() <= row.facts.items()
            )
            if not (is_plain or may_follow(before, after)):
                return f"`{after}` cannot follow `{before}`"
        return None


def is_given_up(story: RunStory, horizon: datetime, started: datetime | None) -> bool:
    """Whether it has had no end for longer than it can take.

    The time counts anew from each start, because the program did not run before.
    """
    last = story.rows[-1]
    planned_at = moment_in(last.facts, PLANNED_AT)
    limit = next((row.facts.get("limit") for _, row in reversed(story.steps)), None)
    patience = _PATIENCE
    if planned_at:
        patience = _GRACE
    elif isinstance(limit, int | float) and 0 <= limit < _MOST:
        patience = timedelta(seconds=limit) + _GRACE
    return horizon - max(last.ts, planned_at or last.ts, started or last.ts) > patience


def _firsts(one: Occurrence) -> Set[OccurrenceState]:
    """How it may begin: a moment by the clock, or by the plan of an answer."""
    if one.is_again:
        return {OccurrenceState.PLANNED}
    is_moment = one.kind is JobKind.ROUTINE and not (one.manual or one.part)
    return {OccurrenceState.DUE, OccurrenceState.PLANNED} if is_moment else {OccurrenceState.DUE}


def _has_all_attempts(steps: Sequence[tuple[OccurrenceState, LedgerRow]]) -> bool:
    """Whether the attempts are complete, as far as the rows number them."""
    numbers = [row.facts.get("attempt") for state, row in steps if state is OccurrenceState.RUNNING]
    said = steps[-1][1].facts.get("attempts") if steps else None
    counted = zip(numbers, range(1, len(numbers) + 1), strict=True)
    return said in (None, len(numbers)) and all(found in (None, nth) for found, nth in counted)
