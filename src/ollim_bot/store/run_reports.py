"""Reads what the bot did by itself, for the command line and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.receipts import DayReading, Receipt, around, counted_since, receipt_of
from ollim_bot.domain.run_history import History, RunStory, short_id_of
from ollim_bot.domain.run_pages import (
    RunFilter,
    RunList,
    Show,
    find_run,
    may_be,
    moment_of,
    run_stories,
    sent_by,
    usual_cost,
)

if TYPE_CHECKING:
    from ollim_bot.domain.usage import UsageRow
    from ollim_bot.store.transaction import Transaction

# A list looks through so many runs for each that it may have.
_LOOKED_AT = 5
_CHUNK = 100
_FIRST = 2**62
_USUAL_DAYS = timedelta(days=30)
# How long after a day, and after the bot was there again, its runs have their ends.
_SETTLED = timedelta(days=2)


def stories_since(tx: Transaction, since: datetime) -> list[RunStory]:
    """The runs of the rows not older than that, the newest first."""
    return _completed(tx, tx.ledger.rows_since(since), tx.usage.since(since))


def stories_named(tx: Transaction, word: str) -> list[RunStory]:
    """The runs that `find_run` may mean, with those to which they were put off."""
    rows = tx.ledger.rows_of([word])
    wanted = dict.fromkeys([word] if rows else [])
    if not rows:
        wanted = dict.fromkeys(each for each in tx.ledger.ids() if may_be(each, word))
        rows = tx.ledger.rows_of(wanted)
    while later := _put_off_to(rows) - {Occurrence.parse(each).job_id for each in wanted}:
        more = [each for name in later for each in _ids_of_reminder(tx, name)]
        wanted |= dict.fromkeys(more)
        rows += tx.ledger.rows_of(more)
        if not more:
            break
    return _completed(tx, rows, [row for each in wanted for row in tx.usage.of_occurrence(each)])


def run_named(tx: Transaction, word: str) -> RunStory:
    """The run with this id or short id, or the newest of the job. Raises `OllimError`."""
    ids = [word] if tx.ledger.rows_of([word]) else []
    ids = ids or [each for each in tx.ledger.ids() if word == short_id_of(each)]
    ids = ids or [each for each, _ in tx.ledger.newest_of_job(word, _FIRST, 1)]
    return find_run(ids[0] if ids else word, stories_named(tx, ids[0]) if ids else [])


class TodayReceipts:
    """The receipt of today. Each look reads only the rows since the last one.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._reading: DayReading | None = None
        self._made_for: tuple[date, tzinfo] | None = None
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._place = 0

    def read(self, tx: Transaction, now: datetime, watched_until: datetime | None) -> Receipt:
        """The receipt of the day of `now`; the bot ran until `watched_until`."""
        day, zone = now.date(), now.tzinfo or UTC
        with self._lock:
            # What a failure has left half read is read anew.
            reading, self._reading = self._reading, None
            if reading is None or self._made_for != (day, zone) or now < self._read_at:
                reading = DayReading(day, zone, is_lean=True)
                self._place = tx.ledger.newest_place()
                rows = tx.ledger.rows_about(counted_since(day, now), due=around(day, zone))
                stories = History.of(rows).stories
            else:
                rows, self._place = tx.ledger.page(self._place, _FIRST)
                ids = dict.fromkeys(each.occurrence.id for each in rows if each.occurrence)
                stories = History.of(tx.ledger.rows_of(ids)).stories
            reading.note(rows, stories.values())
            self._reading, self._made_for, self._read_at = reading, (day, zone), now
            return reading.receipt(now, watched_until)


def run_list(
    tx: Transaction,
    wanted: RunFilter,
    most: int,
    now: datetime,
    watched_until: datetime | None,
    today: TodayReceipts | None = None,
) -> RunList:
    """At most `most` runs that fit, with the receipt of the day, or of today."""
    if wanted.day is None:
        listed = _newest_runs(tx, wanted, most, now, ())
        return replace(listed, receipt=(today or TodayReceipts()).read(tx, now, watched_until))
    about = _rows_about(tx, wanted.day, now)
    listed = _newest_runs(tx, wanted, most, now, about.rows)
    return replace(listed, receipt=about.receipt(now, watched_until))


def _newest_runs(
    tx: Transaction, wanted: RunFilter, most: int, now: datetime, of_day: Sequence[LedgerRow]
) -> RunList:
    """It looks back through a bounded number of others; `of_day` are the rows about the day."""
    usual = _usual(tx, now) if wanted.show is Show.COSTLY else 0
    found: list[RunStory] = []
    seen, back_to = 0, None
    for ids in _chunks(tx, wanted, now, of_day):
        stories = _with_usage(tx, ids)
        found += [each for each in stories if wanted.fits(each, now, usual)]
        seen += len(ids)
        back_to = min((moment_of(each) for each in stories), default=back_to)
        if len(found) > most or seen >= _LOOKED_AT * most:
            break
    else:
        back_to = None
    found.sort(key=lambda each: each.fired.timestamp(), reverse=True)
    has_more = len(found) > most or back_to is not None
    return RunList(now, wanted, found[:most], has_more, back_to, usual)


