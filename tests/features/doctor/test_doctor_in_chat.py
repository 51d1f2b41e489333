"""`/doctor`: the running bot checks itself, and answers soon."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from devtools.localdiscord.faults import Hanging
from devtools.localdiscord.server import LocalDiscord
from tests.patience import patience
from tests.surfaces.web.scene import make_scene
from tests.surfaces.web.scene import running as serving

from ollim_bot.app.app import Adapters, App
from ollim_bot.features.doctor.examination import BotDoctor
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.provider import NO_LOGIN, OFFLINE

pytestmark = pytest.mark.real_engine

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path


def settings(home: Path, **environ: str) -> Settings:
    names = {"HOME": str(home), "OLLIM_DATA_DIR": str(home / "data"), "OLLIM_TIMEZONE": "UTC"}
    return Settings.from_env({**names, **environ}, cwd=home)


@contextmanager
def running(some: Settings) -> Iterator[None]:
    """Hold the data directory as a running bot does."""
    prepare_data_directory(some.paths)
    with single_instance(some.paths.bot_pid):
        yield


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patience()):
        for _ in iter(condition, True):
            await asyncio.sleep(0.005)


async def test_a_healthy_bot_says_so_in_one_sentence(home: Path) -> None:
    async with LocalDiscord() as local, serving(make_scene(home)) as page:
        some = settings(
            home,
            OLLIM_WEB_PORT=str(page.surface.port),
            DISCORD_TOKEN=local.token,
            DISCORD_API_URL=local.api_url,
        )
        with running(some):
            text = await BotDoctor(some, OFFLINE, lambda: NOW).examine_in_chat(patience())
    assert text.startswith("All is well: ")


async def test_only_what_is_wrong_is_said_with_what_to_do(home: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # held, so that no other program can answer there
        port = probe.getsockname()[1]
        some = settings(home, OLLIM_WEB_PORT=str(port))
        with running(some):
            some.paths.root.chmod(0o755)
            text = await BotDoctor(some, NO_LOGIN, lambda: NOW).examine_in_chat(patience())
    login, page, folder, _, summary = text.splitlines()
    assert login == f"- **FAIL** model: Claude (not signed in). {NO_LOGIN.problem}"
    assert page.startswith(f"- **FAIL** page: the bot runs, but nothing answers at port {port}. ")
    assert folder.startswith("- **WARN** data directory: others on this machine can look into ")
    assert f" Run `chmod 700 {some.paths.root}`. `ollim-bot doctor --fix` does that." in folder
    assert re.search(r"^SUMMARY: \d+ passed, 1 warning, 2 failures, \d+ off$", summary)


async def test_the_command_asks_for_no_more_than_three_seconds(home: Path) -> None:
    surface = RecordingSurface()
    async with LocalDiscord() as local:
        local.next_fail("GET /users/@me", Hanging(), None)
        token = {"DISCORD_TOKEN": local.token, "DISCORD_API_URL": local.api_url}
        some = settings(home, OLLIM_WEB_PORT="0", **token)
        app = App(some, Adapters(engine=ScriptedEngine(), surfaces=[surface]))
        task = asyncio.create_task(app.run())
        try:
            await until(lambda: bool(surface.receptions))
            answer = await surface.receptions[0].command("test", "/doctor")
        finally:
            app.stop()
            await asyncio.wait({task})
    assert not answer.is_error
    assert "Discord: was not done within 2.5 s." in answer.text
    assert "SUMMARY: " in answer.text
    assert local.token not in answer.text
