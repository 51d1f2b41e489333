"""The bot as it would go through what fires: who waits, who is skipped, who may ping."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count

from ollim_bot.domain.initiative import is_initiative
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.domain.occurrences import OccurrenceState, SkipReason
from ollim_bot.domain.ping_rules import Refused, charged
from ollim_bot.domain.rehearsal.circumstances import Circumstances
from ollim_bot.domain.rehearsal.fires import Fire, Ping
from ollim_bot.domain.runs import Run, RunPolicy
from ollim_bot.domain.schedule import ScheduledJob, occurrence_at
from ollim_bot.domain.tool_policy import problems

# How long what was ordered waits for its turn in the conversation.
_PATIENCE = timedelta(seconds=60)


class Play:
    """Of what happens at the same instant, the fires come first, and the ends of runs later.

    So a run that lasts exactly until the next moment of its job still goes on then: it began a hair
    after its own.
    """

    def __init__(self, given: Circumstances, length: timedelta) -> None:
        self._given = given
        self._budget = given.budget
        self._length = length
        self._order = count()
        self._going: list[tuple[datetime, int, Fire]] = []
        self._waiting: list[tuple[tuple[bool, datetime], int, Fire]] = []
        self._routines: set[str] = set()
        self._running = 0
        self._conversation_free_at: datetime | None = None

    def through(self, fires: Iterable[Fire]) -> None:
        """Writes into each of them what becomes of it. They are in order."""
        for fire in fires:
            self._end_all(fire.at)
            if fire.state is OccurrenceState.DONE:
                self._fire(fire)
        self._end_all(None)

    def _fire(self, fire: Fire) -> None:
        is_skipped = self._given.is_skipped
        if is_skipped is not None and is_skipped(occurrence_at(fire.job, fire.due)):
            _skip(fire, SkipReason.POLICY)
            return
        fire.ping = Ping.ORDERED if fire.is_ordered else Ping.NONE
        if isinstance(fire.job, Routine) and fire.job.spec.id in self._routines:
            _skip(fire, SkipReason.OVERLAP)
        elif not fire.job.spec.background:
            self._take_turn(fire)
        elif reason := self._obstacle(fire.job) or self._unpaid(fire):
            _skip(fire, reason)
        else:
            self._go(fire)
            rank = (not isinstance(fire.job, Reminder), fire.due)
            heappush(self._waiting, (rank, next(self._order), fire))
            self._call_up(fire.at)

    def _take_turn(self, fire: Fire) -> None:
        """In the conversation, one after another; what was ordered comes without it if need be."""
        starts = max(fire.at, self._conversation_free_at or fire.at)
        if fire.is_ordered and starts > max(fire.due, fire.at - _PATIENCE / 2) + _PATIENCE:
            _skip(fire, SkipReason.POLICY)
            return
        self._go(fire)
        fire.starts = starts
        self._conversation_free_at = starts + self._length
        heappush(self._going, (self._conversation_free_at, next(self._order), fire))

    def _obstacle(self, job: ScheduledJob) -> SkipReason | None:
        if any(problems(tool).errors for tool in job.spec.allowed_tools):
            return SkipReason.INVALID_TOOLS
        skills = self._given.skills
        if skills is not None and not skills >= {*job.spec.skills}:
            return SkipReason.MISSING_SKILL
        return None

    def _unpaid(self, fire: Fire) -> SkipReason | None:
        """What the bot has set by itself sets its ping aside when it is due."""
        if not is_initiative(fire.job):
            return None
        now = fire.at.astimezone(self._given.zone)
        self._budget, is_paid = self._budget.set_aside(_name(fire), now)
        fire.ping = Ping.NONE if is_paid else Ping.REFUSED
        return None if is_paid else SkipReason.BUDGET

    def _go(self, fire: Fire) -> None:
        if isinstance(fire.job, Routine):
            self._routines.add(fire.job.spec.id)

    def _call_up(self, now: datetime) -> None:
        while self._waiting and self._running < self._given.config.bg_concurrency:
            _, _, fire = heappop(self._waiting)
            self._running += 1
            fire.starts = now
            heappush(self._going, (now + self._length, next(self._order), fire))

    def _end_all(self, before: datetime | None) -> None:
        while self._going and (before is None or self._going[0][0] < before):
            now, _, fire = heappop(self._going)
            if isinstance(fire.job, Routine):
                self._routines.discard(fire.job.spec.id)
            if fire.job.spec.background:
                self._ping(fire, now)
                self._running -= 1
                self._call_up(now)

    def _ping(self, fire: Fire, now: datetime) -> None:
        if fire.is_ordered or not fire.job.spec.allow_ping:
            return
        name = _name(fire) if self._budget.held else ""
        self._budget, verdict = charged(
            self._budget,
            Run(RunPolicy.of_job(fire.job, ()), now, occurrence=name),
            now.astimezone(self._given.zone),
            wants_critical=False,
            is_busy=False,
            daily_cap=self._given.config.critical_daily_cap,
        )
        fire.ping = Ping.REFUSED if isinstance(verdict, Refused) else Ping.SENT


def _name(fire: Fire) -> str:
    return occurrence_at(fire.job, fire.due).id


def _skip(fire: Fire, reason: SkipReason) -> None:
    fire.state, fire.reason = OccurrenceState.SKIPPED, reason
