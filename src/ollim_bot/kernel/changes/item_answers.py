"""Owns the cards of due items: a card comes, comes again, waits, is answered, and is brought back.

Every change of an item is one of these steps: an open item has one message that asks for it,
and at most one planned time. The item, its message, the ledger, the update for the agent and the
changes of job files are one step, so that a crash leaves all of it or none of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.changes.file_changes import UndoRefused, cause_of
from ollim_bot.kernel.changes.job_files import (
    JobFileChanges,
    add_snoozed,
    bring_back_chain,
    end_chain,
    is_removed_after,
    remove_copy,
)
from ollim_bot.kernel.store.answer_plan_rows import plan_following, withdraw_plan
from ollim_bot.kernel.store.steps import (
    carry_agent_skills,
    hold,
    leave_update,
    note_dropped,
    quiet_settings,
)
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.answers import settlement, settlement_in, state_text, why_not_undone
from ollim_bot.kernel.values.changes import ANSWER, Changer, ChangeRow
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.due_items import DueItem, delivery_id, item_key, open_card, root_in
from ollim_bot.kernel.values.item_messages import asked_item, card_message
from ollim_bot.kernel.values.jobs import ItemKind, Job, Reminder, Routine
from ollim_bot.kernel.values.occurrences import (
    Answer,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.kernel.values.quiet import is_quiet, quiet_until
from ollim_bot.kernel.values.run_history import BY, NEWER_CAME, PLAINLY, RunStory, planned_row
from ollim_bot.kernel.values.schedule import ScheduledJob, is_late, occurrence_at
from ollim_bot.kernel.values.updates import owner_did

# The number of the last time that an occurrence can have.
_LAST = 9999
# No answer that is older can be taken back.
_LONGEST_UNDO = timedelta(hours=26)


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
    """How many times it has left, with a planned one.

    A time that came is used up, or if a later one came in its place; one that an answer or a pause
    has ended is not.
    """
    if item.nag is None:
        return 0
    ends = [story.end for story in stories if story.end is not None]
    return item.nag.times - sum(
        end.state == OccurrenceState.DONE or end.facts.get("reason") == SkipReason.SUPERSEDED
        for end in ends
    )


# Answers an item, or takes that back, in the agent's name, who needs no update of it.
AGENT = Changer.AGENT.value

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

    Those are a message of the same occurrence, the earlier checks of its chain, the earlier moments
    of its routine, and what the owner has run by hand. If the item has its answer already, the new
    message shows that. Call it after the message was added, or kept for the digest.
    """
    known = tx.due_items.get(item.key)
    is_held = tx.held.get().has(item.card)
    if known is None and item.is_by_hand:
        known = _meant_by_hand(tx, item)
    if known is None:
        item = _take_place(tx, item)
        if is_held:
            item = replace(item, waiting=item.card, again_at=None)
        elif item.again_at is not None:
            item = plan_next(tx, item, item.again_at)
        tx.due_items.put(item)
        return
    if known.key != item.key:
        tx.due_items.put(replace(item, again_at=None, same_as=known.key))
    if known.answer is not None:
        tx.due_items.put(replace(known, card=item.card))
    elif known.is_open and is_held:
        if known.waiting != item.card:
            _drop_waiting(tx, known)
        tx.due_items.put(replace(known, waiting=item.card))
    elif known.is_open:
        ask_by(tx, known, item.card)


def _meant_by_hand(tx: Transaction, item: DueItem) -> DueItem | None:
    """The item that a run by hand shows again: the open one, or the dose that has its answer."""
    run = Occurrence.parse(item.occurrence)
    newest = tx.due_items.of_job(run.kind, run.job_id)
    answered = next((each for each in newest if each.is_same_dose(tx.now)), None)
    waiting = next((each for each in newest if each.is_open), None)
    # An older dose that is open is not the one that is meant.
    if waiting is not None and (answered is None or answered.answer is None):
        return waiting
    while answered is not None and answered.copy:
        copies = tx.due_items.of_job(JobKind.REMINDER, answered.copy)
        if not copies:
            # A copy that has not come by its moment was cancelled.
            is_to_come = answered.until is not None and answered.until > tx.now
            return answered if is_to_come else None
        answered = copies[0]
    return answered


