"""The format of a backup: a `.tar.gz` whose first member, `manifest.json`, lists all others.

The tar blocks are read and written here one by one: `tarfile` reads headers of any length into
memory, follows kinds of members that a backup never has, and takes a broken header for the end.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ollim_bot.errors import OllimError
from ollim_bot.plain_files import open_file
from ollim_bot.store.codecs.plain import JsonFormat, Layout, whole
from ollim_bot.store.file_store import Malformed

FORMAT = 1
PROGRAM = "ollim-bot"
MANIFEST = "manifest.json"
DATA = "data"
TRANSCRIPTS = "transcripts"
HISTORY = "history.bundle"

_CHUNK = 1024 * 1024
_LARGEST_MANIFEST = 64 * 1024 * 1024
_LARGEST_EXTENSION = 64 * 1024
# Level 1 takes a third of the time of the default for a few percent more room.
_LEVEL = 1
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
_FILE_MODES = 0o777


class BadBackup(OllimError):
    """A file that is no backup, or one that must not be restored; nothing was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class NotRead(Exception):
    """A file could not be read to its end; `str()` says why."""


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file of a backup; `path` begins with `data/` or `transcripts/`, or is the history."""

    path: str
    size: int
    sha256: str
    mode: int = 0o600
    mtime: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that belongs into the backup and could not be read."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`made_at` is the moment of the database; `schema` is 0 if there is none.

    `left_out` are the keys that are not in the backup, `links` the links and other things that are
    no files, `unread` the gaps.
    """

    version: str
    made_at: datetime
    zone: str
    host: str
    data_directory: str
    schema: int
    with_keys: bool
    files: tuple[BackedUpFile, ...]
    left_out: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.unread

    @property
    def content_bytes(self) -> int:
        return sum(entry.size for entry in self.files)


_WHOLE = whole(0, 2**62)
_FORMAT = JsonFormat(
    {
        Manifest: Layout(full=True, needed=("left_out", "links", "unread")),
        BackedUpFile: Layout(
            full=True,
            needed=("mode", "mtime"),
            # No file gets the rights of another user from a backup.
            forms={"mode": (lambda value: _WHOLE[0](value) & _FILE_MODES, None)},
        ),
    },
    other=Layout(full=True),
    forms={int: _WHOLE},
)


def encoded(manifest: Manifest) -> bytes:
    head = {"program": PROGRAM, "format": FORMAT, "complete": manifest.is_complete}
    return json.dumps({**head, **_FORMAT.write(manifest)}, indent=1).encode() + b"\n"


