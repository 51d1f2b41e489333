"""What the engine has recorded of its sessions, stored for the other machines in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from ollim_bot.store.connection import Value, escaped, unescaped
from ollim_bot.store.transaction import Transaction

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

    def append(self, file: str, position: int, content: bytes, at: int) -> None:
        """Add what the file has from `position` on, which is the end of what is stored."""
        change, values, count = self._next_change(), list[Value](), 0
        for piece, part in split(position, content):
            values += (escaped(file), piece.position, change, at, piece.hash, part)
            count += 1
        rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
        self._statements.write(
            "transcripts", f"INSERT INTO transcripts ({_COLUMNS}) VALUES {rows}", *values
        )

    def append_new(self, file: str, position: int, content: bytes, at: int) -> None:
        """As `append`, for a content that replaces the stored one when `replace` is called."""
        if position == 0:
            self._remove(f"{_NEW}{file}")
        self.append(f"{_NEW}{file}", position, content, at)

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
