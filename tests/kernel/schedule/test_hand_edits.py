"""Edits by hand are committed as such, and what the bot writes is committed only once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.schedule.job_index_scene import JobIndexScene, routine
from tests.kernel.store.files.data_directory import QuickDisk

from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.values.jobs import Routine
from ollim_bot.kernel.values.ports import JobRepository

BY_HAND = "by hand: routines/plan.md"


async def settled(scene: JobIndexScene) -> list[str]:
    await scene.settled()
    return scene.journal.messages


@pytest.fixture
def scene(tmp_path: Path) -> JobIndexScene:
    return JobIndexScene(tmp_path / "data")


def routines_of(scene: JobIndexScene) -> JobRepository[Routine]:
    disk = QuickDisk()
    return open_repositories(scene.paths, scene.hand_edits, disk).routines


async def test_an_edit_or_a_removal_by_hand_is_noted_once(scene: JobIndexScene) -> None:
    await scene.refresh()
    scene.plan.write_text(routine("plan"))
    assert await settled(scene) == [BY_HAND]
    assert [path for path, _ in scene.journal.notes] == [scene.plan]
    assert await settled(scene) == [BY_HAND]
    scene.plan.unlink()
    assert await settled(scene) == [BY_HAND, BY_HAND]


@pytest.mark.parametrize(
    "name", ["USER.md", "IDENTITY.md", "tasks.md", "tool-policy.yaml", "skills/tidy/SKILL.md"]
)
async def test_the_other_files_of_the_owner_are_noted_too(scene: JobIndexScene, name: str) -> None:
    path = scene.paths.root / name
    path.parent.mkdir(exist_ok=True)
    await scene.refresh()
    for written in ("first", "then another"):
        path.write_text(written)
        await settled(scene)
    path.unlink()
    assert await settled(scene) == [f"by hand: {name}"] * 3
    assert await settled(scene) == [f"by hand: {name}"] * 3


async def test_what_the_agent_writes_of_them_is_not_by_hand(scene: JobIndexScene) -> None:
    await scene.refresh()
    scene.paths.user.write_text("Likes tea.")
    await scene.refresh()
    scene.hand_edits.note(scene.paths.user, "auto: write USER.md")
    assert await settled(scene) == ["auto: write USER.md"]


async def test_the_index_says_when_an_edit_will_be_noted(scene: JobIndexScene) -> None:
    await scene.refresh()
    scene.plan.write_text(routine("plan"))
    wait = (await scene.refresh()).look_again_in
    assert wait is not None
    await scene.refresh_later(wait)
    assert scene.journal.messages == [BY_HAND]


async def test_what_was_there_at_the_start_is_not_noted(scene: JobIndexScene) -> None:
    scene.plan.write_text(routine("plan"))
    assert await settled(scene) == []


async def test_a_wrong_file_and_a_comment_are_noted_too(scene: JobIndexScene) -> None:
    await scene.refresh()
    scene.plan.write_text("nothing right")
    assert await settled(scene) == [BY_HAND]
    scene.plan.write_text("# nothing right")
    assert await settled(scene) == [BY_HAND, BY_HAND]


async def test_what_the_bot_writes_is_noted_by_the_one_who_writes(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    repository = routines_of(scene)
    repository.amend("plan", {"description": "The day"})
    assert await settled(scene) == ["edit routine plan"]
    repository.remove("plan")
    assert await settled(scene) == ["edit routine plan", "remove routine plan"]


async def test_a_write_that_is_spoken_for_after_it_was_seen_is_not_by_hand(
    scene: JobIndexScene,
) -> None:
    await scene.refresh()
    await scene.saved(routine("plan"))
    scene.hand_edits.note(scene.plan, "auto: write routines/plan.md")
    assert await settled(scene) == ["auto: write routines/plan.md"]


async def test_an_edit_right_after_the_bots_own_is_by_hand(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    routines_of(scene).amend("plan", {"description": "The day"})
    scene.plan.write_text(routine("plan", body="Plan it otherwise."))
    assert await settled(scene) == ["edit routine plan", BY_HAND]


async def test_a_link_to_the_data_directory_does_not_confuse(
    scene: JobIndexScene, tmp_path: Path
) -> None:
    await scene.refresh()
    scene.plan.write_text(routine("plan"))
    linked = tmp_path / "linked"
    linked.symlink_to(scene.paths.root)
    scene.hand_edits.note(linked / "routines" / "plan.md", "auto: write routines/plan.md")
    assert await settled(scene) == ["auto: write routines/plan.md"]
