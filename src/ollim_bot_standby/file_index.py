"""What the shared files on this disk hold, found by looks that read only what has changed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.shared_files import SKILLS
from ollim_bot.plain_files import TooLarge, UnsuitableFile, open_file
from ollim_bot.store.file_kinds import Kind, kind_of

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
