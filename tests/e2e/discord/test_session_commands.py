"""Slash commands that change the conversation: at rest, while an answer is written, in a fork."""

from __future__ import annotations

import pytest
from tests.e2e.bot import LIMIT
from tests.e2e.discord.held import held
from tests.e2e.discord.talk import Talk
from tests.engine.scene import spoken

from ollim_bot.offline.messages import Hang, Reply, Say

FORK = "side conversation · apart from the main one"
CLEARED = "Cleared"
ALREADY_OPEN = "You are in a side conversation already. Leave it first, or keep what it brought."


@pytest.fixture
def talk(talk: Talk) -> Talk:
    """On a Discord that lets the bot say many things in a row."""
    talk.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return talk


async def hang(talk: Talk, text: str) -> None:
    """A turn that runs until somebody stops it."""
    number = len(talk.model.requests) + 1
    talk.model.then(Hang())
    talk.discord.say(text)
    await talk.model.seen(number, LIMIT)


async def enter_fork(talk: Talk, topic: str, answer: str) -> None:
    talk.model.answers(answer)
    await done(talk, "fork", topic=topic)
    await talk.said(f"{answer}\n-# {FORK}")


async def done(talk: Talk, name: str, /, **arguments: str) -> None:
    """What comes of it stands in the conversation, and the caller is told nothing more."""
    assert (await talk.command(name, **arguments)).is_deleted


def heard(talk: Talk) -> str:
    """All that the model was told in its last request."""
    return "\n".join(spoken(talk.model.requests[-1]))


def is_closed(talk: Talk, title: str) -> bool:
    """Whether the last card with this title has no button left to press."""
    cards = [each for each in talk.discord.said if each.embeds and each.embeds[0]["title"] == title]
    return all(button.get("disabled") for button in cards[-1].buttons)


def notes(talk: Talk, text: str) -> int:
    return talk.discord.texts.count(text)


async def test_clear_begins_a_new_conversation_whatever_goes_on(talk: Talk) -> None:
    await talk.ask("my cat is Miso", "Noted.")
    await done(talk, "clear")
    card = await talk.card(CLEARED)
    assert [each["label"] for each in card.buttons] == ["Undo"]
    assert talk.bot.session() is None
    await talk.ask("hello", "Hi.")
    assert "Miso" not in heard(talk)

    await hang(talk, "think about tea")
    await done(talk, "clear")
    await talk.until(lambda: talk.count(CLEARED) == 2)
    await talk.said("-# stopped.")
    await talk.ask("hello again", "Hi again.")
    assert "tea" not in heard(talk)

    await enter_fork(talk, "Rome", "In May.")
    await done(talk, "clear")
    await talk.until(lambda: talk.count(CLEARED) == 3)
    await talk.until(lambda: is_closed(talk, "Side conversation"))
    await talk.ask("and now", "Now what?")
    assert "Rome" not in heard(talk)


async def test_a_restart_greets_once_and_a_clear_before_it_can_be_undone(talk: Talk) -> None:
    await talk.ask("my cat is Miso", "Noted.")
    first = talk.bot.session()
    await done(talk, "clear")
    card = await talk.card(CLEARED)
    answer = await talk.command("restart")
    assert answer.text == "Restarting. The conversation goes on where it is."
    await talk.said("-# back after a restart.")
    await talk.bot.reconnect()
    await talk.press(card, "Undo")
    await talk.until(lambda: talk.bot.session() == first)
    await talk.card("Undone")
    await talk.ask("which cat?", "Miso.")
    assert "my cat is Miso" in heard(talk)
    assert notes(talk, "-# back after a restart.") == 1
    assert talk.discord.command_puts == 1


async def test_a_cleared_conversation_is_listed_proposed_and_resumed(talk: Talk) -> None:
    await talk.ask("my cat is Miso", "Noted.")
    first = talk.bot.session()
    assert first is not None
    await done(talk, "sessions")
    listed = await talk.card("Conversations")
    assert listed.embeds[0]["description"].startswith("today ")
    assert " · my cat is Miso · " in listed.embeds[0]["description"]
    assert listed.embeds[0]["description"].endswith(" kB (this one)")
    assert not listed.buttons
    same = await talk.command("resume", id=first[:8])
    assert same.is_deleted
    await talk.said("-# That is the conversation you are in.")

    await done(talk, "clear")
    proposed = talk.discord.complete("resume", "id", first[:3])
    assert await proposed.choice_names(LIMIT) == [f"{first[:8]} my cat is Miso"]
    hold = await held(talk, "One.", "Two.")
    waiting = talk.discord.call("resume", {"id": first[:8]})
    await talk.until(lambda: waiting.is_deferred)
    assert talk.bot.session() != first
    hold.let_go()
    await talk.said_with("Two.")
    await talk.said_with("-# Back in the conversation of today ")
    assert talk.bot.session() == first
    await talk.ask("which cat?", "Miso.")
    assert "my cat is Miso" in heard(talk)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("ab", "There is no conversation `ab`. `/sessions` shows them."),
        ("abcd ef", "There is no conversation `abcd ef`. `/sessions` shows them."),
    ],
)
async def test_what_cannot_be_resumed_is_told_to_the_caller_alone(
    talk: Talk, given: str, answer: str
) -> None:
    assert (await talk.command("resume", id=given)).text == answer
    assert len(talk.discord.said) == 1


