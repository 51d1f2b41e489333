"""Tells the owner of jobs that the agent has written, and takes such a change back."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ollim_bot.agent import Gate, Refusal, ToolCall
from ollim_bot.conversation.jobs.cards import for_agent, job_card, undone
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.events import AgentEvent, ToolEnded, TurnEnded
from ollim_bot.domain.job_files import JobChange, JobFile, UndoEnd
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, WRITING
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores
from ollim_bot.tools.job_places import job_files
from ollim_bot.tools.job_validator import JobChecker

_logger = logging.getLogger(__name__)

Post = Callable[[ChatMessage], Awaitable[None]]


class Former(Protocol):
    """What files held before they were changed, on disk for 30 days."""

    def keep(self, change: JobChange) -> None:
        """In place of an earlier change with that key."""

    def undo(self, key: str) -> tuple[UndoEnd, JobFile | None]:
        """Put back what was there, once, and only if nobody has changed the file since.

        The file is None where it is not known any more.
        """


@dataclass(slots=True)
class _Watched:
    """A file of which one turn may make another: as it was at first, and as it was last seen.

    All that a turn does to it is one change: told on one card, and undone as a whole.
    """

    file: JobFile
    before: str | None
    seen: str | None
    key: str
    card: MessageId


@dataclass(frozen=True, slots=True)
class JobEcho:
    """`post` shows a message when it is on disk."""

    root: Path
    files: JobChecker
    former: Former
    stores: Stores
    post: Post
    clock: Clock

    def watch(self) -> JobWatch:
        """For one session."""
        return JobWatch(self)

    async def undo(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """The click on a card's Undo. After an error, nothing has changed."""
        try:
            end, file = await asyncio.to_thread(self.former.undo, button.data)
        except StorageError as refused:
            return CommandAnswer(str(refused), is_error=True)
        text = undone(message.card.title if message.card else "", end)
        if end in (UndoEnd.GONE, UndoEnd.CHANGED_SINCE) or file is None:
            return CommandAnswer(text, is_error=True)
        await self._tell_agent(for_agent(file, end), button.data)
        return CommandAnswer(text)

    async def _tell_agent(self, sentence: str, key: str) -> None:
        now = self.clock.now()
        try:
            await asyncio.to_thread(self.stores.leave_update, sentence, now, f"undo-{key}")
        except StorageError:  # it is undone all the same, and the file itself says so
            _logger.exception("The agent could not be told of an undone change")


class JobWatch:
    """One session's view: `noting` sees what is about to be written, `watching` what was."""

    def __init__(self, echo: JobEcho) -> None:
        self._echo = echo
        self._watched: dict[JobFile, _Watched] = {}

    def noting(self, gate: Gate) -> Gate:
        """The same gate, which remembers what a file was before a call that it lets through."""

        async def noted(call: ToolCall) -> Refusal | None:
            refusal = await gate(call)
            if refusal is None and call.tool in WRITING:
                await asyncio.to_thread(self._note, call)
            return refusal

        return noted

    async def watching(
        self, events: AsyncIterator[AgentEvent], *, job: str = "", in_fork: bool = False
    ) -> AsyncIterator[AgentEvent]:
        """The same events; `job` and `in_fork` say where the cards belong."""
        try:
            async for event in events:
                if isinstance(event, ToolEnded | TurnEnded):
                    await self._look(job, in_fork=in_fork)
                if isinstance(event, TurnEnded):
                    self._watched.clear()
                yield event
        except asyncio.CancelledError:
            # What was written before a run was cut off counts like everything else.
            await self._look(job, in_fork=in_fork)
            raise

    def _note(self, call: ToolCall) -> None:
        path = str(call.arguments.get(FILE_ARGUMENTS[call.tool], ""))
        for file in job_files(self._echo.root, path):
            if file.is_skill or file in self._watched:
                continue
            try:
                before = self._echo.files.text(file)
            except StorageError:  # what cannot be read cannot be put back either
                continue
            card = numbered_id(self._echo.clock.now(), secrets.randbits(20))
            self._watched[file] = _Watched(file, before, before, secrets.token_hex(4), card)

    async def _look(self, job: str, *, in_fork: bool) -> None:
        for watched in list(self._watched.values()):
            try:
                text, written = await asyncio.to_thread(self._written, watched)
                if written is not None:
                    await self._tell(watched, text, written, job, in_fork=in_fork)
                    watched.seen = text
            except StorageError:  # a turn goes on, whatever can be told of it
                _logger.exception("The owner could not be told of %s", watched.file)

    def _written(self, watched: _Watched) -> tuple[str, Job | None]:
        """The text and the job, if it is another one than at the last look."""
        text = self._echo.files.text(watched.file)
        if text is None or text == watched.seen:
            return "", None
        return text, self._echo.files.read(watched.file, text).job

    async def _tell(
        self, watched: _Watched, text: str, job: Job, label: str, *, in_fork: bool
    ) -> None:
        now = self._echo.clock.now()
        change = JobChange(watched.key, watched.file, watched.before, text, now)
        can_undo = await asyncio.to_thread(self._kept, change)
        is_new = watched.before is None
        card = job_card(job, now, is_new=is_new, key=watched.key if can_undo else None)
        message = ChatMessage(
            watched.card,
            now,
            Author.PROGRAM,
            card.text,
            card=card,
            job=label,
            in_fork=in_fork,
        )
        await self._echo.post(message)

    def _kept(self, change: JobChange) -> bool:
        try:
            self._echo.former.keep(change)
        except StorageError:
            _logger.exception("A change of %s cannot be undone", change.file)
            return False
        return True
