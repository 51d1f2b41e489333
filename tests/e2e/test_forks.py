"""Forks of the real bot, through stops and starts; with the real engine in `test_talking.py`."""

from __future__ import annotations

from tests.e2e.conftest import Scene
from tests.e2e.forking import CAT, in_a_fork
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, Reply, Say

REPORT = Reply((CallTool("mcp__discord__report_updates", {"message": "We chose Rome."}),))


async def test_a_fork_goes_on_after_a_stop_and_becomes_main(in_process: Scene) -> None:
    await in_a_fork(in_process)
    main = in_process.bot.session()
    assert await in_process.bot.stop() == 0
    await in_process.bot.start()
    await in_process.bot.ask("and where do we stay?")
    assert "Rome, in May." in "\n".join(spoken(in_process.model.requests[-1]))
    assert in_process.bot.session() == main

    await in_process.bot.press("Keep all of it")
    await in_process.bot.title("Side conversation ended — all of it kept")
    await in_process.bot.until(lambda: in_process.bot.session() != main)
    await in_process.bot.ask("which cat?")
    said = "\n".join(spoken(in_process.model.requests[-1]))
    assert CAT in said
    assert "Rome, in May." in said


async def test_a_report_reaches_main_at_its_next_turn(in_process: Scene) -> None:
    await in_a_fork(in_process)
    in_process.model.then(REPORT, Reply((Say("Reported."),)))
    await in_process.bot.press("Keep a summary")
    await in_process.bot.title("Side conversation ended — summary kept")
    await in_process.bot.ask("hello again")
    asked = in_process.model.requests[-1].last_user_text
    assert "RECENT BACKGROUND UPDATES (mention key findings in your response)" in asked
    assert "We chose Rome." in asked


async def test_a_fork_is_shown_on_the_page(in_process: Scene) -> None:
    await in_process.bot.command("/fork Rome")
    await in_process.bot.answer(1)
    async with in_process.bot.socket() as socket:
        while (frame := await socket.receive_json(timeout=20))["type"] != "hello":
            pass
    status = frame["status"]
    assert status["fork"]["topic"] == "Rome"
    entry = next(
        one for one in await in_process.bot.messages() if one["id"] == status["fork"]["card"]
    )
    assert [button["label"] for button in entry["card"]["buttons"]] == [
        "Keep all of it",
        "Keep a summary",
        "Leave it",
    ]
