"""The bot asks before it does what nothing allows, and shows the jobs that it writes."""

from __future__ import annotations

from tests.e2e.conftest import Scene

from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say

ROUTINE = """---
id: plan
cron: "0 9 * * *"
description: Plan the day
---
What is the one thing today?
"""


def has_result(request: ModelRequest) -> bool:
    return bool(request.tool_results)


async def _asked_to_write(scene: Scene, name: str, text: str) -> None:
    path = str(scene.bot.data / name)
    scene.model.then(Reply((CallTool("Write", {"file_path": path, "content": text}),)))
    await scene.bot.say("write it down")


async def test_a_file_is_written_when_the_owner_allows_it(inline: Scene) -> None:
    await inline.bot.command("/permissions default")
    await _asked_to_write(inline, "notes.txt", "milk\n")
    await inline.bot.title("Allow Write?")
    assert not (inline.bot.data / "notes.txt").exists()
    await inline.bot.press("✅ Allow once")
    await inline.bot.answer(1)
    assert (inline.bot.data / "notes.txt").read_text() == "milk\n"


async def test_nothing_is_written_when_the_owner_refuses(inline: Scene) -> None:
    await inline.bot.command("/permissions default")
    await _asked_to_write(inline, "notes.txt", "milk\n")
    await inline.bot.title("Allow Write?")
    await inline.bot.press("❌ Refuse")
    await inline.bot.answer(1)
    assert not (inline.bot.data / "notes.txt").exists()
    (result,) = inline.model.requests[-1].tool_results
    assert result.is_error


async def test_a_new_routine_is_shown_with_its_moments_and_can_be_undone(inline: Scene) -> None:
    await _asked_to_write(inline, "routines/plan.md", ROUTINE)
    await inline.bot.title("Routine added: Plan the day")
    await inline.bot.answer(1)
    assert (inline.bot.data / "routines" / "plan.md").exists()
    answer = await inline.bot.press("Undo")
    assert not answer["is_error"], answer
    assert not (inline.bot.data / "routines" / "plan.md").exists()


async def test_a_wrong_routine_is_refused_with_the_reason(inline: Scene) -> None:
    await _asked_to_write(inline, "routines/plan.md", ROUTINE.replace("0 9", "0 99"))
    inline.model.when(has_result, Reply((Say("I will mend it."),)))
    assert await inline.bot.answer(1) == "I will mend it."
    (result,) = inline.model.requests[-1].tool_results
    assert "routines/plan.md:3" in result.text
    assert not (inline.bot.data / "routines" / "plan.md").exists()
