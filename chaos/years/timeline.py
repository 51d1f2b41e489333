"""What happened to the clock and to the jobs, for the checks of what the bot made of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

# For so long after a change of a file or a start, the bot may not have read the file yet.
_READ_WITHIN = timedelta(seconds=120)


NOT_IN_EFFECT = 10**9


class IntervalKind(StrEnum):
    """While the bot is AWAY, the machine is off or asleep, or its clock is set forward."""

    WATCHED = "watched"
    AWAY = "away"
    SET_BACK = "set back"


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of wall time; `is_off` if the bot did not run in it."""

    kind: IntervalKind
    start: datetime
    end: datetime
    is_off: bool


@dataclass(slots=True)
class JobVersion:
    """One content of a routine's file, with the due times that follow from it.

    The bot certainly uses it in the intervals from index `since` to before `until`. It may use it
    in one more interval before and after.
    """

    job: str
    due_times: Sequence[datetime]
    title: str
    late: str = ""
    line: int = 0
    follows_bot: bool = False
    since: int = NOT_IN_EFFECT
    until: int | None = None

    def with_due_times(self, due_times: Sequence[datetime]) -> JobVersion:
        """The same file with other due times, as after a change of the bot's zone."""
        return replace(self, due_times=due_times, since=NOT_IN_EFFECT, until=None)

    def due_between(self, start: datetime, end: datetime) -> Sequence[datetime]:
        first, last = (bisect_right(self.due_times, at) for at in (start, end))
        return self.due_times[first:last]


@dataclass
class Timeline:
    """`now` is the wall time, and `monotonic` the seconds for which the machine was awake.

    `set_back_at` has the `monotonic` time of each moment when the clock was set back.
    """

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    intervals: list[Interval] = field(default_factory=list)
    versions: list[JobVersion] = field(default_factory=list)
    set_back_at: list[float] = field(default_factory=list)
    step_counts: Counter[str] = field(default_factory=Counter)
    _interval_start: datetime | None = None
    _is_off: bool = True

    def note_start(self) -> None:
        self.begin_interval()
        self._is_off = False

    def note_stop(self) -> None:
        self.begin_interval()
        self._is_off = True

    def before_clock_jump(self) -> None:
        self.begin_interval()

    def after_clock_jump(self) -> None:
        before, now = self._interval_start, self.now()
        assert before is not None
        kind = IntervalKind.AWAY if now >= before else IntervalKind.SET_BACK
        self.intervals.append(Interval(kind, before, now, self._is_off))
        if kind is IntervalKind.SET_BACK:
            self.set_back_at.append(self.monotonic())
        self._interval_start = now

    def begin_interval(self) -> None:
        """End the current interval, if there is one, and begin the next."""
        now = self.now()
        if self._interval_start is not None and self._interval_start != now:
            kind = IntervalKind.AWAY if self._is_off else IntervalKind.WATCHED
            self.intervals.append(Interval(kind, self._interval_start, now, self._is_off))
        self._interval_start = now

    @property
    def next_index(self) -> int:
        """The index of the interval that begins now."""
        return len(self.intervals)

    @property
    def processed_until(self) -> int:
        """The index before which the bot has certainly processed the files as they are now.

        After an absence the bot needs some time to wake up and read them.
        """
        watched, index = timedelta(), self.next_index
        for number in reversed(range(self.next_index)):
            last = self.intervals[number]
            if watched >= _READ_WITHIN:
                break
            if last.kind is IntervalKind.WATCHED:
                watched += last.end - last.start
            else:
                watched, index = timedelta(), number
        return index

    def expected(self, version: JobVersion) -> Iterator[tuple[Interval, Sequence[datetime]]]:
        """The due times of the version that must be in the ledger, by interval."""
        for interval in self.intervals[version.since : version.until]:
            if interval.kind is not IntervalKind.SET_BACK:
                yield interval, version.due_between(interval.start, interval.end)