def _take_place(tx: Transaction, item: DueItem) -> DueItem:
    """Have the item ask instead of the earlier ones of its job; an earlier dose stays open.

    An Undo of an earlier answer would bring that one back beside it.
    """
    for earlier in tx.due_items.open():
        if not earlier.is_of_same_job(item):
            continue
        skip_planned(tx, earlier, SkipReason.SUPERSEDED, NEWER_CAME)
        _drop_waiting(tx, earlier)
        earlier = replace(earlier, waiting=None, again_at=None)
        if earlier.is_dose and earlier.is_of_routine and not earlier.is_by_hand:
            tx.due_items.put(replace(earlier, is_passed=True))
            continue
        tx.due_items.put(replace(earlier, is_followed_up=True))
        is_moment = item.is_of_routine and not earlier.is_by_hand
        item = item.in_place_of(earlier) if is_moment else item
    job = Occurrence.parse(item.occurrence)
    for earlier in tx.due_items.with_undo():
        if earlier.is_of(job.kind, job.job_id):
            tx.due_items.put(replace(earlier, undo_until=None))
    for earlier in tx.due_items.answered_since(tx.now - _LONGEST_UNDO):
        if earlier.is_of_same_job(item) and not earlier.has_later:
            tx.due_items.put(replace(earlier, has_later=True))
    return item


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


def ask_by(tx: Transaction, item: DueItem, card: MessageId) -> None:
    """Let a new message ask for an open item in the place of its earlier one.

    What waited for the end of the quiet does not come any more, and the nagging goes on.
    """
    _drop_waiting(tx, item)
    item = replace(item, card=card, waiting=None, is_passed=False, shown=max(1, item.shown))
    if item.nag is not None and item.again_at is None:
        item = plan_next(tx, item, tx.now.astimezone(UTC) + item.nag.pause)
    tx.due_items.put(item)


def _drop_waiting(tx: Transaction, item: DueItem) -> None:
    if item.waiting is None:
        return
    waiting = tx.held.get()
    for each in waiting.waiting:
        if each.message.id == item.waiting:
            tx.held.put(waiting.without(item.waiting))
            note_dropped(tx, each.message, NEWER_CAME)


def show_again(
    tx: Transaction, key: str, now: datetime, job: Job | None, footer: str = "", by: str = ""
) -> DueItem | None:
    """Show an open item again if its next time is due, as a new message, and plan the next.

    `job` is its job as it is now. While it is quiet, what need not come waits for the digest, and
    the nagging goes on after that. `by` names who shows it in the place of the bot. Returns the
    item with its new message; None if there is none.
    """
    item = tx.due_items.get_open(key)
    if item is None or item.again_at is None or item.again_at > now:
        return None
    if not _is_on(tx, item, job):
        _end_series(tx, item)
        return None
    item = skip_passed(tx, item, now)
    time = planned_time(tx, item)
    if time is None or item.nag is None or item.again_at is None:
        tx.due_items.put(replace(item, again_at=None))
        return None
    shown = replace(item, shown=item.shown + 1)
    message = card_message(shown, time, tx.now, footer)
    facts = {"job": message.job, **PLAINLY, **({BY: by} if by else {})}
    done = LedgerRow(tx.now, OccurrenceState.DONE.value, time, facts)
    until = None if item.as_reminder.must else quiet_until(quiet_settings(tx), now)
    if until is not None:
        _drop_waiting(tx, item)
        hold(tx, HeldMessage(message), until)
        tx.ledger.append(done)
        tx.due_items.put(replace(shown, waiting=message.id, again_at=None))
        return None
    tx.messages.add(message)
    tx.ledger.append(done)
    since = now if is_late(item.again_at, now) else item.again_at
    ask_by(tx, plan_next(tx, shown, since + item.nag.pause), message.id)
    return tx.due_items.get(key)


def follow_job(tx: Transaction, item: DueItem, job: Job | None) -> None:
    """End the nagging of an open item whose job is paused or gone, or give back what was left."""
    if not _is_on(tx, item, job):
        _end_series(tx, item)
    elif job is not None and item.again_at is None and not item.waiting and item.nag is not None:
        end = last_end(tx, item)
        if end is not None and end.facts.get("reason") == SkipReason.DISABLED:
            again_at = tx.now.astimezone(UTC) + item.nag.pause
            tx.due_items.put(plan_next(tx, item, again_at))


def _is_on(tx: Transaction, item: DueItem, job: Job | None) -> bool:
    """Whether the job is not paused, and its file there, or removed because it came."""
    return is_removed_after(tx.job_ops, item.occurrence) if job is None else job.spec.enabled


