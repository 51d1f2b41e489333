"""A newcomer and an owner talk to the real bot."""

from __future__ import annotations

import json

from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.engine.scene import spoken, tiny_png

from ollim_bot.domain.chat import Author
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.domain.inputs import InputId
from ollim_bot.offline.messages import CallTool, Fail, Reply, Say, Stall

REMINDER = "ollim-bot reminder add -m 'drink water' --in 20m"


async def test_a_newcomer_talks_and_is_remembered_after_a_restart(newcomer: Bot) -> None:
    assert "not a language model" in await newcomer.ask("hello")
    session = newcomer.session()

    assert await newcomer.stop() == 0
    await newcomer.start()

    assert "hello" in await newcomer.ask("what did I say before?")
    assert newcomer.session() == session
    assert [row["event"] for row in newcomer.rows("session_history.jsonl")] == ["created"]


async def test_the_agent_acts_with_its_tools_and_says_so(scene: Scene) -> None:
    scene.model.then(
        Reply((CallTool("Bash", {"command": REMINDER}),)),
        Reply((Say("Reminder set."),)),
    )

    assert await scene.bot.ask("remind me to drink water") == "Reminder set."

    assert len(list((scene.bot.data / "reminders").iterdir())) == 1
    (result,) = scene.model.requests[-1].tool_results
    assert not result.is_error, result.text


async def test_a_prompt_carries_the_time_and_what_happened_meanwhile(scene: Scene) -> None:
    await scene.bot.stop()
    state = scene.bot.data / "state" / "pending_updates.json"
    state.write_text(json.dumps([{"ts": "2026-11-15T08:00:00+01:00", "message": "Mail checked."}]))
    await scene.bot.start()

    await scene.bot.ask("anything new?")
    await scene.bot.ask("and now?")

    first, second = (spoken(request)[-1] for request in scene.model.requests)
    assert "RECENT BACKGROUND UPDATES (mention key findings in your response)" in first
    assert "Mail checked." in first
    assert first.endswith("anything new?")
    assert "RECENT BACKGROUND UPDATES" not in second
    assert not state.exists()


async def test_a_new_message_stops_the_answer_to_the_last_one(scene: Scene) -> None:
    scene.model.then(Stall(Reply((Say("Let me think about the first"),))))
    await scene.bot.say("first")
    await scene.model.seen(1)
    scene.model.answers("Both answered.")
    await scene.bot.say("second")

    await scene.bot.until(lambda: _has(scene.bot, "Both answered."))

    asked = "\n".join(spoken(scene.model.requests[-1]))
    assert "first" in asked
    assert "second" in asked
    await scene.bot.until(lambda: not scene.bot.open_inputs())
    said = [each.message.id for each in scene.bot.log() if each.message.author is Author.OWNER]
    ends = scene.bot.asked(lambda tx: [tx.inbox.end_of(InputId(each)) for each in said])
    assert ends == [InputEnd.SUPERSEDED, InputEnd.ANSWERED]


async def test_an_interrupt_stops_the_answer_and_nothing_else(scene: Scene) -> None:
    scene.model.then(Stall(Reply((Say("A long story begins"),))))
    await scene.bot.say("tell me a story")
    await scene.model.seen(1)
    await scene.bot.until(scene.bot.interrupt)

    scene.model.answers("Here.")
    assert await _answered(scene, "are you there?") == "Here."


async def test_what_is_shown_streams_to_the_page(scene: Scene) -> None:
    scene.model.then(Reply((Say("One two three four five six seven eight."),), pace=0.05, chunk=8))
    async with scene.bot.socket() as socket:
        await scene.bot.say("count")
        seen: list[str] = []
        while "ended" not in seen:
            seen.append((await socket.receive_json(timeout=20))["type"])

    assert seen.index("turn") < seen.index("draft") < seen.index("ended")
    assert seen.count("draft") > 1


