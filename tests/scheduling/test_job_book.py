"""The book knows the jobs as they are, and says what became different."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.scheduling.desk import EDITORS, Desk, Editor, reminder, routine
from tests.storage.data_directory import QuickDisk

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.schedule import JobKey

LIMIT = 60
PLAN = JobKey(JobKind.ROUTINE, "plan")


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

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, path: Path, most: int) -> bytes:
        super().read(path, most)
        return self.text.encode()


async def test_a_change_within_the_grain_of_the_clock_is_seen(desk: Desk) -> None:
    disk = _CoarseDisk(routine("plan"))
    desk.opened(disk)
    # A machine that stalls between the writing and the look makes the file old.
    for _ in range(100):
        begun = time.monotonic()
        desk.plan.write_text(routine("plan"))
        await desk.looked()
        if time.monotonic() - begun < 0.08:
            break
    disk.text = routine("plan", body="Plan it.")
    await desk.looked()
    assert desk.messages == {"plan": "Plan it."}


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


async def test_only_files_that_changed_are_read_again(desk: Desk) -> None:
    read: list[str] = []
    desk.before_each_step = lambda _, path: read.append(path.name)
    for number in range(20):
        (desk.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
    await desk.looked()
    async with asyncio.timeout(60):
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
    """A look that goes on to its end, though nobody waits for what it finds."""
    loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))

    def hold(_: str, path: Path) -> None:
        if path == desk.plan:
            loop.call_soon_threadsafe(begun.set)
            may_end.wait(LIMIT)

    desk.before_each_step = hold
    looking = asyncio.create_task(desk.looked())
    async with asyncio.timeout(LIMIT):
        await begun.wait()
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    may_end.set()
    await asyncio.to_thread(lambda: None)


async def test_a_look_that_was_given_up_loses_no_change(desk: Desk) -> None:
    await desk.looked()
    desk.plan.write_text(routine("plan"))
    await given_up(desk)
    await desk.looked()
    assert desk.routine_ids == {"plan"}


async def test_a_look_that_was_given_up_does_not_leave_a_file_away(desk: Desk) -> None:
    """Or else a copy of it could take its place."""
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    away = desk.plan.rename(desk.plan.with_name("away"))
    await desk.looked()
    away.rename(desk.plan)
    await given_up(desk)
    desk.plan.with_name("a-copy.md").write_text(routine("plan", body="Copied."))
    await desk.looked()
    assert desk.messages == {"plan": "Plan the day."}


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
