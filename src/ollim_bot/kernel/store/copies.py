"""Automatic copies of the database, and the repair of a damaged one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.kernel.store.connection import Row, connect
from ollim_bot.kernel.store.database_errors import Damaged, translated
from ollim_bot.kernel.store.delivery_rows import Delivery
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.heartbeat import ran_until
from ollim_bot.kernel.store.schema import SCHEMA, SEARCH_TABLES, migrate, schema_of
from ollim_bot.kernel.store.steps import drop_all_waiting, known_deeds, quiet_settings
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.inbox import Ended, Input, InputEnd
from ollim_bot.kernel.values.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
    may_follow,
)
from ollim_bot.kernel.values.presence import PassedOver
from ollim_bot.kernel.values.quiet import quiet_until
from ollim_bot.kernel.values.run_history import FROM_COPY, PLANNED_AT, RunStory, moment_in

KEPT = 3
EVERY = timedelta(hours=1)

_STAMP = "%Y%m%dT%H%M%SZ"
_RESTORED = "restored"
_SINCE_BACKUP = "since_backup"
_SALVAGED = "salvaged"


def copies_of(path: Path) -> list[Path]:
    """The copies of a database, the newest first."""
    return sorted(_folder(path).glob(f"{path.stem}-*{path.suffix}"), reverse=True)


def is_copy_due(path: Path, now: datetime) -> bool:
    """Whether the newest copy is older than an hour."""
    return not any(now - EVERY < copied_at(copy) <= now for copy in copies_of(path))


def copy_database(path: Path, now: datetime) -> Path:
    """Copy the database as it is now, whole and synced, and remove the oldest copies.

    The copy is marked, so that a start recognises it as a copy, also if a person put it in place.
    """
    folder = _folder(path)
    target = folder / f"{path.stem}-{now.astimezone(UTC).strftime(_STAMP)}{path.suffix}"
    temporary = folder / f".{target.name}.tmp"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        back_up(path, temporary)
        mark_copy(temporary, now, now)
        OsDisk().sync(temporary)
        os.replace(temporary, target)
        OsDisk().sync_folder(folder)
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused
    except OSError as refused:
        raise WriteFailed(target, f"could not be written: {refused.strerror}.") from refused
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    for old in copies_of(path)[KEPT:]:
        with suppress(OSError):
            old.unlink()
    return target


def back_up(path: Path, target: Path) -> None:
    """Copy the database as it is now, also while it is written, and sync the copy."""
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    OsDisk().sync(target)


def _folder(path: Path) -> Path:
    return path.parent / "copies"


def copied_at(copy: Path) -> datetime:
    """The moment of a copy, from its name."""
    text = copy.stem.rpartition("-")[2]
    with suppress(ValueError):
        return datetime.strptime(text, _STAMP).replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


def damage_of(path: Path) -> str | None:
    """What is wrong with a database file; None if it is whole or not there."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as wrong:
        if isinstance(refused := translated(path, wrong), Damaged):
            return str(wrong)
        raise refused from wrong
    return None if found == "ok" else str(found)


def suspect(path: Path) -> None:
    """Make the next start check the whole database."""
    with suppress(OSError):
        suspicion_of(path).touch(0o600)


def suspicion_of(path: Path) -> Path:
    """The file that makes the next start check the database."""
    return path.with_name(f"{path.name}.suspect")


def _needs_check(path: Path) -> bool:
    """True after an unclean end, and after a reported error.

    Checking a large database takes long, so a start after a clean end skips it.
    """
    if path.with_name(f"{path.name}-wal").exists() or suspicion_of(path).exists():
        return True
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError:
        return True
    return False


