"""What the real engine writes is told, from how it was to how it is."""

from __future__ import annotations

from pathlib import Path

from tests.conversation.echo_scene import PATH, Stage, no_plans, routine
from tests.engine.scene import scene

from ollim_bot.offline.messages import CallTool, Reply
from ollim_bot.ports import Prompt, Toolset


async def test_several_edits_of_the_engine_are_one_card_and_one_undo(tmp_path: Path) -> None:
    async with scene(tmp_path) as engine:
        stage = Stage(tmp_path / "data")
        (stage.root / PATH).write_text(routine())
        watch = stage.echo.watch()

        def edit(old: str, new: str) -> CallTool:
            return CallTool("Edit", {"file_path": PATH, "old_string": old, "new_string": new})

        engine.model.then(
            Reply((CallTool("Read", {"file_path": PATH}), edit("30 8", "0 12"), edit("1-5", "*"))),
            Reply((edit("Plan the day.", "Plan."), edit("nowhere", "x"))),
        )
        tools = Toolset(builtin=("Read", "Write", "Edit"), gate=watch.noting(no_plans))
        async with engine.session(tools) as session:
            async for _ in watch.watching(session.turn(Prompt("go"))):
                pass

        (card,) = stage.cards
        assert card.title == "Routine changed: Plan"
        assert "Next: today 12:00, tomorrow 12:00, Thu 26 Feb 12:00." in card.description
        assert (stage.root / PATH).read_text() == routine(cron="0 12 * * *", body="Plan.")
        assert not (await stage.undo()).is_error
        assert (stage.root / PATH).read_text() == routine()
