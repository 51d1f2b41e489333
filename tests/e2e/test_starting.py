"""The bot starts, says what a person has to know, and stops."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.install.removal_paths import listed_paths
from tests.patience import patience

_IN_A_GROUP_OF_ITS_OWN = """
import os, runpy
os.setsid()
runpy.run_module("ollim_bot", run_name="__main__", alter_sys=True)
"""


async def run_to_its_end(bot: Bot) -> tuple[int, str]:
    output = bot.home / "to-its-end.log"
    process = await fork_server.start_bot(bot.home, bot.environment(), output)
    async with asyncio.timeout(patience()):
        code = await process.wait()
    said = output.read_text()
    output.unlink()
    return code, said


@pytest.mark.real_engine
@pytest.mark.real_process
async def test_a_start_makes_everything_and_a_stop_leaves_in_good_order(tmp_path: Path) -> None:
    """Started as a person starts it; the conversation goes on after a restart."""
    bot = Bot(tmp_path / "home", None, {"OLLIM_WEB_PROT": "80"})
    bot.home.mkdir()
    try:
        await bot.start(command=("-c", _IN_A_GROUP_OF_ITS_OWN))
        said = bot.output.read_text()
        assert "is running with its data in ~/data" in said
        assert "ollim-bot web url" in said
        assert "The built-in offline model answers." in said
        login = re.search(r"`(.+) setup` connects Claude", said)
        assert login is not None
        assert os.access(login[1], os.X_OK)
        secret = (bot.data / "state" / "web_token").read_text().strip()
        assert secret not in said
        assert (bot.data / "IDENTITY.md").exists()
        assert "OLLIM_WEB_PROT: there is no such setting" in said
        assert "not a language model" in await bot.ask("hello")
        session = bot.session()
        await _a_second_start_and_a_taken_port_are_told(bot, tmp_path / "other")
        await _a_restart_by_command_goes_on(bot)
        before = len(bot.output.read_text())
        assert "hello" in await bot.ask("what did I say before?")
        assert bot.session() == session
        events = [row["event"] for row in bot.rows("session_history.jsonl")]
        assert events == ["created", "restarting"]
        assert "drink water" in await bot.ask("remind me in 3 hours to drink water")
        # As Ctrl-C in a terminal does; the engine's program does not get the signal.
        os.killpg(bot.pid, signal.SIGINT)
        assert await bot.wait() == 0
        assert not (bot.data / "state" / "bot.pid").exists()
        assert secret not in bot.output.read_text()
        said = bot.output.read_text()[before:]
        assert "ERROR" not in said
        assert "Traceback" not in said
        assert said.count("ollim-bot has stopped.") == 1

        # Only the paths are written that the page about removal names.
        places = [bot.data, bot.output, *(bot.home / place[2:] for place in listed_paths())]
        files = [path for path in bot.home.rglob("*") if path.is_file()]
        assert any(bot.home / ".claude" in path.parents for path in files)
        assert [path for path in files if not {path, *path.parents} & {*places}] == []
    finally:
        await bot.kill()


async def _a_second_start_and_a_taken_port_are_told(bot: Bot, other_home: Path) -> None:
    """The first names the running process, the second the setting to change."""
    code, err = await run_to_its_end(bot)
    assert code == 1
    assert f"already running (process {bot.pid})" in err

    other = Bot(other_home, None)
    other.home.mkdir()
    other.port = bot.port
    code, err = await run_to_its_end(other)
    assert code in (1, 2)
    assert "OLLIM_WEB_PORT" in err
    assert "Traceback" not in err


async def _a_restart_by_command_goes_on(bot: Bot) -> None:
    """It takes nothing from the folder in which it was started."""
    for name in ("ollim_bot", "json", "asyncio", "sitecustomize"):
        (bot.home / f"{name}.py").write_text("raise SystemExit('from the start folder')\n")
    starts = bot.output.read_text().count("is running with")
    await bot.command("/restart")
    await bot.until(lambda: bot.output.read_text().count("is running with") > starts)
    await bot.reconnect()
    for path in bot.home.glob("*.py"):
        path.unlink()


@pytest.mark.own_process
async def test_a_bot_to_which_nobody_can_talk_says_so(tmp_path: Path) -> None:
    bot = Bot(tmp_path, None, {"OLLIM_WEB_PORT": "0", "OLLIM_LOG": "error"})
    bot.output.touch()
    process = await fork_server.start_bot(bot.home, bot.environment(), bot.output)
    try:
        await bot.until(lambda: "note: There is no " in bot.output.read_text())
        assert "nobody can talk to it" in bot.output.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(patience()):
            await process.wait()


@pytest.mark.own_process
async def test_a_data_directory_that_others_could_read_is_closed_and_told_once(
    in_process: Scene,
) -> None:
    bot = in_process.bot
    await bot.stop()
    bot.data.chmod(0o755)
    await bot.start()
    assert bot.data.stat().st_mode & 0o777 == 0o700

    def told() -> int:
        log = [each.message for each in bot.log()]
        said = [message.text for message in log if message.author == "program"]
        return sum("Others on this machine could look into" in text for text in said)

    await bot.until(lambda: told() == 1)
    await bot.stop()
    await bot.start()
    await bot.ask("hello")
    assert told() == 1


@pytest.mark.own_process
async def test_a_data_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    bot = Bot(tmp_path, None)
    bot.data.write_text("not a folder")
    code, err = await run_to_its_end(bot)
    assert code == 2
    assert "Traceback" not in err
