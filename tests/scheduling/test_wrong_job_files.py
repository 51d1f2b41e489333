"""A wrong file is named once, hurts no other, and leaves its last good version in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.scheduling.desk import EDITORS, WRONG, Desk, Editor, in_two_halves, routine

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.schedule import JobKey

PLAN = JobKey(JobKind.ROUTINE, "plan")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "data")


async def test_a_wrong_file_leaves_its_last_good_version_in_use(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    assert not await desk.looked()
    await desk.looked_later()
    assert desk.messages == {"plan": "Plan the day."}


async def test_a_mistake_is_told_once_with_file_line_and_reason(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    await desk.looked()
    changes = await desk.looked_later()
    for _ in range(3):
        os.utime(desk.plan)
        assert not await desk.looked_later()
    [said] = desk.told.said
    assert said.startswith("routines/plan.md:3: cron: ")
    assert said.endswith(". Until it is mended, the version before stays in use.")
    assert changes.problems == [said]


async def test_a_wrong_webhook_file_is_told_and_the_version_before_stays(desk: Desk) -> None:
    hook = desk.paths.webhooks / "build.md"
    hook.write_text("---\nid: build\nfields: {type: object}\n---\nLook at the build.\n")
    await desk.looked()
    await desk.looked_later()
    assert desk.told.said == []
    hook.write_text("---\nid: build\nfields: {type: object}\nauth: magic\n---\nLook.\n")
    await desk.looked()
    await desk.looked_later()
    [said] = desk.told.said
    assert said.startswith("webhooks/build.md:4: auth: 'magic' is not right; it takes one ")
    assert said.endswith(". Until it is mended, the version before stays in use.")


async def test_a_file_that_was_never_right_is_said_not_to_run(desk: Desk) -> None:
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    assert desk.told.said[0].endswith("It does not run until it is mended.")
    assert desk.book.jobs == {}


async def test_a_passing_mistake_is_not_told_and_the_book_says_when_it_would_be(desk: Desk) -> None:
    desk.plan.write_text("")
    assert (await desk.looked()).look_again_in == 1.0
    await desk.looked_later(0.9)
    desk.plan.write_text(routine("plan"))
    assert (await desk.looked()).added
    await desk.looked_later()
    assert desk.told.said == []


async def test_a_mistake_has_to_stand_for_a_moment_after_the_last_change(desk: Desk) -> None:
    for number in range(5):
        desk.plan.write_text(number * "#")
        await desk.looked_later(0.8)
    assert desk.told.said == []


async def test_half_a_file_that_stays_half_is_told(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    next(in_two_halves(desk.plan, routine("plan")))
    await desk.looked()
    await desk.looked_later()
    assert len(desk.told.said) == 1


async def test_another_mistake_is_told_again(desk: Desk) -> None:
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    desk.plan.write_text(WRONG.replace("99", "88"))
    await desk.looked()
    await desk.looked_later()
    assert ["99" in desk.told.said[0], "88" in desk.told.said[1]] == [True, True]


@pytest.mark.parametrize("editor", EDITORS)
async def test_the_same_mistake_saved_again_is_not_told_again(desk: Desk, editor: Editor) -> None:
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    for _ in editor(desk.plan, WRONG):
        await desk.looked()
    await desk.looked_later()
    assert len(desk.told.said) == 1


async def test_a_repair_counts_at_once_and_nothing_is_said(desk: Desk) -> None:
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    desk.plan.write_text(routine("plan"))
    changes = await desk.looked()
    assert [booked.key for booked in changes.added] == [PLAN]
    assert (changes.problems, len(desk.told.said), desk.book.problems) == ([], 1, [])
    assert desk.told.known == set()


async def test_the_same_mistake_made_again_is_told_again(desk: Desk) -> None:
    for _ in range(2):
        desk.plan.write_text(WRONG)
        await desk.looked()
        await desk.looked_later()
        desk.plan.write_text(routine("plan"))
        await desk.looked()
        desk.plan.unlink()
        await desk.looked()
        await desk.looked_later()
    assert len(desk.told.said) == 2


async def test_one_wrong_file_hurts_no_other(desk: Desk) -> None:
    desk.plan.write_text(WRONG)
    (desk.paths.routines / "walk.md").write_text(routine("walk"))
    (desk.paths.routines / "odd.md").write_bytes(b"\xff\xfe")
    (desk.paths.routines / "folder.md").mkdir()
    (desk.paths.routines / "nowhere.md").symlink_to("nothing")
    await desk.looked()
    await desk.looked_later()
    assert desk.routine_ids == {"walk"}
    assert len(desk.told.said) == 4


async def test_a_folder_full_of_mistakes_is_a_handful_of_sentences(desk: Desk) -> None:
    for number in range(40):
        (desk.paths.routines / f"r{number}.md").write_text("nothing")
    await desk.looked()
    changes = await desk.looked_later()
    assert len(desk.told.said) == len(changes.problems) == 6
    assert desk.told.said[-1].startswith("35 more mistakes")
    assert len(desk.book.problems) == 40


async def test_a_wrong_file_that_is_removed_takes_its_last_good_version_along(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    desk.plan.unlink()
    await desk.looked()
    await desk.looked_later()
    assert desk.book.jobs == {}


async def test_of_two_files_with_one_id_the_first_stays_in_use_and_both_are_named(
    desk: Desk,
) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    copy = desk.plan.with_name("a-copy.md")
    copy.write_text(routine("plan", body="Copied."))
    assert not await desk.looked()
    await desk.looked_later()
    assert desk.messages == {"plan": "Plan the day."}
    [said] = desk.told.said
    assert said == (
        "routines/a-copy.md and routines/plan.md have the same id plan. "
        "Give one of them another id. Until then, routines/plan.md is in use."
    )
    desk.plan.unlink()
    await desk.looked()
    assert desk.messages == {"plan": "Copied."}


async def test_what_stands_right_in_a_file_beats_what_is_only_remembered(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    desk.plan.with_name("z.md").write_text(routine("plan", body="Anew."))
    await desk.looked()
    assert desk.messages == {"plan": "Anew."}


async def test_a_folder_that_cannot_be_listed_is_not_empty(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.paths.routines.rename(desk.paths.root / "away")
    desk.paths.routines.write_text("This is no folder.")
    await desk.looked()
    assert not (await desk.looked_later()).removed
    assert not await desk.looked_later()
    assert desk.routine_ids == {"plan"}
    assert ["cannot be listed" in said for said in desk.told.said] == [True]
    desk.paths.routines.unlink()
    (desk.paths.root / "away").rename(desk.paths.routines)
    assert not await desk.looked_later()
    assert desk.book.problems == []


async def test_the_last_good_version_outlives_a_restart(desk: Desk) -> None:
    text = routine("plan", body='Say "---" and\n\n---\nmore: of it.')
    desk.plan.write_text(text)
    await desk.looked()
    before = desk.book.jobs[PLAN].job
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    desk.opened()
    assert [booked.job for booked in (await desk.looked()).added] == [before]
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    assert list((desk.paths.state / "last_good" / "routines").iterdir()) == []


async def test_the_last_good_version_outlives_starts_in_a_bad_moment(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    for _ in range(2):
        desk.opened()
        await desk.looked()
    away = desk.paths.routines.rename(desk.paths.root / "away")
    desk.paths.routines.write_text("This is no folder.")
    desk.opened()
    await desk.looked()
    desk.paths.routines.unlink()
    away.rename(desk.paths.routines)
    await desk.looked()
    assert desk.routine_ids == {"plan"}


async def test_a_disk_that_keeps_no_copy_changes_nothing_else(desk: Desk) -> None:
    def refuse(step: str, _: Path) -> None:
        if step == "write":
            raise OSError(28, "No space left on device")

    desk.before_each_step = refuse
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    assert desk.routine_ids == {"plan"}
    assert len(desk.told.said) == 1