FAILURES = {
    "The model server on this machine refused the login": Fail(403, "permission_error", "no"),
    "no credit left": Fail(400, "invalid_request_error", "Your credit balance is too low"),
    "The model server on this machine is overloaded": Fail(529, "overloaded_error", "busy"),
    "cannot use the chosen model": Fail(404, "not_found_error", "model: unknown"),
}


async def test_each_failure_of_the_provider_is_a_sentence_and_the_next_message_works(
    scene: Scene,
) -> None:
    for sentence, failure in FAILURES.items():
        scene.model.when(sentence, failure)
        await scene.bot.say(f"this fails: {sentence}")
        note = await scene.bot.note(sentence)
        assert note.endswith(".")

    assert scene.bot.asked(lambda tx: tx.provider.get()).is_untried
    assert await scene.bot.ask("and this?") == "ok"
    assert not scene.bot.asked(lambda tx: tx.provider.get()).is_untried


async def test_commands_work_on_the_running_conversation(scene: Scene) -> None:
    await scene.bot.ask("hello")
    first = scene.bot.session()
    assert "model.main is now sonnet" in (await scene.bot.command("/model sonnet"))["text"]
    await scene.bot.ask("again")
    assert "sonnet" in scene.model.requests[-1].model
    assert scene.bot.session() == first

    assert not (await scene.bot.command("/clear"))["is_error"]
    await scene.bot.ask("a new beginning")
    assert scene.bot.session() not in (None, first)
    assert "hello" not in "\n".join(spoken(scene.model.requests[-1]))

    assert first is not None
    assert not (await scene.bot.command(f"/resume {first[:8]}"))["is_error"]
    await scene.bot.ask("back again")
    assert scene.bot.session() == first
    assert "hello" in "\n".join(spoken(scene.model.requests[-1]))

    wrong = await scene.bot.command("/modl haiku")
    assert wrong["is_error"]
    assert "/model" in wrong["text"]


async def test_compaction_is_told_in_one_line_and_logged(scene: Scene) -> None:
    await scene.bot.ask("hello")
    await scene.bot.command("/compact keep the cat's name")

    note = await scene.bot.note("tokens compacted")
    assert note.startswith("1 turn · 0m · ")
    events = [row["event"] for row in scene.bot.rows("session_history.jsonl")]
    assert events == ["created", "compacted"]
    assert await scene.bot.ask("still there?") == "ok"


async def test_a_picture_goes_to_the_model_and_files_to_the_downloads(scene: Scene) -> None:
    big = bytes(range(256)) * 4 * 1024 * 20  # 20 MB
    await scene.bot.say("look", files={"dot.jpg": tiny_png(), "notes.bin": big})
    await scene.bot.answer()

    request = scene.model.requests[-1]
    blocks = [block for message in request.messages for block in message.of_type("image")]
    assert len(blocks) == 1
    assert blocks[0]["source"]["media_type"] == "image/png"  # type: ignore[index]
    assert "downloads/notes.bin" in spoken(request)[-1]
    assert (scene.bot.data / "downloads" / "notes.bin").read_bytes() == big


async def test_the_same_message_sent_twice_is_one_message(scene: Scene) -> None:
    message_id = await scene.bot.say("only once")
    await scene.bot.say("only once", message_id=message_id)
    await scene.bot.answer()
    await scene.bot.say("only once", message_id=message_id)
    assert await scene.bot.ask("next") == "ok"

    assert len(scene.model.requests) == 2


async def test_a_change_of_the_profile_reaches_the_agent_without_a_new_conversation(
    scene: Scene,
) -> None:
    await scene.bot.ask("hello")
    (scene.bot.data / "USER.md").write_text("The owner is called Ada and keeps bees.\n")
    await scene.bot.ask("who am I?")

    before, after = (request.system for request in scene.model.requests)
    assert "keeps bees" not in before
    assert "keeps bees" in after


async def _has(bot: Bot, text: str) -> bool:
    return text in await bot.answers()


async def _answered(scene: Scene, text: str) -> str:
    await scene.bot.say(text)
    await scene.bot.until(lambda: _has(scene.bot, "Here."))
    return (await scene.bot.answers())[-1]
