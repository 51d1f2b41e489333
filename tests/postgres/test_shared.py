"""What a machine that begins to lead takes over from the database, and what it never reads back."""

from __future__ import annotations

import asyncio
import stat
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from devtools.doubles.journal import RecordingJournal
from tests.kernel.store.scene import NOW
from tests.postgres_server import new_url

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.travel import PlannedZone
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.shared_database import SharedDatabase


class Machine:
    """A machine with its own data directory, which can lead and stop."""

    def __init__(self, root: Path, url: str) -> None:
        self.paths = DataPaths(root)
        prepare_data_directory(self.paths)
        self.heartbeat = HeartbeatFile(self.paths)
        own = {"OLLIM_DATA_DIR": str(root), "DATABASE_URL": url, "OLLIM_USER_NAME": root.name}
        self.settings = Settings.from_env({**own, "TZ": "Asia/Kathmandu"}, cwd=root)
        self.problems: list[StoreProblem] = []
        self.told: list[str] = []
        self.shared = SharedDatabase(
            self.settings,
            SystemClock(UTC),
            self.heartbeat,
            tell=self.told.append,
            environ={"HOME": str(root)},
            boot=lambda: 0.0,
        )

    def lead(self) -> PostgresDatabase:
        assert self.shared.lease.take() is not None
        database = self.shared.open_for_leader(self.problems.append, None, RecordingJournal())
        assert isinstance(database, PostgresDatabase)
        return database

    @property
    def session(self) -> Path:
        return self.paths.state / "sessions.json"


@pytest.fixture
def machines(tmp_path: Path) -> list[Machine]:
    url = new_url()
    return [Machine(tmp_path / name, url) for name in ("desk", "shelf")]


def test_state_files_are_written_anew_and_never_read_back(machines: list[Machine]) -> None:
    event = SessionEvent(SessionId("new"), SessionChange.CREATED, NOW)
    desk, shelf = machines
    for machine, session in ((shelf, "old"), (desk, "new")):
        with closing(machine.lead()) as database:
            database.run(lambda tx, name=session: tx.session.put(SessionId(name)))  # type: ignore[misc]
            database.run(lambda tx: tx.session_history.append(event))
        machine.shared.close()
    assert (shelf.session.read_text(), desk.session.read_text()) == ("old", "new")
    (shelf.paths.state / "config.json").write_text('{"version": 1, "model.main": "opus"}')
    with closing(shelf.lead()) as database:
        assert database.query(lambda tx: tx.config.get().model_main) != "opus"
        assert shelf.session.read_text() == "new"
        written = (shelf.paths.state / "session_history.jsonl").read_text()
        assert written.count('"new"') == 2
    [told] = map(str, shelf.problems)
    assert told.startswith("state/config.json: differs from the database")
    [kept] = shelf.paths.state.glob("config.json.*")
    assert kept.name in told
    assert "opus" in kept.read_text()
    shelf.shared.close()


async def test_the_schedule_goes_on_from_where_the_last_leader_came(
    machines: list[Machine],
) -> None:
    desk, shelf = machines
    came = NOW - timedelta(seconds=40)
    desk.heartbeat.write(came)
    shelf.heartbeat.write(NOW - timedelta(days=7))
    store = DatabaseStore(desk.lead(), SystemClock(UTC))
    sharing = asyncio.create_task(desk.shared.share_heartbeat(store))
    await asyncio.sleep(1)
    ends, stood = asyncio.Event(), asyncio.Event()

    async def show() -> None:
        assert "leads, and this machine stands by" in shelf.shared.standing
        assert shelf.heartbeat.read() is None
        stood.set()
        sharing.cancel()
        await store.close()
        desk.shared.close()
        await asyncio.Event().wait()

    assert await shelf.shared.lead_or_stand_by(ends, show)
    assert stood.is_set()
    assert shelf.shared.lease.held is not None
    assert stat.filemode(shelf.paths.commands.stat().st_mode) == "srw-------"
    store = DatabaseStore(
        shelf.shared.open_for_leader(shelf.problems.append, None, RecordingJournal()),
        SystemClock(UTC),
    )
    await store.transact(lambda tx: tx.zone.put(PlannedZone("America/New_York")))
    led = await shelf.shared.take_up(store, shelf.settings)
    assert (str(led.zone), led.user_name) == ("America/New_York", "shelf")
    assert "OLLIM_TIMEZONE=America/New_York\n" in shelf.paths.shared_settings.read_text()
    assert shelf.heartbeat.read() == came
    await store.close()
    shelf.shared.close()
    assert not shelf.paths.commands.exists()
    reading = closing(desk.shared.open_for_reading())
    with reading as reader, pytest.raises(StorageError):
        reader.run(lambda tx: tx.session.put(None))