def receipt_for(
    tx: Transaction, day: date, now: datetime, watched_until: datetime | None
) -> Receipt:
    """The receipt of the day, read from the rows about it; the bot ran until `watched_until`."""
    return _rows_about(tx, day, now, only_due=True).receipt(now, watched_until)


def said_by(tx: Transaction, record: RunStory) -> list[str]:
    """The texts of the run that the owner saw."""
    found = (tx.messages.get(each) for each in sent_by(record))
    return [message.text for message in found if message is not None]


class _DayRows(NamedTuple):
    """The rows about a day; what was due on it has its end before `until`."""

    day: date
    until: datetime
    rows: Sequence[LedgerRow]

    def receipt(self, now: datetime, watched_until: datetime | None) -> Receipt:
        horizon = None if watched_until is None else min(watched_until, self.until)
        return receipt_of(self.rows, self.day, now, horizon)


def _rows_about(tx: Transaction, day: date, now: datetime, *, only_due: bool = False) -> _DayRows:
    """A bot that was away ends what was due on the day when it is back."""
    end = counted_since(day + timedelta(days=1), now) + _SETTLED
    until = max(end, tx.ledger.first_moment_after(end) or end) + _SETTLED
    due = around(day, now.tzinfo or UTC) if only_due else None
    return _DayRows(day, until, tx.ledger.rows_about(counted_since(day, now), until, due))


def _chunks(
    tx: Transaction, wanted: RunFilter, now: datetime, of_day: Sequence[LedgerRow]
) -> Iterator[list[str]]:
    """The ids of the runs that may fit, the newest first."""
    if wanted.day is not None:
        stories = run_stories(of_day)
        yield [each.id for each in stories if RunFilter(day=wanted.day).fits(each, now)]
        return
    ledger, before = tx.ledger, _FIRST
    newest = partial(ledger.newest_of_job, wanted.job) if wanted.job else ledger.newest_ids
    while ids := newest(before, _CHUNK):
        before = ids[-1][1]
        yield [each for each, _ in ids]


def _usual(tx: Transaction, now: datetime) -> int:
    by_run: dict[str, list[UsageRow]] = {}
    for row in tx.usage.since(now - _USUAL_DAYS):
        if row.occurrence:
            by_run.setdefault(row.occurrence, []).append(row)
    return usual_cost(Amount.of(each) for each in by_run.values())


def _with_usage(tx: Transaction, ids: Iterable[str]) -> list[RunStory]:
    wanted = [*ids]
    usage = [row for each in wanted for row in tx.usage.of_occurrence(each)]
    return _completed(tx, tx.ledger.rows_of(wanted), usage)


def _ids_of_reminder(tx: Transaction, name: str) -> Iterator[str]:
    start = f"{JobKind.REMINDER}:{name}:"
    found = tx.ledger.newest_of_job(name, _FIRST, _CHUNK)
    return (each for each, _ in found if each.startswith(start))


def _put_off_to(rows: Iterable[LedgerRow]) -> set[str]:
    """The ids of the reminders that snoozes have made."""
    return {str(row.facts["reminder"]) for row in rows if row.facts.get("reminder")}


def _completed(
    tx: Transaction, rows: Iterable[LedgerRow], usage: Iterable[UsageRow]
) -> list[RunStory]:
    """The runs, newest first, with what they cost, what waits, and what came of a snooze."""
    found = run_stories(rows)
    waiting = {each.occurrence for each in tx.due_items.open()}
    by_run: dict[str, list[UsageRow]] = {}
    for row in usage:
        by_run.setdefault(row.occurrence, []).append(row)
    spent = {name: Amount.of(each) for name, each in by_run.items() if name}
    found = [replace(each, is_open=each.id in waiting, spent=spent.get(each.id)) for each in found]
    asked = {each.occurrence.job_id: each for each in found if each.answer or each.is_open}
    return [_with_later(each, asked) for each in found]


def _with_later(story: RunStory, asked: Mapping[str, RunStory]) -> RunStory:
    """The story with the run of the reminder to which it was put off."""
    others = {name: each for name, each in asked.items() if name != story.occurrence.job_id}
    later = others.get(str(story.answer.facts.get("reminder"))) if story.answer else None
    return story if later is None else replace(story, later=_with_later(later, others))
