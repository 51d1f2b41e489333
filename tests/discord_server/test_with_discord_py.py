"""The unmodified discord.py works with the local Discord as with the real one."""

from __future__ import annotations

import io

import discord
import pytest
from devtools.localdiscord.interactions import ResponseType
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import RecordingClient, connected_client


async def test_it_logs_in_and_is_ready(server: LocalDiscord, client: RecordingClient) -> None:
    assert client.user is not None
    assert str(client.user.id) == server.bot.id
    application = await client.application_info()
    assert str(application.owner.id) == server.owner.id
    assert application.team is None


async def test_a_team_has_its_members() -> None:
    async with LocalDiscord(members=["friend"]) as server, connected_client(server) as client:
        application = await client.application_info()
        assert application.team is not None
        assert str(application.team.owner_id) == server.owner.id
        assert str(application.owner.id) not in server.state.users
        assert [each.name for each in application.team.members] == ["owner", "friend"]


async def test_what_the_owner_says_is_heard(server: LocalDiscord, client: RecordingClient) -> None:
    first = server.say("hello", files={"a note.txt": b"words"})
    server.say("and so", reply_to=first)
    await client.until(lambda: len(client.heard) == 2)
    assert [each.content for each in client.heard] == ["hello", "and so"]
    said, reply = client.heard
    assert str(said.id) == first
    assert str(said.author.id) == server.owner.id
    assert said.guild is None
    assert await said.attachments[0].read() == b"words"
    assert reply.reference is not None
    assert str(reply.reference.message_id) == first


async def test_the_bot_sends_edits_reacts_and_deletes(
    server: LocalDiscord, client: RecordingClient
) -> None:
    dm = await client.dm(server)
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Yes", custom_id="act:yes:1"))
    sent = await dm.send("one", embed=discord.Embed(title="A card"), view=view)
    await sent.edit(content="two")
    await sent.add_reaction("👀")
    [stands] = server.said
    assert (stands.text, stands.texts) == ("two", ["one", "two"])
    assert stands.embeds[0]["title"] == "A card"
    assert stands.button("act:yes:1")["label"] == "Yes"
    assert stands.reactions == {"👀": [server.bot]}
    assert stands.nonce
    await sent.remove_reaction("👀", client.user or discord.Object(0))
    await sent.delete()
    assert stands.is_deleted
    assert stands.reactions == {}
    assert server.said == []


async def test_history_is_read_and_files_go_both_ways(
    server: LocalDiscord, client: RecordingClient
) -> None:
    dm = await client.dm(server)
    ids = [server.say(str(number)) for number in range(5)]
    await dm.send("six", file=discord.File(io.BytesIO(b"data"), "data.bin"))
    read = [each async for each in dm.history(limit=3)]
    assert [each.content for each in read] == ["six", "4", "3"]
    after = [each async for each in dm.history(after=discord.Object(int(ids[1])), limit=None)]
    assert [each.content for each in after] == ["2", "3", "4", "six"]
    assert server.said[0].files[0].content == b"data"
    assert await read[0].attachments[0].read() == b"data"
    await dm.typing()
    assert [channel for channel, _ in server.typing] == [str(dm.id)]


async def test_a_command_is_answered(server: LocalDiscord, client: RecordingClient) -> None:
    assert client.application_id is not None
    option = {"type": 3, "name": "name", "description": "Which", "autocomplete": True}
    command = {"name": "model", "description": "The model", "options": [option]}
    await client.http.bulk_upsert_global_commands(client.application_id, [command])
    assert server.command_puts == 1
    called = server.slash("model", name="opus")
    heard = await client.interaction()
    assert heard.data is not None
    assert heard.data["options"][0]["value"] == "opus"  # type: ignore[typeddict-item]
    await heard.response.defer(ephemeral=True, thinking=True)
    assert await called.answered() is ResponseType.DEFERRED_MESSAGE
    assert called.is_ephemeral
    await heard.edit_original_response(content="It is opus now.")
    assert await called.said() == "It is opus now."
    await heard.followup.send("And more.", ephemeral=True)
    assert [each.content for each in client.own] == []
    assert called.texts == ["It is opus now.", "And more."]
    assert server.texts == []
    await heard.delete_original_response()
    assert called.is_deleted


async def test_a_completion_offers_words(server: LocalDiscord, client: RecordingClient) -> None:
    assert client.application_id is not None
    option = {"type": 3, "name": "name", "description": "Which", "autocomplete": True}
    command = {"name": "model", "description": "The model", "options": [option]}
    await client.http.bulk_upsert_global_commands(client.application_id, [command])
    typing = server.complete("model", "name", "op")
    heard = await client.interaction()
    assert heard.type is discord.InteractionType.autocomplete
    assert heard.data is not None
    assert heard.data["options"][0]["focused"] is True  # type: ignore[typeddict-item]
    await heard.response.autocomplete([discord.app_commands.Choice(name="opus", value="opus")])
    assert await typing.choice_names() == ["opus"]


async def test_a_click_comes_with_its_message(
    server: LocalDiscord, client: RecordingClient
) -> None:
    dm = await client.dm(server)
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Yes", custom_id="act:yes:1"))
    sent = await dm.send("Sure?", view=view)
    clicked = server.click(str(sent.id), "act:yes:1")
    heard = await client.interaction()
    assert heard.message is not None
    assert heard.message.id == sent.id
    assert str(heard.user.id) == server.owner.id
    await heard.response.edit_message(content="Done.", view=None)
    assert await clicked.answered() is ResponseType.UPDATE
    assert server.texts == ["Done."]
    with pytest.raises(LookupError):
        server.click(str(sent.id), "act:yes:1")


async def test_what_people_change_is_heard(server: LocalDiscord, client: RecordingClient) -> None:
    said = server.say("helo")
    server.edit(said, "hello")
    server.react(said, "✅")
    server.unreact(said, "✅")
    server.delete(said)
    await client.until(lambda: client.deletions)
    assert [each.message.content for each in client.edits] == ["hello"]
    assert [each.event_type for each in client.reactions] == ["REACTION_ADD", "REACTION_REMOVE"]
    assert [str(each.message_id) for each in client.deletions] == [said]
