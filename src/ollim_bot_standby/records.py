"""Stores the engine's records in the shared database, and lays out there what others stored."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, ParamSpec, Protocol, TypeVar

from ollim_bot.features.keeping.restore import make_newest, put_record
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import EngineError, StorageError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.logs import refusal_logged
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import open_file
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.connection import Value, escaped, unescaped
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, write_atomically
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.events import AgentEvent, TurnEnded
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    AgentSession,
    OfferedSkill,
    Prompt,
    SessionSpec,
    StoredSession,
    Toolset,
    Trace,
)
from ollim_bot.kernel.values.runtime_config import Thinking
from ollim_bot.kernel.values.usage import Usage

R = TypeVar("R")

# In bytes, for one step: the lease cannot be renewed before its end.
_CHUNK = 1024 * 1024
# In bytes: at each look so much of what is stored is compared. The engine rewrites no more.
_CHECKED = 1024 * 1024
_LINES = ".jsonl"
# In the name of a record that another one has replaced.
_KEPT = ".before-"
_NOT_HERE = "What the model remembers is not whole on this machine:"
_STAMP = "%Y%m%dT%H%M%SZ"

# In bytes. A server keeps larger values in parts of its own, and a reader takes one at a time.
LARGEST_PIECE = 256 * 1024
# Before the name of a file whose new content has not come whole yet; no file has it.
_NEW = "new:"
_COLUMNS = "file, position, change, at, hash, content"


class StoredPiece(NamedTuple):
    """Where a piece of a file is, and the hash of its content."""

    position: int
    length: int
    hash: str

    @property
    def end(self) -> int:
        return self.position + self.length


def hash_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def split(position: int, content: bytes) -> Iterator[tuple[StoredPiece, bytes]]:
    """The pieces of a content that begins at `position` of its file."""
    for start in range(0, len(content), LARGEST_PIECE):
        part = content[start : start + LARGEST_PIECE]
        yield StoredPiece(position + start, len(part), hash_of(part)), part


class TranscriptRows:
    """The content of each file, by its name among the engine's records.

    Each step that adds to a file has a number, its change; later steps have higher ones.
    """

    def __init__(self, tx: Transaction) -> None:
        self._statements = tx.statements

    def changed_since(self, change: int) -> list[tuple[str, int]]:
        """The files that were added to since, each with its last change, the newest as the last."""
        rows = self._statements.rows(
            "SELECT file, max(change) FROM transcripts WHERE change > ? AND substr(file, 1, 4) != ?"
            " GROUP BY file ORDER BY 2, 1",
            change,
            _NEW,
        )
        return [(unescaped(row[0]), int(row[1])) for row in rows]

    def pieces(self, file: str, since: int = 0) -> list[StoredPiece]:
        """The pieces of the file in order; with `since`, those of later changes."""
        rows = self._statements.rows(
            "SELECT position, length(content), hash FROM transcripts"
            " WHERE file = ? AND change > ? ORDER BY position",
            escaped(file),
            since,
        )
        return [StoredPiece(*row) for row in rows]

    def content(self, file: str, position: int) -> bytes | None:
        """The content of one piece; None if there is none any more."""
        row = self._statements.row(
            "SELECT content FROM transcripts WHERE file = ? AND position = ?",
            escaped(file),
            position,
        )
        return None if row is None else bytes(row[0])

    def changed_at(self, file: str) -> int:
        """When the file was changed last on the machine that stored it, in microseconds."""
        return self._statements.number(
            "SELECT max(at) FROM transcripts WHERE file = ?", escaped(file)
        )

    def append(
        self, file: str, position: int, content: bytes, at: int, *, is_new: bool = False
    ) -> None:
        """Add what the file has from `position` on, which is the end of what is stored.

        A content that `is_new` replaces the stored one when `replace` is called.
        """
        name = f"{_NEW}{file}" if is_new else file
        if is_new and position == 0:
            self._remove(name)
        change, values, count = self._next_change(), list[Value](), 0
        for piece, part in split(position, content):
            values += (escaped(name), piece.position, change, at, piece.hash, part)
            count += 1
        rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
        self._statements.write(
            "transcripts", f"INSERT INTO transcripts ({_COLUMNS}) VALUES {rows}", *values
        )

    def replace(self, file: str) -> None:
        """Put the new content of the file in the place of the stored one."""
        change = self._next_change()
        self._remove(file)
        self._statements.write(
            "transcripts",
            "UPDATE transcripts SET file = ?, change = ? WHERE file = ?",
            escaped(file),
            change,
            escaped(f"{_NEW}{file}"),
        )

    def remove(self, files: Sequence[str]) -> None:
        """Remove the files, but the one that was added to last: its number must not be reused."""
        newest = self._statements.row("SELECT file FROM transcripts ORDER BY change DESC LIMIT 1")
        for file in files:
            if newest is not None and newest[0] != escaped(file):
                self._remove(file)

    def _next_change(self) -> int:
        return self._statements.number("SELECT coalesce(max(change), 0) + 1 FROM transcripts")

    def _remove(self, file: str) -> None:
        self._statements.write(
            "transcripts", "DELETE FROM transcripts WHERE file = ?", escaped(file)
        )


class RecordRows(Protocol):
    """The rows of the database, for a thread without an event loop."""

    def run(self, step: Step[R]) -> R: ...

    def query(self, question: Step[R]) -> R: ...


# The number, size and moment of change of a file.
_Status = tuple[int, int, int]


class _Copy(NamedTuple):
    """The pieces that a file had in the status `status`; `change` is the last of them all."""

    pieces: tuple[StoredPiece, ...]
    status: _Status
    change: int = 0

    @property
    def end(self) -> int:
        return _end_of(self.pieces)


class RecordStore:
    """Stores what the records of this machine have more than the database. One thread at a time.

    A record that was rewritten or shortened is stored anew; readers see the old or the new one.
    """

    def __init__(self, rows: RecordRows) -> None:
        self._rows = rows
        self._known: dict[str, _Copy] = {}

    def store(self, name: str, path: Path, *, is_whole: bool = False) -> int:
        """Store the new lines of a file; returns how many bytes. A torn last line waits.

        With `is_whole` all that is stored is compared, else only its end. Raises `StorageError`,
        after which a part may be stored, or `OSError`.
        """
        known = self._known.pop(name, None)
        if _KEPT in name:
            return 0
        try:
            with open(open_file(path), "rb") as file:
                return self._store(name, file, known, is_whole=is_whole)
        except FileNotFoundError:
            return 0

    def remove_gone(self, place_of: Callable[[str], Path]) -> None:
        """Remove the files that this object has stored, and that the engine has removed here.

        Raises `StorageError`.
        """
        gone = [name for name in self._known if _is_gone(place_of(name))]
        if gone:
            self._rows.run(lambda tx: TranscriptRows(tx).remove(gone))
        for name in gone:
            del self._known[name]

    def _store(self, name: str, file: BinaryIO, known: _Copy | None, *, is_whole: bool) -> int:
        status = _status(os.fstat(file.fileno()))
        if known is not None and known.status == status:
            self._known[name] = known
            return 0
        pieces = known.pieces if known is not None else _pieces(self._rows, name, None)
        checked_from = 0 if is_whole or known is None else _end_of(pieces) - _CHECKED
        compared = [each for each in pieces if each.end > checked_from]
        if _count_same(file, compared) == len(compared):
            new = self._add(name, file, _end_of(pieces))
            pieces = (*pieces, *new)
        else:
            new = pieces = self._add(name, file, 0, is_new=True)
            self._rows.run(lambda tx: TranscriptRows(tx).replace(name))
        self._known[name] = _Copy(pieces, status)
        return sum(each.length for each in new)

    def _add(
        self, name: str, file: BinaryIO, end: int, *, is_new: bool = False
    ) -> tuple[StoredPiece, ...]:
        pieces: list[StoredPiece] = []
        at = os.fstat(file.fileno()).st_mtime_ns // 1000
        for chunk in _chunks(file, end, by_line=name.endswith(_LINES)):
            self._rows.run(partial(_append, name, end, chunk, at, is_new))
            pieces += (piece for piece, _ in split(end, chunk))
            end += len(chunk)
        return tuple(pieces)


def _append(name: str, position: int, chunk: bytes, at: int, is_new: bool, tx: Transaction) -> None:
    TranscriptRows(tx).append(name, position, chunk, at, is_new=is_new)


def _is_gone(path: Path) -> bool:
    """Whether the file is gone, while others of its folder are there."""
    return not path.exists() and any(path.parent.glob(f"*{_LINES}"))


def _chunks(file: BinaryIO, start: int, *, by_line: bool) -> Iterator[bytes]:
    """What the file has from `start` on, in parts of whole lines, without a torn last line."""
    file.seek(start)
    rest = b""
    while block := file.read(_CHUNK):
        rest += block
        cut = rest.rfind(b"\n") + 1 if by_line else len(rest)
        if cut:
            yield rest[:cut]
            rest = rest[cut:]


class _Rewritten(Exception):
    """The stored file was replaced while it was read."""


class RecordFolder:
    """Lays out what is stored where the engine of this machine looks for it. One thread at a time.

    A record here that has other lines than the stored one is kept beside it.
    """

    def __init__(
        self, transcripts: Transcripts, directory: Path, now: Callable[[], datetime]
    ) -> None:
        self._transcripts = transcripts
        self._directory = directory
        self._now = now
        self._change = 0
        self._behind: dict[str, int] = {}
        self._known: dict[str, _Copy] = {}

    @property
    def behind(self) -> frozenset[str]:
        """The files that could not be laid out: the database has more of them."""
        return frozenset(self._behind)

    def place_of(self, name: str) -> Path:
        """Where the engine looks for the record."""
        return self._transcripts.place_of(name, self._directory)

    def lay_out(self, rows: RecordRows, *, has_led_last: bool = False) -> tuple[str, ...]:
        """Lay out what was stored since the last call; returns notes on what could not be written.

        The next call tries that again. Where this machine `has_led_last`, a record with more lines
        than the stored one stays: it could not store them any more. Raises `StorageError`; the next
        call goes on from there.
        """
        newest = dict(rows.query(lambda tx: TranscriptRows(tx).changed_since(self._change)))
        self._behind |= newest
        self._change = max(newest.values(), default=self._change)
        problems = []
        for name, change in [*self._behind.items()]:
            try:
                self._lay_out(rows, name, change, has_led_last=has_led_last)
            except (OSError, EngineError) as refused:
                problems.append(f"{_NOT_HERE} {getattr(refused, 'strerror', '') or refused}")
            except _Rewritten:
                continue
            else:
                del self._behind[name]
        return tuple(dict.fromkeys(problems))

    def _lay_out(self, rows: RecordRows, name: str, change: int, *, has_led_last: bool) -> None:
        target = self.place_of(name)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self._known.pop(name, None)
        if not (target.exists() and known is not None and known.status == _status(target.stat())):
            known = None
        pieces = _pieces(rows, name, known)
        if not pieces:
            return
        lacking: Sequence[StoredPiece] | None = None
        if known is not None and pieces[: len(known.pieces)] == known.pieces:
            lacking = pieces[len(known.pieces) :]
        elif known is None and target.exists():
            lacking = _lacking(rows, name, pieces, target, may_have_more=has_led_last)
        if lacking is None:
            self._replace(rows, name, pieces, target, is_ours=known is not None)
        elif lacking:
            _complete(rows, name, lacking, target)
        elif name.endswith(_LINES):
            # Drop what follows `end`, unless it is a whole line: the engine would go on in it.
            end = _end_of(pieces)
            with open(open_file(target, os.O_RDWR), "r+b") as file:
                if _end_of_lines(file) <= end:
                    file.truncate(end)
        if target.stat().st_size == _end_of(pieces):
            # Give the record its age, by which sessions are listed.
            at = rows.query(lambda tx: TranscriptRows(tx).changed_at(name))
            os.utime(target, ns=(at * 1000, at * 1000))
            if target.name == name:
                make_newest(target, self._transcripts)
            self._known[name] = _Copy(pieces, _status(target.stat()), change)

    def _replace(
        self,
        rows: RecordRows,
        name: str,
        pieces: Sequence[StoredPiece],
        target: Path,
        *,
        is_ours: bool,
    ) -> None:
        new = target.with_name(f".{target.name}.tmp")
        with open(open_file(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
            for piece in pieces:
                file.write(_content(rows, name, piece))
        if is_ours:
            os.replace(new, target)
        else:
            stamp = self._now().astimezone(UTC).strftime(_STAMP)
            put_record(new, target, f"before-standby-{stamp}")


def _pieces(rows: RecordRows, name: str, known: _Copy | None) -> tuple[StoredPiece, ...]:
    if known is not None:
        added = rows.query(lambda tx: TranscriptRows(tx).pieces(name, known.change))
        if not added or added[0].position == known.end:
            return (*known.pieces, *added)
    return tuple(rows.query(lambda tx: TranscriptRows(tx).pieces(name)))


def _content(rows: RecordRows, name: str, piece: StoredPiece) -> bytes:
    content = rows.query(lambda tx: TranscriptRows(tx).content(name, piece.position))
    if content is None or hash_of(content) != piece.hash:
        raise _Rewritten
    return content


def _lacking(
    rows: RecordRows, name: str, pieces: Sequence[StoredPiece], target: Path, *, may_have_more: bool
) -> Sequence[StoredPiece] | None:
    """The pieces that the file does not have whole; None if it has other lines than they have.

    Or if it has more, unless it `may_have_more`.
    """
    with open(open_file(target), "rb") as file:
        count = _count_same(file, pieces)
        lacking, position = pieces[count:], _end_of(pieces[:count])
        end = _end_of_lines(file) if name.endswith(_LINES) else file.seek(0, os.SEEK_END)
        if end > _end_of(pieces) and not may_have_more:
            return None
        for piece in lacking:
            length = min(piece.length, end - position)
            if length <= 0:
                break
            file.seek(position)
            if file.read(length) != _content(rows, name, piece)[:length]:
                return None
            position += length
    return lacking


def _complete(rows: RecordRows, name: str, lacking: Sequence[StoredPiece], target: Path) -> None:
    """Write the pieces over what the file has of them. A kill leaves no less than before."""
    with open(open_file(target, os.O_RDWR), "r+b") as file:
        file.seek(lacking[0].position)
        for piece in lacking:
            file.write(_content(rows, name, piece))
        file.truncate()


def _count_same(file: BinaryIO, pieces: Sequence[StoredPiece]) -> int:
    """How many of the pieces the file has, up to the first that it has not."""
    for number, piece in enumerate(pieces):
        file.seek(piece.position)
        if hash_of(file.read(piece.length)) != piece.hash:
            return number
    return len(pieces)


def _end_of_lines(file: BinaryIO) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0


def _end_of(pieces: Sequence[StoredPiece]) -> int:
    return pieces[-1].end if pieces else 0


def _status(found: os.stat_result) -> _Status:
    return found.st_ino, found.st_size, found.st_mtime_ns


P = ParamSpec("P")

# In seconds. The engine writes a line some time after it has told of it.
_LOOK, _AGAIN, _TIDY_EVERY = 0.25, 0.5, 3600.0
# In seconds, for the end of a turn: a leader that is without its database for longer ends.
_PATIENCE = 10.0
# In bytes.
_MOST = 30

_logger = logging.getLogger(__name__)


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
        # With which lease this machine led last. If none is newer, its files are the newest ones.
        self._led_file = paths.led
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
        self._has_led_last = epoch is not None and epoch == self._led()

    def note_lead(self, epoch: int) -> None:
        """Note that this process leads, with the lease of this epoch."""
        self._has_led_last = epoch - 1 == self._led()
        with refusal_logged("It could not be noted that this machine leads"):
            write_atomically(OsDisk(), self._led_file, f"{epoch}\n".encode(), PRIVATE)

    def _led(self) -> int | None:
        try:
            return int(OsDisk().read(self._led_file, _MOST))
        except (OSError, ValueError):
            return None

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
                await self._in_thread(self._store_files, [each.id for each in self._used])
                if self._clock.monotonic() - tidied > _TIDY_EVERY:
                    tidied = self._clock.monotonic()
                    assert self._records is not None
                    await self._in_thread(self._records.remove_gone, self._folder.place_of)
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
                return await self._in_thread(self._store_files, [session.id], is_whole=is_whole)
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

    def _store_files(self, sessions: Sequence[SessionId | None], *, is_whole: bool = False) -> None:
        assert self._records is not None
        for session in filter(None, sessions):
            try:
                for name, path in self._transcripts.files_of_one(session):
                    # The database has more of a file that could not be laid out.
                    if name not in self._folder.behind:
                        self._records.store(name, path, is_whole=is_whole)
            except (OSError, EngineError) as refused:
                _logger.warning("The engine's record cannot be read: %s", refused)

    async def _in_thread(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """The work of one call after the other."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(work, *arguments, **named))


