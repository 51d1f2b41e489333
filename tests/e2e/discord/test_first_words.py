"""The first words with the bot on Discord, and what goes on across a restart."""

from __future__ import annotations

from tests.e2e.discord.discord_scene import DiscordScene


async def test_the_conversation_goes_on_after_a_restart_with_one_greeting(
    scene: DiscordScene,
) -> None:
    answer = await scene.ask("hello", "Hi Ada.")
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    assert [each.text for each in scene.discord.messages[1:]] == ["hello", "Hi Ada."]
    assert scene.discord.messages[-1] is answer
    assert scene.discord.rate_limited == 0

    await scene.bot.stop()
    assert scene.discord.texts[-1] == "-# shutting down"
    await scene.bot.start()
    await scene.said("-# back. our conversation goes on.")
    await scene.ask("and now", "Still here.")
    assert scene.discord.texts[1:] == [
        "Hi Ada.",
        "-# shutting down",
        "-# back. our conversation goes on.",
        "Still here.",
    ]
    assert scene.discord.command_puts == 1
