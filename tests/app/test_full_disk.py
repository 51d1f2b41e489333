"""A start on a full disk is reported, due items are delivered, and all works once there is room."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import NOW, running, settings, until
from tests.e2e import fork_server
from tests.kernel.schedule.scene import opened_store
from tests.kernel.schedule.test_full_disk import FullableDisk
from tests.patience import patience
from tests.ports import unused_port

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.steps import change_provider
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.surfaces.terminal.main import run
from ollim_bot.surfaces.web.secret import web_secret


@pytest.mark.real_process
async def test_a_start_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    clock, disk, surface = ManualClock(NOW), FullableDisk(), RecordingSurface()
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    stores = open_repositories(paths, RecordingJournal(), disk)
    spec = JobSpec(id="w1", message="Drink water.", background=True)
    stores.reminders.add(Reminder(spec, NOW + timedelta(minutes=1)))
    disk.is_full = True
    engine = ScriptedEngine()
    disk.is_full = False
    store = opened_store(paths, clock, disk)
    disk.is_full = True
    app = App(
        settings(tmp_path), Adapters(clock=clock, engine=engine, surfaces=[surface], store=store)
    )
    async with running(app):
        await until(lambda: surface.statuses and surface.statuses[-1].trouble)
        assert surface.statuses[-1].trouble == (
            "ollim.db could not be written: no space left. Until there is room, "
            "messages are refused, jobs wait, and reminders are shown but not kept."
        )
        await until(lambda: surface.receptions)
        with pytest.raises(StorageError, match="no space left"):
            await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await clock.advance(60)
        await until(lambda: surface.posted_by(Author.BACKGROUND) == ["Drink water."])
        disk.is_full = False
        for _ in range(4):
            await clock.advance(5)
            await asyncio.sleep(0.05)
        await until(lambda: surface.statuses[-1].trouble == "")
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        await until(lambda: stores.reminders.all() == [])


@pytest.mark.real_process
async def test_the_real_program_runs_though_it_can_write_nothing(tmp_path: Path) -> None:
    """A file size limit refuses each write, as a full disk does."""
    given = settings(tmp_path)
    prepare_data_directory(given.paths)
    web_secret(given.paths)
    database = open_database(given.paths, lambda: NOW, is_holder=True, report=print)
    database.run(lambda tx: change_provider(tx, "offline"))
    database.close()
    port = unused_port()
    output, said = tmp_path / "output", b""
    # What it says must not be a file, which takes nothing either.
    os.mkfifo(output)
    heard = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
    process = await fork_server.start_bot(tmp_path, environment(tmp_path, port), output, limited)
    try:
        async with asyncio.timeout(patience()):
            while b"is running" not in said:
                with suppress(BlockingIOError):
                    said += os.read(heard, 65_536)
                await asyncio.sleep(0.01)
            assert b"ollim.db could not be" in said
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        os.close(heard)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    run()


def environment(home: Path, port: int) -> dict[str, str]:
    ours = {
        "HOME": str(home),
        "OLLIM_DATA_DIR": str(home / "data"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "OLLIM_MODEL": "offline",
        "OLLIM_WEB_PORT": str(port),
    }
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, **ours}
