"""Slash commands that change the conversation: at rest, while an answer is written, in a fork."""

from __future__ import annotations

import pytest
from tests.e2e.discord.discord_scene import FIRST_QUESTION, DiscordScene
from tests.e2e.discord.paused_answer import pause_answer
from tests.engine.scene import spoken
from tests.patience import patience

from ollim_bot.offline.messages import Hang, Reply, Say

FORK = "side conversation · apart from the main one"
CLEARED = "Cleared"
ALREADY_OPEN = "You are in a side conversation already. Leave it first, or keep what it brought."


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


async def hang(scene: DiscordScene, text: str) -> None:
    """Start a turn that runs until it is stopped."""
    number = len(scene.model.requests) + 1
    scene.model.then(Hang())
    scene.discord.say(text)
    await scene.model.seen(number, patience())


async def enter_fork(scene: DiscordScene, topic: str, answer: str) -> None:
    scene.model.answers(answer)
    await done(scene, "fork", topic=topic)
    await scene.said(f"{answer}\n-# {FORK}")


async def done(scene: DiscordScene, name: str, /, **arguments: str) -> None:
    """Call a command whose result is in the conversation, with no answer to the caller."""
    assert (await scene.command(name, **arguments)).is_deleted


def heard(scene: DiscordScene) -> str:
    """All text of the last request to the model."""
    return "\n".join(spoken(scene.model.requests[-1]))


def is_closed(scene: DiscordScene, title: str) -> bool:
    """Whether all buttons of the last card with this title are disabled."""
    cards = [
        each for each in scene.discord.said if each.embeds and each.embeds[0]["title"] == title
    ]
    return all(button.get("disabled") for button in cards[-1].buttons)


def notes(scene: DiscordScene, text: str) -> int:
    return scene.discord.texts.count(text)


async def test_clear_begins_a_new_conversation_whatever_goes_on(scene: DiscordScene) -> None:
    await scene.ask("my cat is Miso", "Noted.")
    await done(scene, "clear")
    card = await scene.card(CLEARED)
    assert [each["label"] for each in card.buttons] == ["Undo"]
    assert scene.bot.session() is None
    await scene.ask("hello", "Hi.")
    assert "Miso" not in heard(scene)

    await hang(scene, "think about tea")
    await done(scene, "clear")
    await scene.until(lambda: scene.card_count(CLEARED) == 2)
    await scene.said("-# stopped.")
    await scene.ask("hello again", "Hi again.")
    assert "tea" not in heard(scene)

    await enter_fork(scene, "Rome", "In May.")
    await done(scene, "clear")
    await scene.until(lambda: scene.card_count(CLEARED) == 3)
    await scene.until(lambda: is_closed(scene, "Side conversation"))
    await scene.ask("and now", "Now what?")
    assert "Rome" not in heard(scene)


async def test_a_restart_greets_once_and_a_clear_before_it_can_be_undone(
    scene: DiscordScene,
) -> None:
    await scene.ask("my cat is Miso", "Noted.")
    first = scene.bot.session()
    await done(scene, "clear")
    card = await scene.card(CLEARED)
    answer = await scene.command("restart")
    assert answer.text == "Restarting. The conversation goes on where it is."
    await scene.said("-# back after a restart.")
    await scene.bot.reconnect()
    await scene.press(card, "Undo")
    await scene.until(lambda: scene.bot.session() == first)
    await scene.card("Undone")
    await scene.ask("which cat?", "Miso.")
    assert "my cat is Miso" in heard(scene)
    assert notes(scene, "-# back after a restart.") == 1
    assert scene.discord.command_puts == 1


async def test_a_cleared_conversation_is_listed_proposed_and_resumed(scene: DiscordScene) -> None:
    await scene.ask("my cat is Miso", "Noted.")
    first = scene.bot.session()
    assert first is not None
    await done(scene, "sessions")
    listed = await scene.card("Conversations")
    assert listed.embeds[0]["description"].startswith("today ")
    assert " · my cat is Miso · " in listed.embeds[0]["description"]
    assert listed.embeds[0]["description"].endswith(" · 1 answer (this one)")
    assert not listed.buttons
    same = await scene.command("resume", id=first[:8])
    assert same.is_deleted
    await scene.said("-# That is the conversation you are in.")

    await done(scene, "clear")
    proposed = scene.discord.complete("resume", "id", first[:3])
    assert await proposed.choice_names(patience()) == [f"{first[:8]} my cat is Miso"]
    paused = await pause_answer(scene, "One.", "Two.")
    waiting = scene.discord.call("resume", {"id": first[:8]})
    await scene.until(lambda: waiting.is_deferred)
    assert scene.bot.session() != first
    paused.resume()
    await scene.said_with("Two.")
    await scene.said_with("-# Back in the conversation of today ")
    assert scene.bot.session() == first
    await scene.ask("which cat?", "Miso.")
    assert "my cat is Miso" in heard(scene)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("ab", "There is no conversation `ab`. `/sessions` shows them."),
        ("abcd ef", "There is no conversation `abcd ef`. `/sessions` shows them."),
    ],
)
async def test_what_cannot_be_resumed_is_told_to_the_caller_alone(
    scene: DiscordScene, given: str, answer: str
) -> None:
    assert (await scene.command("resume", id=given)).text == answer
    assert len(scene.discord.said) == 1


