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
from pathlib import Path

from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.tool_servers import ToolServerRecord
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.environment import DATABASE_URL, shared_settings
from ollim_bot.errors import OllimError, StorageError, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.settings import SHARED, Secret
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.errors import Damaged
from ollim_bot.store.file_store import StoreProblem
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.store.opening import open_database
from ollim_bot.store.questions import DATABASE, ask, has_state, look_into
from ollim_bot.store.schema import SCHEMA
from ollim_bot.store.snapshot import known_sessions, write_mirrors
from ollim_bot.store.transaction import Transaction
from ollim_bot.upkeep.backup import incomplete, write_backup
from ollim_bot.upkeep.env_file import change_env_file
from ollim_bot.upkeep.instance import single_instance
from ollim_bot_standby.errors import ServerGone
from ollim_bot_standby.file_index import FileIndex
from ollim_bot_standby.file_layout import ChangedFile, FileLayout, FileRows, WaitingFiles
from ollim_bot_standby.machines import FoundServer, HandOver, Machine, machine_id
from ollim_bot_standby.postgres.connection import Address, address_of_any, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease
from ollim_bot_standby.postgres.server import (
    KEY_NAMES,
    MOVE,
    ask_for_lease,
    close_for,
    compact,
    keeps_sessions,
    look_at,
    open_again,
)
from ollim_bot_standby.postgres.transfer import Counts, move_to_file, move_to_server
from ollim_bot_standby.powers import adds_power
from ollim_bot_standby.records import RecordFolder, RecordStore
from ollim_bot_standby.stored_files import CurrentFiles, FilesState, StoredFiles, compare_files

_OLDEST = 140_000
_ALL = 10**9
_STAMP = "%Y%m%dT%H%M%SZ"
# In seconds: how often it is looked who leads, and for how long. A leader ends its turn first.
_BETWEEN_LOOKS, _PATIENCE = 0.1, 30.0

_TOO_OLD = "The server runs PostgreSQL {version}. It needs version 14 or newer."
_ENCODING = (
    "The database {place} stores text as {encoding}. Make one with the encoding UTF8: "
    "`createdb --encoding=UTF8 --template=template0 ollim`."
)
_REPLICA = "{place} is a copy that follows another server, and cannot be written. Name the other."
_MAY_NOT = (
    "{user} may not make tables in {place}. Make it the owner: "
    "`ALTER DATABASE … OWNER TO {user}`, or give it the right to create."
)
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
_NOT_OURS = "{place} is not a database of ollim-bot."
_OTHER_VERSION = (
    "{place} belongs to another version of ollim-bot (schema {found}; this one knows {known}). "
    "Install the same version on both machines."
)
_NOT_OPEN = (
    "{place} waits for the end of a move. Run `ollim-bot standby init` again on the machine that "
    "has your bot, or `ollim-bot standby leave` on the one that left."
)
_HAS_DATA = (
    "{root} has the data of a bot of its own, which would not be used any more. Move that folder "
    "away, or name another one with OLLIM_DATA_DIR."
)
_REFUSE_THERE = "Run this on the machine that leads: its files count for all."
_LEFT_THERE = "Left in the database, since you have not looked through them here: {names}."
_NOTHING_HERE = "There is no bot in {root} to move. Start it once, or use `ollim-bot standby join`."
_IN_FILE = (
    "The rows come from the server into a file here for this, and go back when it is done. Keep "
    "the bot stopped on all machines until then."
)
_DIFFERS = "`runs check` finds other things there than here, so nothing was switched"
_LOST = "{place} was taken over by another process meanwhile. Nothing was switched; run it again."


def checked_server(address: Address, *, for_move: bool = False) -> FoundServer:
    """What is there, if this version can use it. Raises `OllimError` with what to do."""
    found, place = look_at(address), address.place
    if found.number < _OLDEST:
        raise OllimError(_TOO_OLD.format(version=found.version))
    if found.encoding != "UTF8":
        raise OllimError(_ENCODING.format(place=place, encoding=found.encoding))
    if for_move and found.is_replica:
        raise OllimError(_REPLICA.format(place=place))
    if for_move and not found.can_create:
        raise OllimError(_MAY_NOT.format(place=place, user=found.user))
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
        contents = ask(
            lambda rows: FileRows(rows).contents([each.stored for each in waiting.values()])
        )
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
        raise OllimError(_REFUSE_THERE)
    with FileLock(here.paths.lock_of(here.paths.files_current)).held():
        WaitingFiles(here.paths).write({})


