"""Discord refuses a request: the answer says what is missing, in order."""

from __future__ import annotations

from devtools.localdiscord.faults import Delayed, ErrorResponse
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import script_paused_answer

SEND = "POST /channels/*/messages"
CAUGHT_UP = "Here.\n-# catching up on background activity..."


async def test_of_a_second_message_that_is_refused_for_good_the_owner_is_told(
    scene: DiscordScene,
) -> None:
    """The answer fills two messages while it streams, and then pauses."""
    text = " ".join(f"Sentence {each} about tea ends here." for each in range(1, 71))
    paused = await script_paused_answer(scene, text, "That is all.")
    scene.discord.next_fail(SEND, Delayed(0.0))
    scene.discord.next_fail(SEND, ErrorResponse(400, 50035, "Invalid Form Body"), 2)
    scene.discord.say("go on")
    await scene.until(lambda: any(each.status == 400 for each in scene.discord.requests))
    paused.resume()
    note = await scene.said_with("This did not arrive on Discord: “Sentence 1 about tea")
    assert "Only its beginning arrived" in note.text
    await scene.ask("and now", "Here.")
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    question, beginning, told, *rest = (each.text for each in scene.discord.messages[1:])
    assert (question, told, rest) == ("go on", note.text, ["and now", CAUGHT_UP])
    assert text.startswith(beginning.split("\n")[0])