def _end_series(tx: Transaction, item: DueItem) -> None:
    if item.again_at is not None:
        skip_planned(tx, item, SkipReason.DISABLED, "it was paused or removed")
        tx.due_items.put(replace(item, again_at=None))


def answer_item(
    tx: Transaction,
    key: str,
    answer: Answer,
    by: str,
    *,
    until: datetime | None = None,
    copy: str = "",
    who: Changer | None = None,
    undoes: str = "",
) -> DueItem | None:
    """Answer an open item; None if it has an answer already.

    `until` is the moment to which it is put off, and `copy` the id of the reminder to make for it.
    `undoes` is the change that the answer takes back, if it is given again. The further checks of
    its chain are removed. What follows its answer is planned.
    """
    before = tx.due_items.get_open(key)
    if before is None:
        return None
    is_in_quiet = until is not None and is_quiet(quiet_settings(tx), until)
    answered = before.answered(answer, tx.now, by, until, copy)
    item = replace(answered, is_in_quiet=is_in_quiet)
    tx.due_items.put(item)
    tx.ledger.append(item.row(answer, tx.now, by))
    _note_answer(tx, before, item, who or _changer_of(by), undoes)
    skip_planned(tx, item, SkipReason.POLICY, "you had answered it")
    tx.job_ops.add(end_chain(root_in(item.note), _mark(item)))
    plan_following(tx, item)
    if until is not None:
        tx.job_ops.add(add_snoozed(item.note, copy, until))
        carry_agent_skills(tx, root_in(item.note), copy)
    if by != AGENT:
        did = _DID[answer].format(item.title)
        when = f", {describe(until, tx.now)}" if until is not None else ""
        leave_update(tx, owner_did(tx.now, f"{did}{when}.", f"answered-{key}"))
    return item


def _changer_of(by: str) -> Changer:
    """Who answers: `by` is a surface, whose buttons do, or the value of a `Changer`."""
    return Changer(by) if by in [*Changer] else Changer.BUTTON


def _note_answer(
    tx: Transaction, before: DueItem, after: DueItem, who: Changer, undoes: str = ""
) -> None:
    """Keep that the item has its answer. `undoes` is the change that this takes back."""
    place = f"{ANSWER}:{after.occurrence}"
    cause = cause_of(tx, CONVERSATION) if who is Changer.AGENT else ""
    tx.changes.put(
        ChangeRow(
            tx.changes.new_key(place),
            tx.now,
            place,
            who,
            state_text(before),
            state_text(after),
            cause,
            after.untrusted,
            undoes,
        )
    )


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
    return answer_item(tx, item.key, said.answer, by, until=said.until, copy=copy, who=Changer.CHAT)


def _mark(item: DueItem) -> str:
    """Names one answer of the item: after an Undo it may get another."""
    return f"{item.key} {item.answered_at}"


def take_back(tx: Transaction, key: str, by: str, job: Job | None) -> DueItem:
    """Open the item again, while its card says Undo, or until its next moment or midnight.

    `job` is its job as it is now. Raises `UndoRefused` with the reason.
    """
    return reopen_item(tx, _taken_back(tx, key, job), by)


def _taken_back(tx: Transaction, key: str, job: Job | None) -> DueItem:
    """The item whose answer can be taken back. Raises `UndoRefused` with the reason."""
    item = tx.due_items.get(key)
    if item is None:
        raise UndoRefused("What was asked is not known any more.")
    if item.can_undo(tx.now):
        return item
    scheduled = job if isinstance(job, Routine | Reminder) else None
    if why := why_not_undone(item, tx.now, scheduled, tx.skips.get()):
        raise UndoRefused(why)
    return item


def undo_answer_change(
    tx: Transaction, change: ChangeRow, by: str, job: Job | None, copy: str
) -> DueItem:
    """Take back the answer that the change is, or, of an undo, give the answer again.

    `copy` is the id of the reminder to make where that puts it off. Raises `UndoRefused`.
    """
    refuse_answer_undo(tx, change, job)
    key, said = item_key(change.name), settlement_in(change.before)
    if said is None:
        return take_back(tx, key, by, job)
    item = answer_item(tx, key, said.answer, by, until=said.until, copy=copy, undoes=change.key)
    assert item is not None
    return item


