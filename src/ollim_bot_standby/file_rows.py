"""The rows of the files that several machines share: each version by its hash, contents in pieces.

The current version of a path has a content; of older ones the hash is kept, so that every machine
can tell what was stored before from what a person has changed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ollim_bot.store.connection import Statements, Value, escaped, unescaped
from ollim_bot_standby.file_index import NO_FILE, FileVersion

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
        for page in _pages(paths):
            rows = self._rows.rows(
                f"SELECT path, hash FROM files WHERE path IN ({_marks(page)})", *map(escaped, page)
            )
            found |= {(unescaped(path), str(hash_)) for path, hash_ in rows}
        return found

    def contents(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """The contents that there are; an empty one has no piece."""
        found = dict.fromkeys(hashes, b"")
        for page in _pages([*found]):
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


def _pages(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _PAGE):
        yield values[start : start + _PAGE]
