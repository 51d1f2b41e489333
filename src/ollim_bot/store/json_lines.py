"""Append-only logs of JSON lines, in monthly files."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.errors import Unreadable
from ollim_bot.plain_files import SizeLimit, unsuitable_file
from ollim_bot.ports import Disk, LogView
from ollim_bot.store.file_store import Malformed, StoreProblem, set_aside
from ollim_bot.store.files import (
    PRIVATE,
    FileLock,
    append_line,
    lines_backwards,
    rename_durably,
    write_atomically,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LineCodec(Generic[T]):
    """`decode` raises `Malformed`, and nothing else, for a line that is not an entry."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    moment: Callable[[T], datetime]


class JsonLines(Generic[T]):
    """A `Log`.

    With `durable`, an entry is on disk for good when `append` returns. With `rotate`, the entries
    of a past month move to `name-YYYY-MM.jsonl` when the first one of a later month is appended.
    With `report`, what stands there and can be no log is set aside, and said with no lock held.
    """

    def __init__(
        self,
        path: Path,
        codec: LineCodec[T],
        lock: FileLock,
        *,
        disk: Disk,
        durable: bool = False,
        rotate: bool = False,
        appended: Callable[[Sequence[T]], None] | None = None,
        report: Callable[[StoreProblem], None] | None = None,
    ) -> None:
        self._path = path
        self._codec = codec
        self._lock = lock
        self._disk = disk
        self._durable = durable
        self._rotate = rotate
        self._appended = appended
        self._report = report
        self._unreported: list[StoreProblem] = []
        self._month_of_file: tuple[int, str] | None = None
        self._file_with_durable_name: int | None = None

    def append(self, *entries: T) -> None:
        if not entries:
            return
        with self._held():
            self._append_held(entries)
        if self._appended is not None:
            self._appended(entries)

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            with self._lock.held():
                self._set_aside_if_unfit(self._path)
                yield
        finally:
            while self._report is not None and self._unreported:
                self._report(self._unreported.pop())

    def _set_aside_if_unfit(self, path: Path) -> None:
        unfit = None if self._report is None else unsuitable_file(path, SizeLimit.LOG)
        if unfit is not None:
            self._unreported.append(set_aside(self._disk, path, unfit.reason))

    def _append_held(self, entries: Sequence[T]) -> None:
        """For who holds the lock."""
        data = b"".join(self._codec.encode(entry) + b"\n" for entry in entries)
        if self._rotate:
            self._rotate_before(_month(self._codec.moment(entries[0])))
        append_line(self._disk, self._path, data, sync=self._durable)
        if self._durable:
            self._make_name_durable()

    def read(self, since: datetime | None = None) -> LogView[T]:
        with self._held():
            contents = [self._content(path) for path in self._segments(since)]
        entries: list[T] = []
        skipped = 0
        for content in contents:
            found, bad = self._decoded(content)
            entries += found
            skipped += len(bad)
        if since is not None:
            entries = [entry for entry in entries if self._codec.moment(entry) >= since]
        return LogView(entries, skipped)

    def tail(self, limit: int) -> LogView[T]:
        newest: list[T] = []
        skipped = 0
        with self._held(), closing(self._lines_backwards()) as lines:
            for line in lines if limit > 0 else ():
                found, bad = self._decoded(line)
                newest += found
                skipped += len(bad)
                if len(newest) == limit:
                    break
        return LogView(newest[::-1], skipped)

    def compact(self, keep: Callable[[Sequence[T]], Iterable[T]]) -> None:
        with self._held():
            entries, bad = self._decoded(self._content(self._path))
            # A line nobody can read stays: to compact is not to lose.
            lines = [*bad, *(self._codec.encode(entry) for entry in keep(entries))]
            data = b"".join(line + b"\n" for line in lines)
            write_atomically(self._disk, self._path, data, PRIVATE)

    def _decoded(self, content: bytes) -> tuple[list[T], list[bytes]]:
        """The entries, and the lines that are none."""
        entries: list[T] = []
        bad: list[bytes] = []
        for line in content.split(b"\n"):
            try:
                if line.strip():
                    entries.append(self._codec.decode(line))
            except Malformed:
                bad.append(line)
        return entries, bad

    def _content(self, path: Path) -> bytes:
        self._set_aside_if_unfit(path)
        with refusals_as(path), suppress(FileNotFoundError):
            return self._disk.read(path, SizeLimit.LOG)
        return b""

    def _lines_backwards(self) -> Generator[bytes, None, None]:
        for path in reversed(self._segments(None)):
            self._set_aside_if_unfit(path)
            with refusals_as(path), suppress(FileNotFoundError):
                yield from lines_backwards(path)

    def _make_name_durable(self) -> None:
        file_number = os.stat(self._path).st_ino
        if file_number != self._file_with_durable_name:
            self._disk.sync_folder(self._path.parent)
            self._file_with_durable_name = file_number

    def _segments(self, since: datetime | None) -> list[Path]:
        """The files that may hold entries from `since` on, oldest first."""
        earliest = "" if since is None else _month(since)
        prefix, suffix = f"{self._path.stem}-", self._path.suffix
        rotated = (
            path
            for path in self._path.parent.glob(f"{prefix}*{suffix}")
            if path.name[len(prefix) :][:7] >= earliest
        )
        # `ledger-2026-11-2.jsonl` follows `ledger-2026-11.jsonl`, and `-10` follows `-9`.
        in_order = sorted(
            rotated, key=lambda path: (path.name[: len(prefix) + 7], len(path.name), path.name)
        )
        return [*in_order, self._path] if self._rotate else [self._path]

    def _rotate_before(self, month: str) -> None:
        begun = self._month_begun()
        if begun is None or begun >= month:
            return
        stem, suffix = f"{self._path.stem}-{begun}", self._path.suffix
        target = self._path.with_name(f"{stem}{suffix}")
        count = 2
        while target.exists():
            target = self._path.with_name(f"{stem}-{count}{suffix}")
            count += 1
        rename_durably(self._disk, self._path, target)

    def _month_begun(self) -> str | None:
        """The month of the first entry of the current file; None if it has none."""
        try:
            file_number = os.stat(self._path).st_ino
        except FileNotFoundError:
            return None
        if self._month_of_file is None or self._month_of_file[0] != file_number:
            first = self._first(self._content(self._path))
            if first is None:
                return None
            self._month_of_file = (file_number, _month(self._codec.moment(first)))
        return self._month_of_file[1]

    def _first(self, content: bytes) -> T | None:
        """The first entry, without a look at the many that may follow."""
        for line in content.split(b"\n"):
            with suppress(Malformed):
                return self._codec.decode(line)
        return None


@contextmanager
def refusals_as(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise Unreadable(path, f"is there but cannot be read: {reason}.") from refused


def _month(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m")
