"""The index has the jobs as their files are, and reports what has changed."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.kernel.schedule.job_index_scene import EDITORS, Editor, JobIndexScene, reminder, routine
from tests.kernel.store.files.data_directory import QuickDisk
from tests.patience import patience

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.values.definitions import mark_of
from ollim_bot.kernel.values.schedule import key_of

PLAN = JobKey(JobKind.ROUTINE, "plan")


@pytest.fixture
def scene(tmp_path: Path) -> JobIndexScene:
    return JobIndexScene(tmp_path / "data")


async def test_the_first_look_finds_every_job(scene: JobIndexScene) -> None:
    scene.plan.write_text(routine("plan"))
    (scene.paths.reminders / "call.md").write_text(reminder("call"))
    changes = await scene.refresh()
    assert {key_of(indexed.job) for indexed in changes.added} == {PLAN, (JobKind.REMINDER, "call")}
    assert (changes.changed, changes.removed, changes.problems) == ([], [], [])


@pytest.mark.parametrize("editor", EDITORS)
async def test_however_an_editor_saves_only_the_change_is_seen(
    scene: JobIndexScene, editor: Editor
) -> None:
    await scene.saved(routine("plan"))
    looks = []
    for _ in editor(scene.plan, routine("plan", "30 8 * * 1-5", "Plan it well.")):
        looks.append(await scene.refresh())
        await scene.clock.advance(0.1)
    looks.append(await scene.refresh_later())
    assert scene.messages == {"plan": "Plan it well."}
    assert not any(look.removed or look.added for look in looks)
    assert scene.notices.said == []
    for _ in editor(scene.plan, scene.plan.read_text()):
        assert not await scene.refresh(), "the same was saved again"
    assert not await scene.refresh_later()


async def test_nothing_new_and_a_touch_are_no_change(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    assert not await scene.refresh()
    assert not await scene.refresh_later()
    os.utime(scene.plan)
    assert not await scene.refresh()


class _CoarseDisk(QuickDisk):
    """A file system whose clock did not move between two writes: only the content differs."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, path: Path, most: int) -> bytes:
        super().read(path, most)
        return self.text.encode()


async def test_a_change_within_the_grain_of_the_clock_is_seen(scene: JobIndexScene) -> None:
    disk = _CoarseDisk(routine("plan"))
    scene.open_index(disk)
    # If the machine stalls between the write and the refresh, the file is too old: try again.
    for _ in range(100):
        begun = time.monotonic()
        scene.plan.write_text(routine("plan"))
        await scene.refresh()
        if time.monotonic() - begun < 0.08:
            break
    disk.text = routine("plan", body="Plan it.")
    await scene.refresh()
    assert scene.messages == {"plan": "Plan it."}


async def test_a_removed_file_is_a_removed_job_within_a_second(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    scene.plan.unlink()
    changes = await scene.refresh()
    assert not changes
    assert changes.look_again_in is not None
    assert changes.look_again_in < 0.8
    changes = await scene.refresh_later(changes.look_again_in)
    assert [key_of(indexed.job) for indexed in changes.removed] == [PLAN]
    assert scene.index.jobs == {}


async def test_a_folder_away_for_a_moment_removes_nothing(scene: JobIndexScene) -> None:
    await scene.saved(routine("plan"))
    away = scene.paths.routines.rename(scene.paths.root / "away")
    await scene.refresh()
    away.rename(scene.paths.routines)
    await scene.refresh()
    assert not await scene.refresh_later()
    assert scene.routine_ids == {"plan"}


async def test_only_files_that_changed_are_read_again(scene: JobIndexScene) -> None:
    read: list[str] = []
    scene.before_each_step = lambda _, path: read.append(path.name)
    for number in range(20):
        (scene.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
    await scene.refresh()
    async with asyncio.timeout(60):
        # A new file is read again until the clock of the file system has moved on.
        while read:
            read.clear()
            await scene.refresh()
    before = scene.index.jobs
    await scene.refresh()
    assert scene.index.jobs is before
    (scene.paths.routines / "r7.md").write_text(routine("r7", body="Other."))
    await scene.refresh()
    assert read == ["r7.md"]


async def refresh_given_up(scene: JobIndexScene) -> None:
    """Cancel a refresh whose thread goes on to its end."""
    loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))

    def hold(_: str, path: Path) -> None:
        if path == scene.plan:
            loop.call_soon_threadsafe(begun.set)
            may_end.wait(patience())

    scene.before_each_step = hold
    looking = asyncio.create_task(scene.refresh())
    async with asyncio.timeout(patience()):
        await begun.wait()
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    may_end.set()
    await asyncio.to_thread(lambda: None)


async def test_a_look_that_was_given_up_loses_no_change(scene: JobIndexScene) -> None:
    await scene.refresh()
    scene.plan.write_text(routine("plan"))
    await refresh_given_up(scene)
    await scene.refresh()
    assert scene.routine_ids == {"plan"}


async def test_a_look_that_was_given_up_does_not_leave_a_file_away(scene: JobIndexScene) -> None:
    """Otherwise a copy of the file could take over its id."""
    await scene.saved(routine("plan"))
    away = scene.plan.rename(scene.plan.with_name("away"))
    await scene.refresh()
    away.rename(scene.plan)
    await refresh_given_up(scene)
    scene.plan.with_name("a-copy.md").write_text(routine("plan", body="Copied."))
    await scene.refresh()
    assert scene.messages == {"plan": "Plan the day."}


async def test_the_mark_differs_exactly_if_something_does(scene: JobIndexScene) -> None:
    texts = [
        routine("plan"),
        routine("plan", body="Other words."),
        routine("plan", "0 10 * * *"),
        routine("plan").replace("id:", "timezone: Europe/Berlin\nid:"),
        routine("plan").replace("id:", "late: skip\nid:"),
        routine("plan").replace("id:", "enabled: false\nid:"),
    ]
    marks = []
    for text in texts:
        scene.plan.write_text(text)
        await scene.refresh()
        marks.append(mark_of(scene.index.jobs[PLAN].job))
    assert len(set(marks)) == len(texts)
    scene.plan.write_text(f"{routine('plan').replace('id:', '# a word aside' + chr(10) + 'id:')}\n")
    await scene.refresh()
    assert mark_of(scene.index.jobs[PLAN].job) == marks[0]


async def test_a_job_that_names_no_tool_of_a_server_runs_and_is_told_once(
    scene: JobIndexScene,
) -> None:
    tools = 'background: true\nallowed-tools: ["mcp__home__lamp", "mcp__home__*"]'
    await scene.saved(routine("plan").replace("id: plan", f"id: plan\n{tools}"))
    for _ in range(2):
        await scene.refresh_later(17.3)
    told = (
        "routines/plan.md:4: allowed-tools: `mcp__home__*` allows a background run nothing, since "
        "it names no tool. Write `mcp__home__` with a name that `ollim-bot mcp list home` shows."
    )
    assert scene.notices.said == [told]
    assert [key.id for key in scene.index.jobs] == ["plan"]
    scene.plan.write_text(scene.plan.read_text().replace("home__*", "home__door"))
    await scene.refresh()
    await scene.refresh_later(17.3)
    assert scene.notices.known == set()