@pytest.mark.real_engine
async def test_compact_tells_its_line_at_rest_after_an_answer_and_in_a_fork(
    scene: DiscordScene,
) -> None:
    await done(scene, "compact")
    await scene.said("-# There is nothing to compact yet.")
    answer = await scene.ask("hello", "Hi Ada.")
    await scene.until(lambda: _is_noted(scene, answer.id))
    assert (await scene.command("cost")).text.startswith("Today: 1 answer, $")
    await done(scene, "compact", instructions="keep the name Miso")
    await scene.said_with("-# 1 turn · 0m · ")
    assert any("keep the name Miso" in str(each.body) for each in scene.model.requests)

    paused = await pause_answer(scene, "One.", "Two.")
    waiting = scene.discord.call("compact", {})
    await scene.until(lambda: waiting.is_deferred)
    assert not waiting.is_deleted
    paused.resume()
    await scene.until(lambda: waiting.is_deleted)
    assert [row["event"] for row in scene.bot.rows("session_history.jsonl")].count("compacted") == 2

    await enter_fork(scene, "Rome", "In May.")
    await done(scene, "compact")
    await scene.said_with(f"tokens compacted\n-# {FORK}")
    assert not is_closed(scene, "Side conversation")


async def test_a_fork_begins_at_rest_or_after_the_answer_and_never_in_a_fork(
    scene: DiscordScene,
) -> None:
    paused = await pause_answer(scene, "One.", "Two.")
    waiting = scene.discord.call("fork", {"topic": "a trip  to Rome"})
    await scene.until(lambda: waiting.is_deferred)
    scene.model.when("[fork-started]", _saying("In May."))
    paused.resume()
    card = await scene.card("Side conversation")
    assert card.embeds[0]["description"] == "Topic: a trip to Rome"
    assert card.embeds[0]["footer"]["text"] == FORK
    assert [each["label"] for each in card.buttons] == [
        "Keep all of it",
        "Keep a summary",
        "Leave it",
    ]
    await scene.said(f"In May.\n-# {FORK}")
    await scene.until(lambda: waiting.is_deleted)
    assert (await scene.command("fork")).text == ALREADY_OPEN

    await scene.press(card, "Leave it")
    await scene.card("Side conversation ended — nothing kept")
    await done(scene, "fork")
    await scene.until(lambda: scene.card_count("Side conversation") == 2)
    card = await scene.card("Side conversation")
    expected = "What is said here stays separate from the main conversation."
    assert card.embeds[0]["description"] == expected


async def test_an_interrupt_stops_the_answer_and_nothing_else(scene: DiscordScene) -> None:
    assert (await scene.command("interrupt")).text == "Nothing is running."
    await hang(scene, "think about tea")
    await done(scene, "interrupt")
    await scene.said("-# stopped.")
    await enter_fork(scene, "Rome", "In May.")
    await hang(scene, "and where?")
    await done(scene, "interrupt")
    await scene.said(f"-# stopped.\n-# {FORK}")
    assert not is_closed(scene, "Side conversation")


async def test_setup_asks_and_shows_nothing_as_from_the_page(scene: DiscordScene) -> None:
    await done(scene, "setup")
    await scene.card(FIRST_QUESTION)
    assert not scene.model.requests
    assert len(scene.discord.messages) == 2


async def test_a_typed_command_does_the_same_and_the_model_is_not_asked(
    scene: DiscordScene,
) -> None:
    scene.discord.say("/model opus")
    await scene.said_with("model.main is now opus (it was default).")
    scene.discord.say("/model opus or so")
    await scene.said("`/model` takes fewer words: write `/model [name]`.")
    scene.discord.say("/clear")
    await scene.said_with("There was nothing to clear")
    assert not scene.model.requests
    await scene.ask("hello", "Hi Ada.")
    assert "opus" in scene.model.requests[-1].model


def _is_noted(scene: DiscordScene, ref: str) -> bool:
    """Whether the log has the id of a message on Discord."""
    return any(ref in each.refs for each in scene.bot.deliveries())


def _saying(text: str) -> Reply:
    return Reply((Say(text),))
