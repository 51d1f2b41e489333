"""A step is atomic, whatever the disk or the caller does."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.errors import StorageError, Unreadable
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.connection import Connect, connect
from ollim_bot.kernel.store.database_errors import (
    Busy,
    DiskFull,
    NoDatabase,
    OtherSchema,
    OutcomeUnknown,
)
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.occurrences import LedgerRow


class FaultyConnection(sqlite3.Connection):
    """Raises the errors in `faults[statement]`, one per call, before it runs the statement."""

    faults: dict[str, list[sqlite3.Error]]

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        waiting = self.faults.get(sql, [])
        if waiting:
            raise waiting.pop()
        return super().execute(sql, *arguments)


def fault(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("the disk says no")
    error.sqlite_errorcode = code
    return error


def faulty(faults: dict[str, list[sqlite3.Error]]) -> Connect:
    def open_faulty(path: Path) -> sqlite3.Connection:
        connect(path).close()
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=FaultyConnection
        )
        connection.faults = {}
        connection.execute("PRAGMA synchronous=FULL")
        connection.faults = faults
        return connection

    return open_faulty


def put(name: str) -> Step[None]:
    return lambda tx: tx.session.put(SessionId(name))


def session(tx: Transaction) -> SessionId | None:
    return tx.session.get()


def test_the_files_of_the_database_are_closed_to_others(scene: StoreScene) -> None:
    scene.open().run(put("abc"))
    files = [*scene.state.glob("ollim.db*"), scene.state / "ballast"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_thread_that_asks_after_the_end_is_refused_as_by_a_disk(scene: StoreScene) -> None:
    database = scene.open()
    database.run(put("abc"))
    assert database.query(session) == "abc"
    database.close()
    with pytest.raises(Unreadable, match="it is closed"):
        database.query(session)


def test_after_a_refused_statement_no_other_one_is_committed_alone(scene: StoreScene) -> None:
    kept: list[sqlite3.Connection] = []
    database = scene.open(connection=keeping(kept))

    def step(tx: Transaction) -> None:
        tx.session.put(SessionId("first"))
        with pytest.raises(DiskFull):
            tx.ledger.append(LedgerRow(NOW, "x" * 500_000))
        with pytest.raises(DiskFull):
            tx.memory.put({"a": 1})

    (scene.state / "ballast").unlink()
    limit_pages(kept[-1])
    with pytest.raises(DiskFull):
        database.run(step)
    assert database.query(session) is None
    assert database.query(lambda tx: tx.memory.get()) == {}


def keeping(kept: list[sqlite3.Connection]) -> Connect:
    """Connects as usual, and appends each connection to `kept`. The last one stays in use."""

    def connect_and_keep(path: Path) -> sqlite3.Connection:
        kept.append(connect(path))
        return kept[-1]

    return connect_and_keep


def limit_pages(connection: sqlite3.Connection) -> None:
    """Limit the database to about 100 more pages, as on a nearly full disk."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages + 100}")


def fill(tx: Transaction) -> None:
    tx.ledger.append(LedgerRow(NOW, "noted", facts={"text": "x" * 2_000_000}))


def test_on_a_full_disk_nothing_happens_and_the_next_step_is_taken_again(scene: StoreScene) -> None:
    kept: list[sqlite3.Connection] = []
    database = scene.open(connection=keeping(kept))
    limit_pages(kept[-1])
    (scene.state / "ballast").unlink()
    with pytest.raises(DiskFull, match="no space left"):
        database.run(fill)
    assert not database.is_writable
    assert database.query(lambda tx: tx.ledger.count()) == 0
    database.run(put("abc"))
    assert database.look_for_room()
    assert database.is_writable
    assert (scene.state / "ballast").stat().st_size == 1024 * 1024


