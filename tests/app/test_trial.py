"""A trial start: everything is opened and loaded, and nothing is taken, run or delivered."""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import until
from tests.patience import patience

from ollim_bot import __version__
from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.upkeep.hand_over import Phase, UpdateRecord, read_update, write_update
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import ChatService, IncomingMessage
from ollim_bot.surfaces.terminal.main import main

pytestmark = pytest.mark.real_process

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


class TrialBot:
    """Each start has its own surface; all starts share the data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        environ = {"HOME": str(home), "OLLIM_DATA_DIR": str(home / "data"), "OLLIM_TIMEZONE": "UTC"}
        self.environ = environ
        self.paths = DataPaths(home / "data")
        self.clock = ManualClock(NOW)
        self.engine = ScriptedEngine()

    def app(self, surface: RecordingSurface, *, is_trial: bool = False) -> App:
        settings = Settings.from_env(self.environ, cwd=self._home)
        adapters = Adapters(clock=self.clock, engine=self.engine, surfaces=[surface])
        return App(settings, adapters, is_trial=is_trial)

    def remind(self, text: str, at: datetime) -> None:
        words = ["reminder", "add", "-m", text, "--at", f"{at:%Y-%m-%d %H:%M}"]
        with redirect_stdout(io.StringIO()):
            assert main(words, environ=self.environ, cwd=self._home, now=self.clock.now) == 0


class SurfaceAfterUpdate(RecordingSurface):
    """Knows how far the update had come when it was told to take input."""

    def __init__(self, paths: DataPaths) -> None:
        super().__init__()
        self._paths = paths
        self.begun_in: Phase | None = None

    async def run(self, reception: ChatService) -> None:
        record = read_update(self._paths)
        self.begun_in = None if record is None else record.phase
        await super().run(reception)


async def test_a_trial_takes_runs_and_delivers_nothing_and_the_next_start_does_all(
    tmp_path: Path,
) -> None:
    bot, first = TrialBot(tmp_path), RecordingSurface()
    bot.engine.answers("one")
    app = bot.app(first)
    running = asyncio.create_task(app.run())
    await until(lambda: first.receptions)
    await first.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
    await until(lambda: first.posted_by(Author.ASSISTANT))
    app.stop()
    assert await running is Ending.STOPPED
    beat = bot.paths.heartbeat.read_text()
    starts = len(bot.engine.opened)
    bot.remind("the pill", NOW + timedelta(minutes=5))
    await bot.clock.advance(600)

    on_trial = RecordingSurface()
    async with asyncio.timeout(patience()):
        assert await bot.app(on_trial, is_trial=True).run() is Ending.STOPPED
    assert not on_trial.receptions
    assert not on_trial.posts
    assert len(bot.engine.opened) == starts
    assert bot.paths.heartbeat.read_text() == beat, "what was due since is not yet caught up on"
    assert not bot.paths.bot_pid.exists()

    # It is in place now, and takes and delivers nothing before its heartbeat.
    switched = UpdateRecord("0.12.0", __version__, "env", "beside", NOW, Phase.SWITCHED)
    write_update(bot.paths, switched)
    last = SurfaceAfterUpdate(bot.paths)
    app = bot.app(last)
    running = asyncio.create_task(app.run())
    await until(lambda: any("the pill" in post.text for post in last.posts))
    app.stop()
    assert await running is Ending.STOPPED
    assert "cut off" not in " ".join(last.posted_by(Author.PROGRAM))
    assert last.begun_in is Phase.DONE
