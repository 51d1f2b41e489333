"""A start with Discord: each problem is told once, and the rest of the bot works."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.localdiscord.server import LocalDiscord
from devtools.scripted_model import ScriptedModel
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.e2e.discord.discord_scene import (
    WELCOME,
    DiscordScene,
    account,
    in_process_scene,
    trouble,
)
from tests.e2e.in_process_bot import InProcessBot
from tests.e2e.test_reminders import checked, left, remind
from tests.patience import patience
from tests.surfaces.discord.connection_scene import restored_addresses

from ollim_bot.kernel.store.copies import copy_database
from ollim_bot.surfaces.discord.client import NOT_AUTHORIZED
from ollim_bot.surfaces.discord.errors import NO_TOKEN

AWAY = (
    "{api_url} (`DISCORD_API_URL`) does not answer as Discord does. Is it right? "
    "The page goes on; what is said meanwhile will arrive there later."
)
NO_PAGE = {"OLLIM_WEB_PORT": "0"}


def plain(sentence: str) -> str:
    """The sentence as the page's header shows it."""
    return sentence.replace("`", "")


def bot_on(local: LocalDiscord, home: Path, settings: Mapping[str, str]) -> Bot:
    return Bot(home, None, {**account(local), **settings})


@asynccontextmanager
async def started(
    local: LocalDiscord, home: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[DiscordScene]:
    """A bot whose page answers, and which may not be connected to Discord yet."""
    model = ScriptedModel()
    bot = InProcessBot(home, model, {**account(local), **(settings or {})})
    with restored_addresses():
        try:
            await bot.start()
            yield DiscordScene(bot, model, local)
        finally:
            await bot.kill()


@asynccontextmanager
async def without_page(bot: Bot) -> AsyncIterator[fork_server.ForkedProcess]:
    """The bot's process; its output is appended to `bot.output`."""
    environment = {**bot.environment(), **NO_PAGE, "OLLIM_LOG": "warning"}
    bot.output.touch()
    process = await fork_server.start_bot(bot.home, environment, bot.output)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.own_process
async def test_the_sentence_is_all_that_is_printed_then(tmp_path: Path) -> None:
    wrong = {"DISCORD_TOKEN": "wrong"}
    async with LocalDiscord() as local:
        bot = bot_on(local, tmp_path, wrong)
        async with without_page(bot) as process, asyncio.timeout(patience()):
            assert await process.wait() == 2
        assert bot.output.read_text() == f"{NO_TOKEN}\n"


async def test_who_is_not_let_in_goes_on_with_the_page_and_says_so(tmp_path: Path) -> None:
    """For which reasons nobody is let in stands in `tests/surfaces/discord/test_client.py`."""
    wrong = {"DISCORD_TOKEN": "wrong"}
    async with LocalDiscord() as local, started(local, tmp_path, wrong) as scene:
        assert await scene.bot.note(NO_TOKEN) == NO_TOKEN
        assert await trouble(scene.bot) == plain(NO_TOKEN)
        scene.model.answers("Hi Ada.")
        assert await scene.bot.ask("hello") == "Hi Ada."
        assert (await scene.bot.notes()).count(NO_TOKEN) == 1


async def test_a_member_of_the_team_is_the_owner_and_the_others_are_strangers(
    tmp_path: Path,
) -> None:
    local = LocalDiscord(members=["bob"])
    assert local.team is not None
    owner, bob = local.team
    async with in_process_scene(
        tmp_path, settings={"DISCORD_OWNER_ID": owner.id}, discord=local
    ) as scene:
        local.say("let me in", as_user=bob)
        await scene.ask("hello", "Hi Ada.")
        refused = local.slash("cost", as_user=bob)
        await scene.until(lambda: refused.answered_after is not None)
        assert refused.texts == [NOT_AUTHORIZED]
        assert "let me in" not in scene.model.requests[-1].last_user_text
        assert len(scene.model.requests) == 1
        assert [each.author for each in local.state.visible(local.state.dm_with(bob))] == [bob]


async def test_a_discord_that_is_not_there_at_the_start_is_tried_until_it_is(
    tmp_path: Path,
) -> None:
    async with LocalDiscord() as local:
        await local.refuse_connections()
        async with started(local, tmp_path) as scene:

            async def is_told() -> bool:
                return await trouble(scene.bot) == plain(AWAY.format(api_url=local.api_url))

            await scene.until(is_told)
            await local.accept_again()
            await scene.card(WELCOME)
            assert await trouble(scene.bot) == ""
            await scene.ask("hello", "Hi Ada.")
            assert len(local.said) == 2


@pytest.mark.real_process
async def test_without_page_and_network_it_is_tried_again_and_greets_once(tmp_path: Path) -> None:
    async with LocalDiscord() as local:
        await local.refuse_connections()
        bot = bot_on(local, tmp_path, {})
        async with without_page(bot) as process:
            await bot.until(lambda: "does not answer" in bot.output.read_text())
            await local.accept_again()
            running = "is running with its data in ~/data. Ctrl-C stops it.\n"
            await bot.until(lambda: running in bot.output.read_text())
            await local.until(lambda: local.said, patience())
            assert local.said[0].embeds[0]["title"] == WELCOME
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(patience()):
                assert await process.wait() == 0
            printed = bot.output.read_text()
            assert "offline model answers" in printed
            assert printed.count("ollim-bot has stopped") == 1
            assert local.texts == ["", "-# shutting down"]


async def test_a_token_that_is_taken_back_leaves_the_page_which_says_so(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    old = scene.discord.token
    scene.discord.revoke_token()
    assert await scene.bot.note(NO_TOKEN) == NO_TOKEN
    assert await trouble(scene.bot) == plain(NO_TOKEN)
    scene.model.answers("Still here.")
    assert await scene.bot.ask("and now") == "Still here."

    scene.discord.token = old

    async def is_over() -> bool:
        return await trouble(scene.bot) == ""

    await scene.until(is_over)
    await scene.said("Still here.")
    assert (await scene.bot.notes()).count(NO_TOKEN) == 1
    assert sum(text.startswith("Still here.") for text in scene.discord.texts) == 1


@pytest.mark.own_process
async def test_a_killed_bot_whose_database_is_garbage_repeats_nothing(scene: DiscordScene) -> None:
    """P1, P6: the newest copy takes its place, and what came since is told."""
    await scene.ask("hello", "Hi Ada.")
    database = scene.bot.data / "state" / "ollim.db"
    copy_database(database, datetime.now(UTC))
    await scene.ask("how are you?", "Fine.")
    remind(scene.bot, "w1", 0, head="plain: true\n")
    await scene.card("Drink water.")
    await scene.until(lambda: not left(scene.bot))
    remind(scene.bot, "w2", 5, "Call the plumber.", head="plain: true\n")
    await scene.bot.kill()
    for path in database.parent.glob("ollim.db*"):
        path.unlink()
    database.write_bytes(b"garbage" * 4096)
    asked = len(scene.model.requests)
    await scene.bot.start()
    await scene.said_with("Nothing since this copy is answered or done again")
    await scene.said_with("Since this copy you wrote on Discord: “how are you?”.")
    await scene.card("Call the plumber.")
    assert scene.discord.texts.count("Fine.") == 1
    assert scene.card_count("Drink water.") == 1
    assert len(scene.model.requests) == asked
    await scene.ask("are you back?", "Yes.")
    assert checked(scene.bot).returncode == 0