def decoded(content: bytes, path: Path) -> Manifest:
    """The manifest of the backup at `path`. Raises `BadBackup`."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise BadBackup(path, "is not a backup of ollim-bot: its manifest is no JSON.") from None
    if not isinstance(fields, dict) or fields.get("program") != PROGRAM:
        raise BadBackup(path, "is not a backup of ollim-bot.")
    found = fields.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise BadBackup(
            path,
            f"was made by a newer ollim-bot (format {found}; this one knows {FORMAT}). "
            "Update ollim-bot first.",
        )
    try:
        manifest = _FORMAT.read(Manifest, fields)
    except Malformed as wrong:
        raise BadBackup(path, f"has a manifest that makes no sense ({wrong}).") from None
    _check_paths(manifest, path)
    return manifest


def _check_paths(manifest: Manifest, path: Path) -> None:
    """Refuse names that would leave the folder they are restored into, or take one place twice."""
    seen: set[str] = set()
    for entry in manifest.files:
        parts = PurePosixPath(entry.path).parts
        is_plain = "/".join(parts) == entry.path and "\0" not in entry.path
        is_below = (len(parts) > 1 and parts[0] in (DATA, TRANSCRIPTS)) or entry.path == HISTORY
        if not is_plain or not is_below or ".." in parts:
            raise BadBackup(path, f"names {entry.path!r:.80}, which is no place in a backup.")
        if entry.path in seen:
            raise BadBackup(path, f"names {entry.path!r:.80} twice.")
        seen.add(entry.path)
    for entry in manifest.files:
        for above in map(str, PurePosixPath(entry.path).parents):
            if above in seen:
                raise BadBackup(path, f"has {above!r:.80} both as a file and as a folder.")


class ArchiveBody:
    """The members after the manifest, compressed into `file`; each is read once.

    `check` is called for each piece, and may raise.
    """

    def __init__(self, file: BinaryIO, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._file = gzip.GzipFile(
            filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0
        )
        self.entries: list[BackedUpFile] = []

    def add(self, name: str, source: BinaryIO, size: int, mode: int, mtime: int) -> None:
        """Add the first `size` bytes of `source`.

        Raises `NotRead` if there are fewer; then the member is filled with zeros, and the manifest
        has no entry for it.
        """
        self._file.write(_header(name, size, mode, mtime))
        digest, left, reason = hashlib.sha256(), size, "it became shorter while it was read"
        while left:
            self._check()
            try:
                chunk = source.read(min(_CHUNK, left))
            except OSError as refused:
                chunk, reason = b"", refused.strerror or str(refused)
            if not chunk:
                break
            digest.update(chunk)
            self._file.write(chunk)
            left -= len(chunk)
        for start in range(0, left, _CHUNK):
            self._file.write(bytes(min(_CHUNK, left - start)))
        self._file.write(_padding(size))
        if left:
            raise NotRead(reason)
        self.entries.append(BackedUpFile(name, size, digest.hexdigest(), mode & _FILE_MODES, mtime))

    def close(self) -> None:
        self._file.write(_END)
        self._file.close()


def write_archive(target: BinaryIO, manifest: Manifest, body: BinaryIO) -> None:
    """Write the manifest and then the finished body, as two parts of one gzip file."""
    content = encoded(manifest)
    mtime = int(manifest.made_at.timestamp())
    head = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=head, mtime=0) as file:
        file.write(_header(MANIFEST, len(content), 0o600, mtime) + content + _padding(len(content)))
    target.write(head.getbuffer())
    while chunk := body.read(_CHUNK):
        target.write(chunk)


def _header(name: str, size: int, mode: int, mtime: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode & _FILE_MODES, max(0, mtime)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


class BackupReader:
    """An open backup: its manifest is checked; the members are read once, in their order."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")
        with self._refusals():
            name, size = self._member() or ("", 0)
            if name != MANIFEST or size > _LARGEST_MANIFEST:
                raise BadBackup(path, "is not a backup of ollim-bot: manifest.json is not first.")
            self.manifest = decoded(self._exactly(size), path)
            self._exactly(-size % _BLOCK)

    def extract(self, place: Callable[[BackedUpFile], BinaryIO | None]) -> None:
        """Check every member against the manifest, and write it where `place` says, if anywhere.

        Raises `BadBackup` at the first difference, and the `OSError` of a failed write.
        """
        expected = {entry.path: entry for entry in self.manifest.files}
        gaps = {gap.path for gap in self.manifest.unread}
        while True:
            with self._refusals():
                found = self._member()
            if found is None:
                break
            name, size = found
            entry = expected.pop(name, None)
            if entry is None and name in gaps:
                for _ in self._chunks(size):
                    pass
                continue
            if entry is None:
                raise BadBackup(self._path, f"has {name!r:.80}, which its manifest does not name.")
            if size != entry.size:
                raise BadBackup(self._path, f"has another size of {name!r:.80} than its manifest.")
            self._take(entry, place(entry))
        if expected:
            missing = next(iter(expected))
            raise BadBackup(self._path, f"lacks {missing!r:.80}, which its manifest names.")
        with self._refusals():
            if self._rest_is_not_empty():
                raise BadBackup(self._path, "goes on after its end.")

    def _take(self, entry: BackedUpFile, target: BinaryIO | None) -> None:
        digest = hashlib.sha256()
        try:
            for chunk in self._chunks(entry.size):
                digest.update(chunk)
                if target is not None:
                    target.write(chunk)
        finally:
            if target is not None:
                target.close()
        if digest.hexdigest() != entry.sha256:
            raise BadBackup(self._path, f"is damaged: {entry.path!r:.80} is not what it was.")

    def _chunks(self, size: int) -> Iterator[bytes]:
        for start in range(0, size, _CHUNK):
            with self._refusals():
                chunk = self._exactly(min(_CHUNK, size - start))
            yield chunk
        with self._refusals():
            self._exactly(-size % _BLOCK)

    def _member(self) -> tuple[str, int] | None:
        """The name and size of the next member; None at the end."""
        extended: dict[str, str] = {}
        while True:
            block = self._exactly(_BLOCK)
            if block == bytes(_BLOCK):
                if self._exactly(_BLOCK) != bytes(_BLOCK):
                    raise BadBackup(self._path, "is damaged: it ends in the middle.")
                return None
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if info.type == tarfile.XHDTYPE and info.size <= _LARGEST_EXTENSION and not extended:
                extended = _pax_fields(self._exactly(info.size))
                self._exactly(-info.size % _BLOCK)
                continue
            if info.type != tarfile.REGTYPE or extended.keys() - {"path", "size", "hdrcharset"}:
                raise BadBackup(self._path, f"has {info.name!r:.80}, which is not a plain file.")
            return extended.get("path", info.name), int(extended.get("size", info.size))

    def _exactly(self, size: int) -> bytes:
        content = self._stream.read(size)
        if len(content) != size:
            raise EOFError
        return content

    def _rest_is_not_empty(self) -> bool:
        """Whether something follows the end; reading on also checks the sum of the gzip file."""
        seen = 0
        while chunk := self._stream.read(_BLOCK):
            seen += len(chunk)
            # Programs fill the last record of a tar file with zeros.
            if any(chunk) or seen > tarfile.RECORDSIZE:
                return True
        return False

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise BadBackup(self._path, "is cut off: it ends too early.") from None
        except gzip.BadGzipFile as wrong:
            raise BadBackup(self._path, f"is damaged, or not a backup ({wrong}).") from None
        except (zlib.error, tarfile.HeaderError, ValueError, OverflowError) as wrong:
            raise BadBackup(self._path, f"is damaged ({wrong}).") from None


def _pax_fields(content: bytes) -> dict[str, str]:
    """The fields of an extended header. Raises `ValueError`."""
    found: dict[str, str] = {}
    while content:
        length, _, _ = content.partition(b" ")
        record, content = content[: int(length)], content[int(length) :]
        name, _, value = record[len(length) + 1 :].partition(b"=")
        if int(length) < 5 or not value.endswith(b"\n"):
            raise ValueError("an extended header makes no sense")
        found[name.decode()] = value[:-1].decode("utf-8", "surrogateescape")
    return found


@contextmanager
def opened_backup(path: Path) -> Iterator[BackupReader]:
    """Open the backup. Raises `BadBackup`, or the `OSError` of a file that cannot be read."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        yield BackupReader(path, file)