def mend(path: Path, now: datetime, report: Callable[[StoreProblem], None]) -> None:
    """Replace a damaged database by its readable rows or by the newest whole copy.

    The one with more rows is used. The damaged file is set aside. Only the holder of the instance
    lock calls this, before the database is opened.
    """
    if not path.exists() or not _needs_check(path):
        return
    reason = damage_of(path)
    suspicion_of(path).unlink(missing_ok=True)
    if reason is None:
        return
    salvaged = path.with_name(f".{path.name}.salvaged")
    found = salvage(path, salvaged)
    copy = next((each for each in copies_of(path) if damage_of(each) is None), None)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kept_as = path.with_name(f"{path.name}.corrupt-{stamp}")
    os.replace(path, kept_as)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{kept_as}{suffix}")
    if copy is not None and _rows(copy) > found:
        back_up(copy, salvaged)
        mark_copy(salvaged, copied_at(copy), now)
        told = f"The copy of {copied_at(copy):%Y-%m-%d %H:%M} UTC takes its place"
    else:
        _mark(salvaged, f"{_moments(now, now)} {_SALVAGED}")
        told = f"{found} rows could still be read and take its place"
    os.replace(salvaged, path)
    OsDisk().sync_folder(path.parent)
    report(
        StoreProblem(
            path,
            f"was damaged ({reason}). {told}; the damaged file is kept as state/{kept_as.name}.",
        )
    )


def salvage(path: Path, target: Path) -> int:
    """Copy every row that SQLite can still read of a damaged database into a new one: how many."""
    target.unlink(missing_ok=True)
    with closing(connect(target)) as new:
        new.execute("PRAGMA journal_mode=DELETE")
        new.execute("BEGIN")
        migrate(new)
        try:
            old = sqlite3.connect(path)
            old.execute("PRAGMA writable_schema=1")
        except sqlite3.Error:
            new.execute("COMMIT")
            return 0
        with closing(old):
            rows = sum(_salvage_table(old, new, *each) for each in _tables(new))
        new.execute("COMMIT")
    return rows


