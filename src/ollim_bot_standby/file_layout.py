"""Lays the stored files out on this disk, and sets aside what a person had changed here by hand."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, TypeVar

from ollim_bot.kernel.base.errors import StorageError, WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, TooLarge, UnsuitableFile, open_file
from ollim_bot.kernel.store.connection import Statements, Value, escaped, unescaped
from ollim_bot.kernel.store.data_directory import TEXTS
from ollim_bot.kernel.store.file_store import Malformed, parse_json, render_json
from ollim_bot.kernel.store.files import PRIVATE, SHARED, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.store.owner_files import shipped_hashes
from ollim_bot.kernel.store.snapshot import Kind, kind_of
from ollim_bot.kernel.store.transaction import Meta
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.shared_files import SKILLS

# All that several machines share in these: the rest of `state/` is in the database, or of one
# machine.
_SINGLE = ("state/task_ids.json", "state/settings.env")
ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "state": ("state/attachments", "state/last_good", *_SINGLE),
    ".claude": (".claude/agents",),
}
_MOST_PATHS = 20_000
_SHARED_FOLDERS = frozenset((*(kind.plural for kind in JobKind), SKILLS, "downloads"))
LARGEST = 25 * 1024 * 1024
R = TypeVar("R")
T = TypeVar("T")
# In nanoseconds: two changes within the resolution of a clock look like one.
_GRAIN = 100_000_000

# By what a change is noticed without reading: times, size, identity, mode.
Signature = tuple[int, int, int, int, int]


class FileVersion(NamedTuple):
    """What a file holds; `size` is in bytes. No file has an empty `hash`."""

    hash: str
    size: int
    is_executable: bool


NO_FILE = FileVersion("", 0, is_executable=False)


def version_of(content: bytes, *, is_executable: bool = False) -> FileVersion:
    return FileVersion(hashlib.sha256(content).hexdigest(), len(content), is_executable)


@dataclass(frozen=True, slots=True)
class _Folder:
    """`signature` is None if the folder may change unnoticed, and is listed again."""

    signature: Signature | None
    files: Mapping[str, Signature]
    folders: tuple[str, ...]


@dataclass(slots=True)
class Look:
    """What one look has found: files to read, files that are gone, and the folders as they are.

    `left_out` has the reason for each file that can never be shared.
    """

    suspects: dict[str, Signature] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    folders: dict[str, _Folder | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class ReadFile(NamedTuple):
    content: bytes
    version: FileVersion
    signature: Signature | None


class FileIndex:
    """Knows what the shared files below `root` held when they were last the same as the table.

    A look changes nothing; `settle` and `settle_folders` take in what has been stored.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.versions: dict[str, FileVersion] = {}
        self._signatures: dict[str, Signature] = {}
        self._folders: dict[str, _Folder] = {}
        # Files that could not be made here as they are in the table.
        self._unlike: set[str] = set()

    def look(self, *, is_whole: bool) -> Look:
        """Find what may have changed: in changed folders only, or everywhere."""
        found = Look()
        if not os.path.isdir(f"{self._root}/state"):
            return found  # The disk of the data directory is away.
        is_whole = is_whole or "" not in self._folders
        for folder in ("",) if is_whole else tuple(self._folders):
            if folder not in found.folders:
                self._look_at(folder, found, is_whole=is_whole)
        if is_whole:
            listed = filter(None, found.folders.values())
            found.gone = self.versions.keys() - {path for each in listed for path in each.files}
        found.gone = {path for path in found.gone if self._is_gone(path, found)}
        return found

    def _is_gone(self, path: str, found: Look) -> bool:
        """Whether a file was removed, and neither was left out nor could not be written here."""
        ways = path.split("/")
        places = ("/".join(ways[:length]) for length in range(len(ways) + 1))
        is_left_out = any(place in found.left_out for place in places)
        return path in self.versions and path not in self._unlike and not is_left_out

    def _look_at(self, folder: str, found: Look, *, is_whole: bool) -> None:
        known = self._folders.get(folder)
        try:
            signature = _signature(os.stat(self._path(folder)))
            if not is_whole and known is not None and known.signature == signature:
                return
            now = self._listed(folder, signature, found)
        except (FileNotFoundError, NotADirectoryError):
            self._note_gone(folder, found)
            return
        except OSError as refused:
            found.left_out[folder] = why_left_out(refused)
            return
        found.folders[folder] = now
        for path, each in now.files.items():
            if self._signatures.get(path) != each:
                found.suspects[path] = each
        if known is not None:
            found.gone |= known.files.keys() - now.files.keys()
            for lost in set(known.folders) - set(now.folders):
                self._note_gone(lost, found)
        for below in now.folders:
            if is_whole or below not in self._folders:
                self._look_at(below, found, is_whole=is_whole)

    def _listed(self, folder: str, signature: Signature, found: Look) -> _Folder:
        if folder in ONLY_IN:
            return self._listed_in(ONLY_IN[folder])
        fresh = time.time_ns() - _GRAIN
        files: dict[str, Signature] = {}
        folders: list[str] = []
        with os.scandir(self._path(folder)) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders += [path] if may_hold_shared(path) else []
                elif not is_shared(path):
                    continue
                elif entry.is_file(follow_symlinks=False):
                    files[path] = _signature(entry.stat(follow_symlinks=False))
                else:
                    found.left_out[path] = "it is not a regular file"
        is_settled = max(signature[:2]) < fresh
        return _Folder(signature if is_settled else None, files, tuple(sorted(folders)))

    def _listed_in(self, paths: Sequence[str]) -> _Folder:
        """The few of these in a folder that is not listed, since much else changes in it."""
        there = {path: found for path in paths if (found := self.signature_of(path))}
        files = {path: found for path, found in there.items() if stat.S_ISREG(found[4])}
        folders = [path for path, found in there.items() if stat.S_ISDIR(found[4])]
        return _Folder(None, {path: files[path] for path in files if is_shared(path)}, (*folders,))

    def _note_gone(self, folder: str, found: Look) -> None:
        known = self._folders.get(folder)
        found.folders[folder] = None
        if known is not None:
            found.gone |= known.files.keys()
            for below in known.folders:
                self._note_gone(below, found)

    def read(self, path: str) -> ReadFile:
        """The file as it is now. Raises `OSError`."""
        # Before the content: a change after it gives another signature.
        began = time.time_ns()
        descriptor = open_file(self._path(path), os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise TooLarge(path, LARGEST)
        signature = _signature(status)
        is_settled = max(signature[:2]) < began - _GRAIN
        executable = is_executable(path, status.st_mode)
        version = version_of(content, is_executable=executable)
        return ReadFile(content, version, signature if is_settled else None)

    def settle(self, path: str, version: FileVersion, signature: Signature | None) -> None:
        """The table has this version of the file; with the signature, it is not read again."""
        self._unlike.discard(path)
        _put(self.versions, path, None if version == NO_FILE else version)
        _put(self._signatures, path, signature)

    def settle_folders(self, look: Look) -> None:
        for path, folder in look.folders.items():
            _put(self._folders, path, folder)

    def settle_as_it_is(self, path: str, version: FileVersion) -> None:
        """As `settle`, for what this disk holds now, be it another version: later changes count."""
        self.settle(path, version, self.signature_of(path))
        self._unlike.add(path)

    def known(self, path: str, signature: Signature) -> FileVersion | None:
        """The version of a file that was not changed since it was the same as in the table."""
        is_same = self._signatures.get(path) == signature and path not in self._unlike
        return self.versions.get(path) if is_same else None

    def signature_of(self, path: str) -> Signature | None:
        """None if there is no such file."""
        try:
            return _signature(os.stat(self._path(path), follow_symlinks=False))
        except OSError:
            return None

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def is_executable(path: str, mode: int) -> bool:
    """Only in a skill: elsewhere the program runs nothing, and some disks mark every file."""
    return path.startswith(f"{SKILLS}/") and bool(mode & stat.S_IXUSR)


def why_left_out(refused: OSError) -> str:
    """The reason completes the sentence about a file that is not shared."""
    if isinstance(refused, UnsuitableFile):
        return f"it is {refused.reason}"
    return f"it cannot be read: {refused.strerror}"


def _put(known: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _signature(status: os.stat_result) -> Signature:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


@lru_cache(_MOST_PATHS)
def is_shared(path: str) -> bool:
    """Whether the file at this path below the data directory is the same on several machines.

    Never a key or a hidden file, and never a path that leads out of the directory.
    """
    parts = path.split("/")
    visible = parts[1:] if parts[0] == ".claude" else parts
    if any(not part or part.startswith(".") or "\0" in part for part in visible):
        return False
    if len(parts) == 1:
        is_below = parts[0] not in ONLY_IN
    elif parts[0] in ONLY_IN:
        is_below = path in _SINGLE
        is_below |= "/".join(parts[:2]) in ONLY_IN[parts[0]] and len(parts) > 2
    else:
        is_below = may_hold_shared(parts[0])
    return is_below and kind_of(PurePosixPath(path)) is Kind.TAKEN


def may_hold_shared(folder: str) -> bool:
    """Whether shared files can be in this folder, whose parent may hold some."""
    first, _, rest = folder.partition("/")
    if not rest:
        return first in _SHARED_FOLDERS or first in ONLY_IN
    return "/." not in folder.removeprefix(".claude/")


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
        if pieces:
            places = ", ".join(["(?, ?, ?)"] * len(pieces))
            self._rows.write(
                "file_parts",
                f"INSERT INTO file_parts (hash, number, content) VALUES {places}"
                " ON CONFLICT DO NOTHING",
                *(value for each in pieces for value in each),
            )
        if not versions:
            return
        paths = [*map(escaped, versions)]
        replaced = self._rows.write(
            "files",
            "UPDATE files SET is_current = 0 WHERE is_current = 1"
            f" AND path IN ({_marks(paths)}) RETURNING hash",
            *paths,
        )
        self._put_versions(versions)
        if gone := {str(hash_) for (hash_,) in replaced} - {each.hash for each in pieces}:
            self.drop_unused_contents(gone)
        self._rows.write(
            "files",
            f"DELETE FROM files WHERE is_current = 0 AND path IN ({_marks(paths)}) AND {_KEPT} <="
            " (SELECT count(*) FROM files AS newer"
            " WHERE newer.path = files.path AND newer.change > files.change)",
            *paths,
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

    def drop_unused_contents(self, hashes: Collection[str] = ()) -> None:
        """Remove those of these, or of all, that no current version has."""
        among = f" AND hash IN ({_marks(hashes)})" if hashes else ""
        self._rows.write(
            "file_parts",
            "DELETE FROM file_parts WHERE NOT EXISTS (SELECT 1 FROM files"
            f" WHERE files.hash = file_parts.hash AND files.is_current = 1){among}",
            *hashes,
        )

    def origin(self) -> str:
        return Meta(self._rows).get(_ORIGIN) or ""

    def note_origin(self, origin: str) -> None:
        Meta(self._rows).put(_ORIGIN, origin)

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


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _PAGE):
        yield values[start : start + _PAGE]


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
        # The hashes of all texts that the program itself writes at a first start.
        profile = (TEXTS / name for name in ("IDENTITY.md", "USER.md"))
        texts = shipped_hashes() | {
            hashlib.sha256(each.read_bytes()).hexdigest() for each in profile
        }
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
        if any(map(os.path.islink, self._parents(path))) or not os.path.lexists(place):
            return NO_FILE
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return NO_FILE  # `_put` sets it aside.
        file = self._index.read(path)
        if file.version == stored:
            self._index.settle(path, file.version, file.signature)
        return file.version

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
        kept = {each for folders in ONLY_IN.values() for each in folders}
        for folder in reversed([*self._parents(path)][1:]):
            if str(folder.relative_to(self._paths.root)) not in kept:
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

    @contextmanager
    def _noting(self, path: str, version: FileVersion) -> Iterator[None]:
        """Note the error of one file; the others go on."""
        try:
            yield
        except StorageError as refused:
            self._fail(path, version, str(refused))
        except OSError as refused:
            self._fail(path, version, f"{refused.strerror}.")

    def _fail(self, path: str, version: FileVersion, reason: str) -> None:
        """Have the leader store neither the removal nor the other version of this file."""
        self._index.settle_as_it_is(path, version)
        self._report.problems.append(_NOT_WRITTEN.format(path=path, reason=reason))


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
