"""Ends or resumes the occurrences that a stop of the program left, and ends missed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo

from ollim_bot.clock import zone_of
from ollim_bot.domain.catch_up import (
    CatchUp,
    Missed,
    away_message,
    passed_over_message,
    unfinished_circumstances,
)
from ollim_bot.domain.decision import Abandon, Miss, Skip
from ollim_bot.domain.jobs import Job, Reminder, Routine, is_ordered
from ollim_bot.domain.notices import Notice
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState, SkipReason
from ollim_bot.domain.presence import PassedOver
from ollim_bot.domain.run_history import FROM_COPY, RunStory, claiming_row
from ollim_bot.domain.schedule import ScheduledJob, late_since, occurrence_at
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.dispatch import NOT_RUN, Dispatcher, DueOccurrence
from ollim_bot.schedule.extra_times import heads_ups_between
from ollim_bot.store.item_answers import add_missed
from ollim_bot.store.job_files import remove_reminder
from ollim_bot.store.steps import known_deeds, leave_notice, new_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


def end_missed(tx: Transaction, plan: CatchUp, away: Notice | None) -> None:
    """Write the ends of missed occurrences, leave the notice, and remove reminders' files.

    The older moments of what must come are left open, for `/today`.
    """
    if away is not None:
        leave_notice(tx, away, tx.now)
    claimed, skips = tx.ledger.claim_all(ended_rows(plan, tx.now)), tx.skips.get()
    for missed in plan.run:
        found = [(each, occurrence_at(missed.job, each)) for each in missed.older]
        older = [each for each, one in found if one in claimed and not skips.has(one)]
        if older and missed.job.must:
            add_missed(tx, missed.job, older)
    for missed in (*plan.tell, *plan.skip):
        if isinstance(missed.job, Reminder):
            tx.job_ops.add(remove_reminder(missed.job, missed.occurrence.id))


def away_notice(missed: Sequence[Missed], now: datetime, cause: str) -> Notice | None:
    """The notice of what was missed; None if nothing was."""
    if not missed:
        return None
    names = " ".join(one.occurrence.id for one in missed)
    for_reminder = any(isinstance(one.job, Reminder) for one in missed)
    return new_notice(
        away_message(missed, now, cause), key=f"away {names}", for_reminder=for_reminder
    )


def passed_over(plan: CatchUp, *, is_backup: bool) -> tuple[CatchUp, Sequence[Missed]]:
    """The plan with nothing to run, where all ends as missed and is told; and what still comes.

    A backup brings the files of reminders back. After a return to another copy, a file that is
    there says that its reminder was not delivered: what must come is delivered, without a run.
    """
    missed = (*plan.run, *plan.tell)
    owed = [] if is_backup else [one for one in missed if _is_owed(one.job)]
    return CatchUp(tell=tuple(one for one in missed if one not in owed), skip=plan.skip), owed


def _is_owed(job: ScheduledJob) -> bool:
    return isinstance(job, Reminder) and is_ordered(job)


def passed_over_notice(missed: Sequence[Missed], now: datetime, copy: str) -> Notice | None:
    """The notice of what a return to a copy passes over; None if there is nothing."""
    if not missed:
        return None
    names = " ".join(one.occurrence.id for one in missed)
    text = passed_over_message(missed, now, copy)
    return new_notice(text, key=f"passed over {names}", for_reminder=True)


def owed_rows(owed: Iterable[Missed], now: datetime) -> list[LedgerRow]:
    """The rows of reminders that are delivered without a run."""
    facts = {"reason": FROM_COPY}
    return [
        row
        for one in owed
        for row in _ended(one.job, one.newest, now, OccurrenceState.FAILED, facts)
    ]


def heads_up_rows(
    jobs: Iterable[ScheduledJob], window: PassedOver, zone: tzinfo, now: datetime
) -> list[LedgerRow]:
    """The rows of the heads-ups that a return to a copy passes over."""
    assert window.since is not None
    assert window.until is not None
    reason = {"reason": SkipReason.SUPERSEDED.value}
    rows: list[LedgerRow] = []
    for job in jobs:
        for each in heads_ups_between(job, window.since, window.until, zone):
            named = {"job": job.spec.title, **reason}
            rows.append(claiming_row(each.occurrence, now, {"job": job.spec.title}))
            rows.append(LedgerRow(now, OccurrenceState.SKIPPED.value, each.occurrence, named))
    return rows


def ended_rows(plan: CatchUp, now: datetime) -> list[LedgerRow]:
    """The ledger rows of all occurrences that end without a run."""
    rows: list[LedgerRow] = []
    for missed in (*plan.tell, *plan.skip):
        rows += _ended(missed.job, missed.newest, now, OccurrenceState.MISSED, {})
    reason = {"reason": SkipReason.SUPERSEDED.value}
    for missed in (*plan.run, *plan.tell, *plan.skip):
        for moment in missed.older:
            rows += _ended(missed.job, moment, now, OccurrenceState.SKIPPED, reason)
    return rows


def _ended(
    job: ScheduledJob,
    moment: datetime,
    now: datetime,
    state: OccurrenceState,
    facts: Mapping[str, object],
) -> list[LedgerRow]:
    occurrence = occurrence_at(job, moment)
    named = {"job": job.spec.title, **NOT_RUN}
    end = LedgerRow(now, state.value, occurrence, {**named, **facts})
    return [claiming_row(occurrence, now), end]


_NO_FACTS: Mapping[str, object] = {}
FILE_GONE = {"reason": SkipReason.DISABLED.value, "silent_because": "its file is gone"}


class UnfinishedRuns:
    """Brings each occurrence that has no end row to its end, or resumes it."""

    def __init__(self, store: Store, dispatch: Dispatcher, clock: Clock) -> None:
        self._store = store
        self._dispatch = dispatch
        self._clock = clock

    async def recover(self, job: Job | None, story: RunStory, watched_until: datetime) -> None:
        """End or resume the occurrence; `job` is None if its file is gone.

        If the disk has no room for the end, the occurrence is resumed; without a job, the next
        start tries again.
        """
        one, now = story.occurrence, self._clock.now()
        given = await self._store.read(
            lambda tx: unfinished_circumstances(
                job, story, tx.ledger.has, watched_until, now, zone_of(self._clock)
            )
        )
        decision = await self._dispatch.decide_at_start(job, one, given)
        try:
            match decision:
                case Abandon(state):
                    await self._end(story, None, (state, FILE_GONE))
                    return
                case Skip(SkipReason.SUPERSEDED) if job is not None:
                    reason = {"reason": SkipReason.SUPERSEDED.value, "job": job.spec.title}
                    skipped = (OccurrenceState.SKIPPED, {**reason, **NOT_RUN})
                    is_cut = story.state is OccurrenceState.RUNNING
                    cut = [(OccurrenceState.CUT_OFF, _NO_FACTS)] if is_cut else []
                    await self._end(story, None, *cut, skipped, left_open=job)
                    return
                case Miss(is_told) if isinstance(job, Routine | Reminder):
                    await self._miss(job, story, is_told=is_told)
                    return
        except StorageError:
            pass
        if job is not None:
            self._dispatch.resume(DueOccurrence(job, one, late_since(one, now)), story)

    async def _miss(self, job: ScheduledJob, story: RunStory, *, is_told: bool) -> None:
        due = story.occurrence.scheduled_at
        assert due is not None
        sentence = away_message([Missed(job, due)], self._clock.now())
        for_reminder = isinstance(job, Reminder)
        key = f"missed {story.occurrence.id}"
        notice = new_notice(sentence, key=key, for_reminder=for_reminder) if is_told else None
        missed = {"job": job.spec.title, **NOT_RUN}
        await self._end(story, notice, (OccurrenceState.MISSED, missed))

    async def _end(
        self,
        story: RunStory,
        notice: Notice | None,
        *ends: tuple[OccurrenceState, Mapping[str, object]],
        left_open: Job | None = None,
    ) -> None:
        one = story.occurrence

        def step(tx: Transaction) -> None:
            if notice is not None:
                leave_notice(tx, notice, tx.now)
            for state, facts in ends:
                known = _with_deeds(tx, story, facts) if state.is_end else facts
                tx.ledger.append(LedgerRow(tx.now, state.value, one, known))
            if isinstance(left_open, Routine) and left_open.must and one.scheduled_at is not None:
                add_missed(tx, left_open, [one.scheduled_at])

        await self._store.transact(step)


def _with_deeds(
    tx: Transaction, story: RunStory, facts: Mapping[str, object]
) -> Mapping[str, object]:
    """The facts of an end, with what is known of an attempt that was cut off."""
    known = known_deeds(tx, story)
    if not known:
        return facts
    rest = dict(facts)
    if "pings" in known or rest.get("silent_because") == NOT_RUN["silent_because"]:
        rest.pop("silent_because", None)
    return {**known, **rest}
