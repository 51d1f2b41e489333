"""Forks of the real bot, through stops and starts; with the real engine in `test_talking.py`."""

from __future__ import annotations

from tests.e2e.conftest import Scene
from tests.e2e.forking import CAT, in_a_fork
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, Reply, Say

REPORT = Reply((CallTool("mcp__discord__report_updates", {"message": "We chose Rome."}),))


async def test_a_fork_goes_on_after_a_stop_and_becomes_main(inline: Scene) -> None:
    await in_a_fork(inline)
    main = inline.bot.session()
    assert await inline.bot.stop() == 0
    await inline.bot.start()
    await inline.bot.ask("and where do we stay?")
    assert "Rome, in May." in "\n".join(spoken(inline.model.requests[-1]))
    assert inline.bot.session() == main

    await inline.bot.press("Keep all of it")
    await inline.bot.title("Side conversation ended — all of it kept")
    await inline.bot.until(lambda: inline.bot.session() != main)
    await inline.bot.ask("which cat?")
    said = "\n".join(spoken(inline.model.requests[-1]))
    assert CAT in said
    assert "Rome, in May." in said


async def test_a_report_reaches_main_at_its_next_turn(inline: Scene) -> None:
    await in_a_fork(inline)
    inline.model.then(REPORT, Reply((Say("Reported."),)))
    await inline.bot.press("Keep a summary")
    await inline.bot.title("Side conversation ended — summary kept")
    await inline.bot.ask("hello again")
    asked = inline.model.requests[-1].last_user_text
    assert "RECENT BACKGROUND UPDATES (mention key findings in your response)" in asked
    assert "We chose Rome." in asked


async def test_a_fork_is_shown_on_the_page(inline: Scene) -> None:
    await inline.bot.command("/fork Rome")
    await inline.bot.answer(1)
    async with inline.bot.socket() as socket:
        while (frame := await socket.receive_json(timeout=20))["type"] != "hello":
            pass
    status = frame["status"]
    assert status["fork"]["topic"] == "Rome"
    entry = next(one for one in await inline.bot.messages() if one["id"] == status["fork"]["card"])
    assert [button["label"] for button in entry["card"]["buttons"]] == [
        "Keep all of it",
        "Keep a summary",
        "Leave it",
    ]
