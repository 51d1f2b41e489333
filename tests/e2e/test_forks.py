"""Forks of the real bot, through stops, kills and starts; one is branched by the real engine."""

from __future__ import annotations

from tests.e2e.conftest import Scene
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, Hang, ModelRequest, Reply, Say

CAT = "my cat is called Miso"
REPORT = Reply((CallTool("mcp__discord__report_updates", {"message": "We chose Rome."}),))


def sent(request: ModelRequest) -> list[object]:
    """Its messages without the marks of what is to be cached, which move on with every request."""
    said = [one for one in _listed(request.body["messages"]) if one["role"] != "system"]
    return [{"role": one["role"], "content": _blocks(one["content"])} for one in said]


def _blocks(content: object) -> list[dict[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {key: block[key] for key in block if key != "cache_control"} for block in _listed(content)
    ]


def _listed(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


async def _in_a_fork(scene: Scene) -> None:
    scene.model.answers("Noted.", "Rome, in May.")
    await scene.bot.ask(CAT)
    await scene.bot.command("/fork a trip to Rome")
    assert await scene.bot.answer(2) == "Rome, in May."


async def test_a_fork_knows_what_main_knows_is_answered_after_a_kill_and_leaves_no_trace_in_main(
    scene: Scene,
) -> None:
    await _in_a_fork(scene)
    main = scene.bot.session()
    before, forked = scene.model.requests[:2]
    assert CAT in "\n".join(spoken(forked))
    assert forked.last_user_text.startswith("[fork-started] Topic: a trip to Rome")
    assert sent(forked)[: len(sent(before))] == sent(before)
    assert forked.body["tools"] == before.body["tools"]
    assert forked.body["system"] == before.body["system"]

    scene.model.then(Hang())
    await scene.bot.say("and where do we stay?")
    await scene.model.seen(3)
    await scene.bot.kill()
    scene.model.answers("Near the river.")
    await scene.bot.start()
    assert await scene.bot.answer(3) == "Near the river."
    assert "restarted" in scene.model.requests[-1].last_user_text
    assert "Rome, in May." in "\n".join(spoken(scene.model.requests[-1]))

    await scene.bot.press("Leave it")
    await scene.bot.title("Side conversation ended — left")
    await scene.bot.ask("hello again")
    assert scene.bot.session() == main
    said = "\n".join(spoken(scene.model.requests[-1]))
    assert CAT in said
    assert "Rome" not in said


async def test_a_fork_goes_on_after_a_stop_and_becomes_main(inline: Scene) -> None:
    await _in_a_fork(inline)
    main = inline.bot.session()
    assert await inline.bot.stop() == 0
    await inline.bot.start()
    await inline.bot.ask("and where do we stay?")
    assert "Rome, in May." in "\n".join(spoken(inline.model.requests[-1]))
    assert inline.bot.session() == main

    await inline.bot.press("Keep all of it")
    await inline.bot.title("Side conversation ended — all of it kept")
    assert inline.bot.session() != main
    await inline.bot.ask("which cat?")
    said = "\n".join(spoken(inline.model.requests[-1]))
    assert CAT in said
    assert "Rome, in May." in said


async def test_a_report_reaches_main_at_its_next_turn(inline: Scene) -> None:
    await _in_a_fork(inline)
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
