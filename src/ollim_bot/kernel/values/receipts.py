"""The receipt of a day: what was due, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import midnight
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.ledger_check import ExpectedMoments, is_given_up
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import History, RunStory
from ollim_bot.kernel.values.run_words import deeds, moment_of, why
from ollim_bot.kernel.values.schedule import is_late

if TYPE_CHECKING:
    pass


class Fate(StrEnum):
    """What came of something that was due; each has exactly one."""

    CAME = "came"
    HELD = "held"
    SKIPPED = "skipped"
    MISSED = "missed"
    FAILED = "failed"
    UNDER_WAY = "under way"
    LOST = "lost"


_FATES = {
    OccurrenceState.DONE: Fate.CAME,
    OccurrenceState.SKIPPED: Fate.SKIPPED,
    OccurrenceState.MISSED: Fate.MISSED,
    OccurrenceState.FAILED: Fate.FAILED,
    OccurrenceState.TIMED_OUT: Fate.FAILED,
    OccurrenceState.INTERRUPTED: Fate.FAILED,
}
# They stand in every receipt, also when there is none of them.
_ALWAYS = (Fate.CAME, Fate.HELD, Fate.LOST)
_MARGIN = timedelta(days=2)
_BESIDE = timedelta(hours=3)
# The days that have names, by how long ago they are.
DAYS = {"today": 0, "yesterday": 1}
_FIRST_YEAR, _LAST_YEAR = 1970, 9000


@dataclass(frozen=True, slots=True)
class DueThing:
    """One due moment of a job, and its story; a lost one may have none."""

    occurrence: Occurrence
    due: datetime
    fate: Fate
    is_late: bool = False
    story: RunStory | None = None

    @property
    def word(self) -> str:
        return "late" if self.is_late else self.fate.value

    @property
    def title(self) -> str:
        return self.occurrence.job_id if self.story is None else self.story.title

    def why(self, now: datetime) -> str:
        """Why it came out so, in one sentence without its first word; empty if that is unknown."""
        sentence = "" if self.story is None else why(self.story, now)
        return sentence.removeprefix(f"{self.word}: ")


@dataclass(frozen=True, slots=True)
class Receipt:
    day: date
    things: Sequence[DueThing]

    @property
    def late(self) -> int:
        return sum(each.is_late for each in self.things)

    @property
    def counts(self) -> dict[str, int]:
        """`due`, then each fate and `late`, in the order in which they are told."""
        fates = Counter(each.fate for each in self.things)
        found = {fate.value: fates[fate] for fate in Fate if fates[fate] or fate in _ALWAYS}
        lost = found.pop(Fate.LOST.value)
        return {"due": len(self.things), **found, "late": self.late, Fate.LOST.value: lost}

    @property
    def notable(self) -> list[DueThing]:
        """What did not simply come."""
        return [each for each in self.things if each.fate is not Fate.CAME or each.is_late]

    @property
    def checked(self) -> str:
        """Whether everything is accounted for, in a sentence."""
        lost = sum(each.fate is Fate.LOST for each in self.things)
        if not lost:
            return "Checked: everything that was due has its end or is under way."
        return f"{counted(lost, 'moment')} left no end; `ollim-bot runs check` says more."

    def __str__(self) -> str:
        """`due 7, came 6, held 1, late 0, lost 0`."""
        return ", ".join(f"{name} {number}" for name, number in self.counts.items())

    def sentence(self, now: datetime) -> str:
        """The receipt with its day, such as `Today: due 7, came 6, held 1, late 0, lost 0.`."""
        away = (now.date() - self.day).days
        name = next((name for name, days in DAYS.items() if days == away), "")
        day = name.capitalize() or f"{self.day:%a} {self.day.day} {self.day:%b %Y}"
        return f"{day}: {self}."


class DayReading:
    """What the ledger tells of a day in a zone, read on as rows are added.

    What the owner started by hand was not due, and heads-ups and times that something comes again
    belong to the moment that they are about. If it `is_lean`, what simply came has no story.
    """

    def __init__(self, day: date, zone: tzinfo, *, is_lean: bool = False) -> None:
        self.day = day
        self._zone = zone
        self._is_lean = is_lean
        self._expected = ExpectedMoments(*around(day, zone))
        self._things: dict[Occurrence, DueThing] = {}
        self._unended: dict[Occurrence, RunStory] = {}

    def note(self, rows: Iterable[LedgerRow], stories: Iterable[RunStory]) -> None:
        """Take further rows in the order of the ledger, and all that they are about as it is now.

        The rows begin at `counted_since`, after those that tell which jobs were armed then.
        """
        for row in rows:
            self._expected.definitions.note(row)
        for thing in due_things(stories):
            if self._has(thing.due):
                story, one = thing.story, thing.occurrence
                if story is not None and not story.ends:
                    self._unended[one] = story
                else:
                    self._unended.pop(one, None)
                is_plain = self._is_lean and thing.fate is Fate.CAME and not thing.is_late
                self._things[one] = replace(thing, story=None) if is_plain else thing

    def receipt(self, now: datetime, watched_until: datetime | None = None) -> Receipt:
        """The receipt at `now`; everything due until `watched_until` has its rows.

        By default, that is until the last checkpoint.
        """
        watched_until = watched_until or self._expected.definitions.watched_until
        things = self._things
        if watched_until is not None:
            lost = self._lost(min(now, watched_until))
            things = things | {each.occurrence: each for each in lost}
        return Receipt(self.day, sorted(things.values(), key=lambda each: each.due.timestamp()))

    def _has(self, moment: datetime) -> bool:
        return moment.astimezone(self._zone).date() == self.day

    def _lost(self, horizon: datetime) -> Iterator[DueThing]:
        """What has no end for too long, and what has no rows."""
        for one, story in self._unended.items():
            if is_given_up(story, horizon, self._expected.definitions.started):
                yield replace(self._things[one], fate=Fate.LOST, is_late=False)
        for one in self._expected.missing(horizon, self._things):
            if one.scheduled_at is not None and self._has(one.scheduled_at):
                yield DueThing(one, one.scheduled_at, Fate.LOST)


def receipt_of(
    rows: Sequence[LedgerRow], day: date, now: datetime, watched_until: datetime | None = None
) -> Receipt:
    """The receipt of a day in the zone of `now`, from all rows about it."""
    reading = DayReading(day, now.tzinfo or UTC)
    reading.note(rows, History.of(rows).stories.values())
    return reading.receipt(now, watched_until)


def day_named(word: str, now: datetime) -> date:
    """The day of `today`, `yesterday` or `2026-11-15`. Raises `WrongInput`."""
    if word in DAYS:
        return now.date() - timedelta(days=DAYS[word])
    try:
        day = date.fromisoformat(word)
    except ValueError:
        day = date.min
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        raise WrongInput(f"`{word[:40]}` is no day. Write `yesterday`, or `2026-11-15`.")
    return day


def due_things(stories: Iterable[RunStory]) -> Iterator[DueThing]:
    """What came of each moment or call; what has no rows is not among them."""
    for story in stories:
        one = story.occurrence
        # One without a moment, whose beginning is older than the rows, was not due on the day.
        is_cut = one.scheduled_at is None and story.rows[0].state != OccurrenceState.DUE
        if not (one.manual or one.part or is_cut):
            due = one.scheduled_at or story.rows[0].ts
            fate = fate_of(story)
            yield DueThing(one, due, fate, _is_late(story, due, fate), story)


def told_day(now: datetime) -> date:
    """The day whose receipt is told at `now`: before noon that of the day before."""
    return now.date() - timedelta(days=int(now.hour < 12))


def counted_since(day: date, now: datetime) -> datetime:
    """From when on the ledger tells all about the day."""
    # A clock that was set back may have written rows of the day before it began.
    return midnight(day, now.tzinfo or UTC).astimezone(UTC) - _MARGIN


def around(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """From when and until when something can be due on the day, also if midnight comes twice."""
    days = day, day + timedelta(days=1)
    begin, end = (midnight(each, zone).astimezone(UTC) for each in days)
    return begin - _BESIDE, end + _BESIDE


def fate_of(story: RunStory) -> Fate:
    """What came of the run so far."""
    if story.waiting is not None:
        return Fate.HELD
    if story.is_delivered:
        return Fate.CAME
    state = story.state
    return Fate.UNDER_WAY if state is None else _FATES.get(state, Fate.UNDER_WAY)


def is_late_story(story: RunStory) -> bool:
    """Whether the run came later than it was due; one that was started by hand never does."""
    due = None if story.occurrence.manual else story.occurrence.scheduled_at
    return due is not None and _is_late(story, due, fate_of(story))


def _is_late(story: RunStory, due: datetime, fate: Fate) -> bool:
    """Whether it came late; what had to wait for the end of the quiet came in its time."""
    if fate is not Fate.CAME or story.held:
        return False
    came = (row.ts for row in story.rows if row.state != OccurrenceState.DUE)
    return is_late(due, next(came, story.rows[-1].ts))


# A run is costly that costs so many times what runs usually cost.
COSTLY = 2


class Show(StrEnum):
    """Which runs a list has."""

    SILENT = "silent"
    LATE = "late"
    MISSED = "missed"
    FAILED = "failed"
    COSTLY = "costly"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What the address of the list asks for; without anything, all runs."""

    show: Show | None = None
    job: str = ""
    day: date | None = None

    @classmethod
    def read(cls, asked: Mapping[str, str], now: datetime) -> RunFilter:
        """Raises `WrongInput` for a word that means nothing."""
        show, day = asked.get("show", ""), asked.get("day", "")
        if show and show not in [*Show]:
            raise WrongInput(f"`{show[:40]}` is no kind of run. Choose one of the list.")
        wanted = day_named(day, now) if day else None
        return cls(Show(show) if show else None, asked.get("job", ""), wanted)

    def fits(self, story: RunStory, now: datetime, usual: int = 0) -> bool:
        """Whether the list has the run; `usual` is what runs usually cost, in micros."""
        is_of_job = self.job in ("", story.occurrence.job_id)
        is_of_day = self.day is None or moment_of(story).astimezone(now.tzinfo).date() == self.day
        return is_of_job and is_of_day and self._is_shown(story, usual)

    def _is_shown(self, story: RunStory, usual: int) -> bool:
        fate = fate_of(story)
        match self.show:
            case Show.SILENT:
                return fate is Fate.CAME and not story.is_delivered and not deeds(story.facts)
            case Show.LATE:
                return is_late_story(story)
            case Show.MISSED:
                return fate is Fate.MISSED
            case Show.FAILED:
                return fate is Fate.FAILED
            case Show.COSTLY:
                spent = story.spent.micros if story.spent else 0
                return spent > 0 and spent >= COSTLY * usual > 0
            case _:
                return True


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs that fit the filter, the newest first.

    `has_more` says that there may be older ones, `back_to` is how far back was looked. `usual` is
    what runs usually cost, in micros, where that was asked. The receipt is that of the day.
    """

    now: datetime
    wanted: RunFilter
    runs: Sequence[RunStory] = ()
    has_more: bool = False
    back_to: datetime | None = None
    usual: int = 0
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run with the messages that it sent, as far as they are stored.

    `job` is the key of its job, if that has a file.
    """

    now: datetime
    story: RunStory
    said: Sequence[str] = ()
    job: str = ""
