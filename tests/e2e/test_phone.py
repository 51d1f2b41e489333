"""The whole bot with a phone: a reminder rings there, its button settles it, through a kill."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.e2e.test_reminders import left, remind

from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.values.push import Pairing

TOPIC, REPLIES = "ollim-out", "ollim-in"
WATER = "Drink water."


@asynccontextmanager
async def bot_at(home: Path, ntfy: LocalNtfy) -> AsyncIterator[Bot]:
    """A running bot whose server is this one; no phone is paired."""
    async with (
        serve_model(ScriptedModel()) as port,
        running(KillableBot(home, port, {"NTFY_URL": ntfy.url})) as bot,
    ):
        yield bot


async def is_settled(bot: Bot) -> bool:
    """Whether the page shows the reminder as answered."""
    (shown,) = [each for each in await bot.messages() if each["text"] == WATER]
    return all(each["is_used"] for each in shown["card"]["buttons"] if each["label"] == "Done")


@pytest.mark.own_process
async def test_a_press_on_the_phone_settles_a_reminder_though_the_bot_was_dead(
    tmp_path: Path,
) -> None:
    """It rings once, with its buttons; afterwards page and phones agree that it is done."""
    async with (
        LocalNtfy() as ntfy,
        bot_at(tmp_path, ntfy) as bot,
        Phone(ntfy.url, TOPIC) as phone,
        Phone(ntfy.url, TOPIC, name="tablet") as tablet,
    ):
        await bot.kill()
        pairing = Pairing(ntfy.url, TOPIC, REPLIES, datetime.now(UTC))
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
        await bot.until(lambda: is_settled(bot))
        await tablet.shows()
        await phone.shows()
        assert (phone.received, tablet.received) == (1, 1)
        answers = [row.facts["answer"] for row in bot.ledger() if row.state == "answered"]
        assert answers == ["done"]
        await bot.until(lambda: not left(bot))
