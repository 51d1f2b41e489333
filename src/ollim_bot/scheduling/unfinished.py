"""What the last stop of the program has left without an end, where nobody goes on with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, tzinfo

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import Missed, away_message, verdict
from ollim_bot.domain.jobs import Late, Routine
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState, SkipReason, may_follow
from ollim_bot.domain.run_history import History, Recovery, RunStory
from ollim_bot.domain.schedule import last_due, occurrence_at
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.scheduling import texts
from ollim_bot.scheduling.dispatch import Dispatch
from ollim_bot.scheduling.work import Work
from ollim_bot.stores import Stores


class Unfinished:
    def __init__(
        self, stores: Stores, dispatch: Dispatch, notices: Notices, clock: Clock, zone: tzinfo
    ) -> None:
        self._stores = stores
        self._dispatch = dispatch
        self._notices = notices
        self._clock = clock
        self._zone = zone

    async def abandon(self, story: RunStory) -> None:
        """Its file is gone, so nobody wants it any more."""
        is_begun = may_follow(story.state, OccurrenceState.INTERRUPTED)
        state = OccurrenceState.INTERRUPTED if is_begun else OccurrenceState.SKIPPED
        facts = {"reason": SkipReason.DISABLED.value, "silent_because": "its file is gone"}
        await self._append(story, (state, facts))

    async def has_ended(
        self, work: Work, story: RunStory, history: History, watched_until: datetime
    ) -> bool:
        """Whether it gives way to a newer moment of its routine, or comes too late to be begun.

        What was due after `watched_until` is about to be caught up with. False if it goes on, as it
        also does where there is no room for its end on the disk.
        """
        job, due, now = work.job, work.occurrence.scheduled_at, self._clock.now()
        is_to_be_begun = story.recovery in (Recovery.RUN, Recovery.TRY_AGAIN)
        if not isinstance(job, Routine) or due is None or not is_to_be_begun:
            return False
        if work.occurrence.manual or await self._dispatch.has_plans_for(work):
            return False
        newest = last_due(job, now, self._zone)
        is_newer = newest is not None and newest > max(due, watched_until)
        try:
            if newest and is_newer and occurrence_at(job, newest) not in history.stories:
                await self._supersede(job, story)
                return True
            late = verdict(job, due, now, self._zone)
            if story.recovery is Recovery.RUN and late is not Late.RUN:
                return await self._is_missed(Missed(job, due), story, late)
        except StorageError:
            pass
        return False

    async def _supersede(self, job: Routine, story: RunStory) -> None:
        reason = {"reason": SkipReason.SUPERSEDED.value, "job": job.spec.title}
        skipped = (OccurrenceState.SKIPPED, {**reason, **texts.NOT_RUN})
        is_cut = story.state is OccurrenceState.RUNNING
        await self._append(story, *([(OccurrenceState.CUT_OFF, {})] if is_cut else []), skipped)

    async def _is_missed(self, missed: Missed, story: RunStory, late: Late) -> bool:
        """Told before the ledger says so, so that no crash comes between."""
        if late is Late.TELL:
            sentence = away_message([missed], self._clock.now())
            if await self._notices.tell(sentence, key=f"missed {story.occurrence.id}"):
                return False
        facts = {"job": missed.job.spec.title, **texts.NOT_RUN}
        await self._append(story, (OccurrenceState.MISSED, facts))
        return True

    async def _append(
        self, story: RunStory, *ends: tuple[OccurrenceState, Mapping[str, object]]
    ) -> None:
        now = self._clock.now()
        rows = [LedgerRow(now, state.value, story.occurrence, facts) for state, facts in ends]
        await asyncio.to_thread(self._stores.ledger.append, *rows)
