"""The engine's records of a bot that shares its database: stored as they grow, and laid out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from ollim_bot.domain.events import AgentEvent, TurnEnded
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.usage import Usage
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.errors import EngineError, StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import (
    AgentEngine,
    AgentSession,
    Clock,
    OfferedSkill,
    Prompt,
    SessionSpec,
    StoredSession,
    Toolset,
    Trace,
)
from ollim_bot.store.files import PRIVATE, OsDisk, write_atomically
from ollim_bot.store.store import Store
from ollim_bot_standby.records import RecordFolder, RecordStore

P = ParamSpec("P")
R = TypeVar("R")

# In seconds. The engine writes a line some time after it has told of it.
_LOOK, _AGAIN, _TIDY_EVERY = 0.25, 0.5, 3600.0
# In seconds, for the end of a turn: a leader that is without its database for longer ends.
_PATIENCE = 10.0
# In bytes.
_MOST = 30

_logger = logging.getLogger(__name__)


class LedFile:
    """With which lease this machine led last. If none is newer, its files are the newest ones."""

    def __init__(self, paths: DataPaths) -> None:
        self._path = paths.led

    def read(self) -> int | None:
        """The epoch; None if this machine has never led, or it is not known."""
        try:
            return int(OsDisk().read(self._path, _MOST))
        except (OSError, ValueError):
            return None

    def write(self, epoch: int) -> None:
        """Raises `StorageError`."""
        write_atomically(OsDisk(), self._path, f"{epoch}\n".encode(), PRIVATE)


class SharedRecords:
    """`follow` is for a machine that stands by, `lead` and then `run` for the one that leads.

    No session is opened before all that other machines have stored is laid out. What a session
    records is stored within a moment, so that the end of a call is stored before the next one has
    come far, and all of a turn before its end is told.
    """

    def __init__(
        self,
        paths: DataPaths,
        environment: Mapping[str, str],
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        self._directory = paths.root
        self._led_file = LedFile(paths)
        self._transcripts = Transcripts(environment)
        self._clock = clock
        self._tell = tell
        self._folder = RecordFolder(self._transcripts, paths.root, clock.now)
        self._rows: Store | None = None
        self._records: RecordStore | None = None
        self._worker = ThreadPoolExecutor(1, "records")
        self._is_laid_out = False
        self._has_led_last = False
        self._used: list[AgentSession] = []
        self._is_used = asyncio.Event()

    def close(self) -> None:
        self._worker.shutdown()

    def note_leader(self, epoch: int | None) -> None:
        """Note that another process leads, or led last, with this lease."""
        self._has_led_last = epoch is not None and epoch == self._led_file.read()

    def note_lead(self, epoch: int) -> None:
        """Note that this process leads, with the lease of this epoch."""
        self._has_led_last = epoch - 1 == self._led_file.read()
        try:
            self._led_file.write(epoch)
        except StorageError as refused:
            _logger.warning("It could not be noted that this machine leads: %s", refused)

    async def follow(self, store: Store) -> None:
        """Lay out what the leader stores, until cancelled."""
        with store.changes("transcripts") as has_changed:
            while True:
                has_changed.clear()
                try:
                    await self._lay_out(store)
                except StorageError as gone:
                    _logger.warning("The engine's records cannot be read: %s", gone)
                    await self._clock.sleep(_AGAIN)
                else:
                    await has_changed.wait()

    def lead(self, store: Store) -> None:
        """From now on this machine stores what it records."""
        self._rows, self._records = store, RecordStore(store)

    async def ready(self) -> None:
        """Return when all that was stored by others is laid out, or cannot be, which is told."""
        while self._rows is not None and not self._is_laid_out:
            try:
                await self._lay_out(self._rows)
            except StorageError as gone:
                _logger.warning("The engine's records are not laid out yet: %s", gone)
                await self._clock.sleep(_AGAIN)
            else:
                self._is_laid_out = True

    async def run(self) -> None:
        """Store what the sessions in use record, until cancelled."""
        await self.ready()
        tidied = self._clock.monotonic()
        while True:
            await self._is_used.wait()
            with suppress(StorageError):  # the next look tries again
                await self._store([each.id for each in self._used])
                if self._clock.monotonic() - tidied > _TIDY_EVERY:
                    tidied = self._clock.monotonic()
                    await self._in_thread(self._remove_gone)
            await self._clock.sleep(_LOOK)

    @contextmanager
    def using(self, session: AgentSession) -> Iterator[None]:
        """Look after the record of the session while entered."""
        self._used.append(session)
        self._is_used.set()
        try:
            yield
        finally:
            self._used.remove(session)
            if not self._used:
                self._is_used.clear()

    async def store_all_of(self, session: AgentSession, *, is_whole: bool = False) -> None:
        """Store what the session has recorded, also if the database is away for seconds.

        With `is_whole` all that is stored is compared.
        """
        until = self._clock.monotonic() + _PATIENCE
        while True:
            try:
                return await self._store([session.id], is_whole=is_whole)
            except StorageError as gone:
                if self._clock.monotonic() > until:
                    _logger.warning("A part of the engine's record is not stored: %s", gone)
                    return None
                await self._clock.sleep(_AGAIN)

    async def _lay_out(self, store: Store) -> None:
        for problem in await self._in_thread(
            self._folder.lay_out, store, has_led_last=self._has_led_last
        ):
            self._tell(problem)

    async def _store(self, sessions: Sequence[SessionId | None], *, is_whole: bool = False) -> None:
        await self._in_thread(self._store_files, [*filter(None, sessions)], is_whole)

    def _store_files(self, sessions: Sequence[SessionId], is_whole: bool) -> None:
        assert self._records is not None
        for session in sessions:
            try:
                for name, path in self._transcripts.files_of_one(session):
                    # The database has more of a file that could not be laid out.
                    if name not in self._folder.behind:
                        self._records.store(name, path, is_whole=is_whole)
            except (OSError, EngineError) as refused:
                _logger.warning("The engine's record cannot be read: %s", refused)

    def _remove_gone(self) -> None:
        assert self._records is not None
        self._records.remove_gone(lambda name: self._transcripts.place_of(name, self._directory))

    async def _in_thread(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """The work of one call after the other."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(work, *arguments, **named))


