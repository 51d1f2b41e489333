"""The state files that people read: kept current after commits, read back at start only."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from ollim_bot.kernel.base.errors import NewerFormat, StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.kernel.store.codecs.record_codecs import SESSION_EVENTS
from ollim_bot.kernel.store.connection import Row, Statements
from ollim_bot.kernel.store.file_store import FormatIsNewer, Malformed, StoreProblem, set_aside
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileLock,
    append_line,
    remove_durably,
    write_atomically,
)
from ollim_bot.kernel.store.records import MIRRORED, RecordSpec, store_record, stored_record
from ollim_bot.kernel.store.session_history import HISTORY_FILE, SessionHistory
from ollim_bot.kernel.values.ports import Disk, Journal
from ollim_bot.kernel.values.sessions import SessionEvent

Report = Callable[[StoreProblem], None]
# Reads the one row of a query of two arguments, as it is committed.
ReadRow = Callable[[str, str, str], Row]
_SPECS = {spec.name: spec for spec in MIRRORED}
_DIFFERS = (
    "differs from the database, which several machines share and which counts. It was set aside as "
    "state/{}."
)

# In a shared database: so many numbers later, an older file on another machine is not recognised.
KEPT_HASHES = 5000


class Mirrors:
    """Writes the files of changed records, and detects at start which of them a person changed.

    A commit stores the hash of the content that it leads to, under a growing number. Hashes of
    lower numbers are dropped only once a newer content is known to be in the file. So a file with
    any other hash was written by a person. `journal` gets a note for each new line of the session
    history. `kept` is how many numbers a hash is kept for although its content was replaced: other
    machines that share the database may still have a file with it.
    """

    def __init__(
        self,
        paths: DataPaths,
        disk: Disk,
        report: Report,
        journal: Journal | None = None,
        kept: int = 0,
    ) -> None:
        self._kept = kept
        self._state = paths.state
        self._disk = disk
        self._report = report
        self._journal = journal
        self._lock = FileLock(paths.locks / "mirrors")
        self._in_file: dict[str, int] = {}
        self._stale: set[str] = set()
        self._left_alone: set[str] = set()
        self._lines: list[bytes] = []
        self._history: bytes | None = None

    @property
    def are_current(self) -> bool:
        return not (self._stale or self._lines or self._history is not None)

    def prune(self, statements: Statements, names: Iterable[str]) -> None:
        """Forget the hashes of contents that the files can no longer have."""
        for name in names:
            if name in self._in_file:
                statements.write(
                    "mirrors",
                    "DELETE FROM mirrors WHERE name = ? AND number < ?",
                    name,
                    self._in_file[name] - self._kept,
                )

    def written_names(self) -> list[str]:
        """The records whose files this process has written."""
        return sorted(self._in_file)

    def follow(self, read: ReadRow, changed: set[str], lines: list[bytes]) -> None:
        """Write what a commit changed, and what could not be written before.

        A file that cannot be written now is written later; the commit stands in any case.
        """
        self._stale |= changed & _SPECS.keys() - self._left_alone
        self._lines += lines
        if self.are_current:
            return
        with suppress(StorageError, OSError), self._lock.held():
            if self._lines or self._history is not None:
                self._write_history()
            for name in sorted(self._stale):
                self._write(read, _SPECS[name])
                self._stale.discard(name)

    def _write(self, read: ReadRow, spec: RecordSpec[object]) -> None:
        # Another process may have committed since, and the newest value belongs into the file. The
        # number is read with it, so that the content is never older than the number.
        number, found = read(
            "SELECT (SELECT max(number) FROM mirrors WHERE name = ?),"
            " (SELECT value FROM records WHERE name = ?)",
            spec.name,
            spec.name,
        )
        path = self._state / spec.file
        if found is None:
            remove_durably(self._disk, path)
        else:
            write_atomically(self._disk, path, str(found).encode(), PRIVATE)
        if number is not None:
            self._in_file[spec.name] = int(str(number))

    def _write_history(self) -> None:
        path = self._state / HISTORY_FILE
        if self._history is not None:
            write_atomically(self._disk, path, self._history, PRIVATE)
            self._history = None
        if self._lines:
            append_line(
                self._disk, path, b"".join(line + b"\n" for line in self._lines), sync=False
            )
            if self._journal is not None:
                for line in self._lines:
                    self._journal.note(path, SESSION_EVENTS.decode(line).journal_message)
            self._lines = []

    def reconcile(self, statements: Statements) -> None:
        """Adopt the values that a person wrote into the files while no bot ran.

        Only the holder of the instance lock calls this, before any other change; `follow` then
        writes the files that are not current.
        """
        for spec in MIRRORED:
            self._reconcile(statements, spec)
        history = SessionHistory(statements)
        path = self._state / HISTORY_FILE
        try:
            content = self._content(path) or b""
        except UnsuitableFile as unfit:
            self._report(set_aside(self._disk, path, unfit.reason))
            content = b""
        except OSError as refused:
            self._report(StoreProblem(path, f"cannot be read: {refused.strerror}."))
            return
        in_file, bad = events_in(content)
        known = history.all()
        if Counter(in_file) - Counter(known):
            # What came after the last event of the edited file follows it.
            written = {*in_file}
            places = (place for place, event in enumerate(known, 1) if event in written)
            known = [*in_file, *known[max(places, default=0) :]]
            history.replace(known)
        if known[: len(in_file)] == in_file:
            self._lines += [SESSION_EVENTS.encode(event) for event in known[len(in_file) :]]
            return
        if bad:
            self._report(set_aside(self._disk, path, f"{bad} lines could not be read"))
        lines = (SESSION_EVENTS.encode(event) + b"\n" for event in known)
        self._history = b"".join(lines)

    def replace(self, statements: Statements) -> None:
        """Have `follow` write every file that is not current, and adopt nothing from any of them.

        One that this program has not written is set aside and reported.
        """
        history = SessionHistory(statements).all()
        lines = b"".join(SESSION_EVENTS.encode(event) + b"\n" for event in history)
        for name, path in ((each.name, self._state / each.file) for each in MIRRORED):
            self._replace(path, lambda found, name=name: mirror_age(statements, name, found))  # type: ignore[misc]
            self._stale.add(name)
        self._replace(self._state / HISTORY_FILE, lambda found: _history_age(found, history))
        self._history = lines

    def _replace(self, path: Path, age: Callable[[bytes | None], MirrorAge]) -> None:
        try:
            content = self._content(path)
            if content is not None and age(content) is MirrorAge.BY_HAND:
                kept_as = set_aside(self._disk, path, "").kept_as or path
                self._report(StoreProblem(path, _DIFFERS.format(kept_as.name)))
        except UnsuitableFile as unfit:
            self._report(set_aside(self._disk, path, unfit.reason))
        except OSError as refused:
            self._report(StoreProblem(path, f"cannot be read: {refused.strerror}."))

    def _reconcile(self, statements: Statements, spec: RecordSpec[object]) -> None:
        path = self._state / spec.file
        try:
            content = self._content(path)
        except UnsuitableFile as unfit:
            self._report(set_aside(self._disk, path, unfit.reason))
            self._stale.add(spec.name)
            return
        except OSError as refused:
            self._left_alone.add(spec.name)
            reason = f"is there but cannot be read: {refused.strerror}. Mend its permissions."
            self._report(StoreProblem(path, reason))
            return
        age = mirror_age(statements, spec.name, content)
        if age is MirrorAge.CURRENT:
            hashes = _hashes(statements, spec.name)
            if hashes and hashes[-1] != hash_of(content):
                note_hash(statements, spec.name, hash_of(content))
            if hashes:
                self._in_file[spec.name] = statements.number(
                    "SELECT max(number) FROM mirrors WHERE name = ?", spec.name
                )
        elif age is MirrorAge.BEHIND:
            self._stale.add(spec.name)
        else:
            is_newer = len(_hashes(statements, spec.name)) > 1
            self._apply(statements, spec, content, is_newer=is_newer)

    def _apply(
        self,
        statements: Statements,
        spec: RecordSpec[object],
        content: bytes | None,
        *,
        is_newer: bool,
    ) -> None:
        """Adopt a person's change; with `is_newer`, the record may have changed since as well."""
        path = self._state / spec.file
        try:
            encoded, warnings = _checked(spec, content)
        except Malformed as malformed:
            self._report(set_aside(self._disk, path, str(malformed)))
            self._stale.add(spec.name)
            return
        except FormatIsNewer as newer:
            self._left_alone.add(spec.name)
            reason = NewerFormat(path, newer.found, newer.known).reason
            self._report(StoreProblem(path, reason))
            return
        ours = stored_record(statements, spec.name)
        if is_newer and ours is not None:
            # Use the real clock: two files of one moment of a simulated day need two names.
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            kept_as = path.with_name(f"{path.name}.unapplied-{stamp}")
            write_atomically(self._disk, kept_as, ours, PRIVATE)
            self._report(
                StoreProblem(
                    path,
                    "was changed by hand while the bot was stopped, and that counts. The bot's own "
                    f"last value is kept as state/{kept_as.name}.",
                )
            )
        for warning in warnings:
            self._report(StoreProblem(path, warning))
        store_record(statements, spec, encoded)
        self._stale.add(spec.name)

    def _content(self, path: Path) -> bytes | None:
        try:
            return self._disk.read(path, SizeLimit.STATE)
        except FileNotFoundError:
            return None


