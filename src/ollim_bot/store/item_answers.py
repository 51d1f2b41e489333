"""Shows due items, answers them, and takes an answer back.

The item, its message, the ledger, the update for the agent and the changes of job files are one
step, so that a crash leaves all of an answer or none of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.due_items import Answer, DueItem, item_key
from ollim_bot.domain.item_cards import passed_card, settled_card, unanswered_card
from ollim_bot.domain.item_replies import settlement
from ollim_bot.domain.jobs import ItemKind
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import SkipReason
from ollim_bot.domain.quiet import IN_QUIET_HOURS, is_quiet
from ollim_bot.domain.schedule import ScheduledJob, occurrence_at
from ollim_bot.domain.snoozing import root_in
from ollim_bot.domain.updates import owner_did
from ollim_bot.store.item_times import plan_next, skip_planned
from ollim_bot.store.job_files import (
    JobFileChanges,
    add_snoozed,
    bring_back_chain,
    end_chain,
    remove_copy,
)
from ollim_bot.store.steps import carry_agent_skills, leave_update, quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# Answers an item, or takes that back, in the agent's name, who needs no update of it.
AGENT = "agent"

_DID = {
    Answer.DONE: "done with “{}”",
    Answer.TAKEN: "took “{}”",
    Answer.NOT_TAKEN: "skipped “{}”",
    Answer.SNOOZED: "snoozed “{}”",
    Answer.MOVED: "moved “{}”",
    Answer.LET_GO: "let “{}” go",
}


def add_item(tx: Transaction, item: DueItem) -> None:
    """Add the item of a new message, which asks in the place of every earlier one.

    Those are a message of the same occurrence, the earlier checks of its chain, and the earlier
    moments of its routine. If the item has its answer already, the new message shows that.
    """
    known = tx.due_items.get(item.key)
    if known is not None and known.is_open:
        move_card(tx, known, item.card)
    elif known is not None:
        _show(tx, item.card, settled_card(replace(known, undo_until=None), tx.now))
    else:
        item = _take_place(tx, item)
        if item.again_at is not None:
            item = plan_next(tx, item, item.again_at)
        tx.due_items.put(item)


def _take_place(tx: Transaction, item: DueItem) -> DueItem:
    """Have the item ask instead of the earlier ones of its job; an earlier dose stays open."""
    for earlier in tx.due_items.open():
        if not earlier.is_of_same_job(item):
            continue
        skip_planned(tx, earlier, SkipReason.SUPERSEDED, "a later one came in its place")
        if earlier.is_dose and earlier.is_of_routine:
            _show_unanswered(tx, earlier)
            continue
        _show(tx, earlier.card, passed_card(earlier, tx.now))
        tx.due_items.put(replace(earlier, is_followed_up=True, again_at=None))
        item = item.in_place_of(earlier) if item.is_of_routine else item
    return item


def _show_unanswered(tx: Transaction, dose: DueItem) -> None:
    """Let the card of a dose become a line; what is a line already stays as it is."""
    message = tx.messages.get(dose.card)
    if message is not None and message.card is not None and message.card.buttons:
        _show(tx, dose.card, unanswered_card(dose, tx.now))
    if dose.again_at is not None:
        tx.due_items.put(replace(dose, again_at=None))


def add_missed(tx: Transaction, job: ScheduledJob, moments: Sequence[datetime]) -> None:
    """Add the older moments of a job that must come, which passed without a card.

    Each dose stays open by itself. Of another job, the newest item asks in the place of all.
    """
    found = (DueItem.of_missed(job, occurrence_at(job, each), tx.now) for each in moments)
    items = [each for each in found if tx.due_items.get(each.key) is None]
    if job.spec.kind is ItemKind.DOSE:
        for item in items:
            tx.due_items.put(item)
        return
    if not items:
        return
    last = reduce(lambda older, item: item.in_place_of(older), items)
    newer = next((each for each in tx.due_items.open() if each.is_after(last)), None)
    if newer is not None:
        tx.due_items.put(newer.in_place_of(last))
    else:
        add_item(tx, last)


def move_card(tx: Transaction, item: DueItem, card: MessageId) -> None:
    """Let a newer message show an open item; the earlier message becomes a line."""
    _show(tx, item.card, passed_card(item, tx.now))
    tx.due_items.put(replace(item, card=card))


def _show(tx: Transaction, message_id: MessageId, card: Card | None, footer: str = "") -> None:
    message = tx.messages.get(message_id)
    if message is not None:
        tx.messages.add(replace(message, card=card, footer=footer))


def _show_settled(tx: Transaction, item: DueItem) -> None:
    """Show the line of the answer, and say so where it puts the item off into the quiet."""
    is_in_quiet = item.until is not None and is_quiet(quiet_settings(tx), item.until)
    footer = IN_QUIET_HOURS if is_in_quiet else ""
    _show(tx, item.card, settled_card(item, tx.now), footer)


def answer_item(
    tx: Transaction,
    key: str,
    answer: Answer,
    by: str,
    *,
    until: datetime | None = None,
    copy: str = "",
) -> DueItem | None:
    """Answer an open item; None if it has an answer already.

    `until` is the moment to which it is put off, and `copy` the id of the reminder to make for it.
    The further checks of its chain are removed.
    """
    before = tx.due_items.get(key)
    if before is None or not before.is_open:
        return None
    item = _shown_as_line(tx, before.answered(answer, tx.now, by, until, copy))
    tx.due_items.put(item)
    tx.ledger.append(item.row(answer, tx.now, by))
    skip_planned(tx, item, SkipReason.POLICY, "you had answered it")
    tx.job_ops.add(end_chain(root_in(item.note), _mark(item)))
    if until is not None:
        tx.job_ops.add(add_snoozed(item.note, copy, until))
        carry_agent_skills(tx, root_in(item.note), copy)
    if by != AGENT:
        leave_update(tx, owner_did(tx.now, _did(item, tx.now), f"answered-{key}"))
    return item


def answer_reply(
    tx: Transaction, replied_to: MessageId, words: str, by: str, copy: str
) -> DueItem | None:
    """Answer the item that the message shows or has shown, by the words of a reply.

    Returns None if they are no answer. `copy` is the id of the reminder that is made where they put
    it off.
    """
    message = tx.messages.get(replied_to)
    if message is None or message.card is None:
        return None
    item = tx.due_items.get(item_key(message.occurrence))
    said = None if item is None else settlement(words, item, tx.now)
    if item is None or said is None:
        return None
    return answer_item(tx, item.key, said.answer, by, until=said.until, copy=copy)


def _shown_as_line(tx: Transaction, item: DueItem) -> DueItem:
    """Replace the card by the line of the answer; the item keeps what the message showed."""
    message = tx.messages.get(item.card)
    _show_settled(tx, item)
    return item if message is None else replace(item, asked=message.card, footer=message.footer)


def _did(item: DueItem, now: datetime) -> str:
    said = _DID[item.answer or Answer.DONE].format(item.title)
    return f"{said}, {describe(item.until, now)}." if item.until else f"{said}."


def _mark(item: DueItem) -> str:
    """Names one answer of the item: after an Undo it may get another."""
    return f"{item.key} {item.answered_at}"


def undo_answer(tx: Transaction, key: str, by: str) -> DueItem | None:
    """Open the item again as it was; None if it is too late, or there is no answer to undo."""
    item = tx.due_items.get(key)
    if item is None or not item.can_undo(tx.now):
        return None
    return reopen_item(tx, item, by)


def reopen_item(tx: Transaction, item: DueItem, by: str) -> DueItem:
    """Take back the answer with all that followed from it."""
    after = item.reopened()
    if item.nag is not None:
        after = plan_next(tx, after, tx.now.astimezone(UTC) + item.nag.pause)
    tx.due_items.put(after)
    tx.ledger.append(item.row(Answer.UNDONE, tx.now, by))
    _show(tx, item.card, item.asked, item.footer)
    if item.copy and item.until is not None:
        tx.job_ops.done(add_snoozed(item.note, item.copy, item.until).id)
        tx.job_ops.add(remove_copy(item.copy, item.until))
    bring_back_chain(tx.job_ops, end_chain(root_in(item.note), _mark(item)))
    _correct_update(tx, item, by)
    return after


def _correct_update(tx: Transaction, item: DueItem, by: str) -> None:
    """Remove the update of the answer; if the agent has seen it, leave its correction."""
    name = f"answered-{item.key}"
    if any(each.id == name for each in tx.updates.get().entries):
        tx.updates.change(lambda pending: pending.without({name}))
    elif by != AGENT:
        said = f"took back the answer to “{item.title}”; it is open again."
        leave_update(tx, owner_did(tx.now, said, f"undone {_mark(item)}"))


def end_undo(tx: Transaction) -> None:
    """Remove the Undo buttons whose time is over."""
    for item in tx.due_items.with_undo():
        if not item.can_undo(tx.now):
            _show_settled(tx, item)
            tx.due_items.put(replace(item, undo_until=None))


def new_copy() -> str:
    """An id for the reminder that a snooze makes."""
    return os.urandom(4).hex()


class ItemAnswers:
    """Answers due items and undoes that, with the job files that belong to an answer."""

    def __init__(self, store: Store, files: JobFileChanges) -> None:
        self._store = store
        self._files = files

    async def answer(
        self, key: str, answer: Answer, by: str, until: datetime | None = None
    ) -> DueItem | None:
        """Answer an open item; None if it has an answer already.

        Raises `OllimError`, with the item open again, if the reminder for `until` cannot be
        written.
        """
        copy = new_copy() if until is not None else ""
        item = await self._store.transact(
            lambda tx: answer_item(tx, key, answer, by, until=until, copy=copy)
        )
        if item is not None:
            await self.carry_out(item)
        return item

    async def carry_out(self, item: DueItem) -> None:
        """Change the job files after `answer_item`; raises as `answer`."""
        copied = None if item.until is None else add_snoozed(item.note, item.copy, item.until)
        if refused := await self._files.make(copied):
            await self._store.transact(lambda tx: reopen_item(tx, item, item.answered_by))
            raise refused

    async def undo(self, key: str, by: str) -> DueItem | None:
        """Take the answer back; None if it is too late, or there is no answer to undo."""
        item = await self._store.transact(lambda tx: undo_answer(tx, key, by))
        await self._files.make()
        return item