class RecordedEngine:
    """An engine whose records are stored for the other machines."""

    def __init__(self, engine: AgentEngine, records: SharedRecords) -> None:
        self._engine = engine
        self._records = records

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[RecordedSession]:
        await self._records.ready()
        opened: AgentSession | None = None
        try:
            async with self._engine.open(spec, tools) as opened:
                yield RecordedSession(opened, self._records)
        finally:
            # Its process has written its last lines.
            if opened is not None:
                await self._records.store_all_of(opened, is_whole=True)

    async def knows(self, session: SessionId) -> bool:
        await self._records.ready()
        return await self._engine.knows(session)

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        await self._records.ready()
        return await self._engine.trace(session, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        await self._records.ready()
        return await self._engine.sessions(working_directory, limit)


class RecordedSession:
    def __init__(self, session: AgentSession, records: SharedRecords) -> None:
        self._session = session
        self._records = records

    @property
    def id(self) -> SessionId | None:
        return self._session.id

    @property
    def usage(self) -> Usage:
        return self._session.usage

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._recorded(self._session.turn(prompt))

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._recorded(self._session.command(line))

    async def interrupt(self) -> None:
        await self._session.interrupt()

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        await self._session.reconfigure(
            model=model, thinking=thinking, system_prompt=system_prompt, skills=skills
        )

    async def _recorded(self, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        with self._records.using(self._session):
            async for event in events:
                if isinstance(event, TurnEnded):
                    await self._records.store_all_of(self._session)
                yield event
