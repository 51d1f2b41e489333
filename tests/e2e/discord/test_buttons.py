"""Buttons on Discord that outlive a restart, and a change that comes back by one word."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import DiscordScene

from ollim_bot.offline.server import CallTool, Reply, Say

REMINDER = """---
id: dentist
run-at: "2099-01-07T09:00:00+01:00"
---
Call the dentist.
"""


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


def states(message: Message) -> Mapping[str, bool]:
    """Whether each button of the message is enabled."""
    return {str(each["label"]): not each.get("disabled") for each in message.buttons}


async def page_states(scene: DiscordScene, title: str) -> Mapping[str, bool]:
    """Whether each button of the newest card with this title is enabled on the page."""
    cards = [one["card"] for one in await scene.bot.messages() if one["card"]]
    card = next(each for each in reversed(cards) if each["title"] == title)
    return {each["label"]: not each["is_used"] for each in card["buttons"]}


async def shows(scene: DiscordScene, message: Message, title: str, **expected: bool) -> None:
    """Wait until the buttons have these states, on Discord and on the page."""
    wanted = {label.replace("_", " "): can for label, can in expected.items()}
    await scene.until(lambda: states(message) == wanted)
    assert await page_states(scene, title) == wanted


def write(scene: DiscordScene, name: str, text: str) -> None:
    path = scene.bot.data / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def read(scene: DiscordScene, name: str) -> str:
    path = scene.bot.data / name
    return path.read_text() if path.exists() else ""


def embed(**given: object) -> Reply:
    return Reply((CallTool("mcp__discord__discord_embed", given),))


async def test_cards_of_the_agent_ask_it_or_go_away_also_after_a_restart(
    scene: DiscordScene,
) -> None:
    buttons = [
        {"label": "Book it", "action": "agent:Book the table."},
        {"label": "Not now", "action": "dismiss"},
    ]
    scene.model.then(embed(title="A table for two?", buttons=buttons), Reply((Say("Shown."),)))
    scene.discord.say("dinner?")
    await scene.said("Shown.")
    card = await scene.card("A table for two?")
    await scene.bot.stop()
    await scene.bot.start()
    await scene.said("-# back. our conversation goes on.")

    await scene.press(card, "Not now")
    await shows(scene, card, "A table for two?", Book_it=True, Not_now=False)
    scene.model.answers("Booked.")
    await scene.press(card, "Book it")
    await scene.said("Booked.")
    await shows(scene, card, "A table for two?", Book_it=False, Not_now=False)
    assert "Book the table." in scene.model.requests[-1].last_user_text


async def forward_by_a_stranger(scene: DiscordScene, text: str) -> None:
    """The owner forwards it, and the model is asked about it."""
    ref = scene.discord.say(text, as_user=scene.discord.stranger, in_guild=True)
    scene.model.answers("Somebody wrote that.")
    scene.discord.forward(ref)
    await scene.said("Somebody wrote that.")


async def test_a_reminder_that_the_agent_cancels_comes_back_by_one_word(
    scene: DiscordScene,
) -> None:
    """A reply means its card; the bare word means the only change since the owner's last words."""
    for said, is_reply in (("Cancelled.", False), ("It is off.", True)):
        write(scene, "reminders/dentist.md", REMINDER)
        call = CallTool("mcp__discord__cancel_reminder", {"reminder_id": "dentist"})
        scene.model.then(Reply((call,)), Reply((Say(said),)))
        scene.discord.say("cancel the dentist thing")
        await scene.said(said)
        card = await scene.card("Reminder cancelled: Call the dentist.")
        assert not read(scene, "reminders/dentist.md")
        if is_reply:
            await forward_by_a_stranger(scene, "undo")
        asked = len(scene.model.requests)
        scene.discord.say("oh, undo that!", reply_to=card.id if is_reply else None)
        back = "Undone. “Call the dentist.” is as it was before."
        await shows(scene, card, back)
        await scene.said(f"-# {back}")
        assert read(scene, "reminders/dentist.md") == REMINDER
        assert len(scene.model.requests) == asked
    await scene.ask("undo", "Nothing to undo.")
