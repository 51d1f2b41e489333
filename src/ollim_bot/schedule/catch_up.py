"""Ends or resumes what a stop of the program left behind, and ends what was missed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import CatchUp, Missed, away_message, unfinished_circumstances
from ollim_bot.domain.decision import Abandon, Miss, Skip
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.lateness import late_since
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState, SkipReason
from ollim_bot.domain.run_history import History, RunStory, claiming_row
from ollim_bot.domain.schedule import ScheduledJob, occurrence_at
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.circumstances import DueOccurrence
from ollim_bot.schedule.dispatch import NOT_RUN, Dispatcher
from ollim_bot.stores import Stores


async def tell_missed(
    missed: Sequence[Missed], since: datetime, stores: Stores, notices: Notices, now: datetime
) -> None:
    """Call before the ledger says that they were missed: a crash in between leads here again.

    `since` is the last heartbeat. It is the same at each start until all is written down, and the
    key says how far the telling has come. Raises `StorageError` where there is no room for it.
    """
    if not missed:
        return
    rows = await asyncio.to_thread(stores.ledger.read, since)
    # After a clock that was set back, some of it was told before.
    claimed = {row.occurrence for row in rows.entries}
    key = f"away {since.isoformat()} until "
    told = [datetime.fromisoformat(one.removeprefix(key)) for one in await notices.known(key)]
    until = max(told, default=since)
    if news := [one for one in missed if one.newest > until and one.occurrence not in claimed]:
        until = max(one.newest for one in news).astimezone(UTC)
        refused = await notices.tell(away_message(news, now), key=f"{key}{until.isoformat()}")
        if refused is not None:
            raise refused


def ended_rows(plan: CatchUp, now: datetime) -> list[LedgerRow]:
    """All rows of the occurrences that end without a run."""
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


class UnfinishedRuns:
    """Brings each occurrence that has no end row to its end, or resumes it."""

    def __init__(
        self, stores: Stores, dispatch: Dispatcher, notices: Notices, clock: Clock, zone: tzinfo
    ) -> None:
        self._stores = stores
        self._dispatch = dispatch
        self._notices = notices
        self._clock = clock
        self._zone = zone

    async def recover(
        self, job: Job | None, story: RunStory, history: History, watched_until: datetime
    ) -> None:
        """`job` is None if its file is gone. An end for which the disk has no room waits for the
        next start where the job is gone; else the occurrence is resumed."""
        one, now = story.occurrence, self._clock.now()
        given = unfinished_circumstances(job, story, history, watched_until, now, self._zone)
        decision = await self._dispatch.decide_at_start(job, one, given)
        try:
            match decision:
                case Abandon(state):
                    await self._abandon(story, state)
                    return
                case Skip(SkipReason.SUPERSEDED) if job is not None:
                    await self._supersede(job, story)
                    return
                case Miss(is_told) if isinstance(job, Routine | Reminder):
                    if await self._is_missed(job, story, is_told=is_told):
                        return
        except StorageError:
            pass
        if job is not None:
            self._dispatch.resume(DueOccurrence(job, one, late_since(one, now)), story)

    async def _abandon(self, story: RunStory, state: OccurrenceState) -> None:
        facts = {"reason": SkipReason.DISABLED.value, "silent_because": "its file is gone"}
        await self._append(story, (state, facts))

    async def _supersede(self, job: Job, story: RunStory) -> None:
        reason = {"reason": SkipReason.SUPERSEDED.value, "job": job.spec.title}
        skipped = (OccurrenceState.SKIPPED, {**reason, **NOT_RUN})
        is_cut = story.state is OccurrenceState.RUNNING
        await self._append(story, *([(OccurrenceState.CUT_OFF, {})] if is_cut else []), skipped)

    async def _is_missed(self, job: ScheduledJob, story: RunStory, *, is_told: bool) -> bool:
        """Tell before the end row is written: a crash in between leads here again."""
        due = story.occurrence.scheduled_at
        assert due is not None
        if is_told:
            sentence = away_message([Missed(job, due)], self._clock.now())
            if await self._notices.tell(sentence, key=f"missed {story.occurrence.id}"):
                return False
        await self._append(story, (OccurrenceState.MISSED, {"job": job.spec.title, **NOT_RUN}))
        return True

    async def _append(
        self, story: RunStory, *ends: tuple[OccurrenceState, Mapping[str, object]]
    ) -> None:
        now = self._clock.now()
        rows = [LedgerRow(now, state.value, story.occurrence, facts) for state, facts in ends]
        await asyncio.to_thread(self._stores.ledger.append, *rows)
