"""Runs as the page and the command line show them: a list with its filters, and one run, whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.receipts import Fate, Receipt, day_named, fate_of, is_late_story
from ollim_bot.domain.run_history import HELD, History, RunStory, short_id_of
from ollim_bot.domain.run_words import decisions, deeds, listed, sources_of, tools_of, why
from ollim_bot.errors import NotFound, WrongInput

if TYPE_CHECKING:
    from ollim_bot.domain.costs import Amount
    from ollim_bot.domain.occurrences import LedgerRow

_MOST_NAMED = 3
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


def address_of_run(run: str) -> str:
    """Where the page shows a run."""
    return f"/runs/{quote(run, safe=':')}"


def moment_of(story: RunStory) -> datetime:
    """When the run was due, or, if it was started otherwise, when it began."""
    return story.occurrence.scheduled_at or story.fired


def run_stories(rows: Iterable[LedgerRow]) -> list[RunStory]:
    """One per occurrence, the newest first; other rows are left out."""
    return History.of(rows).newest_first


def find_run(word: str, known: Sequence[RunStory]) -> RunStory:
    """Find a run by its id or short id, by its job (the newest run), or by a prefix of its id."""
    for record in known:
        is_of_job = word == record.occurrence.job_id and not record.occurrence.part
        if word == record.id or is_of_job:
            return record
    fitting = [record for record in known if word == record.short_id or record.id.startswith(word)]
    if not fitting:
        raise NotFound(f"There is no run {word}. `ollim-bot runs` shows the newest.")
    if len(fitting) > 1:
        some = ", ".join(record.id for record in fitting[:_MOST_NAMED])
        raise WrongInput(f"{word} fits {len(fitting)} runs. The newest: {some}.")
    return fitting[0]


def may_be(run: str, word: str) -> bool:
    """Whether the word can mean the run with this id, or its job."""
    return run.startswith(word) or f":{word}:" in run or word == short_id_of(run)


def run_object(record: RunStory, now: datetime) -> dict[str, object]:
    """One run of `ollim-bot runs --json`."""
    occurrence = record.occurrence
    return {
        "id": record.id,
        "kind": occurrence.kind.value,
        "job_id": occurrence.job_id,
        "by_hand": occurrence.manual,
        "due": occurrence.scheduled_at,
        "fired": record.fired,
        "state": record.last_word,
        "why": why(record, now),
        "answer": _answer_word(record),
        "facts": dict(record.facts),
    }


def page_object(record: RunStory, now: datetime) -> dict[str, object]:
    """One run with its decisions and its rows."""
    rows = [{"ts": row.ts, "state": row.state, "facts": dict(row.facts)} for row in record.rows]
    return run_object(record, now) | {
        "decisions": [each._asdict() for each in decisions(record, now)],
        "tools": tools_of(record),
        "sources": sources_of(record),
        "cost": None if record.spent is None else record.spent.as_object(),
        "rows": rows,
    }


def sent_by(record: RunStory) -> list[MessageId]:
    """The pings that did not wait for the end of the quiet."""
    held = {row.facts.get("message") for row in record.rows if row.state == HELD}
    sent = (each for each in listed(record.facts.get("pings")) if isinstance(each, str))
    return [MessageId(each) for each in sent if each not in held]


def refused_pings(record: RunStory) -> Iterator[tuple[str, str]]:
    """The text and the reason of each ping that was refused."""
    for each in listed(record.facts.get("refused_pings")):
        if isinstance(each, Mapping):
            yield str(each.get("text", "")), str(each.get("reason"))


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


def _answer_word(record: RunStory) -> object:
    if record.later is not None:
        return _answer_word(record.later)
    if record.answer is not None:
        return record.answer.facts.get("answer")
    return "unanswered" if record.is_open else None
