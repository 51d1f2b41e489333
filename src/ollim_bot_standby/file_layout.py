"""Lays the stored files out on this disk, and sets aside what a person had changed here by hand."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, TypeVar

from ollim_bot.domain.shared_files import SKILLS
from ollim_bot.errors import StorageError, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk
from ollim_bot.store.connection import Statements, Value, escaped, unescaped
from ollim_bot.store.data_directory import TEXTS
from ollim_bot.store.file_store import Malformed, parse_json, render_json
from ollim_bot.store.files import PRIVATE, SHARED, OsDisk, remove_durably, write_atomically
from ollim_bot.store.owner_files import shipped_hashes
from ollim_bot_standby.file_index import (
    NO_FILE,
    ONLY_IN,
    FileIndex,
    FileVersion,
    is_executable,
    is_shared,
    why_left_out,
)

T = TypeVar("T")

# The fact that says whose files these are, and in which lease they were changed last.
_ORIGIN = "files"
PIECE = 256 * 1024
# How many older versions of a file are recognised on a machine that was away.
_KEPT = 200
# How many rows one statement has.
_PAGE = 200


class FilePiece(NamedTuple):
    """A part of a content, which all files that have it share."""

    hash: str
    number: int
    content: bytes


def pieces_of(hash_: str, content: bytes) -> Iterator[FilePiece]:
    for number, start in enumerate(range(0, len(content), PIECE)):
        yield FilePiece(hash_, number, content[start : start + PIECE])


class FileRows:
    """The rows, in one transaction. Paths are relative to the data directory."""

    def __init__(self, rows: Statements) -> None:
        self._rows = rows

    def put(self, versions: Mapping[str, FileVersion], pieces: Sequence[FilePiece]) -> None:
        """Make these the current versions. The pieces of large ones may have come before.

        At most a few hundred at once: a statement has only so many arguments.
        """
        self._put_pieces(pieces)
        if not versions:
            return
        paths = [escaped(each) for each in versions]
        replaced = self._rows.write(
            "files",
            "UPDATE files SET is_current = 0 WHERE is_current = 1"
            f" AND path IN ({_marks(paths)}) RETURNING hash",
            *paths,
        )
        self._put_versions(versions)
        new = {each.hash for each in pieces}
        self._drop_contents({str(hash_) for (hash_,) in replaced} - new)
        self._rows.write(
            "files",
            f"DELETE FROM files WHERE is_current = 0 AND path IN ({_marks(paths)}) AND {_KEPT} <="
            " (SELECT count(*) FROM files AS newer"
            " WHERE newer.path = files.path AND newer.change > files.change)",
            *paths,
        )

    def _put_pieces(self, pieces: Sequence[FilePiece]) -> None:
        if pieces:
            self._rows.write(
                "file_parts",
                "INSERT INTO file_parts (hash, number, content) VALUES"
                f" {', '.join('(?, ?, ?)' for _ in pieces)} ON CONFLICT DO NOTHING",
                *(value for each in pieces for value in each),
            )

    def _put_versions(self, versions: Mapping[str, FileVersion]) -> None:
        one = "(?, ?, (SELECT coalesce(max(change), 0) FROM files) + ?, 1, ?, ?)"
        values: list[Value] = []
        for number, (path, version) in enumerate(versions.items(), 1):
            values += (escaped(path), version.hash, number, version.size)
            values.append(int(version.is_executable))
        self._rows.write(
            "files",
            "INSERT INTO files (path, hash, change, is_current, size, is_executable) VALUES"
            f" {', '.join(one for _ in versions)} ON CONFLICT (path, hash) DO UPDATE SET"
            " change = excluded.change, is_current = 1, is_executable = excluded.is_executable",
            *values,
        )

    def _drop_contents(self, hashes: set[str]) -> None:
        if hashes:
            self._rows.write(
                "file_parts",
                f"DELETE FROM file_parts WHERE hash IN ({_marks(hashes)}) AND NOT EXISTS (SELECT 1"
                " FROM files WHERE files.hash = file_parts.hash AND files.is_current = 1)",
                *hashes,
            )

    def drop_unused_contents(self) -> None:
        """Remove what a store that was cut off has left behind."""
        self._rows.write(
            "file_parts",
            "DELETE FROM file_parts WHERE NOT EXISTS (SELECT 1 FROM files"
            " WHERE files.hash = file_parts.hash AND files.is_current = 1)",
        )

    def origin(self) -> str:
        return str((self._rows.row("SELECT value FROM meta WHERE name = ?", _ORIGIN) or ("",))[0])

    def note_origin(self, origin: str) -> None:
        self._rows.write(
            "meta",
            "INSERT INTO meta (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            _ORIGIN,
            origin,
        )

    def newest(self) -> int:
        """The number of the last change; 0 if nothing was ever stored."""
        return self._rows.number("SELECT max(change) FROM files")

    def current(self, after: int = 0) -> dict[str, FileVersion]:
        """The current versions that have changed since; `NO_FILE` for a file that was removed."""
        found = self._rows.rows(
            "SELECT path, hash, size, is_executable FROM files"
            " WHERE is_current = 1 AND change > ? ORDER BY change",
            after,
        )
        return {
            unescaped(path): FileVersion(hash_, size, bool(is_executable)) if hash_ else NO_FILE
            for path, hash_, size, is_executable in found
        }

    def known_hashes(self, paths: Sequence[str]) -> set[tuple[str, str]]:
        """Each path with each hash that it was ever stored with."""
        found: set[tuple[str, str]] = set()
        for page in _chunks(paths):
            rows = self._rows.rows(
                f"SELECT path, hash FROM files WHERE path IN ({_marks(page)})", *map(escaped, page)
            )
            found |= {(unescaped(path), str(hash_)) for path, hash_ in rows}
        return found

    def contents(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """The contents that there are; an empty one has no piece."""
        found = dict.fromkeys(hashes, b"")
        for page in _chunks([*found]):
            rows = self._rows.rows(
                f"SELECT hash, content FROM file_parts WHERE hash IN ({_marks(page)})"
                " ORDER BY hash, number",
                *page,
            )
            for hash_, content in rows:
                found[hash_] += content
        return found

    def piece(self, hash_: str, number: int) -> bytes:
        row = self._rows.row(
            "SELECT content FROM file_parts WHERE hash = ? AND number = ?", hash_, number
        )
        return b"" if row is None else bytes(row[0])


def _marks(values: Sequence[object] | set[str]) -> str:
    return ", ".join("?" for _ in values)


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _PAGE):
        yield values[start : start + _PAGE]


R = TypeVar("R")

# The program's own files about jobs and tasks: no person writes them.
_OWN = ("state/last_good/", "state/task_ids.json")
_CLOSED = ("state/", "downloads/")
# In bytes: so much is asked for at once.
MOST_AT_ONCE = 4 * PIECE
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_NOT_WRITTEN = "{path} could not be written here as it is in the database: {reason}"
_LOST = "the database has not all of it."


class Ask(Protocol):
    """Answers a question of rows that no repository offers. Raises `StorageError`."""

    def __call__(self, question: Callable[[Statements], R], /) -> R: ...


# Whether the content at a path, None for a removal, lets the bot do more than what is here does.
AddsPower = Callable[[str, bytes | None, bool], bool]


class SetAside(NamedTuple):
    """Files that were changed here and never stored; `folder` is below the data directory."""

    folder: str
    files: tuple[str, ...]


class WaitingFile(NamedTuple):
    """The hash of the stored version, and of the one that counts here; empty for no file."""

    stored: str
    here: str


@dataclass(slots=True)
class LaidOut:
    """What was done; `problems` are sentences."""

    set_aside: list[str] = field(default_factory=list)
    waiting: dict[str, WaitingFile] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class ChangedFile(NamedTuple):
    """What another machine has made of a file that can act; `content` is None if it is gone."""

    path: str
    version: FileVersion
    content: bytes | None


class WaitingFiles:
    """What other machines have changed that can act, until the owner has seen it on this one."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._path = paths.waiting_files
        self._disk = disk or OsDisk()

    def read(self) -> dict[str, WaitingFile]:
        """By path. If it cannot be read, nothing waits: what is here counts."""
        try:
            found = parse_json(self._disk.read(self._path, SizeLimit.STATE))
        except (OSError, Malformed):
            return {}
        pairs = found.items() if isinstance(found, dict) else ()
        return {path: WaitingFile(*pair) for path, pair in pairs if len(pair) == 2}

    def write(self, waiting: Mapping[str, WaitingFile]) -> None:
        """Raises `StorageError`."""
        if waiting:
            write_atomically(self._disk, self._path, render_json(waiting), PRIVATE)
        else:
            remove_durably(self._disk, self._path)