def _salvage_table(
    old: sqlite3.Connection, new: sqlite3.Connection, table: str, columns: list[str]
) -> int:
    names = ", ".join(columns)
    seen: set[Row] = set()
    # Read backwards as well: a damaged page ends a scan, and the rows behind it need the other end.
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error):
            for row in old.execute(f"SELECT {names} FROM {table} ORDER BY rowid {order}"):
                seen.add(row)
            break
    count = 0
    for row in sorted(seen, key=lambda row: tuple(map(str, row))):
        with suppress(sqlite3.IntegrityError):
            places = ", ".join("?" for _ in columns)
            new.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", row)
            count += 1
    return count


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """The tables with their columns; the search index is left out, since a start makes it again."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    for (table,) in found.fetchall():
        if table.startswith(SEARCH_TABLES):
            continue
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        yield table, [str(column[1]) for column in columns]


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        if schema_of(connection) > SCHEMA:
            return 0
        counts = (
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table, _ in _tables(connection)
        )
        mark = "SELECT count(*) FROM meta WHERE name = ?"
        return int(sum(counts) - connection.execute(mark, (_RESTORED,)).fetchone()[0])


def mark_copy(path: Path, since: datetime, now: datetime) -> None:
    _mark(path, _moments(since, now))


@dataclass(frozen=True, slots=True)
class SinceBackup:
    """What came after the backup that is restored.

    What was due after `due_since` may have run; `said` are the owner's words, shortened.
    """

    due_since: datetime | None = None
    said: tuple[str, ...] = ()


def mark_restored(path: Path, since: datetime, now: datetime, after: SinceBackup) -> None:
    """Mark the database of a backup of `since` that is restored `now`."""
    _mark(path, _moments(since, now), encode_plain(after).decode())


def _moments(since: datetime, now: datetime) -> str:
    return f"{since.astimezone(UTC).isoformat()} {now.astimezone(UTC).isoformat()}"


def _mark(path: Path, moments: str, after: str | None = None) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, value in ((_RESTORED, moments), (_SINCE_BACKUP, after)):
            connection.execute("DELETE FROM meta WHERE name = ?", (name,))
            if value is not None:
                connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (name, value))


@dataclass(frozen=True, slots=True)
class AfterReturn:
    """What the return to a copy of `since` left open, for the owner to be told.

    `inputs` and `occurrences` were ended and are not repeated; `deliveries` are looked up first.
    `held` are messages that waited for an end of the quiet which has come since, and wait no more.
    `jobs` are the titles of those occurrences, each once. `since_backup` is about the backup that
    was restored; None for another copy. `is_salvaged` says that it is no copy, but what could be
    read of a damaged database at `since`.
    """

    since: datetime
    inputs: tuple[Input, ...]
    occurrences: tuple[Occurrence, ...]
    deliveries: tuple[Delivery, ...]
    since_backup: SinceBackup | None = None
    held: tuple[HeldMessage, ...] = ()
    jobs: tuple[str, ...] = ()
    is_salvaged: bool = False


def settle_return(tx: Transaction, heartbeat: datetime | None = None) -> AfterReturn | None:
    """End what may have been done since the copy was made; None if the database is not a copy.

    This is the first step of a start. Repeating it changes nothing. `heartbeat` is the last one of
    the bot that ran before: what came later than it can have run is still to be done.
    """
    mark = tx.meta.get(_RESTORED)
    if mark is None:
        return None
    stored = tx.meta.get(_SINCE_BACKUP)
    for name in (_RESTORED, _SINCE_BACKUP):
        tx.meta.remove(name)
    inputs = tx.inbox.get().accepted
    if inputs:
        tx.inbox.append(Ended(tx.now, tuple(each.id for each in inputs), InputEnd.SET_ASIDE))
    since, until = map(datetime.fromisoformat, mark.split()[:2])
    after = None if stored is None else decode_plain(SinceBackup, stored.encode())
    if after is None:
        until = ran_until(heartbeat, tx.now).astimezone(UTC)
        due_since = min(since, heartbeat or since)
        tx.discord.change(lambda state: state.passing_over(until))
        # The conversation goes on from its newest session, which may have read text of others.
        tx.marks.lose()
    else:
        due_since = after.due_since or since
        tx.discord.change(lambda state: state.seen_until(until))
    is_salvaged = mark.endswith(_SALVAGED)
    if not is_salvaged:
        # A copy of a running bot says that it runs, and the next start would tell of a crash.
        tx.presence.change(lambda presence: presence.ended(for_restart=False))
    # What came between the copy and the end of the bot that ran then is not caught up on.
    if due_since < until:
        tx.passed_over.put(PassedOver(due_since, until, is_backup=after is not None))
    stories = tuple(_interrupted(tx, until))
    deliveries = tuple(tx.deliveries.doubt_all(tx.now))
    occurrences = tuple(story.occurrence for story in stories)
    held = _brought(tx, since, until)
    # They may have been asked again since, when the login worked again.
    tx.failed_turns.change(lambda failed: failed.answered())
    return AfterReturn(
        since, inputs, occurrences, deliveries, after, held, _titles(stories), is_salvaged
    )


def _brought(tx: Transaction, since: datetime, until: datetime) -> tuple[HeldMessage, ...]:
    """Let go of what waited, if a digest may have brought it after the copy was made."""
    end = quiet_until(quiet_settings(tx), since)
    if since >= until or (end is not None and end > until):
        return ()
    return drop_all_waiting(tx, "it may have come before the return to an earlier copy")


def _interrupted(tx: Transaction, until: datetime) -> Iterator[RunStory]:
    """End what had begun, and the times after which an item was to come again until then."""
    for item in tx.due_items.to_come_again():
        if item.again_at is not None and item.again_at <= until:
            tx.due_items.put(replace(item, again_at=None))
    for story in tx.ledger.open_history().unfinished:
        # What follows an answer is passed over like any other moment.
        is_moment = story.state is OccurrenceState.PLANNED and not story.occurrence.part
        if is_moment or _is_planned_after(story, until):
            continue
        facts: dict[str, object] = {**known_deeds(tx, story), "reason": FROM_COPY}
        if may_follow(story.state, OccurrenceState.INTERRUPTED):
            state = OccurrenceState.INTERRUPTED
        elif may_follow(story.state, OccurrenceState.FAILED):
            state = OccurrenceState.FAILED
        else:
            state = OccurrenceState.SKIPPED
            facts = {"reason": SkipReason.SUPERSEDED.value, "why": FROM_COPY}
        tx.ledger.append(LedgerRow(tx.now, state.value, story.occurrence, facts))
        yield story


def _titles(stories: Iterable[RunStory]) -> tuple[str, ...]:
    named = (str(row.facts.get("job") or "") for story in stories for row in story.rows)
    return tuple(dict.fromkeys(filter(None, named)))


def _is_planned_after(story: RunStory, until: datetime) -> bool:
    if story.state is not OccurrenceState.PLANNED:
        return False
    # A time that waits for the end of the quiet has its newest moment in a later row.
    moments = [at for row in story.rows if (at := moment_in(row.facts, PLANNED_AT)) is not None]
    return bool(moments) and moments[-1] > until
