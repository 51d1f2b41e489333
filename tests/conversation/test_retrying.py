"""Retry: what got no answer is asked again once, as it was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.conversation.scene import NOW, Scene, scene
from tests.prompts.prompt_parts import unnumbered

from ollim_bot.conversation import texts
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import EndCause, FailureKind, TurnEnded, TurnFailure
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.ports import IncomingFile

OVERLOADED = TurnFailure(FailureKind.OVERLOADED, "Claude is overloaded. Try again.")
FAILS = TurnEnded(EndCause.FAILED, failure=OVERLOADED)

pytestmark = pytest.mark.usefixtures("inline_executor")


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


async def test_the_same_message_is_asked_again_once_and_the_button_is_used(tmp_path: Path) -> None:
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
        assert unnumbered(again) == unnumbered(asked)
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
        await before.ask_without_answer("hello")
    async with scene(engine, stores=before.stores) as at:
        assert await press(at, "discord") == ""
        assert at.answers[-1].text == "Here."


async def test_what_fails_again_can_be_tried_again() -> None:
    engine = ScriptedEngine().then(FAILS).then(FAILS).answers("Here.")
    async with scene(engine) as at:
        await at.ask_without_answer("hello")
        first = retry(at)[0]
        await press(at)
        assert retry(at)[0].id != first.id
        await press(at)
        assert at.answers[-1].text == "Here."
        assert at.ends["hello"] is InputEnd.FAILED


async def test_what_was_stopped_by_the_owner_has_no_retry() -> None:
    async with scene(ScriptedEngine().then(TurnEnded(EndCause.INTERRUPTED))) as at:
        assert await at.ask_without_answer("hello") == texts.STOPPED
        assert at.log[-1].card is None


REFUSED = TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.LOGIN, "Sign in again."))


class Login:
    """Doubles the login at the provider."""

    def __init__(self, mark: str = "old") -> None:
        self.mark = mark

    async def __call__(self) -> str:
        return self.mark


async def test_what_met_a_lost_login_is_answered_after_the_login() -> None:
    engine, login = ScriptedEngine().then(REFUSED).answers("Here."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        await at.clock.advance(60)
        assert at.answers == []
        login.mark = ""
        await at.clock.advance(60)
        assert at.answers == []
        login.mark = "new"
        await at.clock.advance(10)
        await at.until(lambda: at.answers)
        await at.quiet()

        assert [each.text for each in at.log] == ["hello", "Sign in again.", "Here."]
        # A new process reads the new login.
        assert len(engine.opened) > 1
        assert retry(at)[1].is_used
        assert await press(at) == texts.BUTTON_USED
        login.mark = "newer"
        await at.clock.advance(60)
        assert len(engine.prompts) == 2


async def test_what_met_a_lost_login_is_answered_at_the_next_start_with_one() -> None:
    engine = ScriptedEngine().then(REFUSED).answers("Here.")
    async with scene(engine, login=Login("")) as before:
        await before.ask_without_answer("hello")
    async with scene(engine, stores=before.stores, login=Login("")) as still:
        await still.clock.advance(60)
        assert still.answers == []
    async with scene(engine, stores=before.stores, login=Login("key")) as at:
        await at.until(lambda: at.answers)
        assert [each.text for each in at.answers] == ["Here."]


async def test_what_is_refused_again_waits_for_another_login() -> None:
    engine, login = ScriptedEngine().then(REFUSED).then(REFUSED).answers("Here."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        login.mark = "new"
        await at.clock.advance(10)
        await at.until(lambda: len(engine.prompts) == 2)
        await at.quiet()
        await at.clock.advance(60)
        assert len(engine.prompts) == 2
        login.mark = "newer"
        await at.clock.advance(20)
        await at.until(lambda: at.answers)


async def test_after_another_answer_it_is_left_to_the_button() -> None:
    engine, login = ScriptedEngine().then(REFUSED).answers("Here.", "There."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        assert await at.ask("hello, I said") == "Here."
        login.mark = "new"
        await at.clock.advance(60)
        assert len(engine.prompts) == 2
        await press(at)
        assert at.answers[-1].text == "There."


async def test_what_met_a_lost_login_a_day_ago_is_not_asked_by_itself() -> None:
    engine, login, clock = ScriptedEngine().then(REFUSED), Login(), ManualClock(NOW)
    async with scene(engine, login=login, clock=clock) as at:
        await at.ask_without_answer("hello")
        clock.jump(24 * 3600)
        login.mark = "new"
        await clock.advance(60)
        await at.quiet()
        assert len(engine.prompts) == 1
        assert await press(at) == ""
        assert len(engine.prompts) == 2
