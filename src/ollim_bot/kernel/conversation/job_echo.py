"""Tells the owner what the agent changed in jobs, skills and the profile, and undoes it."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, StorageError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.text import literal, one_line
from ollim_bot.kernel.changes.file_changes import FileChanges, is_watched
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.conversation.job_cards import (
    cancelled_card,
    job_card,
    kind_of_file,
    text_card,
    with_sources,
)
from ollim_bot.kernel.permissions.path_rules import job_files, profile_files
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.steps import leave_update, quiet_settings, standing_taint
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import AgentEvent, ToolEnded, ToolFailed, TurnEnded
from ollim_bot.kernel.values.jobs import Job, Reminder, is_silent_initiative
from ollim_bot.kernel.values.permissions import FILE_ARGUMENTS
from ollim_bot.kernel.values.ports import Gate, JobRepository, Refusal, ToolCall
from ollim_bot.kernel.values.shared_files import FileChange, JobFile, ProfileFile, SharedFile
from ollim_bot.kernel.values.taint import marked_taint, untrusted_message
from ollim_bot.kernel.values.task_cards import added_card
from ollim_bot.kernel.values.tool_patterns import WRITING
from ollim_bot.kernel.values.updates import owner_did

# Seconds between two searches for changes that no turn has shown.
_BETWEEN_LOOKS = 60.0
_LONGEST_NAME = 200

_logger = logging.getLogger(__name__)


class Post(Protocol):
    async def __call__(self, message: ChatMessage, *, may_wait: bool = False) -> None:
        """Show a message once it is on disk; one that `may_wait` is not shown while it is quiet."""


@dataclass(slots=True)
class _Watched:
    """A file that a turn may change: its text before the turn, and the text shown last.

    All changes of one turn to a file are one change, shown on one card and undone as a whole.
    `is_writing` says that a tool writes the file, so that the disk is read for changes; commands
    report their changes themselves. `is_known` says that the text before the turn could be read.
    """

    file: SharedFile
    before: str | None
    seen: str | None
    key: str
    card: MessageId
    is_writing: bool = False
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class ChangeEcho:
    """Shows changes of files on cards."""

    root: Path
    files: JobFileChecker
    former: FileChanges
    store: Store
    reminders: JobRepository[Reminder]
    post: Post
    clock: Clock
    webhook_port: int | None = None
    reach: Reach = field(default_factory=Reach)
    watched: Counter[str] = field(default_factory=Counter)
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    def watch(self, by: str = CONVERSATION) -> ChangeWatch:
        """A watch for one session; its commands carry `by` in `CALLED_BY`."""
        return ChangeWatch(self, by)

    async def run(self) -> None:
        """Show the changes that commands made outside a watched turn, until cancelled.

        The bot may have stopped before it showed a change, or a command may have outlived its turn.
        """
        while True:
            await self.show_unwatched()
            await self.clock.sleep(_BETWEEN_LOOKS)

    async def show_unwatched(self) -> None:
        """Show the changes that commands made outside a watched turn."""
        await ChangeWatch(self, "").show_commands("", in_fork=False)
        if not any(self.watched.values()):
            await self.show_tasks(in_fork=False)

    async def show_tasks(self, *, in_fork: bool) -> None:
        """Show the tasks that tainted turns have added on one card, each once, with an Undo."""
        new = await self.store.read(lambda tx: tx.marks.untold())
        if not new:
            return
        card, now = added_card(new), self.clock.now()
        read = marked_taint(",".join(mark.source for mark in new))
        name = MessageId(f"task-added-{new[0].untold}")
        message = ChatMessage(name, now, Author.PROGRAM, card.text, card=card, in_fork=in_fork)
        await self.post(replace(message, untrusted=untrusted_message(read)))

        def note_shown(tx: Transaction) -> None:
            for mark in new:
                tx.marks.tell(mark)

        await self.store.transact(note_shown)

    async def undo(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Answer a click on Undo, on the card. After an error, nothing has changed."""
        try:
            file, left = await asyncio.to_thread(self.former.undo, button.data)
        except OllimError as refused:
            return CommandAnswer(literal(str(refused)), is_error=True)
        name = message.card.title.partition(": ")[2] if message.card else ""
        text = f"Undone. “{literal(name)}” {left}."
        told = f"undone: {one_line(str(file), _LONGEST_NAME)} {left}."
        update = owner_did(self.clock.now(), told, f"undo-{button.data}")
        # The Undo is done all the same, and the file shows it.
        telling = self.store.transact(lambda tx: leave_update(tx, update))
        await unless_refused("The agent could not be told of an undone change", telling)
        card = Card(f"Undone. “{name}” {left}.")

        async def show() -> bool:
            await self.post(replace(message, text=card.text, card=card))
            return True

        is_shown = await unless_refused("An Undo could not be shown on its card", show())
        return CommandAnswer(text, is_shown=is_shown or False)


