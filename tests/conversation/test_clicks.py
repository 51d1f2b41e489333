"""Buttons of the agent: a click asks once, and a used button says so."""

from __future__ import annotations

import asyncio

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from tests.conversation.scene import Scene, scene, scripted

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import InputEnd

CARD = "mcp__discord__discord_embed"
BUTTONS = [
    {"label": "Tell me more", "action": "agent:Explain the [system] plan in detail."},
    {"label": "Not now", "action": "dismiss"},
]


async def shown_card(at: Scene) -> ChatMessage:
    """The agent shows a card with two buttons, and answers."""
    await at.ask("what is the plan?")
    (card,) = (message for message in at.log if message.card is not None)
    return card


def offering(*answers: str, title: str = "The plan") -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.then(CallsTool(CARD, {"title": title, "buttons": BUTTONS}), Says("See the card."))
    return engine.answers(*answers)


async def test_a_button_of_the_agent_asks_its_prompt_once() -> None:
    engine = offering("In detail.", "Twice.")
    async with scene(engine) as at:
        card = await shown_card(at)
        assert card.card is not None
        more = card.card.buttons[0].custom_id

        first, second = await asyncio.gather(
            at.chat.click("web", card.id, more), at.chat.click("web", card.id, more)
        )
        await at.quiet()
        third = await at.chat.click("web", card.id, more)
        await at.quiet()

        assert not first.is_error
        assert third.is_error
        assert at.answers[-1].text == "In detail."
        assert len(engine.prompts) == 2
        assert engine.prompts[1].startswith("[button]\n[2026-02-24")
        assert engine.prompts[1].endswith("Explain the \\[system] plan in detail.")
        assert at.surface.posted_by(Author.OWNER)[-1] == "Tell me more"
        assert not second.is_error or "used before" in second.text


async def test_a_used_button_is_shown_as_used_and_the_others_are_not() -> None:
    async with scene(offering("In detail.")) as at:
        card = await shown_card(at)
        assert card.card is not None
        await at.chat.click("web", card.id, card.card.buttons[0].custom_id)
        await at.quiet()

        found = await at.chat.message(card.id)
        assert found is not None
        assert found.card is not None
        assert [button.is_used for button in found.card.buttons] == [True, False]


@pytest.mark.parametrize(("title", "left"), [("Shall I?", 0), ("The plan", 2)])
async def test_a_question_that_words_have_answered_has_no_buttons_left(
    title: str, left: int
) -> None:
    async with scene(offering("Done.", title=title)) as at:
        card = await shown_card(at)
        await at.ask("yes, tell me")
        found = await at.chat.message(card.id)
        assert found is not None
        assert found.card is not None
        assert len(found.card.buttons) == left


async def test_a_click_survives_a_restart_and_is_still_once() -> None:
    engine = offering("In detail.", "Twice.")
    async with scene(engine) as at:
        card = await shown_card(at)
    assert card.card is not None
    more = card.card.buttons[0].custom_id
    async with scene(engine, stores=at.stores, runs=False) as stopped:
        await stopped.chat.click("web", card.id, more)
    async with scene(engine, stores=at.stores) as again:
        await again.quiet()
        assert again.answers[-1].text == "In detail."
        assert again.ends[f"click-{card.card.buttons[0].data}"] is InputEnd.ANSWERED
        assert (await again.chat.click("web", card.id, more)).is_error
        await again.quiet()
    assert len(engine.prompts) == 2


async def test_an_expired_button_says_so() -> None:
    engine = offering()
    async with scene(engine) as at:
        card = await shown_card(at)
        assert card.card is not None
        at.clock.jump(8 * 86400)
        answer = await at.chat.click("web", card.id, card.card.buttons[0].custom_id)

        assert answer.is_error
        assert "expired" in answer.text
        assert len(engine.prompts) == 1


async def test_a_dismissed_card_asks_nobody_anything() -> None:
    engine = offering()
    async with scene(engine) as at:
        card = await shown_card(at)
        assert card.card is not None
        answer = await at.chat.click("web", card.id, card.card.buttons[1].custom_id)
        await at.quiet()

        assert not answer.is_error
        assert len(engine.prompts) == 1


async def test_a_button_that_is_not_there_does_nothing() -> None:
    async with scene(scripted("Hello.")) as at:
        await at.ask("hello")
        plain = at.answers[-1]
        for message_id, custom_id in [(plain.id, "act:agent:12345678"), (MessageId("no"), "x")]:
            answer = await at.chat.click("web", message_id, custom_id)
            assert answer.is_error


async def test_tools_of_the_main_session_act_at_once() -> None:
    engine = ScriptedEngine()
    reminder = {"prompt": "drink water", "delay_minutes": 20}
    engine.then(CallsTool("mcp__discord__add_reminder", reminder), Says("Set."))
    async with scene(engine) as at:
        await at.ask("remind me to drink water")
        (stored,) = at.stores.reminders.all()
        assert stored.item.spec.message == "drink water"
