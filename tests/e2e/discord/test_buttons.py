"""Buttons on Discord: each does what it says, once, and then shows that it was used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import FIRST_QUESTION, WELCOME, DiscordScene, custom_id, words

from ollim_bot.offline.server import CallTool, Reply, Say

USED = "This button was used before, or has expired."
GONE = "This button is not there any more."
UNKNOWN = "This button is from a message that I no longer know."

ROUTINE = """---
id: plan
cron: "0 9 * * *"
description: Plan the day
---
What is the one thing today?
"""
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


async def press_to_show(
    scene: DiscordScene, message: Message, label: str, title: str, **buttons: bool
) -> None:
    """Press a button; the card shows what was done, and nothing else confirms it."""
    pressed = await scene.press(message, label)
    await shows(scene, message, title, **buttons)
    assert pressed.followups == []


async def words_of(scene: DiscordScene, pressed: Interaction) -> str:
    await scene.until(lambda: pressed.followups)
    assert pressed.followups[-1].is_ephemeral
    assert not pressed.late
    return pressed.followups[-1].text


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


async def in_a_fork(scene: DiscordScene) -> Message:
    """Enter a fork; returns its entry card after the first answer."""
    await scene.ask("my cat is Miso", "Noted.")
    scene.model.answers("In May.")
    await scene.command("fork", topic="Rome")
    await scene.said_with("In May.")
    return await scene.card("Side conversation")


async def test_set_up_asks_once_however_often_it_is_pressed(scene: DiscordScene) -> None:
    welcome = await scene.card(WELCOME)
    button = custom_id(welcome, "Set up")
    clicks = [scene.discord.click(welcome.id, button) for _ in range(2)]
    await scene.card(FIRST_QUESTION)
    await scene.until(lambda: all(each.answer is not None for each in clicks))
    await shows(scene, welcome, WELCOME, Set_up=False, What_I_can_do=True)
    assert await words_of(scene, scene.discord.press(welcome, button)) == USED
    assert len(scene.discord.messages) == 2
    assert not scene.model.requests


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


async def test_a_fork_is_saved_by_its_button(scene: DiscordScene) -> None:
    card, main = await in_a_fork(scene), scene.bot.session()
    await scene.press(card, "Keep all of it")
    end = await scene.card("Side conversation ended — all of it kept")
    assert "This is the main conversation now." in words(end)
    assert scene.bot.session() != main
    await shows(scene, card, "Side conversation")
    assert await words_of(scene, scene.discord.press(card, "act:fork_exit:")) == GONE


async def test_a_new_routine_is_undone_by_its_button(scene: DiscordScene) -> None:
    path = str(scene.bot.data / "routines" / "plan.md")
    call = CallTool("Write", {"file_path": path, "content": ROUTINE})
    scene.model.then(Reply((call,)), Reply((Say("Written."),)))
    scene.discord.say("plan every day")
    title = "Routine added: Plan the day"
    card = await scene.card(title)
    await scene.said("Written.")
    await press_to_show(scene, card, "Undo", "Undone. “Plan the day” is gone again.")
    assert not read(scene, "routines/plan.md")


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


async def test_a_reminder_that_came_is_done_or_comes_again(scene: DiscordScene) -> None:
    labels = ("Done", "Snooze 10 min", "1 h", "Tomorrow 9:00")
    reminders = scene.bot.data / "reminders"
    at = (datetime.now(UTC) + timedelta(seconds=1)).replace(microsecond=0)
    for name, label in enumerate(labels):
        head = f'---\nid: r{name}\nrun-at: "{at.isoformat()}"\n---\n'
        write(scene, f"reminders/r{name}.md", f"{head}For {label}.\n")
    await scene.until(lambda: not list(reminders.glob("*.md")))
    for set_again, label in enumerate(labels):
        card = await scene.card(f"For {label}.")
        button = custom_id(card, label)
        await scene.press(card, label)
        await scene.until(lambda card=card: states(card) == {"Undo": True})
        line = words(card).partition("\n")[0]
        assert line.startswith("✓ For Done · " if label == "Done" else f"⏱ For {label} · again ")
        assert await page_states(scene, line) == states(card)
        await scene.until(lambda n=set_again: len(list(reminders.glob("*.md"))) == n)
        assert await words_of(scene, scene.discord.press(card, button)) == GONE
    await scene.press(card, "Undo")
    await scene.until(lambda: list(states(card)) == [*labels, "Other…", "Break it down"])
    assert words(card).startswith("For Tomorrow 9:00.")
    await scene.until(lambda: len(list(reminders.glob("*.md"))) == len(labels) - 2)


async def test_a_button_that_leads_nowhere_says_so(scene: DiscordScene) -> None:
    await scene.bot.stop()
    goodbye = await scene.said("-# shutting down")
    await scene.bot.start()
    await scene.said("-# back.")
    welcome = await scene.card(WELCOME)
    for custom in ("act:dismiss:", "act:approve:1:once", "something else"):
        assert await words_of(scene, scene.discord.press(goodbye, custom)) == UNKNOWN
        assert await words_of(scene, scene.discord.press(welcome, custom)) == GONE
    assert not scene.model.requests
