"""The first words with the bot on Discord, and what goes on across a restart."""

from __future__ import annotations

from tests.e2e.discord.talk import Talk


async def test_the_conversation_goes_on_after_a_restart_with_one_greeting(talk: Talk) -> None:
    answer = await talk.ask("hello", "Hi Ada.")
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))
    assert [each.text for each in talk.discord.messages[1:]] == ["hello", "Hi Ada."]
    assert talk.discord.messages[-1] is answer
    assert talk.discord.rate_limited == 0

    await talk.bot.stop()
    assert talk.discord.texts[-1] == "-# shutting down"
    await talk.bot.start()
    await talk.said("-# back. our conversation goes on.")
    await talk.ask("and now", "Still here.")
    assert talk.discord.texts[1:] == [
        "Hi Ada.",
        "-# shutting down",
        "-# back. our conversation goes on.",
        "Still here.",
    ]
    assert talk.discord.command_puts == 1
