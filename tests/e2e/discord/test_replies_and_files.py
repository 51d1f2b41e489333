"""Replies name their message, and files go both ways or a sentence says why not."""

from __future__ import annotations

from tests.e2e.discord.discord_scene import WELCOME, DiscordScene

from ollim_bot.offline.server import CallTool, Reply, Say

MB = 1024 * 1024


async def replied(scene: DiscordScene, text: str, answer: str, *, to: str) -> str:
    """Reply to a message; returns the prompt that the model gets."""
    scene.model.answers(answer)
    scene.discord.say(text, reply_to=to)
    await scene.said_with(answer)
    await scene.until(lambda: not scene.bot.open_inputs())
    return scene.model.requests[-1].last_user_text


async def test_a_reply_quotes_what_it_is_about(scene: DiscordScene) -> None:
    answer = await scene.ask("hello", "Hi Ada.")
    await scene.until(lambda: not scene.bot.open_inputs())
    asked = await replied(scene, "really?", "Really.", to=answer.id)
    assert asked.endswith("\n\n> Hi Ada.\n\nreally?")

    welcome = await scene.card(WELCOME)
    asked = await replied(scene, "what is this?", "A card.", to=welcome.id)
    assert f"\n\n> {WELCOME}\n> Tell me what to come back with" in asked
    assert asked.endswith("\n\nwhat is this?")

    await scene.bot.stop()
    await scene.bot.start()
    unknown = await scene.said("-# shutting down")
    asked = await replied(scene, "why was that?", "A restart.", to=unknown.id)
    assert asked.endswith("\n\n> shutting down\n\nwhy was that?")


async def test_a_file_of_the_agent_arrives_with_its_content(scene: DiscordScene) -> None:
    (scene.bot.data / "plan.md").write_text("# Plan\n")
    (scene.bot.data / "large.bin").write_bytes(b"x" * (10 * MB + 1))
    send = "mcp__discord__send_file"
    scene.model.then(
        Reply((CallTool(send, {"file_path": "plan.md"}),)),
        Reply((CallTool(send, {"file_path": "large.bin"}),)),
        Reply((Say("The plan is there."),)),
    )
    scene.discord.say("send me both")
    await scene.said("The plan is there.")
    sent = [file for each in scene.discord.said for file in each.files]
    assert [(file.name, file.content) for file in sent] == [("plan.md", b"# Plan\n")]
    first, second = (scene.model.requests[number].tool_results for number in (1, 2))
    assert not first[0].is_error, first[0].text
    assert second[0].is_error
    assert "Discord does not take a file of that size" in second[0].text
