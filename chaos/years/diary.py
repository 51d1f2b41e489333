"""What has happened to the clock and to the jobs, for whoever judges what the bot made of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

# So long after a file was written, or the bot has started, it is not sure which one holds.
_UNSURE = timedelta(seconds=120)


NOT_YET = 10**9


class Span(StrEnum):
    WATCHED = "watched"
    AWAY = "away"
    SET_BACK = "set back"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time on the wall, from the one to the other; `is_off` if the bot did not run."""

    kind: Span
    start: datetime
    end: datetime
    is_off: bool


@dataclass(slots=True)
class Version:
    """What a job was, when it was due by that, and through which stretches it surely was so.

    It may have been so one stretch earlier and later too.
    """

    job: str
    moments: Sequence[datetime]
    title: str
    late: str = ""
    line: int = 0
    follows_bot: bool = False
    since: int = NOT_YET
    until: int | None = None

    def moved(self, moments: Sequence[datetime]) -> Version:
        """The same file, which means other moments now."""
        return replace(self, moments=moments, since=NOT_YET, until=None)

    def between(self, start: datetime, end: datetime) -> Sequence[datetime]:
        first, last = (bisect_right(self.moments, at) for at in (start, end))
        return self.moments[first:last]


@dataclass
class Diary:
    """`now` is what is on the wall, and `passed` how many seconds the machine was awake."""

    now: Callable[[], datetime]
    passed: Callable[[], float]
    stretches: list[Stretch] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    set_back_at: list[float] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    _since: datetime | None = None
    _is_off: bool = True

    def started(self) -> None:
        self.cut()
        self._is_off = False

    def stopped(self) -> None:
        self.cut()
        self._is_off = True

    def moves(self) -> None:
        self.cut()

    def has_moved(self) -> None:
        before, now = self._since, self.now()
        assert before is not None
        kind = Span.AWAY if now >= before else Span.SET_BACK
        self.stretches.append(Stretch(kind, before, now, self._is_off))
        if kind is Span.SET_BACK:
            self.set_back_at.append(self.passed())
        self._since = now

    def cut(self) -> None:
        """End the stretch that goes on, and begin another."""
        now = self.now()
        if self._since is not None and self._since != now:
            kind = Span.AWAY if self._is_off else Span.WATCHED
            self.stretches.append(Stretch(kind, self._since, now, self._is_off))
        self._since = now

    @property
    def place(self) -> int:
        """Where the stretch that begins now will stand."""
        return len(self.stretches)

    @property
    def noticed(self) -> int:
        """Up to which stretch the bot has surely dealt with the files as they were until now.

        Who was away has to wake up first.
        """
        watched, place = timedelta(), self.place
        for number in reversed(range(self.place)):
            last = self.stretches[number]
            if watched >= _UNSURE:
                break
            if last.kind is Span.WATCHED:
                watched += last.end - last.start
            else:
                watched, place = timedelta(), number
        return place

    def expected(self, version: Version) -> Iterator[tuple[Stretch, Sequence[datetime]]]:
        """What must have come of it."""
        for stretch in self.stretches[version.since : version.until]:
            if stretch.kind is not Span.SET_BACK:
                yield stretch, version.between(stretch.start, stretch.end)
