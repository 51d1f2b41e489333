"""The book knows the jobs as they were last right, and says what became different."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.scheduling.desk import (
    EDITORS,
    WRONG,
    Desk,
    Editor,
    in_two_halves,
    reminder,
    routine,
)
from tests.storage.places import QuickDisk

from ollim_bot.domain.jobs import JobKind
from ollim_bot.testing.disks import SteppedDisk

PLAN = (JobKind.ROUTINE, "plan")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "data")


async def test_the_first_look_finds_every_job(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    (desk.paths.reminders / "call.md").write_text(reminder("call"))
    changes = await desk.looked()
    assert {booked.key for booked in changes.added} == {PLAN, (JobKind.REMINDER, "call")}
    assert (changes.changed, changes.removed, changes.problems) == ([], [], [])


async def test_nothing_new_is_no_change(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    assert not await desk.looked()
    assert not await desk.looked_later()


@pytest.mark.parametrize("editor", EDITORS)
async def test_however_an_editor_saves_only_the_change_is_seen(desk: Desk, editor: Editor) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    looks = []
    for _ in editor(desk.plan, routine("plan", "30 8 * * 1-5", "Plan it well.")):
        looks.append(await desk.looked())
        await desk.clock.advance(0.1)
    looks.append(await desk.looked_later())
    assert desk.messages == {"plan": "Plan it well."}
    assert not any(look.removed or look.added for look in looks)
    assert desk.told.said == []


@pytest.mark.parametrize("editor", EDITORS)
async def test_saving_the_same_again_is_no_change(desk: Desk, editor: Editor) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    for _ in editor(desk.plan, routine("plan")):
        assert not await desk.looked()
    assert not await desk.looked_later()


async def test_a_touch_is_no_change(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    os.utime(desk.plan)
    assert not await desk.looked()


class _CoarseDisk(QuickDisk):
    """A file system whose clock did not move between two writes: only the content differs."""

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    def read(self, path: Path) -> bytes:
        super().read(path)
        return self._texts.pop(0).encode()


async def test_a_change_within_the_grain_of_the_clock_is_seen(desk: Desk) -> None:
    desk.opened(_CoarseDisk(routine("plan"), routine("plan", body="Plan it.")))
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    await desk.looked()
    assert desk.messages == {"plan": "Plan it."}


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


async def test_a_removed_file_is_a_removed_job_within_a_second(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.unlink()
    changes = await desk.looked()
    assert not changes
    assert changes.look_again_in is not None
    assert changes.look_again_in < 0.8
    changes = await desk.looked_later(changes.look_again_in)
    assert [booked.key for booked in changes.removed] == [PLAN]
    assert desk.book.jobs == {}


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


async def test_a_moved_file_is_the_same_job_at_another_place(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    elsewhere = desk.plan.rename(desk.plan.with_name("another.md"))
    changes = await desk.looked()
    assert [booked.path for booked in changes.changed] == [elsewhere]
    assert not await desk.looked_later()


async def test_another_id_in_the_file_is_another_job(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(routine("day"))
    changes = await desk.looked()
    assert [booked.key[1] for booked in changes.removed] == ["plan"]
    assert [booked.key[1] for booked in changes.added] == ["day"]


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


async def test_a_folder_away_for_a_moment_removes_nothing(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    away = desk.paths.routines.rename(desk.paths.root / "away")
    await desk.looked()
    away.rename(desk.paths.routines)
    await desk.looked()
    assert not await desk.looked_later()
    assert desk.routine_ids == {"plan"}


async def test_a_folder_that_is_removed_and_made_again_holds_what_is_in_it(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.unlink()
    desk.paths.routines.rmdir()
    await desk.looked()
    await desk.looked_later()
    assert desk.book.jobs == {}
    desk.paths.routines.mkdir()
    desk.plan.write_text(routine("plan"))
    assert (await desk.looked()).added


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

    desk.opened(SteppedDisk(QuickDisk(), refuse))
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    desk.plan.write_text(WRONG)
    await desk.looked()
    await desk.looked_later()
    assert desk.routine_ids == {"plan"}
    assert len(desk.told.said) == 1


async def test_only_files_that_changed_are_read_again(desk: Desk) -> None:
    read: list[str] = []
    desk.opened(SteppedDisk(QuickDisk(), lambda _, path: read.append(path.name)))
    for number in range(20):
        (desk.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
    await desk.looked()
    async with asyncio.timeout(10):
        # What was written just now is read again, until the file system's clock has moved on.
        while read:
            read.clear()
            await desk.looked()
    before = desk.book.jobs
    await desk.looked()
    assert desk.book.jobs is before
    (desk.paths.routines / "r7.md").write_text(routine("r7", body="Other."))
    await desk.looked()
    assert read == ["r7.md"]


async def given_up(desk: Desk) -> None:
    """A look whose result nobody waits for, though it looks to the end."""
    looking = asyncio.create_task(desk.looked())
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


async def test_a_look_that_was_given_up_loses_no_change(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    await given_up(desk)
    await desk.looked()
    assert desk.routine_ids == {"plan"}


async def test_a_look_that_was_given_up_does_not_leave_a_file_away(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    away = desk.plan.rename(desk.plan.with_name("away"))
    await desk.looked()
    away.rename(desk.plan)
    await given_up(desk)
    await desk.looked()
    await desk.looked_later()
    assert desk.routine_ids == {"plan"}


async def test_the_definition_differs_exactly_if_something_does(desk: Desk) -> None:
    texts = [
        routine("plan"),
        routine("plan", body="Other words."),
        routine("plan", "0 10 * * *"),
        routine("plan").replace("id:", "timezone: Europe/Berlin\nid:"),
        routine("plan").replace("id:", "late: skip\nid:"),
        routine("plan").replace("id:", "enabled: false\nid:"),
    ]
    definitions = []
    for text in texts:
        desk.plan.write_text(text)
        await desk.looked()
        definitions.append(desk.book.jobs[PLAN].definition)
    assert len(set(definitions)) == len(texts)
    desk.plan.write_text(f"{routine('plan').replace('id:', '# a word aside' + chr(10) + 'id:')}\n")
    await desk.looked()
    assert desk.book.jobs[PLAN].definition == definitions[0]


async def test_half_a_file_that_stays_half_is_told(desk: Desk) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    next(in_two_halves(desk.plan, routine("plan")))
    await desk.looked()
    await desk.looked_later()
    assert len(desk.told.said) == 1
