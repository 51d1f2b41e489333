"""Ends or resumes the occurrences that a stop of the program left, and ends missed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.changes.item_answers import add_missed
from ollim_bot.kernel.changes.job_files import remove_reminder
from ollim_bot.kernel.schedule.dispatch import NOT_RUN, Dispatcher, DueOccurrence, circumstances
from ollim_bot.kernel.schedule.extra_times import heads_up_end, heads_ups_between
from ollim_bot.kernel.store.steps import known_deeds, leave_notice, new_notice
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.catch_up_decision import CatchUp, Missed, away_message, is_superseded
from ollim_bot.kernel.values.decision import Abandon, Miss, Skip, decide
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine, is_ordered
from ollim_bot.kernel.values.notices import Notice
from ollim_bot.kernel.values.occurrences import LedgerRow, OccurrenceState, SkipReason
from ollim_bot.kernel.values.presence import PassedOver
from ollim_bot.kernel.values.run_history import FROM_COPY, RunStory, claiming_row
from ollim_bot.kernel.values.schedule import ScheduledJob, late_since, occurrence_at


def end_missed(tx: Transaction, plan: CatchUp, away: Notice | None) -> bool:
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
    return True


def notice_of(missed: Sequence[Missed], text: str, key: str, *, is_promised: bool) -> Notice | None:
    """The notice with this text about what was missed; None if nothing was.

    It comes at once if a reminder is among it, or it `is_promised`.
    """
    names = " ".join(one.occurrence.id for one in missed)
    for_reminder = is_promised or any(isinstance(one.job, Reminder) for one in missed)
    return new_notice(text, key=f"{key} {names}", for_reminder=for_reminder) if missed else None


def passed_over(plan: CatchUp, *, is_backup: bool) -> tuple[CatchUp, Sequence[Missed]]:
    """The plan with nothing to run, where all ends as missed and is told; and what still comes.

    A backup brings the files of reminders back. After a return to another copy, a file that is
    there says that its reminder was not delivered: what must come is delivered, without a run.
    """
    missed = (*plan.run, *plan.tell)
    owed = [
        one
        for one in missed
        if isinstance(one.job, Reminder) and is_ordered(one.job) and not is_backup
    ]
    return CatchUp(tell=tuple(one for one in missed if one not in owed), skip=plan.skip), owed


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
    rows: list[LedgerRow] = []
    for job in jobs:
        title = job.spec.title
        for each in heads_ups_between(job, window.since, window.until, zone):
            rows.append(claiming_row(each.occurrence, now, {"job": title}))
            rows.append(heads_up_end(each.occurrence, title, SkipReason.SUPERSEDED, now))
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
        notice: Notice | None = None

        def step(tx: Transaction) -> bool:
            """Decide, and end what does not run; False if it does."""
            given = circumstances(tx, job, one, story.progress)._replace(
                was_away=True,
                has_waited=bool(story.held),
                is_superseded=is_superseded(job, one, tx.ledger.has, watched_until, tx.now),
            )
            named = {} if job is None else {"job": job.spec.title, **NOT_RUN}
            match decide(job, given):
                case Abandon(state):
                    _end(tx, story, state, FILE_GONE)
                case Skip(SkipReason.SUPERSEDED):
                    if story.state is OccurrenceState.RUNNING:
                        tx.ledger.append(LedgerRow(tx.now, OccurrenceState.CUT_OFF.value, one, {}))
                    reason = {"reason": SkipReason.SUPERSEDED.value}
                    _end(tx, story, OccurrenceState.SKIPPED, {**reason, **named})
                    if isinstance(job, Routine) and job.must and one.scheduled_at is not None:
                        add_missed(tx, job, [one.scheduled_at])
                case Miss(is_told) if isinstance(job, Routine | Reminder):
                    if is_told:
                        assert notice is not None
                        leave_notice(tx, notice, tx.now)
                    _end(tx, story, OccurrenceState.MISSED, named)
                case _:
                    return False
            return True

        if isinstance(job, Routine | Reminder) and one.scheduled_at is not None:
            sentence = away_message([Missed(job, one.scheduled_at)], now)
            for_reminder = isinstance(job, Reminder)
            notice = new_notice(sentence, key=f"missed {one.id}", for_reminder=for_reminder)
        ending = self._store.transact(step)
        if not await unless_refused("An end could not be written down", ending) and job is not None:
            self._dispatch.resume(DueOccurrence(job, one, late_since(one, now)), story)


def _end(
    tx: Transaction, story: RunStory, state: OccurrenceState, facts: Mapping[str, object]
) -> None:
    """Write the end, with what is known of an attempt that was cut off."""
    rest, known = dict(facts), known_deeds(tx, story)
    if "pings" in known or (known and rest["silent_because"] == NOT_RUN["silent_because"]):
        del rest["silent_because"]
    tx.ledger.append(LedgerRow(tx.now, state.value, story.occurrence, {**known, **rest}))