class MirrorAge(Enum):
    """How the content of a state file relates to the database."""

    CURRENT = "current"
    BEHIND = "behind"
    BY_HAND = "by hand"


def _history_age(content: bytes | None, known: list[SessionEvent]) -> MirrorAge:
    in_file, bad = events_in(content or b"")
    is_ours = not bad and not Counter(in_file) - Counter(known)
    return MirrorAge.BEHIND if is_ours else MirrorAge.BY_HAND


def mirror_age(statements: Statements, name: str, content: bytes | None) -> MirrorAge:
    """The age of a record's file with this content; None stands for no file."""
    if hash_of(content) == hash_of(stored_record(statements, name)):
        return MirrorAge.CURRENT
    is_ours = hash_of(content) in _hashes(statements, name)
    return MirrorAge.BEHIND if is_ours else MirrorAge.BY_HAND


def _hashes(statements: Statements, name: str) -> list[str]:
    rows = statements.rows("SELECT hash FROM mirrors WHERE name = ? ORDER BY number", name)
    return [str(row[0]) for row in rows]


def _checked(
    spec: RecordSpec[object], content: bytes | None
) -> tuple[bytes | None, tuple[str, ...]]:
    if content is None:
        return None, ()
    value, warnings = spec.codec.decode(content)
    return spec.codec.encode(value), warnings


def events_in(content: bytes) -> tuple[list[SessionEvent], int]:
    """The events of the file, and the number of lines that are not events."""
    events: list[SessionEvent] = []
    bad = 0
    for line in filter(bytes.strip, content.split(b"\n")):
        try:
            events.append(SESSION_EVENTS.decode(line))
        except Malformed:
            bad += 1
    return events, bad


def hash_of(content: bytes | None) -> str:
    """The hash that identifies the content of a mirror; empty for no file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def note_hash(statements: Statements, name: str, content: str) -> None:
    """Store the hash of the newest content that the mirror may hold."""
    statements.write(
        "mirrors",
        "INSERT INTO mirrors (name, hash, number)"
        " VALUES (?, ?, (SELECT coalesce(max(number), 0) + 1 FROM mirrors))"
        " ON CONFLICT (name, hash) DO UPDATE SET number = excluded.number",
        name,
        content,
    )


def note_content(statements: Statements, name: str, content: bytes | None) -> None:
    """Store the hash of what the mirror will hold; at first also that of no file."""
    if statements.row("SELECT 1 FROM mirrors WHERE name = ?", name) is None:
        note_hash(statements, name, hash_of(None))
    note_hash(statements, name, hash_of(content))
