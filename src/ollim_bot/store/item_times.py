"""The times at which an open item comes again: each is planned, and then shown or skipped, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.run_history import NEWER_CAME, RunStory, planned_row
from ollim_bot.store.transaction import Transaction

# The number of the last time that an occurrence can have.
_LAST = 9999


def plan_next(tx: Transaction, item: DueItem, at: datetime) -> DueItem:
    """Plan the next time; the returned item has none if all of them are used up."""
    stories = _stories(tx, item)
    if len(stories) + 1 >= _LAST or not _left(item, stories):
        return replace(item, again_at=None)
    time = Occurrence.parse(item.occurrence).again(len(stories) + 2)
    tx.ledger.append(planned_row(time, item.title, at, tx.now))
    return replace(item, again_at=at)


def planned_time(tx: Transaction, item: DueItem) -> Occurrence | None:
    """The planned time that has no end yet."""
    return next((each.occurrence for each in _stories(tx, item) if each.end is None), None)


def skip_planned(tx: Transaction, item: DueItem, reason: SkipReason, why: str) -> None:
    """End the planned time, if there is one; `why` is for people."""
    time = None if item.nag is None else planned_time(tx, item)
    if time is not None:
        facts = {"job": item.title, "reason": reason.value, "why": why}
        tx.ledger.append(LedgerRow(tx.now, OccurrenceState.SKIPPED.value, time, facts))


def skip_passed(tx: Transaction, item: DueItem, now: datetime) -> DueItem:
    """Of several times that are due at `now`, leave only the newest."""
    while item.nag is not None and item.again_at is not None:
        following = item.again_at + item.nag.pause
        if following > now or _left(item, _stories(tx, item)) == 1:
            break
        skip_planned(tx, item, SkipReason.SUPERSEDED, NEWER_CAME)
        item = plan_next(tx, item, following)
    return item


def last_end(tx: Transaction, item: DueItem) -> LedgerRow | None:
    """The end of the last time that was planned."""
    last = _stories(tx, item)[-1:]
    return last[0].end if last else None


def _stories(tx: Transaction, item: DueItem) -> list[RunStory]:
    """The times that were planned, in order."""
    if item.nag is None:
        return []
    return tx.ledger.stories_again(Occurrence.parse(item.occurrence))


def _left(item: DueItem, stories: list[RunStory]) -> int:
    """How many times it has left, with a planned one."""
    return 0 if item.nag is None else item.nag.times - sum(map(_is_used_up, stories))


def _is_used_up(story: RunStory) -> bool:
    """Whether it came, or a later one in its place; what an answer or a pause ends is not."""
    end = story.end
    if end is None:
        return False
    is_passed = end.facts.get("reason") == SkipReason.SUPERSEDED
    return end.state == OccurrenceState.DONE or is_passed
