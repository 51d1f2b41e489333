"""The list of runs of the page, with its filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.receipts import Fate, Receipt, day_named, fate_of, is_late_story
from ollim_bot.domain.run_history import RunStory
from ollim_bot.domain.run_pages import moment_of
from ollim_bot.domain.run_words import deeds
from ollim_bot.errors import WrongInput

if TYPE_CHECKING:
    from ollim_bot.domain.costs import Amount

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


def late_in_words(story: RunStory) -> str:
    """`4 min late`; empty for a run that came in its time."""
    late = story.facts.get("lateness")
    if not is_late_story(story) or not isinstance(late, int):
        return ""
    return f"{duration_in_words(timedelta(seconds=late))} late"


def usual_cost(costs: Iterable[Amount]) -> int:
    """What a run costs in the middle of all that cost something, in micros; 0 if none did."""
    known = sorted(each.micros for each in costs if each.micros > 0)
    return known[len(known) // 2] if known else 0
