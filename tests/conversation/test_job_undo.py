"""The owner can have undone what the agent made of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conversation.echo_scene import PATH, EchoScene, routine

from ollim_bot.domain.cards import Card
from ollim_bot.domain.commands import CommandAnswer


@pytest.fixture
def scene(tmp_path: Path) -> EchoScene:
    return EchoScene(tmp_path / "data")


async def test_undo_takes_a_new_job_away_even_after_a_restart(scene: EchoScene) -> None:
    await scene.turn((PATH, routine()))
    answer = await scene.undo()
    assert answer == CommandAnswer("Undone. “Plan” is gone again.", is_shown=True)
    assert scene.cards == [Card("Undone. “Plan” is gone again.")]
    assert not (scene.root / PATH).exists()
    assert scene.journal.messages == ["undo: routines/daily.md"]


async def test_undo_gives_a_changed_job_its_former_text(scene: EchoScene) -> None:
    (scene.root / PATH).write_text(routine(body="By hand."))
    await scene.turn((PATH, routine()))
    assert (await scene.undo()).text == "Undone. “Plan” is as it was before."
    assert (scene.root / PATH).read_text() == routine(body="By hand.")


async def test_undo_works_once(scene: EchoScene) -> None:
    await scene.turn((PATH, routine()))
    await scene.undo()
    (scene.root / PATH).write_text(routine())
    answer = await scene.undo()
    assert answer.is_error
    assert "undone before" in answer.text
    assert (scene.root / PATH).exists()


def removed(path: Path) -> None:
    path.unlink()


def edited(path: Path) -> None:
    path.write_text(routine(body="By hand."))


@pytest.mark.parametrize("change", [removed, edited])
async def test_undo_leaves_alone_what_was_changed_since(
    scene: EchoScene, change: Callable[[Path], None]
) -> None:
    (scene.root / PATH).write_text(routine(body="At first."))
    await scene.turn((PATH, routine()))
    change(scene.root / PATH)
    answer = await scene.undo()
    assert answer.is_error
    assert "was changed since" in answer.text
    assert (scene.root / PATH).exists() is (change is edited)
    assert scene.stores.updates.read().entries == ()


async def test_the_agent_hears_of_an_undo(scene: EchoScene) -> None:
    await scene.turn((PATH, routine()))
    await scene.undo()
    (update,) = scene.stores.updates.read().entries
    assert update.message == ("Known to the owner: undone: routines/daily.md is gone again.")