class ChangeWatch:
    """The changes of one session: `noting` sees a write before, `watching` sees it after.

    Commands record their own changes, with the session that called them. An empty `by` stands for
    all commands whose session is not watched now.
    """

    def __init__(self, echo: ChangeEcho, by: str) -> None:
        self._echo = echo
        self._by = by
        self._watched: dict[SharedFile, _Watched] = {}
        self._begun: set[str] = set()

    def noting(self, gate: Gate) -> Gate:
        """Wrap the gate, to remember what a file held before a call that the gate allows."""

        async def noted(call: ToolCall) -> Refusal | None:
            refusal = await gate(call)
            if refusal is None and call.tool in WRITING:
                # It is kept when the tool has written.
                noting = asyncio.to_thread(self._note_writing, call)
                await unless_refused("A write of the agent could not be noted", noting)
            return refusal

        return noted

    async def watching(
        self, events: AsyncIterator[AgentEvent], *, job: str = "", in_fork: bool = False
    ) -> AsyncIterator[AgentEvent]:
        """Yield the events unchanged; `job` and `in_fork` say where the cards belong."""
        self._echo.watched[self._by] += 1
        try:
            async for event in events:
                if isinstance(event, ToolEnded | ToolFailed | TurnEnded):
                    is_end = isinstance(event, TurnEnded)
                    await self._look(job, in_fork=in_fork, is_end=is_end)
                if isinstance(event, TurnEnded):
                    await self._end_writes()
                    self._watched.clear()
                yield event
        except asyncio.CancelledError:
            # Show also what was written before the run was cut off.
            await self._look(job, in_fork=in_fork, is_end=True)
            await self._end_writes()
            raise
        finally:
            self._echo.watched[self._by] -= 1

    async def show_commands(self, job: str, *, in_fork: bool) -> None:
        """Show the changes by commands, each once. After a `StorageError`, the rest is kept."""
        echo = self._echo
        async with echo.one_at_a_time:
            for change in await asyncio.to_thread(echo.former.unseen):
                is_mine = change.by == self._by if self._by else not echo.watched[change.by]
                if not is_mine:
                    continue
                watched = self._watched.get(change.file)
                if watched is None or not (watched.is_writing or watched.seen == change.before):
                    # Another writer changed the file in between; the Undo must not revert that
                    # change. The id is the same after a crash, so that no second card comes.
                    name = numbered_id(change.at, int(change.key, 16))
                    begun = _Watched(change.file, change.before, change.before, change.key, name)
                    watched = self._watched[change.file] = begun
                card = self._card(watched, change.after, change.before)
                if card is not None:
                    await self._tell(watched, change.after, card, job, in_fork=in_fork)
                watched.seen = change.after
                is_included = card is not None and watched.key != change.key
                done = echo.former.absorb if is_included else echo.former.forget
                await asyncio.to_thread(done, change.key)

    def _note_writing(self, call: ToolCall) -> None:
        echo, path = self._echo, str(call.arguments.get(FILE_ARGUMENTS[call.tool], ""))
        files: list[SharedFile] = [*job_files(echo.root, path), *profile_files(echo.root, path)]
        keys = {}
        for file in files:
            watched = self._note(file)
            watched.is_writing, keys[str(file)] = True, watched.key
        real, root = os.path.realpath(echo.root / path), os.path.realpath(echo.root)
        place = os.path.relpath(real, root)
        if is_watched(place):
            keys.setdefault(place, secrets.token_hex(4))
        mark = echo.store.query(standing_taint).mark if self._by == CONVERSATION else ""
        for place, key in keys.items():
            self._begun.add(key)
            echo.former.begin(place, key, self._by, mark)

    async def _end_writes(self) -> None:
        begun, self._begun = self._begun, set()
        if begun:
            with suppress(StorageError):
                await asyncio.to_thread(self._echo.former.end, begun)

    def _note(self, file: SharedFile) -> _Watched:
        if file not in self._watched:
            before, is_known = None, True
            try:
                before = self._echo.files.text(file)
            except StorageError:  # an unreadable text can be shown as changed, but not restored
                is_known = False
            card = numbered_id(self._echo.clock.now(), secrets.randbits(20))
            key = secrets.token_hex(4)
            self._watched[file] = _Watched(file, before, before, key, card, is_known=is_known)
        return self._watched[file]

    async def _look(self, job: str, *, in_fork: bool, is_end: bool) -> None:
        """Show changes, at the end also tasks. A failure is logged, and does not stop the turn."""
        sentence = "The owner could not be told of a change"
        await unless_refused(sentence, self.show_commands(job, in_fork=in_fork))
        if is_end:
            await unless_refused(sentence, self._echo.show_tasks(in_fork=in_fork))
        for watched in [each for each in self._watched.values() if each.is_writing]:
            try:
                text, card = await asyncio.to_thread(self._written, watched)
                if card is not None:
                    await self._tell(watched, text, card, job, in_fork=in_fork)
                    watched.seen = text
                elif text is not None:
                    await asyncio.to_thread(self._kept, self._change(watched, text), "")
                    watched.seen = text
            except StorageError:
                _logger.exception("The owner could not be told of %s", watched.file)

    def _written(self, watched: _Watched) -> tuple[str | None, Card | None]:
        """The text and its card, if the text differs from the one shown last."""
        text = self._echo.files.text(watched.file)
        if text is None or text == watched.seen:
            return None, None
        return text, self._card(watched, text, watched.seen)

    def _card(self, watched: _Watched, after: str | None, last: str | None) -> Card | None:
        """`last` is the text before `after`. None if the file is not a job, or is a silent one."""
        file, now = watched.file, self._echo.clock.now()
        is_new = watched.before is None and watched.is_known
        key = watched.key if watched.is_known and watched.before != after else None
        if isinstance(file, ProfileFile):
            return text_card(file, watched.before or "", after or "", is_new=is_new, key=key)
        if after is None:
            job = self._echo.files.read(file, last or "").job
            if is_silent_initiative(job):
                return None
            title = str(file) if job is None else job.spec.title
            was_new = is_new and last is not None
            return cancelled_card(kind_of_file(file), title, key, was_new=was_new)
        reading = self._echo.files.read(file, after)
        if file.is_skill:
            before, tools = watched.before or "", reading.tools
            return text_card(file, before, after, is_new=is_new, key=key, tools=tools)
        if reading.job is None or is_silent_initiative(reading.job):
            return None
        quiet = self._echo.store.query(quiet_settings)
        tools = self._echo.files.tools_of_skills(reading.job.spec.skills)
        card = job_card(
            reading.job,
            now,
            verb="added" if is_new else self._verb(file, watched.before or "", reading.job),
            key=key,
            quiet=quiet,
            skill_tools=tools,
            webhook_port=self._echo.webhook_port,
        )
        return self._with_reach(card) if isinstance(reading.job, Reminder) and is_new else card

    def _verb(self, file: JobFile, before: str, job: Job) -> str:
        former = self._echo.files.read(file, before).job
        if not isinstance(former, Reminder) or not isinstance(job, Reminder) or former == job:
            return "changed"
        return "moved" if replace(former, run_at=job.run_at) == job else "changed"

    def _with_reach(self, card: Card) -> Card:
        """The card of a reminder; that of the first says if nothing but the page can show it."""
        is_first = len(self._echo.reminders.all()) == 1
        if not is_first or not self._echo.store.query(self._echo.reach.is_page_only):
            return card
        return card._replace(description=f"{card.description}\n{ONLY_HERE}".strip())

    async def _tell(
        self, watched: _Watched, after: str | None, card: Card, job: str, *, in_fork: bool
    ) -> None:
        now = self._echo.clock.now()
        standing, read = await self._echo.store.read(
            lambda tx: (standing_taint(tx), tx.marks.in_last_day(now))
        )
        card = with_sources(card, read)
        mark = None
        if after is not None and not isinstance(watched.file, ProfileFile):
            mark = self._echo.files.read(watched.file, after).untrusted
        written = marked_taint(mark)
        if self._by == CONVERSATION:
            written = written.having_read(*standing.sources)
        change = self._change(watched, after)
        is_kept = await asyncio.to_thread(self._kept, change, written.mark)
        if card.buttons and not is_kept:
            card = card._replace(buttons=())
        message = ChatMessage(
            watched.card,
            now,
            Author.PROGRAM,
            card.text,
            card=card,
            job=job,
            in_fork=in_fork,
            untrusted=untrusted_message(written),
        )
        await self._echo.post(message, may_wait=self._by != CONVERSATION)

    def _change(self, watched: _Watched, after: str | None) -> FileChange:
        now, by = self._echo.clock.now(), self._by
        return FileChange(watched.key, watched.file, watched.before, after, now, by)

    def _kept(self, change: FileChange, untrusted: str) -> bool:
        try:
            self._echo.former.keep(change, untrusted)
        except StorageError:
            _logger.exception("A change of %s cannot be undone", change.file)
            return False
        return True
