"""An owner talks to the bot, with the real engine where its program has a part."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Scene
from tests.e2e.forking import CAT, in_a_fork, sent
from tests.kernel.engine.scene import spoken, tiny_png

from ollim_bot.offline.server import CallTool, Fail, Hang, Reply, Say

REMINDER = "ollim-bot reminder add -m 'drink water' --in 20m"


FAILURES = {
    "The model server on this machine refused the login": Fail(403, "permission_error", "no"),
    "no credit left": Fail(400, "invalid_request_error", "Your credit balance is too low"),
    "The model server on this machine is overloaded": Fail(529, "overloaded_error", "busy"),
    "cannot use the chosen model": Fail(404, "not_found_error", "model: unknown"),
}


@pytest.mark.real_engine
async def test_through_failures_a_compaction_a_command_a_fork_and_a_kill_the_owner_is_answered(
    scene: Scene,
) -> None:
    await check_that_each_failure_is_a_sentence_and_the_next_message_works(scene)
    await check_that_a_compaction_is_told_in_one_line(scene)
    await check_that_the_agent_acts_with_its_tools(scene)
    main = scene.bot.session()
    await check_that_a_fork_knows_what_main_knows_and_outlives_a_kill(scene)
    await check_that_a_fork_leaves_no_trace_in_main(scene, main)


async def check_that_each_failure_is_a_sentence_and_the_next_message_works(scene: Scene) -> None:
    for sentence, failure in FAILURES.items():
        scene.model.when(sentence, failure)
        await scene.bot.say(f"this fails: {sentence}")
        note = await scene.bot.note(sentence)
        assert note.endswith(".")

    assert scene.bot.query(lambda tx: tx.provider.get()).is_untried
    assert await scene.bot.ask("and this?") == "ok"
    assert not scene.bot.query(lambda tx: tx.provider.get()).is_untried


async def check_that_a_compaction_is_told_in_one_line(scene: Scene) -> None:
    await scene.bot.command("/compact keep the cat's name")
    note = await scene.bot.note("tokens compacted")
    assert note.startswith("1 turn · 0m · "), note
    events = [row["event"] for row in scene.bot.rows("session_history.jsonl")]
    assert events == ["created", "compacted"]


async def check_that_the_agent_acts_with_its_tools(scene: Scene) -> None:
    scene.model.then(
        Reply((CallTool("Bash", {"command": REMINDER}),)), Reply((Say("Reminder set."),))
    )

    assert await scene.bot.ask("remind me to drink water") == "Reminder set."

    assert len(list((scene.bot.data / "reminders").iterdir())) == 1
    (result,) = scene.model.requests[-1].tool_results
    assert not result.is_error, result.text


async def check_that_a_fork_knows_what_main_knows_and_outlives_a_kill(scene: Scene) -> None:
    await in_a_fork(scene)
    before, forked = scene.model.requests[-2:]
    assert CAT in "\n".join(spoken(forked))
    assert forked.last_user_text.startswith("[fork-started] Topic: a trip to Rome")
    assert sent(forked)[: len(sent(before))] == sent(before)
    assert forked.body["tools"] == before.body["tools"]
    assert forked.body["system"] == before.body["system"]

    answers, requests = len(await scene.bot.answers()), len(scene.model.requests)
    scene.model.then(Hang())
    await scene.bot.say("and where do we stay?")
    await scene.model.seen(requests + 1)
    await scene.bot.kill()
    scene.model.answers("Near the river.")
    await scene.bot.start()
    assert await scene.bot.answer(answers + 1) == "Near the river."
    assert "restarted" in scene.model.requests[-1].last_user_text
    assert "Rome, in May." in "\n".join(spoken(scene.model.requests[-1]))


async def check_that_a_fork_leaves_no_trace_in_main(scene: Scene, main: str | None) -> None:
    assert main is not None
    await scene.bot.press("Leave it")
    await scene.bot.title("Side conversation ended — nothing kept")
    await scene.bot.ask("hello again")
    assert scene.bot.session() == main
    said = "\n".join(spoken(scene.model.requests[-1]))
    assert CAT in said
    assert "Rome" not in said


@pytest.mark.real_process
async def test_a_picture_goes_to_the_model_and_files_to_the_downloads(in_process: Scene) -> None:
    big = bytes(range(256)) * 4 * 1024 * 20  # 20 MB
    await in_process.bot.say("look", files={"dot.jpg": tiny_png(), "notes.bin": big})
    await in_process.bot.answer()

    request = in_process.model.requests[-1]
    blocks = [block for message in request.messages for block in message.of_type("image")]
    assert len(blocks) == 1
    assert blocks[0]["source"]["media_type"] == "image/png"  # type: ignore[index]
    assert "downloads/notes.bin" in spoken(request)[-1]
    assert (in_process.bot.data / "downloads" / "notes.bin").read_bytes() == big


async def test_the_same_message_sent_twice_is_one_message(in_process: Scene) -> None:
    message_id = await in_process.bot.say("only once")
    await in_process.bot.say("only once", message_id=message_id)
    await in_process.bot.answer()
    await in_process.bot.say("only once", message_id=message_id)
    assert await in_process.bot.ask("next") == "ok"

    assert len(in_process.model.requests) == 2