@pytest.mark.real_engine
async def test_compact_tells_its_line_at_rest_after_an_answer_and_in_a_fork(talk: Talk) -> None:
    await done(talk, "compact")
    await talk.said("-# There is nothing to compact yet.")
    answer = await talk.ask("hello", "Hi Ada.")
    await talk.until(lambda: _is_noted(talk, answer.id))
    assert (await talk.command("cost")).text.startswith("Today: 1 answer, at a price ")
    await done(talk, "compact", instructions="keep the name Miso")
    await talk.said_with("-# 1 turn · 0m · ")
    assert any("keep the name Miso" in str(each.body) for each in talk.model.requests)

    hold = await held(talk, "One.", "Two.")
    waiting = talk.discord.call("compact", {})
    await talk.until(lambda: waiting.is_deferred)
    assert not waiting.is_deleted
    hold.let_go()
    await talk.until(lambda: waiting.is_deleted)
    assert [row["event"] for row in talk.bot.rows("session_history.jsonl")].count("compacted") == 2

    await enter_fork(talk, "Rome", "In May.")
    await done(talk, "compact")
    await talk.said_with(f"tokens compacted\n-# {FORK}")
    assert not is_closed(talk, "Side conversation")


async def test_a_fork_begins_at_rest_or_after_the_answer_and_never_in_a_fork(talk: Talk) -> None:
    hold = await held(talk, "One.", "Two.")
    waiting = talk.discord.call("fork", {"topic": "a trip  to Rome"})
    await talk.until(lambda: waiting.is_deferred)
    talk.model.when("[fork-started]", _saying("In May."))
    hold.let_go()
    card = await talk.card("Side conversation")
    assert card.embeds[0]["description"] == "Topic: a trip to Rome"
    assert card.embeds[0]["footer"]["text"] == FORK
    assert [each["label"] for each in card.buttons] == [
        "Keep all of it",
        "Keep a summary",
        "Leave it",
    ]
    await talk.said(f"In May.\n-# {FORK}")
    await talk.until(lambda: waiting.is_deleted)
    assert (await talk.command("fork")).text == ALREADY_OPEN

    await talk.press(card, "Leave it")
    await talk.card("Side conversation ended — left")
    await done(talk, "fork")
    await talk.until(lambda: talk.count("Side conversation") == 2)
    card = await talk.card("Side conversation")
    expected = "What is said here stays separate from the main conversation."
    assert card.embeds[0]["description"] == expected


async def test_an_interrupt_stops_the_answer_and_nothing_else(talk: Talk) -> None:
    assert (await talk.command("interrupt")).text == "Nothing is running."
    await hang(talk, "think about tea")
    await done(talk, "interrupt")
    await talk.said("-# stopped.")
    await enter_fork(talk, "Rome", "In May.")
    await hang(talk, "and where?")
    await done(talk, "interrupt")
    await talk.said(f"-# stopped.\n-# {FORK}")
    assert not is_closed(talk, "Side conversation")


async def test_setup_asks_the_agent_and_shows_nothing_as_from_the_page(talk: Talk) -> None:
    talk.model.answers("How are you called?")
    await done(talk, "setup")
    await talk.said("How are you called?")
    assert "[button]" in talk.model.requests[-1].last_user_text
    assert len(talk.discord.messages) == 2


async def test_a_typed_command_does_the_same_and_the_model_is_not_asked(talk: Talk) -> None:
    talk.discord.say("/model opus")
    await talk.said("model.main is now opus (it was default).")
    talk.discord.say("/model opus or so")
    await talk.said("That is too much. Right: `/model [name]`.")
    talk.discord.say("/clear")
    await talk.said_with("There was nothing to clear")
    assert not talk.model.requests
    await talk.ask("hello", "Hi Ada.")
    assert "opus" in talk.model.requests[-1].model


def _is_noted(talk: Talk, ref: str) -> bool:
    """Whether the log knows under which id a message stands on Discord."""
    return any(ref in each.refs for each in talk.bot.deliveries())


def _saying(text: str) -> Reply:
    return Reply((Say(text),))
