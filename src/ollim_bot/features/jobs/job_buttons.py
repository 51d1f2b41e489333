"""The buttons on the cards of jobs and of due items, and the end of each Undo."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import describe, describe_with_distance
from ollim_bot.kernel.changes.breakdown_store import end_steps_undo
from ollim_bot.kernel.changes.file_changes import acting
from ollim_bot.kernel.changes.item_answers import ItemAnswers, end_undo
from ollim_bot.kernel.changes.task_undo import end_task_undo
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, refusable
from ollim_bot.kernel.conversation.foreground import JobRuns
from ollim_bot.kernel.conversation.job_cards import cancelled_card, moved_card
from ollim_bot.kernel.conversation.job_echo import Post
from ollim_bot.kernel.store.steps import end_clear_undo, leave_update, quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.due_items import (
    DONE,
    ITEM,
    LET_GO,
    MOVE,
    NOT_TAKEN,
    OTHER,
    SNOOZE,
    TAKEN,
    UNDO,
    snoozed_until,
)
from ollim_bot.kernel.values.job_list import job_card
from ollim_bot.kernel.values.jobs import J, Job, Reminder, Routine, StoredJob
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.overviews import (
    CANCEL,
    ENSURE,
    PAUSE,
    RESUME,
    RUN,
    SHOW,
    SKIP,
    SNOOZE_JOB,
)
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS, is_quiet
from ollim_bot.kernel.values.schedule import Skips, next_moment, occurrence_at, skipped_moment
from ollim_bot.kernel.values.taint import marked_taint, untrusted_message
from ollim_bot.kernel.values.updates import PendingUpdate, owner_did


@dataclass(frozen=True, slots=True)
class _Done:
    """What a click has done, in words, and the card as it is to be from now on.

    `is_left` says that the agent has its update already.
    """

    text: str
    card: Card
    is_left: bool = False


class JobButtons:
    """Answers the buttons on job cards. After a click, the card shows the changed job.

    `refresh` draws the open overviews anew.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        post: Post,
        clock: Clock,
        manual_runs: JobRuns,
        refresh: Callable[[], Awaitable[object]],
        webhook_port: int | None,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._post = post
        self._clock = clock
        self._manual_runs = manual_runs
        self._refresh = refresh
        self._webhook_port = webhook_port
        self.actions: Mapping[str, Action] = {
            RUN: refusable(self._run),
            SHOW: refusable(self._show),
            PAUSE: self._doing(self._pause),
            RESUME: self._doing(self._resume),
            SKIP: self._doing(self._skip),
            SNOOZE_JOB: self._doing(self._snooze),
            CANCEL: self._doing(self._cancel),
            MOVE: self._doing(self._move),
            ENSURE: self._doing(self._ensure),
        }

    async def _run(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        job = (await asyncio.to_thread(self._stored, button.data)).item
        title = job.spec.short_title
        if job.why_not_by_hand:
            return CommandAnswer(job.why_not_by_hand, is_error=True)
        if not self._manual_runs.request(job):
            return CommandAnswer(f"“{title}” is running already.", is_error=True)
        return CommandAnswer(f"Running now: {title}. `/runs` shows what comes of it.")

    async def _show(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Post the card of a job on an overview, with all its buttons."""
        job = (await asyncio.to_thread(self._stored, button.data)).item
        card = await asyncio.to_thread(self._card_of, job)
        now = self._clock.now()
        name = numbered_id(now, secrets.randbits(20))
        untrusted = untrusted_message(marked_taint(job.spec.untrusted))
        shown = ChatMessage(name, now, Author.PROGRAM, card.text, card=card, untrusted=untrusted)
        await self._post(replace(shown, in_fork=message.in_fork))
        return CommandAnswer()

    def _doing(self, do: Callable[[str], _Done]) -> Action:
        """An action that calls `do` in a thread, because `do` waits for the disk."""

        async def run(_: str, message: ChatMessage, button: Button) -> CommandAnswer:
            done = await asyncio.to_thread(do, button.data)
            if not done.is_left:
                update = self._update(done.text)
                telling = self._store.transact(lambda tx: leave_update(tx, update))
                await unless_refused("The agent could not be told of a click", telling)
            # What was clicked is done all the same.
            showing = self._show_done(message, done.card)
            is_shown = await unless_refused("A click could not be shown on its card", showing)
            return CommandAnswer(done.text, is_shown=is_shown or False)

        return refusable(run)

    async def _show_done(self, message: ChatMessage, card: Card) -> bool:
        if message.card is None or not message.card.lines:
            await self._post(replace(message, text=card.text, card=card))
        await self._refresh()
        return True

    def _pause(self, name: str) -> _Done:
        job = self._amended(self._stored(name).item, {"enabled": False})
        return self._done(f"Paused: {job.spec.short_title}.", job)

    def _resume(self, name: str) -> _Done:
        """Enable a paused job, which keeps its skips; of one that is not paused, remove them."""
        job = self._stored(name).item
        if not job.spec.enabled:
            job = self._amended(job, {"enabled": None})
            when = self._when(job, self._skips())
            return self._done(f"Resumed: {job.spec.short_title}{when}.", job)
        if not job.kind.has_moments:
            return self._done(f"Resumed: {job.spec.short_title}.", job)
        when = self._when(job, self._skips().without_job(name))
        text = f"Resumed: {job.spec.short_title}{when}."
        self._change_skips(lambda skips: skips.without_job(name), text)
        return self._done(text, job, is_left=True)

    def _skip(self, name: str) -> _Done:
        job, now = self._stored(name).item, self._clock.now()
        if not isinstance(job, Routine):
            raise WrongInput("Only a routine can be skipped once. Cancel it, or pause it.")
        skips = self._skips()
        moment = skipped_moment(job, skips, now) or next_moment(job, skips, now)
        if moment is None:
            raise WrongInput(f"“{job.spec.short_title}” is not due, so nothing is skipped.")
        occurrence = occurrence_at(job, moment)
        is_new = not skips.has(occurrence)
        skips = skips.with_moment(occurrence, now) if is_new else skips
        after = next_moment(job, skips, now)
        again = f" It comes again {describe_with_distance(after, now)}." if after else ""
        text = f"Skipped: {job.spec.short_title}, {describe(moment, now)}.{again}"
        if is_new:
            self._change_skips(lambda skips: skips.with_moment(occurrence, now), text)
        return self._done(text, job, is_left=True)

    def _snooze(self, data: str) -> _Done:
        """Count from the reminder's due moment, or from now if that has passed."""
        name, _, wait = data.rpartition(":")
        job, now = self._stored(name).item, self._clock.now()
        if not isinstance(job, Reminder):
            raise WrongInput("Only a reminder can be snoozed.")
        due = job.due(now.tzinfo or UTC)
        start = due if due.astimezone(UTC) > now.astimezone(UTC) else now
        moment = snoozed_until(wait, start.astimezone(job.spec.zone(now.tzinfo or UTC)))
        job = self._amended(job, {"run-at": moment})
        when = describe_with_distance(moment, now)
        is_in_quiet = is_quiet(self._store.query(quiet_settings), moment)
        where = f", {IN_QUIET_HOURS}" if is_in_quiet else ""
        return self._done(f"Snoozed: {job.spec.short_title}, {when}{where}.", job)

    def _move(self, data: str) -> _Done:
        """Move a reminder to the end of the quiet that it was set in."""
        name, _, seconds = data.rpartition(":")
        job, now = self._stored(name).item, self._clock.now()
        moment = datetime.fromtimestamp(int(seconds), now.tzinfo)
        if moment.astimezone(UTC) <= now.astimezone(UTC):
            raise WrongInput("That moment is over. Tell me another one.")
        job = self._amended(job, {"run-at": moment})
        when = describe_with_distance(moment, now)
        return _Done(f"Moved: {job.spec.short_title}, {when}.", moved_card(job, moment, now))

    def _ensure(self, name: str) -> _Done:
        """Order a reminder that may be held back; its words stay marked as untrusted."""
        job = self._stored(name).item
        if not isinstance(job, Reminder):
            raise WrongInput("Only a reminder can be made sure of.")
        if not job.must:
            job = self._amended(job, {"must": True})
        when = self._when(job, self._skips())
        return self._done(f"Made sure that it comes: {job.spec.short_title}{when}.", job)

    def _cancel(self, name: str) -> _Done:
        job, key = self._stored(name).item, secrets.token_hex(4)
        with acting(Changer.BUTTON, key):
            self._repositories.of(job.kind).remove(job.spec.id)
        is_kept = self._store.query(lambda tx: tx.changes.find(key)) is not None
        title = job.spec.title or job.spec.id
        card = cancelled_card(job.kind, title, key if is_kept else None)
        return _Done(f"Cancelled: {job.spec.short_title}.", card)

    def _card_of(self, job: Job) -> Card:
        return job_card(job, self._skips(), self._clock.now(), self._webhook_port)

    def _done(self, text: str, job: Job, *, is_left: bool = False) -> _Done:
        return _Done(text, self._card_of(job), is_left)

    def _update(self, text: str) -> PendingUpdate:
        return owner_did(self._clock.now(), text[:1].lower() + text[1:], secrets.token_hex(4))

    def _when(self, job: Job, skips: Skips) -> str:
        now = self._clock.now()
        moment = next_moment(job, skips, now) if isinstance(job, Routine | Reminder) else None
        return f", {describe_with_distance(moment, now)}" if moment else ""

    def _stored(self, name: str) -> StoredJob[Job]:
        kind, _, job_id = name.partition(":")
        stored: StoredJob[Job] = self._repositories.of(JobKind(kind)).get(job_id)
        return stored

    def _amended(self, job: J, changes: Mapping[str, object]) -> J:
        with acting(Changer.BUTTON):
            amended: J = self._repositories.of(job.kind).amend(job.spec.id, changes)
        return amended

    def _skips(self) -> Skips:
        return self._store.query(lambda tx: tx.skips.get())

    def _change_skips(self, change: Callable[[Skips], Skips], text: str) -> None:
        update = self._update(text)

        def step(tx: Transaction) -> None:
            tx.skips.change(change)
            leave_update(tx, update)

        self._store.run(step)


# Bounds how late a sleep of the machine, or a set clock, is noticed. In seconds.
_LONGEST_SLEEP = 10.0
_WITH_UNDO = ("due_items", "cleared", "task_undos", "breakdowns")


class ItemButtons:
    """Answers due items by their buttons; only the first click counts."""

    def __init__(self, items: ItemAnswers, clock: Clock) -> None:
        self._items = items
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: self._answering(Answer.DONE),
            TAKEN: self._answering(Answer.TAKEN),
            NOT_TAKEN: self._answering(Answer.NOT_TAKEN),
            LET_GO: self._answering(Answer.LET_GO),
            SNOOZE: self._answering(Answer.SNOOZED),
            f"{MOVE}:{ITEM}": self._answering(Answer.MOVED),
            f"{UNDO}:{ITEM}": refusable(self._take_back),
        }

    def _answering(self, answer: Answer) -> Action:
        async def run(surface: str, __: ChatMessage, button: Button) -> CommandAnswer:
            key, wait = button.data.removeprefix(f"{ITEM}:").partition(":")[::2]
            now, (kind, _, words) = self._clock.now(), wait.partition(":")
            until = None
            if wait:
                until = parse_moment(words, now) if kind == OTHER else snoozed_until(wait, now)
            item = await self._items.answer(key, answer, surface, until)
            return CommandAnswer() if item else CommandAnswer(texts.BUTTON_USED, is_error=True)

        return refusable(run)

    async def _take_back(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        await self._items.take_back(button.data.partition(":")[2], surface)
        return CommandAnswer()


class UndoExpiry:
    """Removes the Undo of answered items, tasks and `/clear` from the log when its time is over."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled."""
        with self._store.changes(*_WITH_UNDO) as has_changed:
            while True:
                has_changed.clear()
                await wait_until_set(has_changed, self._clock, await self._seconds_left())

    async def _seconds_left(self) -> float | None:
        """Remove what is over; returns when to look again, None if no Undo is left."""
        now = self._clock.now().astimezone(UTC)
        ends = await self._store.read(lambda tx: _ends(tx, now))
        for end in dict.fromkeys(end for until, end in ends if until <= now):
            await self._store.transact(end)
        left = [(until - now).total_seconds() for until, _ in ends if until > now]
        return min(*left, _LONGEST_SLEEP) if left else None


def _ends(tx: Transaction, now: datetime) -> list[tuple[datetime, Step[None]]]:
    """When each Undo ends that a message offers, and the step that removes it."""
    cleared = tx.cleared.get().undo_left(now)
    found: list[tuple[datetime | None, Step[None]]] = [
        *((each.undo_until, end_undo) for each in tx.due_items.with_undo()),
        *((each.until, end_task_undo) for each in tx.task_undos.get().undos),
        *((each.undo_until, end_steps_undo) for each in tx.breakdowns.get().known),
        (None if cleared is None else now + cleared, end_clear_undo),
    ]
    return [(until.astimezone(UTC), end) for until, end in found if until is not None]
