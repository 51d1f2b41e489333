"""Reads what the bot did by itself, for the command line and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import NotFound, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import HELD, History, RunStory, part_in_words, short_id_of
from ollim_bot.kernel.values.run_words import in_words, listed, reason
from ollim_bot.kernel.values.usage import Price

if TYPE_CHECKING:
    from ollim_bot.kernel.base.clock import Clock
    from ollim_bot.kernel.store.store import Store
    from ollim_bot.kernel.store.transaction import Transaction
    from ollim_bot.kernel.values.inbox import CommandCall
    from ollim_bot.kernel.values.usage import UsageRow


CHUNK = 100
FIRST = 2**62
_PRICES = {price.value: price.in_words for price in Price}


def stories_since(tx: Transaction, since: datetime) -> list[RunStory]:
    """The runs of the rows not older than that, the newest first."""
    return _completed(tx, tx.ledger.rows_since(since), tx.usage.since(since))


def stories_named(tx: Transaction, word: str) -> list[RunStory]:
    """The runs that `find_run` may mean, with those to which they were put off."""
    rows = tx.ledger.rows_of([word])
    wanted = dict.fromkeys([word] if rows else [])
    if not rows:
        wanted = dict.fromkeys(
            each
            for each in tx.ledger.ids()
            if each.startswith(word) or f":{word}:" in each or word == short_id_of(each)
        )
        rows = tx.ledger.rows_of(wanted)
    # With the reminders that snoozes have made.
    while later := {str(row.facts["reminder"]) for row in rows if row.facts.get("reminder")} - {
        Occurrence.parse(each).job_id for each in wanted
    }:
        found = (each for name in later for each, _ in tx.ledger.newest_of_job(name, FIRST, CHUNK))
        more = [each for each in found if each.startswith(f"{JobKind.REMINDER}:")]
        wanted |= dict.fromkeys(more)
        rows += tx.ledger.rows_of(more)
        if not more:
            break
    return _completed(tx, rows, [row for each in wanted for row in tx.usage.of_occurrence(each)])


def run_named(tx: Transaction, word: str) -> RunStory:
    """The run with this id or short id, or the newest of the job. Raises `OllimError`."""
    ids = [word] if tx.ledger.rows_of([word]) else []
    ids = ids or [each for each in tx.ledger.ids() if word == short_id_of(each)]
    ids = ids or [each for each, _ in tx.ledger.newest_of_job(word, FIRST, 1)]
    return find_run(ids[0] if ids else word, stories_named(tx, ids[0]) if ids else [])


def said_by(tx: Transaction, record: RunStory) -> list[str]:
    """The texts of the run that the owner saw."""
    found = (tx.messages.get(each) for each in sent_by(record))
    return [message.text for message in found if message is not None]


def stories_of(tx: Transaction, ids: Iterable[str]) -> list[RunStory]:
    wanted = [*ids]
    usage = [row for each in wanted for row in tx.usage.of_occurrence(each)]
    return _completed(tx, tx.ledger.rows_of(wanted), usage)


def _completed(
    tx: Transaction, rows: Iterable[LedgerRow], usage: Iterable[UsageRow]
) -> list[RunStory]:
    """The runs, newest first, with what they cost, what waits, and what came of a snooze."""
    found = History.of(rows).newest_first
    waiting = tx.due_items.open_occurrences()
    by_run: dict[str, list[UsageRow]] = {}
    for row in usage:
        by_run.setdefault(row.occurrence, []).append(row)
    spent = {name: Amount.of(each) for name, each in by_run.items() if name}
    found = [each._replace(is_open=each.id in waiting, spent=spent.get(each.id)) for each in found]
    asked = {each.occurrence.job_id: each for each in found if each.answer or each.is_open}
    return [_with_later(each, asked) for each in found]


def _with_later(story: RunStory, asked: Mapping[str, RunStory]) -> RunStory:
    """The story with the run of the reminder to which it was put off."""
    others = {name: each for name, each in asked.items() if name != story.occurrence.job_id}
    later = others.get(str(story.answer.facts.get("reminder"))) if story.answer else None
    return story if later is None else story._replace(later=_with_later(later, others))


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
        some = ", ".join(record.id for record in fitting[:3])
        raise WrongInput(f"{word} fits {len(fitting)} runs. The newest: {some}.")
    return fitting[0]


def sent_by(record: RunStory) -> list[MessageId]:
    """The pings that did not wait for the end of the quiet."""
    held = {row.facts.get("message") for row in record.rows if row.state == HELD}
    sent = (each for each in listed(record.facts.get("pings")) if isinstance(each, str))
    return [MessageId(each) for each in sent if each not in held]


def used_in_words(story: RunStory) -> str:
    """`5321 tokens, $0.0123`; empty if no model was asked."""
    facts = story.facts
    tokens, cost = facts.get("tokens"), facts.get("cost_usd")
    words = [f"{tokens} tokens"] if tokens else []
    if story.spent is not None:
        words.append(story.spent.in_words(digits=4))
    elif isinstance(cost, int | float):
        words.append(f"${cost:.4f}")
    elif words and (price := _PRICES.get(str(facts.get("price")))):
        words.append(price)
    return ", ".join(words)


def _job_line(story: RunStory, now: datetime) -> str:
    name, note = _short(story.title), _short(reason(story, now))
    state = in_words(story.state) if story.state else "begun"
    state = "delivered" if story.is_delivered else state
    fired = describe(story.fired.replace(second=0, microsecond=0), now)
    by_hand = ", by hand" if story.occurrence.manual else ""
    notes = "; ".join(each for each in (part_in_words(story.occurrence), note) if each)
    return f"- {fired}{by_hand}: {name}, {state}" + (f" ({notes})" if notes else "")


def _short(text: str) -> str:
    return shortened(" ".join(text.split()).removesuffix("."), 120)


class RunCommands:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @slash_command(50, "runs", "What ran by itself, and what came of it")
    async def runs(self, _: CommandCall) -> str:
        rows = await self._store.read(lambda tx: tx.ledger.tail(400))
        found = History.of(rows).newest_first
        stories = [story for story in found if story.state is not OccurrenceState.PLANNED]
        if not stories:
            return "Nothing has run yet."
        now = self._clock.now()
        lines = [_job_line(story, now) for story in stories[:10]]
        return "\n".join([*lines, "`ollim-bot runs` in a terminal shows more."])
