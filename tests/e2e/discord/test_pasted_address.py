"""A calendar's address that the owner sends on Discord reaches neither the model nor the disk."""

from __future__ import annotations

import pytest
from tests.e2e.discord.discord_scene import DiscordScene, words
from tests.features.calendars.calendar_server import CalendarAnswer, ics, served

SECRET = "secret-7f3a"
EVENT = "SUMMARY:@everyone *now*\nDTSTART;VALUE=DATE:20991231"


@pytest.mark.real_process
async def test_the_address_is_used_hidden_and_its_copy_on_discord_is_named(
    scene: DiscordScene,
) -> None:
    with served(CalendarAnswer(body=ics(EVENT))) as server:
        ref = scene.discord.say(f"<{server.address()}>")
        said = words(await scene.said_with("is added"))
        assert "Discord still shows the address in your message" in said

        answer = await scene.ask("is that all?", "Yes.")
        scene.model.answers("It is hidden.")
        scene.discord.say("and this one?", reply_to=ref)
        await scene.said("It is hidden.")

        scene.discord.edit(ref, f"{server.address()}?again")
        scene.discord.delete(ref)
        await scene.ask("still there?", "Here.")
    assert len(server.asked) == 1
    assert answer.text.startswith("Yes.\n")
    asked = "\n".join(each.last_user_text for each in scene.model.requests)
    assert "> calendar address (hidden)" in asked
    assert SECRET not in asked
    shown = [one["text"] for one in await scene.bot.messages() if one["author"] == "owner"]
    assert shown[0] == "calendar address (hidden)"
    await scene.bot.stop()
    kept = [path for path in scene.bot.home.rglob("*") if path.is_file()]
    found = [path.name for path in kept if SECRET.encode() in path.read_bytes()]
    assert len(found) == 1
    assert found[0].endswith(".source.json")
