"""Each change below the data directory is noticed soon, with or without file system events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.kernel.schedule.job_index_scene import EDITORS, Editor, JobIndexScene, routine
from tests.patience import patience

from ollim_bot.kernel.schedule.watcher import SCAN_SECONDS, Events, Watcher, file_events

pytestmark = pytest.mark.real_time


@pytest.fixture
def scene(tmp_path: Path) -> JobIndexScene:
    return JobIndexScene(tmp_path / "data")


@asynccontextmanager
async def watching(scene: JobIndexScene, events: Events = file_events) -> AsyncIterator[Watcher]:
    """A watcher on a manual clock, so that only file system events wake it."""
    watcher = Watcher(scene.paths, scene.clock, scene.notices.tell, events=events)
    running = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(patience()):
            yield watcher
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def listening(scene: JobIndexScene, events: Events = file_events) -> AsyncIterator[Watcher]:
    async with watching(scene, events) as watcher:
        await watcher.wait()
        yield watcher


async def refresh_until(scene: JobIndexScene, watcher: Watcher, *ids: str) -> None:
    """Refresh at each signal of the watcher, until the index has exactly these routines."""
    async with asyncio.timeout(patience()):
        while scene.routine_ids != set(ids):
            await watcher.wait()
            await scene.refresh()


async def test_a_new_a_changed_and_a_removed_file_are_noticed(scene: JobIndexScene) -> None:
    async with listening(scene) as watcher:
        scene.plan.write_text(routine("plan"))
        await refresh_until(scene, watcher, "plan")
        scene.plan.write_text(routine("day"))
        await refresh_until(scene, watcher, "day")
        scene.plan.unlink()
        await watcher.wait()


@pytest.mark.parametrize("editor", EDITORS)
async def test_an_edit_is_noticed_however_it_is_saved(scene: JobIndexScene, editor: Editor) -> None:
    await scene.saved(routine("plan"))
    async with listening(scene) as watcher:
        for _ in editor(scene.plan, routine("day")):
            pass
        await refresh_until(scene, watcher, "day")


async def test_what_changed_while_nobody_listened_yet_is_noticed(scene: JobIndexScene) -> None:
    await scene.refresh()
    async with watching(scene) as watcher:
        scene.plan.write_text(routine("plan"))
        await refresh_until(scene, watcher, "plan")


async def test_what_nobody_waited_for_is_said_later(scene: JobIndexScene) -> None:
    async with listening(scene) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        scene.plan.write_text(routine("plan"))
        await refresh_until(scene, watcher, "plan")


async def test_a_thousand_files_at_once_are_a_few_signals(scene: JobIndexScene) -> None:
    signals = 0
    async with listening(scene) as watcher:
        for number in range(1000):
            (scene.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
        while len(scene.index.jobs) < 1000:
            await watcher.wait()
            signals += 1
            await scene.refresh()
    assert signals < 100


async def test_looking_is_no_change(scene: JobIndexScene) -> None:
    """Otherwise each refresh would cause the next."""
    heard: list[set[str]] = []

    def noting(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        for burst in file_events(folders, stop):
            heard.append({path.name for path in burst})
            yield burst

    scene.plan.write_text(routine("plan"))
    async with listening(scene, noting) as watcher:
        scene.open_index()
        await scene.refresh()
        (scene.paths.routines / "other.md").write_text(routine("other"))
        await refresh_until(scene, watcher, "plan", "other")
    assert set().union(*heard) == {"other.md"}


async def test_a_folder_removed_and_made_again_is_listened_to(scene: JobIndexScene) -> None:
    async with listening(scene) as watcher:
        for number in range(3):
            scene.paths.routines.rmdir()
            await watcher.wait()
            scene.paths.routines.mkdir()
            scene.plan.write_text(routine(f"plan{number}"))
            await refresh_until(scene, watcher, f"plan{number}")
            scene.plan.unlink()


async def test_a_folder_swapped_for_another_is_listened_to(
    scene: JobIndexScene, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "plan.md").write_text(routine("plan"))
    async with listening(scene) as watcher:
        scene.paths.routines.rename(tmp_path / "old")
        other.rename(scene.paths.routines)
        await refresh_until(scene, watcher, "plan")
        await watcher.wait()
        scene.plan.write_text(routine("day"))
        await refresh_until(scene, watcher, "day")


async def test_skills_and_the_tool_policy_are_noticed(scene: JobIndexScene) -> None:
    async with listening(scene) as watcher:
        scene.paths.tool_policy.write_text("denied: []\n")
        await watcher.wait()
        skill = scene.paths.skills / "mail"
        skill.mkdir(parents=True)
        await watcher.wait()
        await watcher.wait()
        (skill / "SKILL.md").write_text("---\nname: mail\n---\n")
        await watcher.wait()


async def test_it_is_calm_only_while_the_system_is_listened_to_and_says_nothing(
    scene: JobIndexScene,
) -> None:
    async with watching(scene) as watcher:
        assert not await watcher.wait()
        waiting = asyncio.create_task(watcher.wait(5))
        await scene.clock.advance(5)
        assert await waiting
        scene.plan.write_text(routine("plan"))
        assert not await watcher.wait()


async def test_when_the_system_falls_silent_it_is_no_longer_calm(scene: JobIndexScene) -> None:
    falls_silent = threading.Event()

    def events(_: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        yield ()
        while not (falls_silent.wait(0.01) or stop.is_set()):
            yield ()

    async with listening(scene, events) as watcher:
        falls_silent.set()
        async with asyncio.timeout(patience()):
            while not scene.notices.said:
                await asyncio.to_thread(lambda: None)
        waiting = asyncio.create_task(watcher.wait())
        await scene.clock.advance(SCAN_SECONDS)
        assert not await waiting


class NoEvents:
    """File system events that never come. `begun` has the folders of each time of listening."""

    def __init__(self, *troubles: OSError | None) -> None:
        self.begun: list[set[str]] = []
        self._troubles = list(troubles)

    def __call__(self, folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        self.begun.append({folder.name for folder in folders})
        trouble = self._troubles.pop(0) if self._troubles else None
        if trouble is not None:
            raise trouble
        yield ()
        stop.wait()


async def advance(scene: JobIndexScene, seconds: float) -> None:
    """Advance the clock, and wait for the threads of the tasks that it wakes."""
    await scene.clock.advance(seconds)
    for _ in range(3):
        await asyncio.to_thread(lambda: None)


async def test_without_any_events_it_is_time_to_look_every_ten_seconds(
    scene: JobIndexScene,
) -> None:
    async with listening(scene, NoEvents()) as watcher:
        for _ in range(3):
            waiting = asyncio.create_task(anext(watcher))
            await scene.clock.advance(SCAN_SECONDS - 0.1)
            assert not waiting.done()
            await scene.clock.advance(0.1)
            await waiting


async def test_one_who_cannot_wait_so_long_says_so(scene: JobIndexScene) -> None:
    async with listening(scene, NoEvents()) as watcher:
        waiting = asyncio.create_task(watcher.wait(0.5))
        await scene.clock.advance(0.5)
        await waiting


async def test_trouble_with_the_events_is_told_once_and_looking_goes_on(
    scene: JobIndexScene,
) -> None:
    full = OSError(28, "No space left on device")
    no_events = NoEvents(full, full, full)
    async with watching(scene, no_events) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        async with asyncio.timeout(patience()):
            while len(no_events.begun) < 3:
                await advance(scene, 10)
        assert not await waiting, "without the system it is never calm"
    [said] = scene.notices.said
    assert "No space left on device" in said
    assert "within 10 seconds" in said


async def test_events_that_come_to_work_again_are_listened_to(scene: JobIndexScene) -> None:
    tries = 0

    def at_last(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(24, "Too many open files")
        return file_events(folders, stop)

    async with watching(scene, at_last) as watcher:
        async with asyncio.timeout(patience()):
            while tries < 2:
                await advance(scene, 10)
        scene.plan.write_text(routine("plan"))
        await refresh_until(scene, watcher, "plan")


async def test_a_folder_swapped_unheard_is_found_in_ten_seconds(scene: JobIndexScene) -> None:
    no_events = NoEvents()
    scene.paths.reminders.rmdir()
    async with listening(scene, no_events) as watcher:
        scene.paths.reminders.mkdir()
        waiting = asyncio.create_task(watcher.wait(1000))
        async with asyncio.timeout(patience()):
            while len(no_events.begun) < 2:
                await advance(scene, 1)
        await waiting
    assert no_events.begun[1] - no_events.begun[0] == {"reminders"}


async def test_a_data_directory_that_is_not_there_is_no_trouble(
    scene: JobIndexScene, tmp_path: Path
) -> None:
    away = scene.paths.root.rename(tmp_path / "away")
    async with watching(scene) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        await advance(scene, SCAN_SECONDS)
        await waiting
        away.rename(scene.paths.root)
        scene.plan.write_text(routine("plan"))
        async with asyncio.timeout(patience()):
            while not scene.index.jobs:
                await advance(scene, 1)
                await scene.refresh()
    assert scene.notices.said == []


async def test_when_it_is_over_no_thread_is_left(scene: JobIndexScene) -> None:
    async with listening(scene):
        assert "watcher" in {thread.name for thread in threading.enumerate()}
    assert "watcher" not in {thread.name for thread in threading.enumerate()}