def test_the_ballast_is_given_up_so_that_an_ending_can_be_written(scene: StoreScene) -> None:
    full = fault(sqlite3.SQLITE_FULL)
    faults: dict[str, list[sqlite3.Error]] = {}
    database = scene.open(connection=faulty(faults))
    faults["COMMIT"] = [full]
    database.run(put("the-end"))
    assert database.query(session) == "the-end"
    assert not (scene.state / "ballast").exists()
    assert not database.is_writable
    assert database.look_for_room()
    assert (scene.state / "ballast").exists()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY])
def test_a_commit_that_is_known_to_have_failed_leaves_nothing(scene: StoreScene, code: int) -> None:
    faults: dict[str, list[sqlite3.Error]] = {}
    database = scene.open(connection=faulty(faults))
    (scene.state / "ballast").unlink()
    faults["COMMIT"] = [fault(code)]
    with pytest.raises(StorageError):
        database.run(put("abc"))
    assert database.query(session) is None
    database.run(put("def"))
    assert database.query(session) == "def"


def test_a_commit_of_unknown_outcome_ends_the_process(scene: StoreScene) -> None:
    faults: dict[str, list[sqlite3.Error]] = {}
    database = scene.open(connection=faulty(faults))
    faults["COMMIT"] = [fault(sqlite3.SQLITE_IOERR_FSYNC)]
    with pytest.raises(OutcomeUnknown, match="not known"):
        database.run(put("abc"))
    with pytest.raises(SystemExit):
        database.run(put("def"))


def test_a_database_held_by_another_process_is_busy_and_stays_writable(scene: StoreScene) -> None:
    kept: list[sqlite3.Connection] = []
    database = scene.open(connection=keeping(kept))
    other = sqlite3.connect(scene.state / "ollim.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    kept[-1].execute("PRAGMA busy_timeout=1")
    with pytest.raises(Busy, match="in use"):
        database.run(put("abc"))
    assert database.is_writable
    other.execute("ROLLBACK")
    other.close()
    database.run(put("abc"))


def test_only_the_holder_of_the_instance_lock_makes_the_database(scene: StoreScene) -> None:
    with pytest.raises(NoDatabase, match="Start the bot once"):
        scene.open(is_holder=False)
    assert not (scene.state / "ollim.db").exists()


def test_another_schema_is_told_and_left_alone(scene: StoreScene) -> None:
    scene.open().close()
    with sqlite3.connect(scene.state / "ollim.db") as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA + 1}")
    connection.close()
    for is_holder in (True, False):
        with pytest.raises(OtherSchema, match="newer"):
            scene.open(is_holder=is_holder)


def test_a_database_of_each_earlier_version_becomes_as_a_new_one(scene: StoreScene) -> None:
    def schema() -> set[tuple[str, str]]:
        with closing(sqlite3.connect(scene.state / "ollim.db")) as connection:
            return {*connection.execute("SELECT name, sql FROM sqlite_master")}

    scene.open().run(put("abc"))
    scene.close()
    newest = schema()
    for version in range(1, SCHEMA):
        scene.return_to_version(version)
        assert schema() < newest
        assert scene.open().query(session) == "abc"
        scene.close()
        assert schema() == newest


def test_a_log_of_many_commits_is_moved_into_the_database(scene: StoreScene) -> None:
    database = scene.open()
    for _ in range(3):
        database.run(fill)
    log = scene.state / "ollim.db-wal"
    assert log.stat().st_size
    database.tidy(is_idle=False)
    assert not log.stat().st_size
    assert database.query(lambda tx: tx.ledger.count()) == 3


async def test_a_cancelled_caller_waits_for_the_outcome_of_its_step(scene: StoreScene) -> None:
    store = DatabaseStore(scene.open(), ManualClock(NOW))
    began, may_end = threading.Event(), threading.Event()

    def step(tx: Transaction) -> None:
        began.set()
        may_end.wait(30)
        tx.session.put(SessionId("abc"))

    with store.changes("session") as changed:
        caller = asyncio.create_task(store.transact(step))
        await asyncio.to_thread(began.wait, 30)
        caller.cancel()
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert await store.read(session) == "abc"
        assert changed.is_set()
    await store.close()


