"""The ledger of occurrences in files, with the right to begin each one given once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import claimed_by, claiming_row
from ollim_bot.ports import Disk
from ollim_bot.store.codecs.rows import LEDGER_ROWS
from ollim_bot.store.file_store import StoreProblem
from ollim_bot.store.files import FileLock, read_from
from ollim_bot.store.json_lines import JsonLines, refusals_as

# How long a webhook's delivery key is remembered.
_DELIVERIES_KEPT = timedelta(days=7)


@dataclass(slots=True)
class _KnownFile:
    """How far a file has been read, and the ids of the occurrences that it tells of."""

    read_to: int = 0
    told: set[str] = field(default_factory=set)


class Ledger(JsonLines[LedgerRow]):
    """A `Log` with `Claims`.

    No file holds a row of a later month than it is named after, and no row of an occurrence is
    older than its moment. So only files from the month of that moment on can tell of it. They are
    read once; then, however the clock is set, a claim reads what others have appended since.
    """

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        *,
        disk: Disk,
        report: Callable[[StoreProblem], None] | None = None,
    ) -> None:
        super().__init__(
            path, LEDGER_ROWS, lock, disk=disk, durable=True, rotate=True, report=report
        )
        self._known: dict[int, _KnownFile] = {}

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        return bool(self.claim_all([claiming_row(occurrence, now, facts)]))

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        wanted = claimed_by(rows)
        if not wanted:
            return wanted
        since = min(map(_first_moment, rows))
        with self._held():
            files = list(self._files_since(since))
            free = {one for one in wanted if not any(one.id in file.told for file in files)}
            if begun := [row for row in rows if row.occurrence in free]:
                self._append_held(begun)
        return free

    def _files_since(self, since: datetime) -> Iterator[_KnownFile]:
        """For who holds the lock: all that can have rows from then on."""
        for path in self._segments(since):
            self._set_aside_if_unfit(path)
            with refusals_as(path), suppress(FileNotFoundError):
                yield self._brought_up_to_date(path)

    def _brought_up_to_date(self, path: Path) -> _KnownFile:
        # By its number, which it keeps when it is rotated.
        status = os.stat(path)
        known = self._known.get(status.st_ino)
        if known is None or known.read_to > status.st_size:
            known = self._known[status.st_ino] = _KnownFile()
            if path == self._path:
                self._forget_past_months()
        if known.read_to < status.st_size:
            self._read_on(path, known)
        return known

    def _read_on(self, path: Path, known: _KnownFile) -> None:
        content = read_from(path, known.read_to)
        rows, _ = self._decoded(content)
        known.told.update(row.occurrence.id for row in rows if row.occurrence is not None)
        # Past a torn line too: whoever appends next closes it.
        known.read_to += len(content)

    def _forget_past_months(self) -> None:
        """All but the last one: what was due before midnight may be claimed after it."""
        numbers = {os.stat(path).st_ino for path in self._segments(None)[-2:]}
        self._known = {number: self._known[number] for number in numbers & self._known.keys()}


def _first_moment(row: LedgerRow) -> datetime:
    """Before it, the ledger has no row of the same occurrence."""
    moment = None if row.occurrence is None else row.occurrence.scheduled_at
    return row.ts - _DELIVERIES_KEPT if moment is None else moment
