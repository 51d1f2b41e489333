"""An answer of 100,000 characters is ten messages, and it holds up nothing else."""

from __future__ import annotations

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.test_freezing import watched
from tests.e2e.test_reminders import remind
from tests.patience import patience

from ollim_bot.offline.server import Reply, Say
from ollim_bot.surfaces.discord.rendering import GOES_ON_IN_FILE


@pytest.mark.own_process
async def test_a_flood_is_ten_messages_and_what_must_come_is_on_time(scene: DiscordScene) -> None:
    text = ("#\n" * 50_000).strip()
    before = len(scene.discord.said)
    scene.model.then(Reply((Say(text),), pace=0.02, chunk=1000))
    async with watched(scene.bot) as watch:
        scene.discord.say("tell me all about tea")
        await scene.until(lambda: len(scene.discord.said) > before)
        due = remind(scene.bot, "pill", 1, "Take the pill.", head="must: true\nplain: true\n")
        pill = await scene.said_with("Take the pill.")
        end = await scene.said_with(GOES_ON_IN_FILE)
        await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    assert (pill.at - due).total_seconds() < patience() / 8
    assert [(each.name, each.content) for each in end.files] == [("message.md", text.encode())]
    assert len([each for each in scene.discord.said[before:] if each.id != pill.id]) <= 10
    assert [each for each in scene.discord.requests if each.status == 429] == []
    assert watch.is_prompt, watch.worst
