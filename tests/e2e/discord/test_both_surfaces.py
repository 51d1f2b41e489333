"""Discord and the page at once: one conversation, one order, one log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import DiscordScene, words

from ollim_bot.surfaces.discord.rendering import undated

MANY = 4


async def answered(scene: DiscordScene, text: str) -> None:
    """Wait for the final message with this text: a draft may show the same text earlier."""
    await scene.said(text)
    await scene.until(lambda: not scene.bot.open_inputs())


def quoted(text: str) -> str:
    """A message of the owner from the page, as Discord shows it."""
    return f"> {text}\n-# from the page"


async def on_the_page(scene: DiscordScene) -> list[str]:
    """The messages on the page in their form on Discord, without the welcome."""
    shown = (await scene.bot.messages())[1:]
    form: Mapping[str, Callable[[str], str]] = {"owner": quoted, "program": "-# {}".format}
    heard = {each.text for each in scene.discord.messages if each.author == scene.discord.owner}
    return [
        one["text"] if one["text"] in heard else form.get(one["author"], str)(one["text"])
        for one in shown
    ]


def on_discord(scene: DiscordScene) -> list[str]:
    """The messages on Discord, without the welcome and those that no log has."""
    return [each.text for each in scene.discord.messages[1:] if each.text != "-# shutting down"]


async def test_a_restart_repeats_nothing_and_knows_what_stands_where(scene: DiscordScene) -> None:
    answer = await scene.ask("hello", "Hi Ada.")
    await answered(scene, "Hi Ada.")
    scene.model.answers("From there.")
    await scene.bot.say("and from here")
    await answered(scene, "From there.")
    await scene.bot.stop()
    await scene.bot.start()
    await scene.said("-# back. our conversation goes on.")
    scene.model.answers("Because it is morning.")
    scene.discord.say("why?", reply_to=answer.id)
    await answered(scene, "Because it is morning.")
    assert "> Hi Ada.\n\nwhy?" in scene.model.requests[-1].last_user_text
    assert on_discord(scene) == [
        "hello",
        "Hi Ada.",
        quoted("and from here"),
        "From there.",
        "-# back. our conversation goes on.",
        "why?",
        "Because it is morning.",
    ]
    assert await on_the_page(scene) == on_discord(scene)
    shown = await scene.bot.messages()
    asked = next(one for one in shown if one["text"] == "why?")
    assert asked["reply_to"]["id"] == next(one["id"] for one in shown if one["text"] == "Hi Ada.")


async def test_what_is_said_on_the_page_during_an_outage_arrives_later_once_in_order(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    scene.discord.allowance(100, 5.0)
    await scene.discord.refuse_connections()
    for number in range(MANY):
        scene.model.answers(f"Answer {number}.")
        await scene.bot.ask(f"question {number}")
    assert len(scene.discord.messages) == 3
    await scene.discord.accept_again()
    await scene.said_with(f"Answer {MANY - 1}.")
    await scene.ask("and now", "Here again.")
    waited = [
        text
        for number in range(MANY)
        for text in (quoted(f"question {number}"), f"Answer {number}.")
    ]
    expected = ["hello", "Hi Ada.", *waited, "and now", "Here again."]
    # A draft that was being sent when the connection broke becomes the answer later.
    await scene.until(lambda: len(_without_drafts(scene.discord.messages[1:])) >= len(expected))
    assert _without_drafts(scene.discord.messages[1:]) == expected


def _without_drafts(messages: Sequence[Message]) -> list[str]:
    """A status line may still be there: its removal is not waited for."""
    texts = (undated(words(each)) for each in messages)
    return [text for text in texts if not text.startswith("-# ")]
