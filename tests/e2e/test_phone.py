"""The whole bot with a phone: a reminder rings there, its button settles it, through a kill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from devtools.scripted_model import ScriptedModel
from tests.cli.test_push import FOLLOWED, GO_ON, Owner
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.e2e.test_reminders import left, printed, remind, said

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.push import set_up_phone
from ollim_bot.domain.push import Pairing
from ollim_bot.paths import DataPaths
from ollim_bot.store.push import PushFile

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


async def pair(bot: Bot, ntfy: LocalNtfy, **given: object) -> str:
    """Pair as the owner does in a terminal, with a press on the phone; returns the topic."""
    owner = Owner(GO_ON, FOLLOWED)
    caller = Caller(bot.environment(), bot.home)
    setting_up = asyncio.to_thread(set_up_phone, given, caller, owner, is_terminal=True)
    running_set_up = asyncio.create_task(setting_up)
    topic = await owner.topic
    async with Phone(ntfy.url, topic) as phone:
        await phone.until(lambda: phone.shown and phone.shown[-1].labels)
        await phone.press(phone.shown[-1], phone.shown[-1].labels[0])
        await running_set_up
    return topic


@pytest.mark.own_process
async def test_a_phone_counts_at_once_when_it_is_paired_replaced_and_forgotten(
    tmp_path: Path,
) -> None:
    """The bot runs all the time, in a process of its own."""

    def rings(topic: str, text: str) -> bool:
        shown = [f"{each.title} {each.text}" for each in ntfy.published(topic)]
        return sum(text in each for each in shown) == 1

    async with LocalNtfy() as ntfy, bot_at(tmp_path, ntfy) as bot:
        old = await pair(bot, ntfy)
        remind(bot, "w1", 0, "Drink tea.")
        await ntfy.until(lambda: rings(old, "Drink tea"))
        new = await pair(bot, ntfy, new=True)
        assert new != old
        remind(bot, "w2", 0, "Drink milk.")
        await ntfy.until(lambda: rings(new, "Drink milk"))
        removed = await asyncio.to_thread(printed, bot, "push", "remove")
        assert removed.returncode == 0
        sent = len(ntfy.topics.published)
        remind(bot, "w3", 0, WATER)
        await bot.until(lambda: not left(bot))
        assert len(await said(bot, WATER)) == 1
        assert [(each.event, each.text) for each in ntfy.topics.published[sent:]] == []
        assert not rings(old, "Drink milk")
