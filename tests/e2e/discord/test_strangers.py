"""Whatever somebody else does, or the owner elsewhere: nothing comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.state import Message, User
from devtools.localdiscord.validation import Json
from tests.e2e.discord.talk import WELCOME, Talk, custom_id, words
from tests.e2e.discord.test_pings import on_its_way

from ollim_bot.domain.run_history import CHECKPOINT, STARTED
from ollim_bot.offline.messages import CallTool, Reply, Say

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
# Who, whether in a guild, and what a command says there.
PLACES = (
    ("stranger", False, NOT_AUTHORIZED),
    ("stranger", True, NOT_AUTHORIZED),
    ("owner", True, ELSEWHERE),
)
# Written again and again, or, as an empty lock, at some time after the start, whatever happens.
_BEATS = ("heartbeat", ".git", "state/engine/for-the-engine-", "state/.locks/")


def kept(data: Path) -> Mapping[str, bytes]:
    """All that the bot has on disk."""
    files = (each for each in data.rglob("*") if each.is_file())
    names = ((str(each.relative_to(data)), each) for each in files)
    return {name: each.read_bytes() for name, each in names if not name.startswith(_BEATS)}


def person(talk: Talk, name: str) -> User:
    return talk.discord.owner if name == "owner" else talk.discord.stranger


def given(command: Json) -> Mapping[str, str]:
    return {each["name"]: GIVEN[each["name"]] for each in command.get("options", [])}


async def heard_all(talk: Talk) -> None:
    """What the owner does comes after all that was done before."""
    assert (await talk.command("version")).text.startswith("ollim-bot ")


async def asked(talk: Talk) -> Message:
    """A turn that waits for an approval; gives the card."""
    await talk.bot.command("/permissions default")
    path = str(talk.bot.data / "milk.txt")
    call = CallTool("Write", {"file_path": path, "content": "milk\n"})
    talk.model.then(Reply((call,)), Reply((Say("Written."),)))
    talk.discord.say("write it down")
    return await talk.card("Allow Write?")


async def settled(talk: Talk) -> None:
    """The schedule has started, and what was said stands in the log and is confirmed."""

    def is_so() -> bool:
        rows = [row.state for row in talk.bot.ledger()]
        has_started = STARTED in rows and CHECKPOINT in rows[rows.index(STARTED) :]
        return has_started and bool(talk.bot.log()) and not on_its_way(talk)

    await talk.until(is_so)


async def test_no_command_of_others_or_elsewhere_does_anything(talk: Talk) -> None:
    await settled(talk)
    before, said = kept(talk.bot.data), len(talk.discord.said)
    for who, in_guild, answer in PLACES:
        user = person(talk, who)
        calls = [
            talk.discord.call(each["name"], given(each), as_user=user, in_guild=in_guild)
            for each in talk.discord.commands
        ]
        assert len(calls) > 15
        for called in calls:
            await talk.until(lambda called=called: called.texts)
            assert called.texts == [answer]
            assert called.is_ephemeral
            assert not called.late
        await heard_all(talk)
        assert kept(talk.bot.data) == before, (who, in_guild)
        assert len(talk.discord.said) == said
        assert not talk.model.requests
        assert talk.bot.output.read_text().count("is running with") == 1


async def test_no_word_of_others_or_elsewhere_is_heard(talk: Talk) -> None:
    await settled(talk)
    before, said = kept(talk.bot.data), len(talk.discord.messages)
    for who, in_guild, _ in PLACES:
        user = person(talk, who)
        for text in ("hello", "/clear", "/model opus"):
            first = talk.discord.say(text, as_user=user, in_guild=in_guild)
        talk.discord.edit(first, "hello again")
        talk.discord.say("look", as_user=user, in_guild=in_guild, files={"a.txt": b"a"})
        talk.discord.delete(first)
        offered = talk.discord.complete("model", "name", "o", as_user=user, in_guild=in_guild)
        await heard_all(talk)
        assert not offered.choices
        assert kept(talk.bot.data) == before, (who, in_guild)
        assert len(talk.discord.messages) == said
        assert not any(each.reactions for each in talk.discord.state.messages.values())
        assert not talk.discord.typing
    await talk.ask("hello", "Hi Ada.")
    assert len(talk.model.requests) == 1


async def test_no_button_and_no_reaction_of_others_does_anything(talk: Talk) -> None:
    stranger = talk.discord.stranger
    welcome = await talk.card(WELCOME)
    card = await asked(talk)
    await settled(talk)
    before, said = kept(talk.bot.data), len(talk.discord.said)
    asked_for = len(talk.model.requests)
    for emoji in ("✅", "🔓", "❌"):
        talk.discord.react(card.id, emoji, as_user=stranger)
    clicks = [
        talk.discord.click(message.id, str(each["custom_id"]), as_user=stranger)
        for message in (card, welcome)
        for each in message.buttons
    ]
    clicks += _elsewhere(talk, card)
    await heard_all(talk)
    assert not any(each.texts for each in clicks)
    assert kept(talk.bot.data) == before
    assert len(talk.discord.said) == said
    assert len(talk.model.requests) == asked_for
    assert not any(each.get("disabled") for each in (*card.buttons, *welcome.buttons))

    talk.discord.react(card.id, "✅")
    await talk.said("Written.")
    assert "Answer: Allowed once." in words(card)


def _elsewhere(talk: Talk, card: Message) -> list[Interaction]:
    """The same button, below messages of a stranger's in their own place and in a guild."""
    owner, stranger = talk.discord.owner, talk.discord.stranger
    places = [(stranger, False), (stranger, True), (owner, True)]
    button = custom_id(card, "✅")
    found: list[Interaction] = []
    for user, in_guild in places:
        name = talk.discord.say("look", as_user=stranger, in_guild=in_guild)
        found.append(talk.discord.press(talk.discord.message(name), button, as_user=user))
    return found
