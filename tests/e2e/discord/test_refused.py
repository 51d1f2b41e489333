"""Discord refuses a request: the answer is complete or says what is missing, in order."""

from __future__ import annotations

import pytest
from devtools.localdiscord.faults import Delayed, ErrorResponse
from tests.e2e.discord.answers import sentences, tokens
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import PausedAnswer, pause_answer, script_paused_answer

from ollim_bot.offline.messages import Reply, Say

SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
# In seconds; discord.py alone would retry for 16 seconds.
PATIENCE = 13.0
TYPING, MARK = "POST /channels/*/typing", "PUT /channels/*/reactions/*"

CAUGHT_UP = "Here.\n-# catching up on background activity..."


def visible(scene: DiscordScene) -> list[str]:
    """All messages since the welcome."""
    return [each.text for each in scene.discord.messages[1:]]


def never_above(scene: DiscordScene, question: str, answer: str) -> bool:
    """Whether these words were never shown above the question."""
    messages = scene.discord.state.messages.values()
    asked = next(int(each.id) for each in messages if each.text == question)
    shown = [each for each in messages if any(answer in text for text in each.texts)]
    return bool(shown) and all(int(each.id) > asked for each in shown)


async def until_idle(scene: DiscordScene) -> None:
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))


async def test_neither_a_mark_nor_typing_is_needed_for_an_answer(scene: DiscordScene) -> None:
    scene.discord.next_fail(MARK, ErrorResponse(403, 90001), None)
    scene.discord.next_fail(TYPING, ErrorResponse(500), 5)
    await scene.ask("first", "One.")
    await scene.ask("second", "Two.")
    assert visible(scene) == ["first", "One.", "second", "Two."]


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(404, 10008), ErrorResponse(403, 50005), ErrorResponse(400, 50035)]
)
async def test_where_an_edit_is_refused_the_answer_is_a_new_message(
    scene: DiscordScene, refusal: ErrorResponse
) -> None:
    """Once while the answer streams, and once when it is complete."""
    paused = await script_paused_answer(scene, "One.", "Two.")
    scene.discord.next_fail(EDIT, refusal)
    scene.discord.say("go on")
    await scene.until(lambda: not scene.discord.faults_left)
    paused.resume()
    await scene.said("One.\n\nTwo.")

    paused = await pause_answer(scene, "Three.", "Four.")
    scene.discord.next_fail(EDIT, refusal, 2)
    paused.resume()
    await scene.said("Three.\n\nFour.")
    scene.discord.mend()
    await scene.ask("and now", "Here.")
    await until_idle(scene)
    expected = ["go on", "One.\n\nTwo.", "go on", "Three.\n\nFour.", "and now", "Here."]
    await scene.until(lambda: visible(scene) == expected)


async def test_an_edit_that_fails_again_and_again_does_not_keep_the_answer_back_for_long(
    scene: DiscordScene,
) -> None:
    scene.discord.next_fail(EDIT, ErrorResponse(500), None)
    scene.model.answers("One.")
    scene.discord.say("first")
    await scene.bot.answer()
    whole_at = scene.now
    await scene.said("One.")
    assert scene.now - whole_at < PATIENCE
    scene.discord.mend()
    await scene.ask("second", "Two.")
    await until_idle(scene)
    await scene.until(lambda: visible(scene) == ["first", "One.", "second", "Two."])
    assert never_above(scene, "second", "Two.")


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(400, 50035, "Invalid Form Body"), ErrorResponse(403, 50007)]
)
async def test_a_second_message_that_is_refused_once_is_sent_again(
    scene: DiscordScene, refusal: ErrorResponse
) -> None:
    text = sentences(70, "tea")
    paused = await second_message_refused(scene, text, refusal, times=1)
    paused.resume()
    await scene.until(lambda: tokens(visible(scene)) == tokens(["go on", text, "That is all."]))
    await scene.ask("and now", "Here.")
    await until_idle(scene)
    assert tokens(visible(scene)) == tokens(["go on", text, "That is all.", "and now", "Here."])


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(400, 50035, "Invalid Form Body"), ErrorResponse(403, 50007)]
)
async def test_of_a_second_message_that_is_refused_for_good_the_owner_is_told(
    scene: DiscordScene, refusal: ErrorResponse
) -> None:
    text = sentences(70, "tea")
    paused = await second_message_refused(scene, text, refusal, times=2)
    paused.resume()
    note = await scene.said_with("This did not arrive on Discord: “Sentence 1 about tea")
    assert "Only its beginning arrived" in note.text
    await scene.ask("and now", "Here.")
    await until_idle(scene)
    question, beginning, told, *rest = visible(scene)
    assert (question, told, rest) == ("go on", note.text, ["and now", CAUGHT_UP])
    assert text.startswith(beginning.split("\n")[0])


async def second_message_refused(
    scene: DiscordScene, text: str, refusal: ErrorResponse, times: int
) -> PausedAnswer:
    """An answer that fills two messages while it streams, and then pauses."""
    paused = await script_paused_answer(scene, text, "That is all.")
    scene.discord.next_fail(SEND, Delayed(0.0))
    scene.discord.next_fail(SEND, refusal, times)
    scene.discord.say("go on")
    await scene.until(lambda: any(each.status == refusal.status for each in scene.discord.requests))
    return paused


async def test_no_answer_is_ever_shown_above_its_question(scene: DiscordScene) -> None:
    """Questions come faster than they are answered, and edits fail in between."""
    scene.discord.allowance(10, 1.0)
    numbers = ["one", "two", "three", "four", "five", "six"]
    for number in numbers:
        text = sentences(12, number)
        scene.model.when(f"question {number}", Reply((Say(text),), pace=0.02, chunk=20))
    for place, number in enumerate(numbers):
        if place % 2:
            scene.discord.next_fail(EDIT, ErrorResponse(404, 10008))
        scene.discord.say(f"question {number}")
        await scene.said_with(f"about {number} ends")
    last = sentences(12, "six")
    await scene.said(last)
    await until_idle(scene)
    for number in numbers:
        assert never_above(scene, f"question {number}", f"about {number} ends")
    assert visible(scene)[-1] == last
