"""Kills of the bot and of its engine at every point of a turn: no loss, and nothing twice."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.e2e.model_engine import HOLD_WRITES
from tests.kernel.engine.processes import eventually
from tests.kernel.engine.scene import spoken
from tests.patience import patience

from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.offline.server import CallTool, Hang, ModelRequest, Reply, Say, Stall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

ADD = "ollim-bot reminder add -m 'drink water' --in 20m"


def is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text


def has_result(request: ModelRequest) -> bool:
    return bool(request.tool_results)


async def kill_and_start(bot: Bot) -> None:
    await bot.kill()
    await bot.start()


async def until_answered(bot: Bot, *expected: str) -> None:
    """Wait for exactly these answers, and until no input is open."""

    async def is_answered() -> bool:
        return len(await bot.answers()) >= len(expected)

    await bot.until(is_answered)
    assert await bot.answers() == [*expected]
    await bot.until(lambda: not bot.open_inputs())


async def _accepted(scene: Scene) -> str:
    await scene.bot.say("what is my cat called?")
    await kill_and_start(scene.bot)
    return "ok"


async def _without_a_word_yet(scene: Scene) -> str:
    before = len(scene.model.requests)
    scene.model.then(Hang())
    await scene.bot.say("and how old is it?")
    await scene.model.seen(before + 1)
    (engine,) = scene.bot.engines()
    await scene.bot.kill()
    await eventually(lambda: not _is_running(engine), within=30)
    await scene.bot.start()
    return "ok"


async def _in_the_middle_of_the_text(scene: Scene) -> str:
    await _stall_in_answer(scene, "is Miso a good name?")
    await kill_and_start(scene.bot)
    return "Miso is."


async def _engine_alone(scene: Scene) -> str:
    await _stall_in_answer(scene, "what does Miso eat?")
    (engine,) = scene.bot.engines()
    os.kill(engine, signal.SIGKILL)
    return "Miso is."


async def _after_a_tool(scene: Scene) -> str:
    before = len(scene.model.requests)
    scene.model.then(Reply((CallTool("Bash", {"command": ADD}),)), Hang())
    await scene.bot.say("remind me to drink water")
    await scene.model.seen(before + 2)
    assert has_result(scene.model.requests[before + 1])
    scene.model.when(is_continued, Reply((Say("Reminder set."),)))
    await kill_and_start(scene.bot)
    return "Reminder set."


# The last one must stay last, because it leaves a rule in the scripted model.
KILLS = (_accepted, _without_a_word_yet, _in_the_middle_of_the_text, _engine_alone, _after_a_tool)


@pytest.mark.minutes
@pytest.mark.real_engine
async def test_killed_at_each_point_of_a_turn_it_gives_one_answer(scene: Scene) -> None:
    """In one conversation; the engine ends with the bot, and a tool call is not repeated."""
    bot, answers = scene.bot, ["Noted."]
    session = await _after_one_turn(scene)
    for kill in KILLS:
        answers.append(await kill(scene))
        await until_answered(bot, *answers)
        assert bot.session() == session, kill
        said = spoken(scene.model.requests[-1])
        assert "my cat is called Miso" in "\n".join(said), kill
        if kill is _in_the_middle_of_the_text:
            assert sum("is Miso a good name?" in text for text in said) == 1
    assert len(list((bot.data / "reminders").iterdir())) == 1
    assert "Bash" in scene.model.requests[-1].last_user_text


@pytest.mark.own_process
async def test_a_turn_that_dies_twice_is_set_aside_and_told(killable: Scene) -> None:
    await _after_one_turn(killable)
    killable.model.then(Hang(), Hang())
    await killable.bot.say("what is my cat called?")
    await killable.model.seen(2)
    await kill_and_start(killable.bot)
    await killable.model.seen(3)
    await kill_and_start(killable.bot)

    assert "what is my cat called?" in await killable.bot.note("set aside")
    assert await killable.bot.ask("hello?") == "ok"


# What is written, and the title of the card that shows it.
WRITES = {
    "routines/dehnen.md": (
        '---\nid: dehnen\ncron: "0 9 * * *"\n---\nDehnübungen.\n',
        "Routine added: Dehnübungen.",
    ),
    "USER.md": ("Mag Käse.\n", "I changed what I know about you: USER.md"),
    "tasks.md": ("- [ ] Käse\n", ""),
}


@pytest.mark.own_process
async def test_killed_as_a_write_lands_the_change_is_the_agents_with_its_cause_and_its_source(
    killable: Scene,
) -> None:
    bot = killable.bot
    await _after_one_turn(killable)
    killable.model.when(is_continued, Reply((Say("Fertig."),)))
    for place, (text, title) in WRITES.items():
        row = await _killed_as_it_writes(killable, place, text)
        assert (row.by, row.cause[:5], row.untrusted) == (Changer.AGENT, "turn ", ""), place
        if title:
            await bot.title(title)
    # The owner lets through what needs their word otherwise.
    await bot.command("/permissions bypassPermissions")
    (bot.data / "downloads").mkdir(exist_ok=True)
    (bot.data / "downloads/käse.md").write_text("Käse ist gut.")
    reading = CallTool("Read", {"file_path": "downloads/käse.md"})
    row = await _killed_as_it_writes(killable, "idee.md", "Käse kaufen.\n", reading)
    assert (row.by, row.cause[:5], row.untrusted) == (Changer.AGENT, "turn ", "attachment")


async def _killed_as_it_writes(scene: Scene, place: str, text: str, *first: CallTool) -> ChangeRow:
    """Kill the bot when the file is written, and start it; returns the one change of the file."""
    bot, path = scene.bot, scene.bot.data / place
    (bot.data / HOLD_WRITES).touch()
    writing = CallTool("Write", {"file_path": place, "content": text})
    scene.model.then(*(Reply((each,)) for each in (*first, writing)))
    await bot.say("Bitte!")
    await bot.until(lambda: path.exists() and path.read_text() == text)
    await bot.kill()
    (bot.data / HOLD_WRITES).unlink()
    await bot.start()
    await bot.until(lambda: not bot.open_inputs())

    def rows() -> list[ChangeRow]:
        newest = bot.query(lambda tx: tx.changes.newest(100))
        return [each for each in newest if each.place == place]

    await bot.until(lambda: bool(rows()))
    (row,) = rows()
    assert row.after == text
    return row


@pytest.mark.real_engine
async def test_a_stop_waits_for_the_answer_and_a_session_lost_meanwhile_is_told(
    scene: Scene,
) -> None:
    lost = await _after_one_turn(scene)
    scene.model.then(Reply((Say("Miso, as you told me."),), pace=0.3, chunk=4))
    await scene.bot.say("what is my cat called?")
    await scene.model.seen(2)

    assert await scene.bot.stop() == 0
    for transcript in scene.bot.home.rglob(f"{lost}.jsonl"):
        transcript.unlink()
    await scene.bot.start()

    await until_answered(scene.bot, "Noted.", "Miso, as you told me.")
    assert len(scene.model.requests) == 2

    assert await scene.bot.ask("hello?") == "ok"
    await scene.bot.note("could not be found")
    assert scene.bot.session() != lost
    events = scene.bot.rows("session_history.jsonl")
    assert [row["event"] for row in events] == ["created", "created"]
    assert events[0]["session_id"] == lost


async def _stall_in_answer(scene: Scene, question: str) -> None:
    """Ask; the answer stalls when the page shows its beginning. The next answer is scripted."""
    scene.model.then(Stall(Reply((Say("Miso"),))))
    async with scene.bot.socket() as socket:
        await scene.bot.say(question)
        while (await socket.receive_json(timeout=patience()))["type"] != "draft":
            pass
    scene.model.answers("Miso is.")


async def _after_one_turn(scene: Scene) -> str:
    """Have one turn; returns the session."""
    scene.model.answers("Noted.")
    assert await scene.bot.ask("my cat is called Miso") == "Noted."
    session = scene.bot.session()
    assert session is not None
    return session


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
