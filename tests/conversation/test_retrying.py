"""Retry: what got no answer is asked again once, as it was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conversation.scene import Scene, scene

from ollim_bot.conversation import texts
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import EndCause, FailureKind, TurnEnded, TurnFailure
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.ports import IncomingFile
from ollim_bot.testing.engine import ScriptedEngine

OVERLOADED = TurnFailure(FailureKind.OVERLOADED, "Claude is overloaded. Try again.")
FAILS = TurnEnded(EndCause.FAILED, failure=OVERLOADED)

pytestmark = pytest.mark.usefixtures("at_once")


def retry(at: Scene) -> tuple[ChatMessage, Button]:
    """The newest failure, with its button."""
    note = next(each for each in reversed(at.log) if each.card is not None)
    assert note.card is not None
    (button,) = note.card.buttons
    return note, button


async def press(at: Scene, surface: str = "web") -> str:
    note, button = retry(at)
    answer = await at.chat.click(surface, note.id, button.custom_id)
    await at.quiet()
    return answer.text


async def test_the_same_message_is_asked_again_once_and_the_button_is_used(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(FAILS).answers("Here.", "Twice.")
    async with scene(engine) as at:
        picture = IncomingFile("cat.png", tmp_path)
        await at.send("what is this?", files=(picture,))
        await at.quiet()
        note, button = retry(at)
        assert (button.label, button.custom_id) == ("Retry", f"act:retry:{note.turn}")
        assert note.text == OVERLOADED.sentence

        click = (at.chat.click("web", note.id, button.custom_id) for _ in range(2))
        first, second = await asyncio.gather(*click)
        await at.quiet()

        assert not first.is_error
        assert second.text in ("", texts.BUTTON_USED)
        assert [each.text for each in at.answers] == ["Here."]
        assert [each.text for each in at.log] == ["what is this?", note.text, "Here."]
        asked, again = engine.prompts
        assert again == asked
        assert at.keeper.reading == ["cat.png", "cat.png"]
        assert retry(at)[1].is_used
        assert (await press(at)) == texts.BUTTON_USED


async def test_messages_that_were_asked_together_are_asked_again_together() -> None:
    engine = ScriptedEngine().then(FAILS)
    async with scene(engine, runs=False) as before:
        await before.send("one")
        await before.send("two")
    async with scene(engine.answers("Both."), stores=before.stores) as at:
        await at.quiet()
        await press(at)
        assert at.answers[-1].text == "Both."
        assert all(word in engine.prompts[-1] for word in ("one", "two"))


async def test_a_button_works_after_a_restart_and_from_the_other_surface() -> None:
    engine = ScriptedEngine().then(FAILS).answers("Here.")
    async with scene(engine) as before:
        await before.ask_in_vain("hello")
    async with scene(engine, stores=before.stores) as at:
        assert await press(at, "discord") == ""
        assert at.answers[-1].text == "Here."


async def test_what_fails_again_can_be_tried_again() -> None:
    engine = ScriptedEngine().then(FAILS).then(FAILS).answers("Here.")
    async with scene(engine) as at:
        await at.ask_in_vain("hello")
        first = retry(at)[0]
        await press(at)
        assert retry(at)[0].id != first.id
        await press(at)
        assert at.answers[-1].text == "Here."
        assert at.ends["hello"] is InputEnd.FAILED


async def test_what_was_stopped_by_the_owner_has_no_retry() -> None:
    async with scene(ScriptedEngine().then(TurnEnded(EndCause.INTERRUPTED))) as at:
        assert await at.ask_in_vain("hello") == texts.STOPPED
        assert at.log[-1].card is None
