"""The owner can have undone what the agent made of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conversation.echo_scene import PATH, Stage, routine

from ollim_bot.domain.commands import CommandAnswer


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "data")


async def test_undo_takes_a_new_job_away_even_after_a_restart(stage: Stage) -> None:
    await stage.turn((PATH, routine()))
    answer = await stage.undo()
    assert answer == CommandAnswer("Undone. “Plan” is gone again.")
    assert not (stage.root / PATH).exists()
    assert stage.journal.messages == ["undo: routines/daily.md"]


async def test_undo_gives_a_changed_job_its_former_text(stage: Stage) -> None:
    (stage.root / PATH).write_text(routine(body="By hand."))
    await stage.turn((PATH, routine()))
    assert (await stage.undo()).text == "Undone. “Plan” is as it was before."
    assert (stage.root / PATH).read_text() == routine(body="By hand.")


async def test_undo_works_once(stage: Stage) -> None:
    await stage.turn((PATH, routine()))
    await stage.undo()
    (stage.root / PATH).write_text(routine())
    answer = await stage.undo()
    assert answer.is_error
    assert "undone before" in answer.text
    assert (stage.root / PATH).exists()


def removed(path: Path) -> None:
    path.unlink()


def edited(path: Path) -> None:
    path.write_text(routine(body="By hand."))


@pytest.mark.parametrize("change", [removed, edited])
async def test_undo_leaves_alone_what_was_changed_since(
    stage: Stage, change: Callable[[Path], None]
) -> None:
    (stage.root / PATH).write_text(routine(body="At first."))
    await stage.turn((PATH, routine()))
    change(stage.root / PATH)
    answer = await stage.undo()
    assert answer == CommandAnswer("The file was changed since; nothing was undone.", is_error=True)
    assert (stage.root / PATH).exists() is (change is edited)
    assert stage.stores.updates.read().entries == ()


async def test_the_agent_hears_of_an_undo(stage: Stage) -> None:
    await stage.turn((PATH, routine()))
    await stage.undo()
    (update,) = stage.stores.updates.read().entries
    assert update.message == ("The owner has undone a change: routines/daily.md was removed again.")