async def test_a_step_that_has_not_begun_can_be_cancelled(scene: StoreScene) -> None:
    store = DatabaseStore(scene.open(), ManualClock(NOW))
    may_end = threading.Event()

    def wait(_: Transaction) -> None:
        may_end.wait(30)

    first = asyncio.create_task(store.transact(wait))
    second = asyncio.create_task(store.transact(put("abc")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_end.set()
    await first
    assert await store.read(session) is None
    await store.close()


async def test_commits_of_other_processes_are_noticed(scene: StoreScene) -> None:
    clock = ManualClock(NOW)
    store = DatabaseStore(scene.open(), clock)
    upkeep = asyncio.create_task(store.run_upkeep())
    other = scene.open(is_holder=False)
    with store.changes("config") as changed:
        other.run(put("abc"))
        while not changed.is_set():
            await asyncio.sleep(0.001)
            await clock.advance(1)
    upkeep.cancel()
    await store.close()


async def test_what_waits_for_room_goes_on_when_there_is_room(scene: StoreScene) -> None:
    clock = ManualClock(NOW)
    faults: dict[str, list[sqlite3.Error]] = {}
    store = DatabaseStore(scene.open(connection=faulty(faults)), clock)
    (scene.state / "ballast").unlink()
    faults["COMMIT"] = [fault(sqlite3.SQLITE_FULL)]
    with pytest.raises(DiskFull):
        await store.transact(put("abc"))
    assert not store.is_writable
    upkeep = asyncio.create_task(store.run_upkeep())
    waiting = asyncio.create_task(store.until_writable())
    while not waiting.done():
        await asyncio.sleep(0.001)
        await clock.advance(1)
    assert store.is_writable
    upkeep.cancel()
    await store.close()


@pytest.mark.real_process
def test_a_command_can_use_the_store_without_an_event_loop() -> None:
    """The CLI starts fast because it imports neither of these."""
    program = (
        "import sys, ollim_bot.kernel.store.opening\n"
        "print([name for name in ('asyncio', 'logging') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_a_commit_is_synced_and_the_log_is_moved_by_the_store_alone(scene: StoreScene) -> None:
    with closing(connect(scene.state / "ollim.db")) as connection:
        values = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint", "busy_timeout")
        ]
    assert values == ["wal", 2, 0, 5000]


def test_a_start_that_changes_nothing_writes_nothing(scene: StoreScene) -> None:
    database = scene.open()
    database.run(put("abc"))
    database.close()
    path = scene.state / "ollim.db"
    before = path.read_bytes()
    scene.open().close()
    assert path.read_bytes() == before


def test_a_start_on_a_full_disk_gives_the_ballast_up(scene: StoreScene) -> None:
    scene.open().close()
    (scene.state / "sessions.json").write_text("by-hand")
    faults = {"COMMIT": [fault(sqlite3.SQLITE_FULL)]}
    database = scene.open(connection=faulty(faults))
    assert database.query(session) == "by-hand"


async def test_a_copy_is_made_each_hour_in_which_something_changed(scene: StoreScene) -> None:
    clock = ManualClock(NOW)
    store = DatabaseStore(scene.open(now=clock.now), clock)
    upkeep = asyncio.create_task(store.run_upkeep())
    await store.transact(put("abc"))
    folder = scene.state / "copies"
    while not folder.exists() or not list(folder.glob("ollim-*.db")):
        await asyncio.sleep(0.001)
        await clock.advance(1)
    upkeep.cancel()
    await store.close()
    database = scene.opened[-1]
    clock.jump(7200)
    database.copy_if_due()
    assert len(list(folder.glob("ollim-*.db"))) == 1


def test_a_step_cannot_begin_another_one(scene: StoreScene) -> None:
    database = scene.open()
    with pytest.raises(AssertionError, match="another"):
        database.run(lambda _: database.run(put("abc")))
    database.run(put("def"))
    assert database.query(session) == "def"