def check_target(here: Machine, url: Secret) -> FoundServer:
    """Whether the rows of this machine can move there; nothing is changed. Raises `OllimError`."""
    address = parse_address(url.reveal())
    if not here.file.exists():
        raise OllimError(_NOTHING_HERE.format(root=here.paths.root))
    found, place = checked_server(address, for_move=True), address.place
    if found.leader is not None and found.leader.is_leading:
        raise OllimError(_LED.format(place=place, name=found.leader.name))
    if not (found.is_ours or found.is_empty):
        raise OllimError(_FOREIGN.format(place=place))
    if found.is_ours and not _is_of_cut_off_move(found, _noted_move(here)):
        raise OllimError(_TAKEN.format(place=place))
    return found


def _is_of_cut_off_move(found: FoundServer, move: str) -> bool:
    """Whether the rows there came from here, and no bot has led there since."""
    if not move:
        return False
    return found.closed == move or (found.move == f"{move} {found.epoch}")


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
        _back_up(here)
        move = _note_move(here)
        here.say("Moving the rows.")
        close_for(address, move, found.epoch)
        with _leading(here, address, move) as (lease, database):
            counts = move_to_server(here.file, database, here.now(), replace=found.is_ours)
            here.say("Moving the files.")
            _store_files(here, address, database, lease)
            here.say("Storing what the model remembers.")
            _store_records(here, database)
            here.say("Comparing what is there with what is here.")
            _compare(here, address, ask(here.paths, here.now(), _ledger), database.query(_ledger))
            epoch = lease.held.epoch if lease.held else 0
            machine = machine_id(here.paths)
            database.run(lambda tx: _note_end(tx, f"{move} {epoch}", keys, machine))
            if not lease.renew():
                raise OllimError(_LOST.format(place=address.place))
            here.say("Opening the database.")
            open_again(address)
            here.say("Writing the address into `.env`.")
            change_env_file(here.paths, {DATABASE_URL: url.reveal()})
            put_file_aside(here)
    return counts


def _store_files(here: Machine, address: Address, database: PostgresDatabase, lease: Lease) -> None:
    """Store the files here, whatever the table has: those count."""
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
        put_file_aside(here)
    return True


def put_file_aside(here: Machine) -> Path:
    """Keep the file of SQLite under a name that says when it was used last."""
    here.say("Keeping the file as it was.")
    return _set_aside(here, "before-standby")


def _set_aside(here: Machine, reason: str) -> Path:
    stamp = here.now().astimezone(UTC).strftime(_STAMP)
    kept = here.file.with_name(f"{DATABASE}.{reason}-{stamp}")
    number = 1
    while kept.exists():
        number += 1
        kept = here.file.with_name(f"{DATABASE}.{reason}-{stamp}-{number}")
    try:
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{here.file}{ending}", f"{kept}{ending}")
        OsDisk().sync_folder(here.paths.state)
    except OSError as refused:
        raise WriteFailed(here.file, f"could not be renamed: {refused.strerror}.") from refused
    return kept


def _back_up(here: Machine) -> None:
    here.say("Making a backup first.")
    report = write_backup(here.paths, here.environ, here.now)
    if not report.is_complete:
        raise OllimError(f"{incomplete(report)} Nothing was moved.")
    here.say(f"Backup: {report.path}")


def _note_move(here: Machine) -> str:
    """Name the move in the file, so that one that is cut off is known again."""
    problems: list[StoreProblem] = []
    database = open_database(here.paths, here.now, is_holder=True, report=problems.append)
    try:
        move = database.query(lambda tx: tx.meta.get(MOVE)) or secrets.token_hex(8)
        database.run(lambda tx: tx.meta.put(MOVE, move))
    finally:
        database.close()
    for problem in problems:
        here.say(str(problem))
    return move


