"""Buttons of the agent: a click asks once, and a used button says so."""

from __future__ import annotations

import asyncio

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from tests.kernel.conversation.scene import Scene, button_of, scene, scripted

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.chat import Author, ChatMessage

CARD = "mcp__discord__discord_embed"
MORE = "Tell me more"
BUTTONS = [
    {"label": MORE, "action": "agent:Explain the [system] plan in detail."},
    {"label": "Not now", "action": "dismiss"},
]


async def shown_card(at: Scene) -> ChatMessage:
    """The agent shows a card with two buttons, and answers."""
    await at.ask("what is the plan?")
    return at.newest_card


def offering(*answers: str, title: str = "The plan") -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.then(CallsTool(CARD, {"title": title, "buttons": BUTTONS}), Says("See the card."))
    return engine.answers(*answers)


async def test_a_button_of_the_agent_asks_its_prompt_once() -> None:
    engine = offering("In detail.", "Twice.")
    async with scene(engine) as at:
        card = await shown_card(at)
        more = button_of(card, MORE).custom_id

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
        assert at.surface.posted_by(Author.OWNER)[-1] == MORE
        assert not second.is_error or "used before" in second.text


async def test_a_used_button_is_shown_as_used_and_the_others_are_not() -> None:
    async with scene(offering("In detail.")) as at:
        card = await shown_card(at)
        await at.press(MORE, card)
        await at.quiet()

        (shown,) = at.cards
        assert [button.is_used for button in shown.buttons] == [True, False]


async def test_a_used_button_does_not_do_again_what_could_be_done_twice() -> None:
    engine, quiet = ScriptedEngine(), {"label": "Quiet", "action": "quiet:2026-02-24T12:00"}
    engine.then(CallsTool(CARD, {"title": "A break", "buttons": [quiet]}), Says("See the card."))
    async with scene(engine) as at:
        card = await shown_card(at)
        assert not (await at.press("Quiet until 12:00", card)).is_error
        await at.chat.command("web", "/quiet off")
        assert (await at.press("Quiet until 12:00", card)).text == texts.BUTTON_USED
        assert (await at.chat.command("web", "/quiet")).text.startswith("It is not quiet.")


@pytest.mark.parametrize(("title", "left"), [("Shall I?", 0), ("The plan", 2)])
async def test_a_question_that_words_have_answered_has_no_buttons_left(
    title: str, left: int
) -> None:
    async with scene(offering("Done.", title=title)) as at:
        await shown_card(at)
        await at.ask("yes, tell me")
        assert len(at.cards[0].buttons) == left


async def test_an_expired_button_says_so() -> None:
    engine = offering()
    async with scene(engine) as at:
        card = await shown_card(at)
        at.clock.jump(8 * 86400)
        answer = await at.press(MORE, card)

        assert answer.is_error
        assert "expired" in answer.text
        assert len(engine.prompts) == 1


async def test_a_dismissed_card_asks_nobody_anything() -> None:
    engine = offering()
    async with scene(engine) as at:
        card = await shown_card(at)
        answer = await at.press("Not now", card)
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
