"""The format of a backup: a `.tar.gz` whose first member, `manifest.json`, lists all others."""

from __future__ import annotations

import gzip
import hashlib
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

CHUNK = 1024 * 1024
_LARGEST_MANIFEST = 64 * 1024 * 1024
_LONGEST_HEADER = 64 * 1024
FILE_MODES = 0o777


class BadBackup(OllimError):
    """A file that is no backup, or one that must not be restored; nothing was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


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
            forms={"mode": (lambda value: _WHOLE[0](value) & FILE_MODES, None)},
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


class _Stream(gzip.GzipFile):
    """Reads exactly what is asked for, and no more than `most` bytes until that is set again."""

    most = _LONGEST_HEADER

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        self.most -= size
        if self.most < 0:
            raise ValueError("a header is too long")
        content = super().read(size)
        if len(content) < size:
            raise EOFError
        return content

    def has_more(self) -> bool:
        """Whether anything but the end follows; reading on also checks the sum of the file."""
        # Programs fill the last record of a tar file with zeros.
        end = super().read(2 * tarfile.RECORDSIZE)
        return len(end) > tarfile.RECORDSIZE or any(end)


class BackupReader:
    """An open backup: its manifest is checked; the members are read once, in their order.

    No member is extracted by `tarfile`, which would make links and devices: the caller of `extract`
    opens each file.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._stream = _Stream(fileobj=file, mode="rb")
        with self._refusals():
            self._tar = tarfile.TarFile(fileobj=self._stream, encoding="utf-8")
            first = self._next()
            if first is None or first.name != MANIFEST or first.size > _LARGEST_MANIFEST:
                raise BadBackup(path, "is not a backup of ollim-bot: manifest.json is not first.")
            self.manifest = decoded(b"".join(self._content_of(first)), path)

    def extract(self, place: Callable[[BackedUpFile], BinaryIO]) -> None:
        """Check every member against the manifest, and write it where `place` says.

        Raises `BadBackup` at the first difference, and the `OSError` of a failed write.
        """
        expected = {entry.path: entry for entry in self.manifest.files}
        gaps = {gap.path for gap in self.manifest.unread}
        with self._refusals():
            while (member := self._next()) is not None:
                entry = expected.pop(member.name, None)
                if entry is not None:
                    self._take(entry, member, place)
                elif member.name in gaps:
                    gaps.remove(member.name)
                else:
                    what = f"has {member.name!r:.80}, which its manifest does not name."
                    raise BadBackup(self._path, what)
            if expected:
                missing = next(iter(expected))
                raise BadBackup(self._path, f"lacks {missing!r:.80}, which its manifest names.")
            if self._stream.has_more():
                raise BadBackup(self._path, "goes on after its end.")

    def _next(self) -> tarfile.TarInfo | None:
        """The next member, which is a plain file; None at the end."""
        self._stream.most = _LONGEST_HEADER
        info = self._tar.next()
        if info is not None and (
            info.type != tarfile.REGTYPE
            or info.sparse is not None
            or info.pax_headers.keys() - {"path", "size", "hdrcharset"}
        ):
            raise BadBackup(self._path, f"has {info.name!r:.80}, which is not a plain file.")
        return info

    def _take(
        self,
        entry: BackedUpFile,
        member: tarfile.TarInfo,
        place: Callable[[BackedUpFile], BinaryIO],
    ) -> None:
        if member.size != entry.size:
            raise BadBackup(
                self._path, f"has another size of {entry.path!r:.80} than its manifest."
            )
        digest = hashlib.sha256()
        with place(entry) as target:
            for chunk in self._content_of(member):
                digest.update(chunk)
                target.write(chunk)
        if digest.hexdigest() != entry.sha256:
            raise BadBackup(self._path, f"is damaged: {entry.path!r:.80} is not what it was.")

    def _content_of(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        self._stream.most = member.size
        for start in range(0, member.size, CHUNK):
            yield self._stream.read(min(CHUNK, member.size - start))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise BadBackup(self._path, "is cut off: it ends too early.") from None
        except (gzip.BadGzipFile, zlib.error, tarfile.TarError, ValueError, OverflowError) as wrong:
            raise BadBackup(self._path, f"is damaged, or not a backup ({wrong}).") from None


@contextmanager
def opened_backup(path: Path) -> Iterator[BackupReader]:
    """Open the backup. Raises `BadBackup`, or the `OSError` of a file that cannot be read."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        yield BackupReader(path, file)