def set_asides(paths: DataPaths) -> Iterator[SetAside]:
    """All that lay-outs have set aside on this disk, the oldest first."""
    for folder in sorted(paths.set_aside.glob("*/")):
        files = sorted(
            str(Path(where, name).relative_to(folder))
            for where, _, names in os.walk(folder)
            for name in names
        )
        if files:
            yield SetAside(str(folder.relative_to(paths.root)), tuple(files))


class FileLayout:
    """Makes the files of this disk those of the table; `index` learns what they hold.

    A version that was ever stored, or that came with the program, is replaced. Any other one was
    made by hand here: it is set aside. One that `adds_power` is not laid out, and waits. Every step
    can be repeated after a kill. `goes_on` is asked before each file: a standby that begins to lead
    stops what it does here.
    """

    def __init__(
        self,
        paths: DataPaths,
        index: FileIndex,
        adds_power: AddsPower,
        disk: Disk | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._paths = paths
        self._index = index
        self._adds_power = adds_power
        self._disk = disk or OsDisk()
        self._goes_on = goes_on
        # The real clock: two folders of one moment of a simulated day need two names.
        self._folder = paths.set_aside / datetime.now(UTC).strftime(_STAMP)
        self._report = LaidOut()

    def lay_out_all(self, ask: Ask) -> LaidOut:
        """Compare the whole disk with the table. Raises `StorageError` if the table is away."""
        stored = ask(lambda rows: FileRows(rows).current())
        look = self._index.look(is_whole=True)
        here = {path for each in look.folders.values() if each for path in each.files}
        self._lay_out(ask, stored, sorted(here | stored.keys()))
        return self._report

    def lay_out(self, ask: Ask, stored: Mapping[str, FileVersion]) -> LaidOut:
        """As `lay_out_all`, for these files only."""
        self._lay_out(ask, stored, sorted(stored))
        return self._report

    def _lay_out(self, ask: Ask, stored: Mapping[str, FileVersion], paths: Sequence[str]) -> None:
        found = dict(self._found(paths, stored))
        unlike = [path for path in paths if path in found and found[path] != stored.get(path)]
        unlike = [path for path in unlike if stored.get(path) or found[path] != NO_FILE]
        known = ask(lambda rows: FileRows(rows).known_hashes(unlike))
        texts = _shipped()
        wanted: dict[str, FileVersion] = {}
        strange: set[str] = set()
        for path in filter(lambda _: self._goes_on(), unlike):
            here, there = found[path], stored.get(path, NO_FILE)
            if here.hash in texts and (path not in stored or there.hash in texts):
                continue  # The leader stores what its version came with.
            is_ours = here.hash in texts or path.startswith(_OWN) or (path, here.hash) in known
            with self._noting(path, there):
                if there != NO_FILE:
                    wanted[path] = there
                    strange |= set() if is_ours else {path}
                elif path in stored and self._adds_power(path, None, there.is_executable):
                    self._wait(path, there, here)
                else:
                    self._make_room(path, here, is_ours=is_ours)
        # A job may have the tools of a skill.
        order = sorted(wanted, key=lambda path: not path.startswith(f"{SKILLS}/"))
        self._put_all(ask, {path: wanted[path] for path in order}, found, strange)
        record, done = WaitingFiles(self._paths, self._disk), set(paths)
        before = record.read()
        kept = {path: each for path, each in before.items() if path not in done}
        if before != (after := kept | self._report.waiting):
            record.write(after)

    def _wait(self, path: str, there: FileVersion, here: FileVersion) -> None:
        """Leave the file as it is, and have the leader store neither version."""
        self._index.settle_as_it_is(path, there)
        if not path.startswith(_OWN):
            self._report.waiting[path] = WaitingFile(there.hash, here.hash)

    def _found(
        self, paths: Sequence[str], stored: Mapping[str, FileVersion]
    ) -> Iterator[tuple[str, FileVersion]]:
        """What each path holds now; those that cannot be read are left as they are."""
        for path in paths:
            if not is_shared(path):
                continue
            signature = self._index.signature_of(path)
            known = None if signature is None else self._index.known(path, signature)
            try:
                yield path, known or self._read(path, stored.get(path))
            except OSError as refused:
                if stored.get(path) is not None:
                    self._fail(path, stored[path], why_left_out(refused))

    def _read(self, path: str, stored: FileVersion | None) -> FileVersion:
        place = self._paths.root / path
        if self._has_link_above(path) or not os.path.lexists(place):
            return NO_FILE
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return NO_FILE  # `_put` sets it aside.
        file = self._index.read(path)
        if file.version == stored:
            self._index.settle(path, file.version, file.signature)
        return file.version

    def _has_link_above(self, path: str) -> bool:
        return any(os.path.islink(each) for each in self._parents(path))

    def _parents(self, path: str) -> Iterator[Path]:
        """The folders above the file, from the outermost to its own."""
        parts = PurePosixPath(path).parts[:-1]
        for length in range(1, len(parts) + 1):
            yield self._paths.root.joinpath(*parts[:length])

    def _make_room(self, path: str, here: FileVersion, *, is_ours: bool) -> None:
        if is_ours and self._index.read(path).version == here:
            remove_durably(self._disk, self._paths.root / path)
        else:
            self._set_aside(path)
        self._index.settle(path, NO_FILE, None)
        for folder in reversed([*self._parents(path)][1:]):
            if str(folder.relative_to(self._paths.root)) not in _kept_folders():
                with suppress(OSError):
                    os.rmdir(folder)

    def _set_aside(self, path: str) -> None:
        target = self._folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._paths.set_aside, self._folder, *target.parents):
            if folder.is_relative_to(self._paths.set_aside):
                os.chmod(folder, 0o700)
        self._disk.replace(self._paths.root / path, target)
        if not target.is_symlink():
            os.chmod(target, 0o700 if target.is_dir() else PRIVATE)
        self._report.set_aside.append(path)

    def _put_all(
        self,
        ask: Ask,
        versions: Mapping[str, FileVersion],
        found: Mapping[str, FileVersion],
        strange: Collection[str],
    ) -> None:
        for page in _pages(versions):
            contents = self._contents(ask, {versions[path] for path in page})
            for path in filter(lambda _: self._goes_on(), page):
                content = contents.get(versions[path].hash, b"")
                with self._noting(path, versions[path]):
                    if hashlib.sha256(content).hexdigest() != versions[path].hash:
                        raise WriteFailed(Path(path), _LOST)
                    if self._adds_power(path, content, versions[path].is_executable):
                        self._wait(path, versions[path], found[path])
                        continue
                    is_here = found[path] != NO_FILE
                    if is_here and (
                        path in strange or self._index.read(path).version != found[path]
                    ):
                        self._set_aside(path)  # Or it was changed this moment.
                    self._put(path, versions[path], content)

    def _contents(self, ask: Ask, versions: Collection[FileVersion]) -> dict[str, bytes]:
        small = [each.hash for each in versions if each.size <= MOST_AT_ONCE]
        found = ask(lambda rows: FileRows(rows).contents(small))
        for large in (each for each in versions if each.size > MOST_AT_ONCE):
            numbers = range(-(-large.size // PIECE))
            found[large.hash] = b"".join(
                ask(lambda rows, number=number: FileRows(rows).piece(large.hash, number))  # type: ignore[misc]  # noqa: B023
                for number in numbers
            )
        return found

    def _put(self, path: str, version: FileVersion, content: bytes) -> None:
        for folder in self._parents(path):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                self._set_aside(str(folder.relative_to(self._paths.root)))
            folder.mkdir(mode=0o700 if path.startswith("state/") else 0o755, exist_ok=True)
        place = self._paths.root / path
        if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
            self._set_aside(path)
        mode = PRIVATE if path.startswith(_CLOSED) else SHARED
        write_atomically(self._disk, place, content, mode)
        mode = stat.S_IMODE(os.stat(place).st_mode)
        if is_executable(path, mode) != version.is_executable:
            os.chmod(place, mode | 0o111 if version.is_executable else mode & ~0o111)
        self._index.settle(path, version, self._index.signature_of(path))

    def _noting(self, path: str, version: FileVersion) -> _Noting:
        return _Noting(lambda reason: self._fail(path, version, reason))

    def _fail(self, path: str, version: FileVersion, reason: str) -> None:
        """Have the leader store neither the removal nor the other version of this file."""
        self._index.settle_as_it_is(path, version)
        self._report.problems.append(_NOT_WRITTEN.format(path=path, reason=reason))


class _Noting:
    """Notes the error of one file; the others go on."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, StorageError):
            self._note(str(error))
        elif isinstance(error, OSError):
            self._note(f"{error.strerror}.")
        return isinstance(error, StorageError | OSError)


def _kept_folders() -> Collection[str]:
    return {each for folders in ONLY_IN.values() for each in folders}


def _shipped() -> set[str]:
    """The hashes of all texts that the program itself writes at a first start."""
    profile = (TEXTS / name for name in ("IDENTITY.md", "USER.md"))
    return shipped_hashes() | {hashlib.sha256(each.read_bytes()).hexdigest() for each in profile}


def _pages(versions: Mapping[str, FileVersion]) -> Iterator[list[str]]:
    """The paths, so many at once as are asked for together."""
    page: list[str] = []
    size = 0
    for path, version in versions.items():
        if page and (size + version.size > MOST_AT_ONCE or len(page) >= 200):
            yield page
            page, size = [], 0
        page.append(path)
        size += version.size
    if page:
        yield page
