"""The bot ignores strangers, and the owner outside of the direct conversation."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.state import Message, User
from devtools.localdiscord.validation import Json
from tests.e2e.discord.discord_scene import WELCOME, DiscordScene, custom_id, words
from tests.e2e.discord.test_pings import on_its_way

from ollim_bot.kernel.values.run_history import CHECKPOINT, STARTED
from ollim_bot.offline.server import CallTool, Reply, Say

NOT_AUTHORIZED = "You are not authorized to use this bot."
ELSEWHERE = "I answer in our direct messages only."
GIVEN = {
    "instructions": "all",
    "topic": "secrets",
    "name": "opus",
    "mode": "default",
    "capacity": "1",
    "refill_rate": "1",
    "id": "abcdef",
    "key": "model.main",
    "value": "opus",
    "how_long": "2h",
    "words": "tea",
}
# The author, whether it is in a guild, and the answer to a command.
PLACES = (
    ("stranger", False, NOT_AUTHORIZED),
    ("stranger", True, NOT_AUTHORIZED),
    ("owner", True, ELSEWHERE),
)
_DATABASE = "state/ollim.db"
# Files that change without a message: written all the time, or an empty lock file.
_CHANGING_FILES = ("heartbeat", ".git", "state/engine/for-the-engine-", "state/.locks/", _DATABASE)


def kept(data: Path) -> Mapping[str, bytes]:
    """All files of the bot. Of the database, its rows: the idle bot moves its log into it."""
    files = (each for each in data.rglob("*") if each.is_file())
    names = ((str(each.relative_to(data)), each) for each in files)
    found = {
        name: each.read_bytes() for name, each in names if not name.startswith(_CHANGING_FILES)
    }
    with closing(sqlite3.connect(f"file:{data / _DATABASE}?mode=ro", uri=True)) as database:
        found[_DATABASE] = "\n".join(database.iterdump()).encode()
    return found


def person(scene: DiscordScene, name: str) -> User:
    return scene.discord.owner if name == "owner" else scene.discord.stranger


def given(command: Json) -> Mapping[str, str]:
    return {each["name"]: GIVEN[each["name"]] for each in command.get("options", [])}


async def heard_all(scene: DiscordScene) -> None:
    """A message of the owner is handled after all earlier events."""
    assert (await scene.command("version")).text.startswith("ollim-bot ")


async def asked(scene: DiscordScene) -> Message:
    """Start a turn that waits for an approval; returns the card."""
    await scene.bot.command("/permissions default")
    path = str(scene.bot.data / "milk.txt")
    call = CallTool("Write", {"file_path": path, "content": "milk\n"})
    scene.model.then(Reply((call,)), Reply((Say("Written."),)))
    scene.discord.say("write it down")
    return await scene.card("Allow Write?")


async def settled(scene: DiscordScene) -> None:
    """Wait until the schedule has started and all messages are logged and confirmed."""

    def is_so() -> bool:
        rows = [row.state for row in scene.bot.ledger()]
        has_started = STARTED in rows and CHECKPOINT in rows[rows.index(STARTED) :]
        return has_started and bool(scene.bot.log()) and not on_its_way(scene)

    await scene.until(is_so)


async def test_no_command_of_others_or_elsewhere_does_anything(scene: DiscordScene) -> None:
    await settled(scene)
    before, said = kept(scene.bot.data), len(scene.discord.said)
    for who, in_guild, answer in PLACES:
        user = person(scene, who)
        calls = [
            scene.discord.call(each["name"], given(each), as_user=user, in_guild=in_guild)
            for each in scene.discord.commands
        ]
        assert len(calls) > 15
        for called in calls:
            await scene.until(lambda called=called: called.texts)
            assert called.texts == [answer]
            assert called.is_ephemeral
            assert not called.late
        await heard_all(scene)
        assert kept(scene.bot.data) == before, (who, in_guild)
        assert len(scene.discord.said) == said
        assert not scene.model.requests
        assert scene.bot.output.read_text().count("is running with") == 1


async def test_no_word_of_others_or_elsewhere_is_heard(scene: DiscordScene) -> None:
    await settled(scene)
    before, said = kept(scene.bot.data), len(scene.discord.messages)
    for who, in_guild, _ in PLACES:
        user = person(scene, who)
        for text in ("hello", "/clear", "/model opus"):
            first = scene.discord.say(text, as_user=user, in_guild=in_guild)
        scene.discord.edit(first, "hello again")
        scene.discord.say("look", as_user=user, in_guild=in_guild, files={"a.txt": b"a"})
        scene.discord.delete(first)
        offered = scene.discord.complete("model", "name", "o", as_user=user, in_guild=in_guild)
        await heard_all(scene)
        assert not offered.choices
        assert kept(scene.bot.data) == before, (who, in_guild)
        assert len(scene.discord.messages) == said
        assert not any(each.reactions for each in scene.discord.state.messages.values())
        assert not scene.discord.typing
    await scene.ask("hello", "Hi Ada.")
    assert len(scene.model.requests) == 1


async def test_no_button_and_no_reaction_of_others_does_anything(scene: DiscordScene) -> None:
    stranger = scene.discord.stranger
    welcome = await scene.card(WELCOME)
    card = await asked(scene)
    await settled(scene)
    before, said = kept(scene.bot.data), len(scene.discord.said)
    asked_for = len(scene.model.requests)
    for emoji in ("✅", "🔓", "❌"):
        scene.discord.react(card.id, emoji, as_user=stranger)
    clicks = [
        scene.discord.click(message.id, str(each["custom_id"]), as_user=stranger)
        for message in (card, welcome)
        for each in message.buttons
    ]
    clicks += _elsewhere(scene, card)
    await heard_all(scene)
    assert not any(each.texts for each in clicks)
    assert kept(scene.bot.data) == before
    assert len(scene.discord.said) == said
    assert len(scene.model.requests) == asked_for
    assert not any(each.get("disabled") for each in (*card.buttons, *welcome.buttons))

    scene.discord.react(card.id, "✅")
    await scene.said("Written.")
    assert "Answer: Allowed once." in words(card)


def _elsewhere(scene: DiscordScene, card: Message) -> list[Interaction]:
    """Clicks of the same button on a stranger's messages, in a direct conversation and a guild."""
    owner, stranger = scene.discord.owner, scene.discord.stranger
    places = [(stranger, False), (stranger, True), (owner, True)]
    button = custom_id(card, "✅")
    found: list[Interaction] = []
    for user, in_guild in places:
        name = scene.discord.say("look", as_user=stranger, in_guild=in_guild)
        found.append(scene.discord.press(scene.discord.message(name), button, as_user=user))
    return found
