"""A wrong file is reported once, affects no other job, and keeps its last good version in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from devtools.doubles.disks import failing_at
from tests.kernel.schedule.job_index_scene import EDITORS, WRONG, Editor, JobIndexScene, routine
from tests.kernel.store.files.data_directory import QuickDisk

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.values.schedule import key_of

PLAN = JobKey(JobKind.ROUTINE, "plan")


@pytest.fixture
def scene(tmp_path: Path) -> JobIndexScene:
    return JobIndexScene(tmp_path / "data")


async def test_a_mistake_is_told_once_with_file_line_and_reason(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    assert not await scene.saved(WRONG)
    changes = await scene.refresh_later()
    assert scene.messages == {"plan": "Plan the day."}
    for _ in range(3):
        os.utime(scene.plan)
        assert not await scene.refresh_later()
    [said] = scene.notices.said
    assert said.startswith("routines/plan.md:3: cron: ")
    assert said.endswith(". Until it is mended, the version before stays in use.")
    assert changes.problems == [said]


async def test_a_wrong_webhook_file_is_told_and_the_version_before_stays(
    scene: JobIndexScene,
) -> None:
    hook = scene.paths.webhooks / "build.md"
    hook.write_text("---\nid: build\nfields: {type: object}\n---\nLook at the build.\n")
    await scene.settled()
    assert scene.notices.said == []
    hook.write_text("---\nid: build\nfields: {type: object}\nauth: magic\n---\nLook.\n")
    await scene.settled()
    [said] = scene.notices.said
    assert said.startswith("webhooks/build.md:4: auth: 'magic' is not right; it takes one ")
    assert said.endswith(". Until it is mended, the version before stays in use.")


async def test_a_passing_mistake_is_not_told_and_the_index_says_when_it_would_be(
    scene: JobIndexScene,
) -> None:
    scene.plan.write_text("")
    assert (await scene.refresh()).look_again_in == 1.0
    await scene.refresh_later(0.9)
    scene.plan.write_text(routine("plan"))
    assert (await scene.refresh()).added
    await scene.refresh_later()
    assert scene.notices.said == []


async def test_a_mistake_has_to_stand_for_a_moment_after_the_last_change(
    scene: JobIndexScene,
) -> None:
    for number in range(5):
        scene.plan.write_text(number * "#")
        await scene.refresh_later(0.8)
    assert scene.notices.said == []


async def test_another_mistake_is_told_again(scene: JobIndexScene) -> None:
    await scene.saved(WRONG)
    await scene.refresh_later()
    await scene.saved(WRONG.replace("99", "88"))
    await scene.refresh_later()
    assert ["99" in scene.notices.said[0], "88" in scene.notices.said[1]] == [True, True]


@pytest.mark.parametrize("editor", EDITORS)
async def test_the_same_mistake_saved_again_is_not_told_again(
    scene: JobIndexScene, editor: Editor
) -> None:
    await scene.saved(WRONG)
    await scene.refresh_later()
    for _ in editor(scene.plan, WRONG):
        await scene.refresh()
    await scene.refresh_later()
    assert len(scene.notices.said) == 1


async def test_a_repair_counts_at_once_and_nothing_is_said(scene: JobIndexScene) -> None:
    await scene.saved(WRONG)
    await scene.refresh_later()
    assert scene.notices.said[0].endswith("It does not run until it is mended.")
    assert scene.index.jobs == {}
    changes = await scene.saved(routine("plan"))
    assert [key_of(indexed.job) for indexed in changes.added] == [PLAN]
    assert (changes.problems, len(scene.notices.said), scene.index.problems) == ([], 1, [])
    assert scene.notices.known == set()


async def test_the_same_mistake_made_again_is_told_again(scene: JobIndexScene) -> None:
    for _ in range(2):
        await scene.saved(WRONG)
        await scene.refresh_later()
        await scene.saved(routine("plan"))
        scene.plan.unlink()
        await scene.settled()
    assert len(scene.notices.said) == 2


async def test_one_wrong_file_hurts_no_other(scene: JobIndexScene) -> None:
    scene.plan.write_text(WRONG)
    (scene.paths.routines / "walk.md").write_text(routine("walk"))
    (scene.paths.routines / "odd.md").write_bytes(b"\xff\xfe")
    (scene.paths.routines / "folder.md").mkdir()
    (scene.paths.routines / "nowhere.md").symlink_to("nothing")
    await scene.settled()
    assert scene.routine_ids == {"walk"}
    assert len(scene.notices.said) == 4


@pytest.mark.parametrize(
    ("wrong", "rest"), [(40, "35 more mistakes are in"), (6, "1 more mistake is in")]
)
async def test_a_folder_full_of_mistakes_is_a_handful_of_sentences(
    scene: JobIndexScene, wrong: int, rest: str
) -> None:
    for number in range(wrong):
        (scene.paths.routines / f"r{number}.md").write_text("nothing")
    changes = await scene.settled()
    assert len(scene.notices.said) == len(changes.problems) == 6
    assert scene.notices.said[-1].startswith(rest)
    assert len(scene.index.problems) == wrong


async def test_a_wrong_file_that_is_removed_takes_its_last_good_version_along(
    scene: JobIndexScene,
) -> None:
    await scene.saved(routine("plan"))
    await scene.saved(WRONG)
    await scene.refresh_later()
    scene.plan.unlink()
    await scene.settled()
    assert scene.index.jobs == {}


async def test_of_two_files_with_one_id_the_first_stays_in_use_and_both_are_named(
    scene: JobIndexScene,
) -> None:
    await scene.saved(routine("plan"))
    copy = scene.plan.with_name("a-copy.md")
    copy.write_text(routine("plan", body="Copied."))
    assert not await scene.refresh()
    await scene.refresh_later()
    assert scene.messages == {"plan": "Plan the day."}
    [said] = scene.notices.said
    assert said == (
        "routines/a-copy.md and routines/plan.md have the same id plan. "
        "Give one of them another id. Until then, routines/plan.md is in use."
    )
    scene.plan.unlink()
    await scene.refresh()
    assert scene.messages == {"plan": "Copied."}


async def test_what_stands_right_in_a_file_beats_what_is_only_remembered(
    scene: JobIndexScene,
) -> None:
    await scene.saved(routine("plan"))
    scene.plan.write_text(WRONG)
    scene.plan.with_name("z.md").write_text(routine("plan", body="Anew."))
    await scene.refresh()
    assert scene.messages == {"plan": "Anew."}


async def test_a_folder_that_cannot_be_listed_is_not_empty(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    scene.paths.routines.rename(scene.paths.root / "away")
    scene.paths.routines.write_text("This is no folder.")
    await scene.refresh()
    assert not (await scene.refresh_later()).removed
    assert not await scene.refresh_later()
    assert scene.routine_ids == {"plan"}
    assert ["cannot be listed" in said for said in scene.notices.said] == [True]
    scene.paths.routines.unlink()
    (scene.paths.root / "away").rename(scene.paths.routines)
    assert not await scene.refresh_later()
    assert scene.index.problems == []


async def test_the_last_good_version_outlives_restarts_in_a_bad_moment_too(
    scene: JobIndexScene,
) -> None:
    text = routine("plan", body='Say "---" and\n\n---\nmore: of it.')
    scene.plan.write_text(text)
    await scene.refresh()
    before = scene.index.jobs[PLAN].job
    await scene.saved(WRONG)
    await scene.refresh_later()
    for _ in range(2):
        scene.open_index()
        assert [indexed.job for indexed in (await scene.refresh()).added] == [before]
    away = scene.paths.routines.rename(scene.paths.root / "away")
    scene.paths.routines.write_text("This is no folder.")
    scene.open_index()
    await scene.refresh()
    scene.paths.routines.unlink()
    away.rename(scene.paths.routines)
    await scene.refresh()
    assert scene.routine_ids == {"plan"}
    await scene.saved(routine("plan"))
    assert list((scene.paths.state / "last_good" / "routines").iterdir()) == []


async def test_a_disk_that_keeps_no_copy_changes_nothing_else(scene: JobIndexScene) -> None:
    scene.open_index(failing_at("write", disk=QuickDisk()))
    await scene.saved(routine("plan"))
    await scene.saved(WRONG)
    await scene.refresh_later()
    assert scene.routine_ids == {"plan"}
    assert len(scene.notices.said) == 1