@dataclass(frozen=True, slots=True)
class RecordedEngine:
    """An engine whose records are stored for the other machines."""

    engine: AgentEngine
    records: SharedRecords

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[RecordedSession]:
        await self.records.ready()
        opened: AgentSession | None = None
        try:
            async with self.engine.open(spec, tools) as opened:
                yield RecordedSession(opened, self.records)
        finally:
            # Its process has written its last lines.
            if opened is not None:
                await self.records.store_all_of(opened, is_whole=True)

    async def knows(self, session: SessionId) -> bool:
        await self.records.ready()
        return await self.engine.knows(session)

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        await self.records.ready()
        return await self.engine.trace(session, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        await self.records.ready()
        return await self.engine.sessions(working_directory, limit)


@dataclass(frozen=True, slots=True)
class RecordedSession:
    session: AgentSession
    records: SharedRecords

    @property
    def id(self) -> SessionId | None:
        return self.session.id

    @property
    def usage(self) -> Usage:
        return self.session.usage

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._recorded(self.session.turn(prompt))

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._recorded(self.session.command(line))

    async def interrupt(self) -> None:
        await self.session.interrupt()

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        await self.session.reconfigure(
            model=model, thinking=thinking, system_prompt=system_prompt, skills=skills
        )

    async def _recorded(self, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        with self.records.using(self.session):
            async for event in events:
                if isinstance(event, TurnEnded):
                    await self.records.store_all_of(self.session)
                yield event
