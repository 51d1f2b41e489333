"""The bot and its engine die at every point of a turn: nothing is lost, nothing happens twice."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, Hang, ModelRequest, Reply, Say, Stall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

ADD = "ollim-bot reminder add -m 'drink water' --in 20m"


def is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text


def has_result(request: ModelRequest) -> bool:
    return bool(request.tool_results)


async def killed_and_started(bot: Bot) -> None:
    await bot.kill()
    await bot.start()


async def one_whole_answer(bot: Bot, text: str) -> None:
    await bot.until(lambda: _is_answered(bot))
    assert await bot.answers() == ["Noted.", text]
    await bot.until(lambda: not bot.open_inputs())


async def _is_answered(bot: Bot) -> bool:
    return len(await bot.answers()) >= 2


async def test_killed_as_soon_as_a_message_is_accepted(scene: Scene) -> None:
    await _acquainted(scene)
    await scene.bot.say("what is my cat called?")
    await killed_and_started(scene.bot)

    await one_whole_answer(scene.bot, "ok")
    assert "my cat is called Miso" in "\n".join(spoken(scene.model.requests[-1]))


async def test_killed_while_the_model_has_not_said_a_word(scene: Scene) -> None:
    """The engine dies with the bot."""
    session = await _acquainted(scene)
    scene.model.then(Hang())
    await scene.bot.say("what is my cat called?")
    await scene.model.seen(2)
    (engine,) = scene.bot.engines()
    await scene.bot.kill()
    await scene.bot.until(lambda: not _lives(engine))
    await scene.bot.start()

    await one_whole_answer(scene.bot, "ok")
    assert scene.bot.session() == session


async def test_killed_in_the_middle_of_the_text(scene: Scene) -> None:
    session = await _acquainted(scene)
    scene.model.then(Stall(Reply((Say("Your cat is called"),))))
    async with scene.bot.socket() as socket:
        await scene.bot.say("what is my cat called?")
        while (await socket.receive_json(timeout=20))["type"] != "draft":
            pass
    scene.model.answers("Miso.")
    await killed_and_started(scene.bot)

    await one_whole_answer(scene.bot, "Miso.")
    assert scene.bot.session() == session
    said = spoken(scene.model.requests[-1])
    assert sum("what is my cat called?" in text for text in said) == 1


async def test_killed_after_a_tool_has_acted(scene: Scene) -> None:
    session = await _acquainted(scene)
    scene.model.then(Reply((CallTool("Bash", {"command": ADD}),)), Hang())
    await scene.bot.say("remind me to drink water")
    await scene.model.seen(3)
    assert has_result(scene.model.requests[2])
    scene.model.when(is_continued, Reply((Say("Reminder set."),)))
    await killed_and_started(scene.bot)

    await one_whole_answer(scene.bot, "Reminder set.")
    assert scene.bot.session() == session
    assert len(list((scene.bot.data / "reminders").iterdir())) == 1
    assert "Bash" in scene.model.requests[-1].last_user_text


async def test_a_turn_that_dies_twice_is_set_aside_and_told(scene: Scene) -> None:
    await _acquainted(scene)
    scene.model.then(Hang(), Hang())
    await scene.bot.say("what is my cat called?")
    await scene.model.seen(2)
    await killed_and_started(scene.bot)
    await scene.model.seen(3)
    await killed_and_started(scene.bot)

    assert "what is my cat called?" in await scene.bot.note("set aside")
    assert await scene.bot.ask("hello?") == "ok"


async def test_a_killed_engine_does_not_keep_the_owner_from_an_answer(scene: Scene) -> None:
    session = await _acquainted(scene)
    scene.model.then(Stall(Reply((Say("Your cat is called"),))))
    async with scene.bot.socket() as socket:
        await scene.bot.say("what is my cat called?")
        while (await socket.receive_json(timeout=20))["type"] != "draft":
            pass
    scene.model.answers("Miso.")
    (engine,) = scene.bot.engines()
    os.kill(engine, signal.SIGKILL)

    await one_whole_answer(scene.bot, "Miso.")
    assert scene.bot.session() == session


async def test_a_stop_waits_for_the_answer_that_is_being_written(scene: Scene) -> None:
    await _acquainted(scene)
    scene.model.then(Reply((Say("Miso, as you told me."),), pace=0.3, chunk=4))
    await scene.bot.say("what is my cat called?")
    await scene.model.seen(2)

    assert await scene.bot.stop() == 0
    await scene.bot.start()

    await one_whole_answer(scene.bot, "Miso, as you told me.")
    assert len(scene.model.requests) == 2


async def test_an_unknown_session_is_told_and_a_new_one_begins(scene: Scene) -> None:
    lost = await _acquainted(scene)
    await scene.bot.stop()
    for transcript in scene.bot.home.rglob(f"{lost}.jsonl"):
        transcript.unlink()
    await scene.bot.start()

    assert await scene.bot.ask("hello?") == "ok"
    await scene.bot.note("could not be found")
    assert scene.bot.session() != lost
    events = scene.bot.rows("session_history.jsonl")
    assert [row["event"] for row in events] == ["created", "created"]
    assert events[0]["session_id"] == lost


async def _acquainted(scene: Scene) -> str:
    """One turn behind us; gives the session."""
    scene.model.answers("Noted.")
    assert await scene.bot.ask("my cat is called Miso") == "Noted."
    session = scene.bot.session()
    assert session is not None
    return session


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
