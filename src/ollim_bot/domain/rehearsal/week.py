"""A rehearsed week that is kept, and played again only where one job changes it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ollim_bot.domain.costs import PastCosts
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.rehearsal.difference import Difference, RehearsedSide, difference
from ollim_bot.domain.rehearsal.findings import DAYS, Finding, findings
from ollim_bot.domain.rehearsal.fires import Assumptions, Fire, Ping, by_timing, coming
from ollim_bot.domain.rehearsal.simulation import (
    BETWEEN_MARKS,
    MOST_FIRES,
    Mark,
    Rehearsal,
    Simulation,
    State,
    rehearse,
    rehearse_with_marks,
)
from ollim_bot.domain.schedule import ScheduledJob, key_of


@dataclass(frozen=True, slots=True)
class RehearsedWeek:
    """The coming week of a bot that runs. `marks` are places to play from again."""

    jobs: dict[JobKey, ScheduledJob]
    given: Assumptions
    rehearsal: Rehearsal
    findings: Sequence[Finding]
    marks: Sequence[Mark]

    @property
    def now(self) -> datetime:
        return self.rehearsal.now

    def replanned(self, before: JobKey | None, after: ScheduledJob | None) -> Rehearsal:
        """The week with `after` in place of the job `before`, as `rehearse` would give it.

        It has no `budgets`.
        """
        changed = {before, None if after is None else key_of(after)}
        fires = self.rehearsal.fires
        added = [] if after is None or not after.spec.enabled else self._moments(after)
        if not self.rehearsal.is_whole or len(fires) + len(added) > MOST_FIRES:
            jobs = self._others(changed) + ([after] if after else [])
            return replace(rehearse(jobs, self.given, DAYS), budgets=())
        former = [self.jobs[key] for key in changed if key is not None and key in self.jobs]
        same = {*map(id, former)}
        gone = [place for place, fire in enumerate(fires) if id(fire.job) in same]
        replay = _Replay(self, gone, added)
        touches_others = any(not job.spec.plain for job in (*former, *([after] if after else ())))
        played = replay.play() if touches_others else replay.play_alone()
        return replace(self.rehearsal, fires=tuple(played), budgets=())

    def difference(
        self, before: ScheduledJob | None, after: ScheduledJob | None, costs: PastCosts
    ) -> Difference:
        """What `after` in place of `before` changes; None is a job that is not there."""
        rehearsal = self.replanned(None if before is None else key_of(before), after)
        keys = {key_of(job) for job in (before, after) if job is not None}
        return difference(
            RehearsedSide(self.rehearsal, self.findings, before),
            RehearsedSide(rehearsal, findings(rehearsal, keys), after),
            costs,
        )

    def _moments(self, job: ScheduledJob) -> list[Fire]:
        start, end = self.given.now.astimezone(UTC), self.rehearsal.until.astimezone(UTC)
        zone = self.given.zone
        return [*coming(by_timing([job], zone), start, end, zone)]

    def _others(self, keys: set[JobKey | None]) -> list[ScheduledJob]:
        return [job for key, job in self.jobs.items() if key not in keys]


def rehearse_week(
    jobs: Iterable[ScheduledJob], given: Assumptions, between_marks: int = BETWEEN_MARKS
) -> RehearsedWeek:
    """Rehearse the coming week of a bot that runs, and so has missed nothing."""
    by_key = {key_of(job): job for job in jobs}
    given = replace(given, watched_until=None)
    rehearsal, marks = rehearse_with_marks(
        by_key.values(), given, DAYS, between_marks=between_marks
    )
    return RehearsedWeek(by_key, given, rehearsal, findings(rehearsal), marks)


class _Replay:
    """Plays the fires again from the mark before each change, until all is as it was.

    The fires of the kept week are never changed: what is played again is a copy.
    """

    def __init__(self, week: RehearsedWeek, gone: Sequence[int], added: Sequence[Fire]) -> None:
        self._week, self._marks = week, week.marks
        self._fires = week.rehearsal.fires
        self._gone, self._added = deque(gone), deque(added)
        # The places before which the added fires come.
        self._places = deque(
            bisect_left(self._fires, (fire.at, key_of(fire.job)), key=_order) for fire in added
        )
        end = week.rehearsal.until.astimezone(UTC)
        self._simulation = Simulation(week.given, week.rehearsal.guess.run, end)
        self._result: list[Fire] = []
        self._copies: dict[int, Fire] = {}

    def play(self) -> list[Fire]:
        done = 0
        while (place := self._next_change()) is not None:
            number = bisect_right(self._marks, place, key=_place) - 1
            mark = self._marks[number] if number >= 0 else Mark(0, State(self._week.given.budget))
            self._result += self._fires[done : mark.place]
            done = self._play_from(mark)
        self._result += self._fires[done:]
        return [self._copies.get(id(fire), fire) for fire in self._result]

    def play_alone(self) -> list[Fire]:
        """Play only what is added, where all that changes is sent as written."""
        done = 0
        while (place := self._next_change()) is not None:
            self._result += self._fires[done : place + 1]
            done = place + 1
            if self._gone and self._gone[0] == place:
                self._gone.popleft()
                self._result.pop()
            else:
                self._places.popleft()
                self._play_added(self._added.popleft())
        return [*self._result, *self._fires[done:]]

    def _next_change(self) -> int | None:
        """The place of the next fire that is gone, or of the one before the next added."""
        gone = [self._gone[0]] if self._gone else []
        added = [self._places[0] - 1] if self._places else []
        return min(gone + added, default=None)

    def _play_from(self, mark: Mark) -> int:
        """Play until the state is as it was, and return the place of that mark, or the end."""
        self._simulation.state = self._restored(mark.state)
        place = mark.place
        while True:
            while self._places and self._places[0] <= place:
                self._places.popleft()
                self._play_added(self._added.popleft())
            if place == len(self._fires):
                self._simulation.end_until(None)
                return place
            if self._gone and self._gone[0] == place:
                self._gone.popleft()
                place += 1
                continue
            number = bisect_right(self._marks, place, key=_place)
            here = self._marks[number - 1] if number else mark
            if here.place == place > mark.place and self._is_as_before(here):
                return place
            # The place of the next fire that is gone or added, of the mark `number`, or the end.
            stops = [len(self._fires), *(mark.place for mark in self._marks[number : number + 1])]
            stops += [each[0] for each in (self._gone, self._places) if each]
            stop = min(stops)
            self._play_copies(self._fires[place:stop])
            place = stop

    def _play_added(self, fire: Fire) -> None:
        self._simulation.play(fire)
        self._result.append(fire)

    def _play_copies(self, fires: Sequence[Fire]) -> None:
        """Play them; a text that is sent as written takes no run and no token, and stays."""
        play, copies = self._simulation.play, self._copies
        for fire in fires:
            if fire.job.spec.plain:
                continue
            copy = copies[id(fire)] = Fire(fire.job, fire.due, fire.at)
            play(copy)
        self._result += fires

    def _is_as_before(self, mark: Mark) -> bool:
        now = self._fires[mark.place].at
        self._simulation.end_until(now)
        if not self._simulation.state.is_like(mark.state, now):
            return False
        for fire in mark.state.fires():
            # From here on, what becomes of it is what was rehearsed.
            self._copies.pop(id(fire), None)
        return True

    def _restored(self, state: State) -> State:
        """The state with copies of the fires whose outcome was not known there."""
        for fire in state.fires():
            self._copies[id(fire)] = replace(fire)
        for _, fire in state.held.values():
            waiting = replace(
                fire, state=OccurrenceState.DONE, reason=None, starts=None, ping=Ping.HELD
            )
            self._copies[id(fire)] = waiting
        copies = self._copies
        return replace(
            state.copy(),
            going=[(end, number, copies[id(fire)]) for end, number, fire in state.going],
            waiting=[(rank, number, copies[id(fire)]) for rank, number, fire in state.waiting],
            held={key: (end, copies[id(fire)]) for key, (end, fire) in state.held.items()},
        )


def _order(fire: Fire) -> tuple[datetime, JobKey]:
    return fire.at, key_of(fire.job)


def _place(mark: Mark) -> int:
    return mark.place