def refuse_answer_undo(tx: Transaction, change: ChangeRow, job: Job | None) -> None:
    """Raise `UndoRefused` if the change of an answer cannot be undone now; nothing is done."""
    if tx.changes.is_undone(change.key):
        raise UndoRefused("It was undone before.")
    last = tx.changes.last_of(change.place)
    if last is not None and last.key != change.key:
        sentence = f"It has another answer since ({last.key}); nothing was undone."
        raise UndoRefused(sentence)
    key, said = item_key(change.name), settlement_in(change.before)
    if said is None:
        _taken_back(tx, key, job)
        return
    if said.until is not None and said.until <= tx.now:
        raise UndoRefused("That moment is over. Answer it where it stands.")
    if tx.due_items.get_open(key) is None:
        raise UndoRefused("It is not open any more.")


def reopen_item(tx: Transaction, item: DueItem, by: str) -> DueItem:
    """Take back the answer with all that followed from it."""
    after = item.reopened()
    tx.ledger.append(item.row(Answer.UNDONE, tx.now, by))
    who = _changer_of(by)
    last = tx.changes.last_of(f"{ANSWER}:{item.occurrence}")
    if last is not None:
        _note_answer(tx, item, after, who, last.key)
    tx.due_items.put(after)
    after = _ask_again(tx, after)
    end = last_end(tx, item)
    # Its nagging may have ended because a later moment of its job came.
    is_superseded = end is not None and end.facts.get("reason") == SkipReason.SUPERSEDED
    if item.nag is not None and not after.waiting and not is_superseded:
        after = plan_next(tx, after, tx.now.astimezone(UTC) + item.nag.pause)
    tx.due_items.put(after)
    if item.copy and item.until is not None:
        tx.job_ops.done(add_snoozed(item.note, item.copy, item.until).id)
        tx.job_ops.add(remove_copy(item.copy, item.until))
    bring_back_chain(tx.job_ops, end_chain(root_in(item.note), _mark(item)))
    withdraw_plan(tx, item)
    # Remove the update of the answer; if the agent has seen it, leave its correction.
    name = f"answered-{item.key}"
    if any(each.id == name for each in tx.updates.get().entries):
        tx.updates.change(lambda pending: pending.without({name}))
    elif by != AGENT:
        said = f"took back the answer to “{item.title}”; it is open again."
        leave_update(tx, owner_did(tx.now, said, f"undone {_mark(item)}"))
    return after


def _ask_again(tx: Transaction, item: DueItem) -> DueItem:
    """Ask for an item that is open again: by a new message, if it was answered before one came."""
    message = tx.messages.get(item.card)
    if message is not None and not asked_item(message) and not item.is_passed:
        # Before version 0.18 a message had the line of the answer in place of what it asked.
        tx.messages.add(replace(message, card=open_card(item, tx.now)))
    if item.card or not item.shown:
        return item
    occurrence = Occurrence.parse(item.occurrence)
    item = replace(item, card=delivery_id(occurrence))
    message = card_message(item, occurrence, tx.now)
    until = None if item.as_reminder.must else quiet_until(quiet_settings(tx), tx.now)
    if until is None:
        tx.messages.add(message)
        return item
    hold(tx, HeldMessage(message), until)
    return replace(item, waiting=message.id)


def end_undo(tx: Transaction) -> None:
    """Remove the Undo buttons whose time is over."""
    for item in tx.due_items.with_undo():
        if not item.can_undo(tx.now):
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

    async def take_back(self, key: str, by: str) -> DueItem:
        """Take the answer back until the next moment of its job or midnight.

        Raises `UndoRefused` with the reason.
        """
        item = await self._store.read(lambda tx: tx.due_items.get(key))
        name = "" if item is None else item.occurrence
        job = await asyncio.to_thread(self._files.job_of, name) if name else None
        opened = await self._store.transact(lambda tx: take_back(tx, key, by, job))
        await self._files.make()
        return opened

    def refuse_undo(self, change: ChangeRow, now: datetime) -> None:
        """Raise `UndoRefused` if the change of an answer cannot be undone now. Reads from disk."""
        is_new = now.astimezone(UTC) - change.at <= _LONGEST_UNDO
        job = self._files.job_of(change.name) if is_new else None
        self._store.query(lambda tx: refuse_answer_undo(tx, change, job))

    async def undo_change(self, change: ChangeRow, by: Changer) -> DueItem:
        """Undo the change of an answer. Raises `UndoRefused` with the reason."""
        job, copy = await asyncio.to_thread(self._files.job_of, change.name), new_copy()
        item = await self._store.transact(
            lambda tx: undo_answer_change(tx, change, by.value, job, copy)
        )
        await self.carry_out(item)
        return item
