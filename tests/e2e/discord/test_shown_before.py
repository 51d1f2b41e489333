"""What an earlier process has shown bare, since nothing could be kept, becomes the whole card."""

from __future__ import annotations

from datetime import UTC, datetime

import aiohttp
from tests.e2e.discord.discord_scene import DiscordScene, words
from tests.e2e.test_reminders import remind

from ollim_bot.kernel.store.delivery_rows import part_nonce
from ollim_bot.kernel.values.due_items import delivery_id
from ollim_bot.kernel.values.occurrences import Occurrence

BARE = "Äpfel kaufen.\n-# The disk cannot be written, so this is not kept."


async def show_bare(scene: DiscordScene, name: str, at: datetime) -> str:
    """What the earlier process has sent, under the nonce that each one derives; gives its id."""
    occurrence = Occurrence.parse(f"reminder:{name}:{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
    nonce = part_nonce(delivery_id(occurrence), 0)
    place = f"{scene.discord.api_url}/channels/{scene.discord.messages[0].channel.id}/messages"
    headers = {"Authorization": f"Bot {scene.discord.token}"}
    body = {"content": BARE, "nonce": nonce, "enforce_nonce": True}
    async with aiohttp.ClientSession(headers=headers) as http, http.post(place, json=body) as said:
        assert said.status == 200, await said.text()
        return str((await said.json())["id"])


async def is_made_whole(scene: DiscordScene, late: float) -> None:
    """Check that the one message of a reminder so late has the card's words and buttons."""
    await scene.bot.stop()
    due = remind(scene.bot, "a1", -late, "Äpfel kaufen.", "plain: true\nmust: true\n")
    shown = await show_bare(scene, "a1", due)
    await scene.bot.start()
    await scene.until(lambda: scene.discord.state.messages[shown].buttons)
    assert [each.id for each in scene.discord.said if "Äpfel" in words(each)] == [shown]
    card = scene.discord.state.messages[shown]
    assert "cannot be written" not in words(card)
    await scene.press(card, "Done")
    await scene.until(lambda: words(card).startswith("✓ Äpfel kaufen"))


async def test_what_discord_knows_by_its_nonce_gets_its_buttons(scene: DiscordScene) -> None:
    await is_made_whole(scene, 3)
