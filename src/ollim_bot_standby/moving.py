"""Moves an installation to a PostgreSQL database and back, and lets a second machine join it.

Only what needs psycopg imports this module.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from pathlib import Path

from ollim_bot.features.keeping.backup import incomplete, write_backup
from ollim_bot.kernel.base.environment import DATABASE_URL, shared_settings
from ollim_bot.kernel.base.errors import OllimError, StorageError, WriteFailed
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import SHARED, Secret
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database_errors import Damaged
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE, ask, has_state, look_into
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.snapshot import known_sessions, write_mirrors
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.upkeep.env_file import change_env_file
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.tool_servers import ToolServerRecord
from ollim_bot_standby.file_layout import ChangedFile, FileIndex, FileLayout, FileRows, WaitingFiles
from ollim_bot_standby.machines import FoundServer, HandOver, Machine, ServerGone, machine_id
from ollim_bot_standby.postgres.connection import Address, address_of_any, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease, request_hand_over
from ollim_bot_standby.postgres.server import (
    KEY_NAMES,
    MOVE,
    close_for,
    compact,
    keeps_sessions,
    look_at,
    on_server,
    open_again,
)
from ollim_bot_standby.postgres.transfer import Counts, move_to_file, move_to_server
from ollim_bot_standby.records import RecordFolder, RecordStore
from ollim_bot_standby.stored_files import (
    CurrentFiles,
    FilesState,
    StoredFiles,
    adds_power,
    compare_files,
)

_OLDEST = 140_000
_ALL = 10**9
_STAMP = "%Y%m%dT%H%M%SZ"
# In seconds: how often it is looked who leads, and for how long. A leader ends its turn first.
_BETWEEN_LOOKS, _PATIENCE = 0.1, 30.0

_TOO_OLD = "The server runs PostgreSQL {version}. It needs version 14 or newer."
_REPLICA = "{place} is a copy that follows another server, and cannot be written. Name the other."
_POOLED = (
    "{place} is reached through a pooler, which gives each step another session, so no machine "
    "would hear of the other. Name the database itself: your provider calls that address the "
    "direct one, mostly without `pooler` in its name, and with port 5432 in place of 6432 or 6543."
)
_FOREIGN = (
    "{place} holds tables of something else. Make an empty database for ollim-bot, such as by "
    "`createdb ollim`."
)
_TAKEN = (
    "{place} holds the data of a bot already. To have this machine stand by for it, run "
    "`ollim-bot standby join`. To move this bot there, make another, empty database."
)
_LED = (
    "{place} is led by {name}. Stop the bot there first; after a move that was cut off, wait for "
    "15 seconds."
)
_STOP_ALL = (
    "{name} leads. Stop the bot on all machines first: a restore replaces the rows of them all."
)
_EMPTY = "{place} is empty. Run `ollim-bot standby init` first, on the machine that has your bot."
_OTHER_VERSION = (
    "{place} belongs to another version of ollim-bot (schema {found}; this one knows {known}). "
    "Install the same version on both machines."
)
_NOT_OPEN = (
    "{place} waits for the end of a move. Run `ollim-bot standby init` again on the machine that "
    "has your bot, or `ollim-bot standby leave` on the one that left."
)
_LEFT_THERE = "Left in the database, since you have not looked through them here: {names}."
_NOTHING_HERE = "There is no bot in {root} to move. Start it once, or use `ollim-bot standby join`."
_DIFFERS = "`runs check` finds other things there than here, so nothing was switched"
_KEEPING = "Keeping the file as it was."
_LOST = "{place} was taken over by another process meanwhile. Nothing was switched; run it again."


def checked_server(address: Address, *, for_move: bool = False) -> FoundServer:
    """What is there, if this version can use it. Raises `OllimError` with what to do."""
    found, place = look_at(address), address.place
    if found.number < _OLDEST:
        raise OllimError(_TOO_OLD.format(version=found.version))
    if found.encoding != "UTF8":
        raise OllimError(
            f"The database {place} stores text as {found.encoding}. Make one with the encoding "
            "UTF8: `createdb --encoding=UTF8 --template=template0 ollim`."
        )
    if for_move and found.is_replica:
        raise OllimError(_REPLICA.format(place=place))
    if for_move and not found.can_create:
        raise OllimError(
            f"{found.user} may not make tables in {place}. Make it the owner: `ALTER DATABASE … "
            f"OWNER TO {found.user}`, or give it the right to create."
        )
    if found.is_ours and found.schema > SCHEMA:
        raise OllimError(_OTHER_VERSION.format(place=place, found=found.schema, known=SCHEMA))
    if not (found.is_replica or keeps_sessions(address)):
        raise OllimError(_POOLED.format(place=place))
    return found


def place_of(url: Secret) -> str:
    """What sentences call the database; the address is a key. Raises `WrongInput`."""
    return str(parse_address(url.reveal()).place)


def look(url: Secret) -> FoundServer:
    """What the database is like, with nothing changed; a copy, if only that answers.

    Raises `OllimError`.
    """
    address = parse_address(url.reveal())
    try:
        return look_at(address)
    except ServerGone:
        with suppress(StorageError):
            found = look_at(address_of_any(address))
            if found.is_replica:
                return found
        raise


def look_at_files(here: Machine, url: Secret) -> FilesState:
    """How the files here compare with the stored ones. Raises `OllimError`."""
    with closing(open_postgres(parse_address(url.reveal()), here.now, lease=None)) as database:
        return compare_files(here.paths, database.query_rows)


def _follow_files(here: Machine, database: PostgresDatabase, found: FoundServer) -> None:
    files = StoredFiles(here.paths, partial(adds_power, here.paths), here.say)
    files.follow(database.query_rows, found.epoch)


def waiting_files(here: Machine, url: Secret) -> list[ChangedFile]:
    """What the owner has to look through before it counts here. Raises `OllimError`."""
    found = look(url)
    with closing(open_postgres(parse_address(url.reveal()), here.now, lease=None)) as database:
        _follow_files(replace(here, say=lambda _: None), database, found)
        waiting, ask = WaitingFiles(here.paths).read(), database.query_rows
        stored = ask(lambda rows: FileRows(rows).current())
        hashes = [each.stored for each in waiting.values()]
        contents = ask(lambda rows: FileRows(rows).contents(hashes))
    return [
        ChangedFile(path, stored[path], contents[each.stored] if each.stored else None)
        for path, each in sorted(waiting.items())
        if path in stored and stored[path].hash == each.stored
    ]


def accept_files(here: Machine, url: Secret, shown: Iterable[ChangedFile]) -> None:
    """Have these versions count here, and no others. Raises `OllimError`."""
    versions = {each.path: each.version for each in shown}
    with (
        closing(open_postgres(parse_address(url.reveal()), here.now, lease=None)) as database,
        FileLock(here.paths.lock_of(here.paths.files_current)).held(),
    ):
        layout = FileLayout(here.paths, FileIndex(here.paths.root), lambda *_: False)
        for problem in layout.lay_out(database.query_rows, versions).problems:
            here.say(problem)


def refuse_files(here: Machine, url: Secret) -> None:
    """Have the next start here, on the machine that led last, store what is here.

    Raises `OllimError`.
    """
    leader = look(url).leader
    if leader is None or not leader.is_on(here.id):
        raise OllimError("Run this on the machine that leads: its files count for all.")
    with FileLock(here.paths.lock_of(here.paths.files_current)).held():
        WaitingFiles(here.paths).write({})


def check_target(here: Machine, url: Secret) -> FoundServer:
    """Whether the rows of this machine can move there; nothing is changed. Raises `OllimError`."""
    address = parse_address(url.reveal())
    if not here.file.exists():
        raise OllimError(_NOTHING_HERE.format(root=here.paths.root))
    found, place = checked_server(address, for_move=True), address.place
    if leader := found.leading:
        raise OllimError(_LED.format(place=place, name=leader.name))
    if not (found.is_ours or found.is_empty):
        raise OllimError(_FOREIGN.format(place=place))
    # A move that was cut off may have brought the rows, and no bot has led there since.
    move = _noted_move(here) or "none"
    if found.is_ours and move != found.closed and f"{move} {found.epoch}" != found.move:
        raise OllimError(_TAKEN.format(place=place))
    return found


def _noted_move(here: Machine) -> str:
    return look_into(here.paths, here.now(), lambda tx: tx.meta.get(MOVE)) or ""


def move_there(here: Machine, url: Secret, keys: tuple[str, ...]) -> Counts:
    """Move all rows of this machine to the empty database, and use it from now on.

    A kill at any moment leaves an installation that works, with the file or with the server; the
    same call then ends the move. Raises `OllimError`; nothing has changed here then.
    """
    address = parse_address(url.reveal())
    with single_instance(here.paths.bot_pid, patience=0.2):
        found = check_target(here, url)
        here.say("Making a backup first.")
        report = write_backup(here.paths, here.environ, here.now)
        if not report.is_complete:
            raise OllimError(f"{incomplete(report)} Nothing was moved.")
        here.say(f"Backup: {report.path}")
        move = _note_move(here)
        here.say("Moving the rows.")
        close_for(address, move, found.epoch)
        with _leading(here, address, move) as (lease, database):
            counts = move_to_server(here.file, database, here.now(), replace=found.is_ours)
            here.say("Moving the files.")
            _store_files(here, address, database, lease)
            here.say("Storing what the model remembers.")
            _remove_records(database)
            records, sessions = RecordStore(database), known_sessions(here.paths)
            for name, path in Transcripts(here.environ).files_of(sessions):
                try:
                    records.store(name, path, is_whole=True)
                except OSError as refused:
                    here.say(f"{path} is not stored: {refused.strerror}.")
            here.say("Comparing what is there with what is here.")
            _compare(here, address, database)
            epoch = lease.held.epoch if lease.held else 0
            machine = machine_id(here.paths)
            database.run(lambda tx: _note_end(tx, f"{move} {epoch}", keys, machine))
            if not lease.renew():
                raise OllimError(_LOST.format(place=address.place))
            here.say("Opening the database.")
            open_again(address)
            here.say("Writing the address into `.env`.")
            change_env_file(here.paths, {DATABASE_URL: url.reveal()})
            here.say(_KEEPING)
            _set_file_aside(here, "before-standby")
    return counts


def _store_files(here: Machine, address: Address, database: PostgresDatabase, lease: Lease) -> None:
    """Replace the files of the table by those of this machine."""
    if lease.held is not None:
        CurrentFiles(here.paths).claim(database.query_rows, lease.held.epoch)
    _take_over_files(here, address, lease)


def _take_over_files(here: Machine, address: Address, lease: Lease) -> None:
    """Have the files here and the table be the same; those here count if they are the newest."""
    files = StoredFiles(here.paths, partial(adds_power, here.paths), here.say)
    open_postgres(address, here.now, lease=lease.held, files=files).close()


def end_cut_off_move(here: Machine, url: Secret) -> bool:
    """Put the file aside whose rows are on the server; False if there is none."""
    if not here.file.exists() or not (move := _noted_move(here)):
        return False
    if not look(url).move.startswith(f"{move} "):
        return False
    with single_instance(here.paths.bot_pid, patience=0.2):
        here.say(_KEEPING)
        _set_file_aside(here, "before-standby")
    return True


def _set_file_aside(here: Machine, reason: str) -> None:
    """Keep the file of SQLite under a name that says when it was used last."""
    stamp = here.now().astimezone(UTC).strftime(_STAMP)
    endings = chain([""], (f"-{number}" for number in count(2)))
    names = (here.file.with_name(f"{DATABASE}.{reason}-{stamp}{each}") for each in endings)
    kept = next(path for path in names if not path.exists())
    try:
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{here.file}{ending}", f"{kept}{ending}")
        OsDisk().sync_folder(here.paths.state)
    except OSError as refused:
        raise WriteFailed(here.file, f"could not be renamed: {refused.strerror}.") from refused


def _note_move(here: Machine) -> str:
    """Name the move in the file, so that one that is cut off is known again."""

    def report(problem: StoreProblem) -> None:
        here.say(str(problem))

    with closing(open_database(here.paths, here.now, is_holder=True, report=report)) as database:
        move = database.query(lambda tx: tx.meta.get(MOVE)) or secrets.token_hex(8)
        database.run(lambda tx: tx.meta.put(MOVE, move))
    return move


@contextmanager
def _leading(
    here: Machine, address: Address, move: str
) -> Iterator[tuple[Lease, PostgresDatabase]]:
    machine = machine_id(here.paths)
    with closing(Lease(address, here.name, move=move, machine=machine)) as lease:
        held = lease.take()
        if held is None:
            leader = lease.leader()
            name = leader.name if leader else "another machine"
            raise OllimError(_LED.format(place=address.place, name=name))
        try:
            with closing(open_postgres(address, here.now, lease=held)) as database:
                yield lease, database
        finally:
            with suppress(StorageError):
                lease.release()


def _compare(here: Machine, address: Address, database: PostgresDatabase) -> None:
    """Raise `Damaged` unless `runs check` says the same about the rows here and there."""

    def ledger(tx: Transaction) -> list[LedgerRow]:
        return tx.ledger.page(0, _ALL)[0]

    rows, others = ask(here.paths, here.now(), ledger), database.query(ledger)
    watched_until, now = HeartbeatFile(here.paths).read(), here.now()
    if rows != others or check(rows, now, watched_until) != check(others, now, watched_until):
        raise Damaged(address.place, _DIFFERS)


def _remove_records(database: PostgresDatabase) -> None:
    database.run_rows(lambda rows: rows.write("transcripts", "DELETE FROM transcripts"))


def _note_end(tx: Transaction, move: str, keys: tuple[str, ...], machine: str) -> None:
    tx.meta.put(MOVE, move)
    tx.meta.put(KEY_NAMES, " ".join(keys))
    if tx.tool_servers.get().servers:
        tx.tool_servers.change(lambda known: _moved(known, machine))


def _moved(known: ToolServerRecord, machine: str) -> ToolServerRecord:
    """As on this machine, which has had the database of its own until now."""
    there = known.on(machine)
    servers = there.servers if known.machine else known.servers
    approved = {name: replace(state, machine=machine) for name, state in servers.items()}
    return replace(there, servers=approved)


def check_restore(url: Secret) -> None:
    """Raise `OllimError` unless the rows there can be replaced now; nothing is changed."""
    address = parse_address(url.reveal())
    found, place = checked_server(address, for_move=True), address.place
    if leader := found.leading:
        raise OllimError(_STOP_ALL.format(name=leader.name))
    if not found.is_ours or found.closed:
        raise OllimError((_NOT_OPEN if found.closed else _EMPTY).format(place=place))


def row_mover(
    url: str, paths: DataPaths, environ: Mapping[str, str], now: Callable[[], datetime]
) -> Callable[[Path], None]:
    """What puts the rows of a file on the server. Raises `OllimError` if a machine leads."""
    check_restore(Secret(url))
    return partial(replace_rows, Machine(paths, environ, now), Secret(url))


def replace_rows(here: Machine, url: Secret, file: Path) -> None:
    """Put the rows of the file in the place of all rows on the server, in one step.

    The files of the data directory that it is in, which is about to be used, are stored with them,
    and so are the restored records of the engine.
    No machine may lead. Raises `OllimError`; nothing has changed then.
    """
    check_restore(url)
    address, kept = parse_address(url.reveal()), look(url)
    with _leading(here, address, "") as (lease, database):
        here.say("Moving the rows of the backup to the server.")
        machine = machine_id(here.paths)

        def mark(tx: Transaction) -> None:
            _note_end(tx, kept.move, kept.key_names, machine)
            tx.meta.put(SHARED_HEARTBEAT, here.now().isoformat())

        move_to_server(file, database, here.now(), replace=True, mark=mark)
        restored = replace(here, paths=DataPaths(file.parent.parent))
        restored.paths.locks.mkdir(exist_ok=True)
        shutil.copyfile(here.paths.machine_id, restored.paths.machine_id)
        restored.paths.machine_id.chmod(0o600)
        _store_files(restored, address, database, lease)
        # The engine's records of the backup, and none of those that were recorded since.
        _remove_records(database)
        waiting, records = restored.paths.restored_transcripts, RecordStore(database)
        for path in filter(Path.is_file, sorted(waiting.rglob("*"))):
            records.store(path.relative_to(waiting).as_posix(), path, is_whole=True)


def join(here: Machine, url: Secret) -> FoundServer:
    """Have this machine stand by for the database.

    Raises `OllimError`; nothing has changed then.
    """
    address = parse_address(url.reveal())
    if has_state(here.paths):
        raise OllimError(
            f"{here.paths.root} has the data of a bot of its own, which would not be used any "
            "more. Move that folder away, or name another one with OLLIM_DATA_DIR."
        )
    found, place = checked_server(address), address.place
    if found.is_empty:
        raise OllimError(_EMPTY.format(place=place))
    if not found.is_ours:
        raise OllimError(f"{place} is not a database of ollim-bot.")
    if found.schema != SCHEMA:
        raise OllimError(_OTHER_VERSION.format(place=place, found=found.schema, known=SCHEMA))
    if found.closed:
        raise OllimError(_NOT_OPEN.format(place=place))
    prepare_data_directory(here.paths)
    with single_instance(here.paths.bot_pid, patience=0.2):
        CurrentFiles(here.paths).remove()
        here.say("Laying out the files of the bot.")
        with closing(open_postgres(address, here.now, lease=None)) as database:
            _follow_files(here, database, found)
        change_env_file(here.paths, {DATABASE_URL: url.reveal()})
    return found


def leave_as_standby(here: Machine) -> None:
    """Take the address out of `.env`, and nothing else. Raises `OllimError`."""
    with single_instance(here.paths.bot_pid, patience=0.2):
        _stop_sharing(here)


def _stop_sharing(here: Machine) -> None:
    """Take the address out, and what was kept for others or for the time without the server."""
    change_env_file(here.paths, {DATABASE_URL: None})
    CurrentFiles(here.paths).remove()
    for kept in (here.paths.known_schedule, here.paths.standing_by, here.paths.waiting_files):
        with suppress(OSError):
            kept.unlink(missing_ok=True)


def is_left(here: Machine, found: FoundServer) -> bool:
    """Whether all rows are back in the file here, and only the address was not taken out yet."""
    return bool(found.closed) and found.closed == _noted_move(here)


def move_back(here: Machine, url: Secret) -> Counts:
    """Move all rows into a new file here, close the database, and use the file from now on.

    A kill before the database is closed changes nothing; after it, the same command ends the move.
    Raises `OllimError`; nothing has changed then.
    """
    address, move = parse_address(url.reveal()), secrets.token_hex(8)
    with single_instance(here.paths.bot_pid, patience=0.2):
        with _leading(here, address, "") as (lease, database):
            if here.file.exists():
                _set_file_aside(here, "unused")
            database.run(lambda tx: tx.meta.put(MOVE, move))
            here.say("Moving the files.")
            _take_over_files(here, address, lease)
            if waiting := WaitingFiles(here.paths).read():
                here.say(_LEFT_THERE.format(names=", ".join(waiting)))
            here.say("Moving the rows.")
            counts = move_to_file(database, here.file, here.now())
            here.say("Comparing what is here with what is there.")
            _compare(here, address, database)
            write_mirrors(here.paths)
            folder = RecordFolder(Transcripts(here.environ), here.paths.root, here.now)
            for problem in folder.lay_out(database):
                here.say(problem)
            if not lease.renew():
                raise OllimError(_LOST.format(place=address.place))
            # From now on `.env` counts again.
            known = shared_settings(here.paths)
            change_env_file(here.paths, {name: known[name] for name in SHARED if name in known})
            here.say("Closing the database to all machines.")
            close_for(address, move, lease.held.epoch if lease.held else 0)
        here.say("Taking the address out of `.env`.")
        _stop_sharing(here)
    return counts


@contextmanager
def rows_in_file(here: Machine, url: Secret, keys: tuple[str, ...]) -> Iterator[None]:
    """Have all rows in a file here for a while, and then on the server again, and nowhere else.

    No machine may lead. A kill in between leaves an installation with a file, as after `leave`.
    Raises `OllimError`.
    """
    check_restore(url)
    here.say(
        "The rows come from the server into a file here for this, and go back when it is done. "
        "Keep the bot stopped on all machines until then."
    )
    move_back(here, url)
    try:
        yield
    finally:
        move_there(here, url, keys)
        compact(parse_address(url.reveal()))


def hand_over(url: Secret) -> HandOver | None:
    """Ask the leader to let go, and wait until another machine leads; None if none leads now.

    Raises `StorageError`.
    """
    address, began = parse_address(url.reveal()), time.monotonic()
    before = look_at(address).leader
    if before is None or on_server(address, request_hand_over) is None:
        return None
    while True:
        result = HandOver(before, look_at(address).leading, time.monotonic() - began)
        if result.is_done or result.seconds > _PATIENCE:
            return result
        time.sleep(_BETWEEN_LOOKS)
