"""The buttons on job cards."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.jobs.cards import cancelled_card, moved_card
from ollim_bot.conversation.jobs.echo import Post
from ollim_bot.conversation.jobs.foreground import JobRuns
from ollim_bot.conversation.jobs.overviews import Overviews
from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.chat import Author, ChatMessage, numbered_id
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.due_items import MOVE, snoozed_until
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import J, Job, Reminder, Routine, StoredJob
from ollim_bot.domain.moments import describe, describe_with_distance
from ollim_bot.domain.overviews import (
    CANCEL,
    ENSURE,
    PAUSE,
    RESUME,
    RUN,
    SHOW,
    SKIP,
    SNOOZE_JOB,
    TURN,
    next_moment,
    skipped_moment,
)
from ollim_bot.domain.quiet import IN_QUIET_HOURS, is_quiet
from ollim_bot.domain.schedule import Skips, occurrence_at
from ollim_bot.domain.shared_files import FileChange, JobFile, JobFolder
from ollim_bot.domain.taint import marked_taint, untrusted_message
from ollim_bot.domain.updates import PendingUpdate, owner_did
from ollim_bot.errors import OllimError, StorageError, WrongInput
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.changes import FileChanges, acting
from ollim_bot.store.job_checker import JobFileChecker
from ollim_bot.store.steps import leave_update, quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Done:
    """What a click has done, in words, and the card as it is to be from now on.

    `is_left` says that the agent has its update already.
    """

    text: str
    card: Card
    is_left: bool = False


class JobRemover:
    """Removes jobs, and keeps the text of their files for an Undo."""

    def __init__(
        self, repositories: JobRepositories, files: JobFileChecker, former: FileChanges
    ) -> None:
        self._repositories = repositories
        self._files = files
        self._former = former

    def remove(self, job: Job, path: Path, now: datetime) -> str | None:
        """Remove the job; returns the key of its Undo, or None if its text could not be kept."""
        file = JobFile(JobFolder(job.kind.plural), path.name)
        before, key = None, secrets.token_hex(4)
        with suppress(StorageError):
            before = self._files.text(file)
        with acting(Changer.BUTTON, key):
            self._repositories.of(job.kind).remove(job.spec.id)
        if before is None:
            return None
        try:
            self._former.keep(FileChange(key, file, before, None, now, Changer.BUTTON))
        except StorageError:
            _logger.exception("A cancelled job cannot be brought back")
            return None
        return key


class JobButtons:
    """Answers the buttons on job cards. After a click, the card shows the changed job."""

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        remover: JobRemover,
        post: Post,
        clock: Clock,
        manual_runs: JobRuns,
        overviews: Overviews,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._remover = remover
        self._post = post
        self._clock = clock
        self._manual_runs = manual_runs
        self._overviews = overviews
        self.actions: Mapping[str, Action] = {
            RUN: Action(self._run, Uses.NOTHING),
            SHOW: Action(self._show, Uses.NOTHING),
            PAUSE: self._doing(self._pause),
            RESUME: self._doing(self._resume),
            SKIP: self._doing(self._skip),
            SNOOZE_JOB: self._doing(self._snooze),
            CANCEL: self._doing(self._cancel),
            MOVE: self._doing(self._move),
            ENSURE: self._doing(self._ensure),
            TURN: Action(self._turn, Uses.NOTHING),
        }

    async def _run(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        try:
            job = (await asyncio.to_thread(self._stored, button.data)).item
        except OllimError as refused:
            return CommandAnswer(str(refused), is_error=True)
        title = job.spec.short_title
        if job.why_not_by_hand:
            return CommandAnswer(job.why_not_by_hand, is_error=True)
        if not self._manual_runs.request(job):
            return CommandAnswer(f"“{title}” is running already.", is_error=True)
        return CommandAnswer(f"Running now: {title}. `/runs` shows what comes of it.")

    async def _show(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Post the card of a job on an overview, with all its buttons."""
        try:
            job = (await asyncio.to_thread(self._stored, button.data)).item
        except OllimError as refused:
            return CommandAnswer(str(refused), is_error=True)
        card = await asyncio.to_thread(self._overviews.card_of, job)
        now = self._clock.now()
        name = numbered_id(now, secrets.randbits(20))
        untrusted = untrusted_message(marked_taint(job.spec.untrusted))
        shown = ChatMessage(name, now, Author.PROGRAM, card.text, card=card, untrusted=untrusted)
        await self._post(replace(shown, in_fork=message.in_fork))
        return CommandAnswer()

    async def _turn(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        try:
            is_turned = await self._overviews.turn_page(button.data)
        except OllimError as refused:
            return CommandAnswer(str(refused), is_error=True)
        return CommandAnswer() if is_turned else CommandAnswer(texts.BUTTON_USED, is_error=True)

    def _doing(self, do: Callable[[str], _Done]) -> Action:
        """An action that calls `do` in a thread, because `do` waits for the disk."""

        async def run(_: str, message: ChatMessage, button: Button) -> CommandAnswer:
            try:
                done = await asyncio.to_thread(do, button.data)
            except OllimError as refused:
                return CommandAnswer(str(refused), is_error=True)
            if not done.is_left:
                update = self._update(done.text)
                try:
                    await self._store.transact(lambda tx: leave_update(tx, update))
                except StorageError:  # what was clicked is done all the same
                    _logger.warning("The agent could not be told of a click", exc_info=True)
            is_overview = message.card is not None and bool(message.card.lines)
            try:
                if not is_overview:
                    await self._post(replace(message, text=done.card.text, card=done.card))
                await self._overviews.refresh()
            except StorageError:  # as above, it is done
                _logger.warning("A click could not be shown on its card", exc_info=True)
                return CommandAnswer(done.text)
            return CommandAnswer(done.text, is_shown=True)

        return Action(run, Uses.NOTHING)

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
        job, path = self._stored(name)
        key = self._remover.remove(job, path, self._clock.now())
        card = cancelled_card(job.kind, job.spec.title or job.spec.id, key)
        return _Done(f"Cancelled: {job.spec.short_title}.", card)

    def _done(self, text: str, job: Job, *, is_left: bool = False) -> _Done:
        return _Done(text, self._overviews.card_of(job), is_left)

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
