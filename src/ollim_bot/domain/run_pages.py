"""Runs as the page and the command line show them: a list with its filters, and one run, whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.run_history import HELD, History, RunStory, short_id_of
from ollim_bot.domain.run_words import decisions, listed, sources_of, tools_of, why
from ollim_bot.errors import NotFound, WrongInput

if TYPE_CHECKING:
    from ollim_bot.domain.occurrences import LedgerRow

_MOST_NAMED = 3


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


def _answer_word(record: RunStory) -> object:
    if record.later is not None:
        return _answer_word(record.later)
    if record.answer is not None:
        return record.answer.facts.get("answer")
    return "unanswered" if record.is_open else None
