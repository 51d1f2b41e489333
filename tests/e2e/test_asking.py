"""The real bot asks before it does what nothing allows, and shows the jobs that it writes."""

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


async def test_a_file_is_written_when_the_owner_allows_it(scene: Scene) -> None:
    await scene.bot.command("/permissions default")
    await _asked_to_write(scene, "notes.txt", "milk\n")
    await scene.bot.title("Allow Write?")
    assert not (scene.bot.data / "notes.txt").exists()
    await scene.bot.press("✅ Allow once")
    await scene.bot.answer(1)
    assert (scene.bot.data / "notes.txt").read_text() == "milk\n"


async def test_nothing_is_written_when_the_owner_refuses(scene: Scene) -> None:
    await scene.bot.command("/permissions default")
    await _asked_to_write(scene, "notes.txt", "milk\n")
    await scene.bot.title("Allow Write?")
    await scene.bot.press("❌ Refuse")
    await scene.bot.answer(1)
    assert not (scene.bot.data / "notes.txt").exists()
    (result,) = scene.model.requests[-1].tool_results
    assert result.is_error


async def test_a_new_routine_is_shown_with_its_moments_and_can_be_undone(scene: Scene) -> None:
    await _asked_to_write(scene, "routines/plan.md", ROUTINE)
    await scene.bot.title("Routine added: Plan the day")
    await scene.bot.answer(1)
    assert (scene.bot.data / "routines" / "plan.md").exists()
    answer = await scene.bot.press("Undo")
    assert not answer["is_error"], answer
    assert not (scene.bot.data / "routines" / "plan.md").exists()


async def test_a_wrong_routine_is_refused_with_the_reason(scene: Scene) -> None:
    await _asked_to_write(scene, "routines/plan.md", ROUTINE.replace("0 9", "0 99"))
    scene.model.when(has_result, Reply((Say("I will mend it."),)))
    assert await scene.bot.answer(1) == "I will mend it."
    (result,) = scene.model.requests[-1].tool_results
    assert "routines/plan.md:3" in result.text
    assert not (scene.bot.data / "routines" / "plan.md").exists()
