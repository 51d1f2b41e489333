"""A bot that starts on an unwritable disk reads its state, and writes as soon as it can."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.store.scene import NOW, StoreScene, without_patience

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.connection import connect
from ollim_bot.kernel.store.copies import AfterReturn
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.database_errors import Busy, DatabaseReadOnly
from ollim_bot.kernel.store.opening import DatabaseImage, open_for_bot
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction

ROOT = Path(__file__).parents[3]


def put(database: Database, session: str) -> None:
    database.run(lambda tx: tx.session.put(SessionId(session)))


def image_of(scene: StoreScene, path: Path | None = None) -> DatabaseImage:
    path = path or scene.state / "ollim.db"
    return DatabaseImage(path, lambda: NOW, DatabaseReadOnly(path), scene.open)


@pytest.mark.real_process
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_where_no_file_can_be_written_the_state_is_read_and_later_written(
    tmp_path: Path, is_killed: bool
) -> None:
    """After a kill, the newest commits are only in the WAL."""
    before = StoreScene(tmp_path / "before")
    put(before.open(), "kept")
    if not is_killed:
        before.close()
    scene = StoreScene(tmp_path / "now")
    shutil.copytree(before.root, scene.root, dirs_exist_ok=True)
    (scene.state / "ollim.db-shm").unlink(missing_ok=True)
    before.close()
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernel.store.unwritable_worker", str(scene.root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "read kept",
        "refused ollim.db",
        "still DatabaseImage",
        "written after",
    ]


async def test_the_store_goes_on_with_the_database_as_soon_as_it_can_be_opened(
    scene: StoreScene,
) -> None:
    put(scene.open(), "before")
    scene.close()
    clock = ManualClock(NOW)
    store = DatabaseStore(image_of(scene), clock)
    upkeep = asyncio.create_task(store.run_upkeep())
    try:
        assert not store.is_writable
        assert await store.read(lambda tx: tx.session.get()) == "before"
        with pytest.raises(WriteFailed, match="read-only"):
            await store.transact(lambda tx: tx.session.put(None))
        with store.changes() as changed:
            async with asyncio.timeout(30):
                while not changed.is_set():
                    await clock.advance(1)
                await store.until_writable()
        await store.transact(lambda tx: tx.session.put(SessionId("after")))
        assert await store.read(lambda tx: tx.session.get()) == "after"
    finally:
        upkeep.cancel()
        await asyncio.gather(upkeep, return_exceptions=True)
        await store.close()


def test_a_database_of_another_version_has_no_image(scene: StoreScene) -> None:
    scene.open()
    scene.close()
    path = scene.state / "ollim.db"
    connection = connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(DatabaseReadOnly):
        image_of(scene)


def test_what_is_not_there_has_no_image(scene: StoreScene) -> None:
    with pytest.raises(DatabaseReadOnly):
        image_of(scene, scene.root / "nowhere" / "ollim.db")


def test_another_process_that_holds_the_database_is_no_reason_for_an_image(
    scene: StoreScene,
) -> None:
    scene.open()
    scene.close()
    path = scene.state / "ollim.db"
    holder = connect(path)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(Busy):
            open_for_bot(
                scene.paths, lambda: NOW, report=print, tell=print, connection=without_patience
            )
    finally:
        holder.close()


def test_a_return_to_a_copy_is_settled_and_told_before_any_other_step(scene: StoreScene) -> None:
    returns: list[AfterReturn] = []
    is_full = True

    def tell(tx: Transaction, returned: AfterReturn) -> None:
        if is_full:
            raise WriteFailed(scene.state / "ollim.db", "could not be written.")
        assert tx.meta.get("restored") is None
        returns.append(returned)

    scene.open()
    scene.return_to_copy(NOW)
    opened = open_for_bot(scene.paths, lambda: NOW, report=print, tell=tell)
    assert isinstance(opened, DatabaseImage), "what cannot be told is not settled"
    opened.close()
    is_full = False
    for _ in range(2):
        open_for_bot(scene.paths, lambda: NOW, report=print, tell=tell).close()
    assert [each.since for each in returns] == [NOW]
