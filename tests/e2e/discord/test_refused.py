"""Discord refuses a request: the answer is complete or says what is missing, in order."""

from __future__ import annotations

import pytest
from devtools.localdiscord.faults import Delayed, ErrorResponse
from tests.e2e.discord.answers import sentences
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import PausedAnswer, script_paused_answer

from ollim_bot.offline.server import Reply, Say

SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"

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