@contextmanager
def _leading(
    here: Machine, address: Address, move: str
) -> Iterator[tuple[Lease, PostgresDatabase]]:
    lease = Lease(address, here.name, move=move, machine=machine_id(here.paths))
    try:
        held = lease.take()
        if held is None:
            leader = lease.leader()
            raise OllimError(
                _LED.format(place=address.place, name=leader.name if leader else "another machine")
            )
        database = open_postgres(address, here.now, lease=held)
        try:
            yield lease, database
        finally:
            database.close()
            with suppress(StorageError):
                lease.release()
    finally:
        lease.close()


def _ledger(tx: Transaction) -> list[LedgerRow]:
    return tx.ledger.page(0, _ALL)[0]


def _compare(
    here: Machine, address: Address, before: list[LedgerRow], after: list[LedgerRow]
) -> None:
    """Raise `Damaged` unless `runs check` says the same about both."""
    watched_until, now = HeartbeatFile(here.paths).read(), here.now()
    if before != after or check(before, now, watched_until) != check(after, now, watched_until):
        raise Damaged(address.place, _DIFFERS)


def _store_records(here: Machine, database: PostgresDatabase) -> None:
    """Store the engine's records of all sessions that the rows name, and no others."""
    _remove_records(database)
    records, sessions = RecordStore(database), known_sessions(here.paths)
    for name, path in Transcripts(here.environ).files_of(sessions):
        try:
            records.store(name, path, is_whole=True)
        except OSError as refused:
            here.say(f"{path} is not stored: {refused.strerror}.")


def _remove_records(database: PostgresDatabase) -> None:
    database.run_rows(lambda rows: rows.write("transcripts", "DELETE FROM transcripts"))


def _replace_records(waiting: Path, database: PostgresDatabase) -> None:
    """Store the records of a backup, and none of those that were recorded since."""
    _remove_records(database)
    records = RecordStore(database)
    for path in sorted(waiting.rglob("*")):
        if path.is_file():
            records.store(path.relative_to(waiting).as_posix(), path, is_whole=True)


def _lay_out_records(here: Machine, database: PostgresDatabase) -> None:
    """Lay out what another machine has stored since it led."""
    folder = RecordFolder(Transcripts(here.environ), here.paths.root, here.now)
    for problem in folder.lay_out(database):
        here.say(problem)


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
    if found.leader is not None and found.leader.is_leading:
        raise OllimError(_STOP_ALL.format(name=found.leader.name))
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
        _replace_records(restored.paths.restored_transcripts, database)


def join(here: Machine, url: Secret) -> FoundServer:
    """Have this machine stand by for the database.

    Raises `OllimError`; nothing has changed then.
    """
    address = parse_address(url.reveal())
    if has_state(here.paths):
        raise OllimError(_HAS_DATA.format(root=here.paths.root))
    found, place = checked_server(address), address.place
    if found.is_empty:
        raise OllimError(_EMPTY.format(place=place))
    if not found.is_ours:
        raise OllimError(_NOT_OURS.format(place=place))
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
                _set_aside(here, "unused")
            database.run(lambda tx: tx.meta.put(MOVE, move))
            here.say("Moving the files.")
            _take_over_files(here, address, lease)
            if waiting := WaitingFiles(here.paths).read():
                here.say(_LEFT_THERE.format(names=", ".join(waiting)))
            here.say("Moving the rows.")
            counts = move_to_file(database, here.file, here.now())
            here.say("Comparing what is here with what is there.")
            _compare(here, address, database.query(_ledger), ask(here.paths, here.now(), _ledger))
            write_mirrors(here.paths)
            _lay_out_records(here, database)
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
    here.say(_IN_FILE)
    move_back(here, url)
    try:
        yield
    finally:
        move_there(here, url, keys)
        compact(parse_address(url.reveal()))


def hand_over(url: Secret, patience: float = _PATIENCE) -> HandOver | None:
    """Ask the leader to let go, and wait until another machine leads; None if none leads now.

    Raises `StorageError`.
    """
    address, began = parse_address(url.reveal()), time.monotonic()
    before = look_at(address).leader
    if before is None or ask_for_lease(address) is None:
        return None
    while True:
        leader, passed = look_at(address).leader, time.monotonic() - began
        after = leader if leader is not None and leader.is_leading else None
        result = HandOver(before, after, passed)
        if result.is_done or passed > patience:
            return result
        time.sleep(_BETWEEN_LOOKS)
