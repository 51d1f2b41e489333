"""The whole bot with a phone: a reminder rings there, its button settles it, through a kill."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from tests.e2e.bot import Bot, Message
from tests.e2e.conftest import running
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.e2e.test_reminders import remind

from ollim_bot.domain.push import Pairing
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.paths import DataPaths
from ollim_bot.store.push_file import PushFile

TOPIC, REPLIES = "ollim-out", "ollim-in"
WATER = "Drink water."


@dataclass
class PhoneScene:
    bot: Bot
    ntfy: LocalNtfy
    phone: Phone
    tablet: Phone

    async def card(self) -> Message:
        """The reminder as the page shows it."""
        (shown,) = [each for each in await self.bot.messages() if each["text"] == WATER]
        return shown

    async def is_settled(self) -> bool:
        card = (await self.card())["card"]
        return all(each["is_used"] for each in card["buttons"] if each["label"] == "Done")


@asynccontextmanager
async def phone_scene(home: Path) -> AsyncIterator[PhoneScene]:
    """A bot, a server, and two phones that follow one topic; nothing is paired."""
    async with (
        LocalNtfy() as ntfy,
        Phone(ntfy.url, TOPIC) as phone,
        Phone(ntfy.url, TOPIC, name="tablet") as tablet,
        serve_model(ScriptedModel()) as port,
    ):
        yield PhoneScene(KillableBot(home, port, {"NTFY_URL": ntfy.url}), ntfy, phone, tablet)


@pytest.mark.own_process
async def test_a_press_on_the_phone_settles_a_reminder_though_the_bot_was_dead(
    tmp_path: Path,
) -> None:
    """It rings once, with its buttons; afterwards page and phones agree that it is done."""
    async with phone_scene(tmp_path) as scene:
        bot, phone, tablet = scene.bot, scene.phone, scene.tablet
        pairing = Pairing(scene.ntfy.url, TOPIC, REPLIES, datetime.now(UTC))
        async with running(bot):
            await bot.kill()
            PushFile(DataPaths(bot.data)).write(pairing)
            await bot.start()
            remind(bot, "w1", 1, WATER)
            await phone.until(lambda: phone.shown)
            (shown,) = phone.shown
            assert shown.labels == ["Done", "10 min", "1 h"]
            assert WATER.rstrip(".") in f"{shown.title}\n{shown.text}"

            await bot.kill()
            assert [await phone.press(shown, "Done") for _ in range(2)] == [200, 200]
            assert await tablet.press(shown, "1 h") == 200
            await bot.start()
            await bot.until(scene.is_settled)
            await tablet.shows()
            await phone.shows()
            assert (phone.received, tablet.received) == (1, 1)
            answered = [row for row in bot.ledger() if row.state == "answered"]
            assert len(answered) == 1
            assert not list((bot.data / "reminders").glob("*.md"))
