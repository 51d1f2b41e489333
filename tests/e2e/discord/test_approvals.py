"""A question of the bot on Discord, when it is answered on the page or the bot is killed."""

from __future__ import annotations

import pytest
from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import DiscordScene, custom_id, words

from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say

TITLE = "Allow Write?"
GONE = "This button is not there any more."


@pytest.fixture
async def scene(scene: DiscordScene) -> DiscordScene:
    """With approvals on, and on a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    await scene.bot.command("/permissions default")
    return scene


async def asked(scene: DiscordScene, name: str = "milk.txt") -> Message:
    """The agent wants to write a file; returns the card that asks the owner."""
    before = len(cards(scene))
    _write(scene, name)
    scene.discord.say(f"write {name}")
    await scene.until(lambda: len(cards(scene)) > before)
    return cards(scene)[-1]


def cards(scene: DiscordScene) -> list[Message]:
    return [each for each in scene.discord.said if TITLE in words(each)]


def is_written(scene: DiscordScene, name: str = "milk.txt") -> bool:
    return (scene.bot.data / "notes" / name).exists()


async def closed(scene: DiscordScene, card: Message, outcome: str) -> None:
    """Wait until the card shows its outcome, on Discord and on the page."""
    await scene.until(lambda: f"Answer: {outcome}" in words(card))
    assert [each["disabled"] for each in card.buttons] in ([], [True])
    shown = [one["card"] for one in await scene.bot.messages() if one["card"]]
    kept = [(each["custom_id"], True) for each in card.buttons]
    assert kept in [
        [(each["custom_id"], each["is_used"]) for each in one["buttons"]]
        for one in shown
        if [each["name"] for each in one["fields"]] == ["Answer"]
    ]


@pytest.mark.own_process
async def test_a_restart_in_the_middle_closes_the_question_and_answers_the_message(
    scene: DiscordScene,
) -> None:
    card = await asked(scene)
    allow = custom_id(card, "✅")
    scene.model.when(_is_continued, Reply((Say("Shall I write it?"),)))
    await scene.bot.kill()
    await scene.bot.start()
    await scene.said("Shall I write it?")
    await closed(scene, card, "Expired: nothing waits for this answer any more.")
    await scene.said_with("I was cut off without warning")
    said = set(scene.discord.texts)
    scene.discord.react(card.id, "✅")
    late = scene.discord.press(card, allow)
    await scene.until(lambda: late.texts)
    assert late.texts == [GONE]
    assert not is_written(scene)
    # A status line may be gone, and the answer may be further below.
    assert set(scene.discord.texts) <= said


def _write(scene: DiscordScene, name: str) -> None:
    path = str(scene.bot.data / "notes" / name)
    call = CallTool("Write", {"file_path": path, "content": f"{name}\n"})
    scene.model.then(Reply((call,)), Reply((Say(f"Done with {name}."),)))


def _is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text
