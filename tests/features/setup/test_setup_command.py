"""`/setup` has the agent set the owner up; while the built-in model answers, the program asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.conversation.failing_stores import FullDiskStore
from tests.kernel.conversation.scene import NOW, STATUS, Scene, scene, scripted
from tests.stores import memory_stores, on_store

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.prompts.prompt_context import READ_ONLY, neutralised
from ollim_bot.kernel.prompts.turn_prompts import button_prompt, continued_prompt, read_set_up
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId, OwnerMessage, ToolCalled
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runs import DeliveryRight
from ollim_bot.offline import texts
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.offline.server import Message, ModelRequest, Say

FULL = WriteFailed(Path("inbox.jsonl"), "the disk is full")


async def test_the_agent_is_asked_and_the_owner_sees_what_they_wanted() -> None:
    engine = scripted("What do you want to be called?", "Again?")
    async with scene(engine) as at:
        answer = await at.chat.command("web", "/setup")
        await at.quiet()

        assert (answer.text, answer.is_error) == ("", False)
        (prompt,) = engine.prompts
        assert prompt == button_prompt(read_set_up(), NOW)
        assert at.surface.posted_by(Author.OWNER) == ["Set up"]
        assert at.answers[-1].text == "What do you want to be called?"
        await at.chat.command("web", "/setup")
        await at.quiet()
        assert at.answers[-1].text == "Again?"


OFFLINE = replace(STATUS, is_offline=True)


async def test_the_program_asks_itself_while_the_built_in_model_answers() -> None:
    engine = scripted()
    async with scene(engine, status=OFFLINE) as at:
        await at.chat.command("web", "/setup")
        assert at.log[-1].text.endswith("What shall I call you?")
        for words, next_words in (
            ("Ada", "Hello, Ada.\n\nDo I keep the name Ollim? Say yes, or give me another."),
            ("yes", "It is 10:15 for you, in UTC. Is that right? If not, name your city."),
            ("Atlantis", "I know no time zone of Atlantis. Name a large city near you, such as Be"),
            ("Berlin", "Your time zone is Europe/Berlin.\n\nWhen shall I be quiet?"),
            ("10-7", "I do not understand `10-7`. Two times, such as `22-7`."),
            ("22-7", "Quiet from 22:00 to 07:00.\n\nWhat do you forget most?"),
            ("skip", "That was all."),
        ):
            await at.send(words)
            assert next_words in at.log[-1].text, words
            buttons = [each.card.buttons for each in at.log[:-1] if each.card]
            assert not any(buttons), "a question that has its answer keeps no button"
        config, names = await at.stores.state.read(lambda tx: (tx.config.get(), tx.names.get()))
        assert (config.timezone, config.quiet_hours) == ("Europe/Berlin", "22:00-07:00")
        assert names.user == "Ada"
        assert engine.prompts == []


@pytest.mark.parametrize(
    "words", ["remind me in 1 minute to drink water", "what is next?", "hello"]
)
async def test_words_about_something_else_are_for_the_model(words: str) -> None:
    engine = scripted("Yes.")
    async with scene(engine, status=OFFLINE) as at:
        await at.chat.command("web", "/setup")
        await at.send(words)
        await at.quiet()
        assert words in engine.prompts[-1]
        names = await at.stores.state.read(lambda tx: tx.names.get())
        assert names.user is None


async def due(at: Scene) -> None:
    spec = JobSpec(id="a1b2c3d4", message="drink water", background=True, plain=True)
    moment = Occurrence.scheduled(JobKind.REMINDER, spec.id, NOW)
    await at.talk.reminders.deliver(Reminder(spec, NOW), moment, DeliveryRight(), "")


@pytest.mark.parametrize("words", ["done", "later", "in 20 minutes"])
async def test_a_card_that_is_answered_in_between_leaves_the_question_open(words: str) -> None:
    engine = scripted("drink water: done.")
    async with scene(engine, status=OFFLINE) as at:
        await at.chat.command("web", "/setup")
        await due(at)
        await at.send(words, "card")
        await at.quiet()
        assert words in engine.prompts[-1]
        await at.send("Zoë", "name")
        assert "Hello, Zoë." in at.log[-1].text
        assert len(engine.prompts) == 1


async def test_talk_about_something_else_ends_the_question() -> None:
    engine = scripted("Nothing is next.", "I did not understand that.")
    async with scene(engine, status=OFFLINE) as at:
        await at.chat.command("web", "/setup")
        await due(at)
        await at.send("what is next?", "next")
        await at.quiet()
        await at.send("Pizza", "pizza")
        await at.quiet()
        assert "Pizza" in engine.prompts[-1]


async def test_the_last_question_leaves_the_reminder_to_the_model() -> None:
    engine = scripted("Routine set.")
    async with scene(engine, status=OFFLINE) as at:
        await at.chat.command("web", "/setup")
        for label in ("Skip", "Yes", "Yes", "Skip"):
            await at.press(label)
        assert "What do you forget most?" in at.log[-1].text
        await at.send("take my pills every day at 8am")
        await at.quiet()
        assert "take my pills every day at 8am" in engine.prompts[-1]


async def test_it_outlives_a_crash() -> None:
    engine = scripted("What do you want to be called?")
    async with scene(engine, runs=False) as stopped:
        await stopped.chat.command("web", "/setup")
    async with scene(engine, stores=stopped.stores) as at:
        await at.quiet()
        assert at.answers[-1].text == "What do you want to be called?"
        assert at.surface.posted_by(Author.OWNER) == []


async def test_what_cannot_be_kept_is_said() -> None:
    stores = memory_stores(NOW)
    full = on_store(stores, FullDiskStore(stores.state))
    async with scene(ScriptedEngine(), stores=full) as at:
        answer = await at.chat.command("web", "/setup")
        assert (answer.is_error, answer.text) == (True, "ollim.db: No space left on device.")
        assert at.log == []


def test_the_prompt_asks_for_what_set_up_is_about() -> None:
    words = read_set_up()
    for word in (
        "update_names",
        "`/config timezone Europe/Berlin`",
        "never ask for one",
        "In a terminal, `ollim-bot setup`",
        "USER.md",
        "skip",
        "one reminder or one routine",
    ):
        assert word in words
    assert neutralised(words) == words


PROMPTS = {
    "a button": button_prompt(read_set_up(), NOW),
    "a button with news": button_prompt(read_set_up(), NOW, f"{READ_ONLY}\n- (5m ago) Rain."),
    "after a crash": continued_prompt(
        (ToolCalled(NOW, TurnId("t"), "update_names", ""),),
        NOW,
        again=(OwnerMessage(InputId("a"), "web", NOW, read_set_up(), button="Set up"),),
    ),
}


def answered(text: str) -> str:
    request = ModelRequest("m", (Message("user", ({"type": "text", "text": text},)),))
    (part,) = OfflineModel(".venv/bin/ollim-bot").reply(request).parts
    assert isinstance(part, Say)
    return part.text


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_the_built_in_model_says_what_can_be_written_and_where_the_rest_is(prompt: str) -> None:
    said = answered(prompt)
    for line in ("`call me Ada`", "`your name is Max`", "`/config timezone Europe/Berlin`"):
        assert line in said
    assert "In a terminal, `.venv/bin/ollim-bot setup` asks for the rest" in said
    assert texts.NO_KEYS_HERE in said


def test_the_clock_is_shown_with_the_zone() -> None:
    assert "your time zone (it is 10:15 UTC now)" in answered(PROMPTS["a button"])


def test_other_words_about_setting_up_are_not_taken_for_it() -> None:
    assert "`call me Ada`" not in answered("Set me up: remind me at 9 to run")


async def test_the_agent_names_the_command_as_it_is_typed_here() -> None:
    engine = scripted("What do you want to be called?")
    async with scene(engine, status=replace(STATUS, program=".venv/bin/ollim-bot")) as at:
        await at.chat.command("web", "/setup")
        await at.quiet()
        (prompt,) = engine.prompts
        assert "In a terminal, `.venv/bin/ollim-bot setup` asks" in prompt
