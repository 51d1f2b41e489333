"""The times at which an open item comes again: each is planned, and then shown or skipped, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.run_history import RunStory, planned_row
from ollim_bot.store.transaction import Transaction


def plan_next(tx: Transaction, item: DueItem, at: datetime) -> DueItem:
    """Plan the next time; the returned item has none if all of them are used up."""
    time = next((each for each in item.times if not tx.ledger.has(each)), None)
    if time is None:
        return replace(item, again_at=None)
    tx.ledger.append(planned_row(time, item.title, at, tx.now))
    return replace(item, again_at=at)


def planned_time(tx: Transaction, item: DueItem) -> Occurrence | None:
    """The planned time that has no end yet."""
    stories = (tx.ledger.story(each) for each in item.times)
    open_ones = (story.occurrence for story in stories if story.rows and story.end is None)
    return next(open_ones, None)


def held_time(tx: Transaction, item: DueItem) -> RunStory | None:
    """The planned time that waits for the end of the quiet; None if none does."""
    time = planned_time(tx, item)
    story = None if time is None else tx.ledger.story(time)
    return story if story is not None and story.held else None


def skip_planned(tx: Transaction, item: DueItem, reason: SkipReason, why: str) -> None:
    """End the planned time, if there is one; `why` is for people."""
    time = planned_time(tx, item)
    if time is not None:
        facts = {"job": item.title, "reason": reason.value, "why": why}
        tx.ledger.append(LedgerRow(tx.now, OccurrenceState.SKIPPED.value, time, facts))


def skip_passed(tx: Transaction, item: DueItem, now: datetime) -> DueItem:
    """Of several times that are due at `now`, leave only the newest."""
    while item.nag is not None and item.again_at is not None:
        following = item.again_at + item.nag.pause
        if following > now or tx.ledger.has(item.times[-1]):
            break
        skip_planned(tx, item, SkipReason.SUPERSEDED, "a later one came in its place")
        item = plan_next(tx, item, following)
    return item
