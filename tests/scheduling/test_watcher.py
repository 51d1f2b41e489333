"""Whatever changes below the data directory is said soon, with the system's help or without."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.scheduling.desk import EDITORS, Desk, Editor, routine

from ollim_bot.schedule.watcher import SCAN_SECONDS, Events, Watcher, file_events

LIMIT = 60


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "data")


@asynccontextmanager
async def watching(desk: Desk, events: Events = file_events) -> AsyncIterator[Watcher]:
    """A watcher on a clock that stands still, so that only the system can wake it."""
    watcher = Watcher(desk.paths, desk.clock, desk.told.tell, events=events)
    running = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(LIMIT):
            yield watcher
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def listening(desk: Desk, events: Events = file_events) -> AsyncIterator[Watcher]:
    async with watching(desk, events) as watcher:
        await watcher.wait()
        yield watcher


async def booked(desk: Desk, watcher: Watcher, *ids: str) -> None:
    """Look whenever the watcher says so, until the book has exactly these routines."""
    async with asyncio.timeout(LIMIT):
        while desk.routine_ids != set(ids):
            await watcher.wait()
            await desk.looked()


async def test_a_new_a_changed_and_a_removed_file_are_noticed(desk: Desk) -> None:
    async with listening(desk) as watcher:
        desk.plan.write_text(routine("plan"))
        await booked(desk, watcher, "plan")
        desk.plan.write_text(routine("day"))
        await booked(desk, watcher, "day")
        desk.plan.unlink()
        await watcher.wait()


@pytest.mark.parametrize("editor", EDITORS)
async def test_an_edit_is_noticed_however_it_is_saved(desk: Desk, editor: Editor) -> None:
    desk.plan.write_text(routine("plan"))
    await desk.looked()
    async with listening(desk) as watcher:
        for _ in editor(desk.plan, routine("day")):
            pass
        await booked(desk, watcher, "day")


async def test_what_changed_while_nobody_listened_yet_is_noticed(desk: Desk) -> None:
    await desk.looked()
    async with watching(desk) as watcher:
        desk.plan.write_text(routine("plan"))
        await booked(desk, watcher, "plan")


async def test_what_nobody_waited_for_is_said_later(desk: Desk) -> None:
    async with listening(desk) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        desk.plan.write_text(routine("plan"))
        await booked(desk, watcher, "plan")


async def test_a_thousand_files_at_once_are_a_few_signals(desk: Desk) -> None:
    signals = 0
    async with listening(desk) as watcher:
        for number in range(1000):
            (desk.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
        while len(desk.book.jobs) < 1000:
            await watcher.wait()
            signals += 1
            await desk.looked()
    assert signals < 100


async def test_looking_is_no_change(desk: Desk) -> None:
    """Or else one look would lead to the next."""
    heard: list[set[str]] = []

    def noting(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        for burst in file_events(folders, stop):
            heard.append({path.name for path in burst})
            yield burst

    desk.plan.write_text(routine("plan"))
    async with listening(desk, noting) as watcher:
        desk.opened()
        await desk.looked()
        (desk.paths.routines / "other.md").write_text(routine("other"))
        await booked(desk, watcher, "plan", "other")
    assert set().union(*heard) == {"other.md"}


async def test_a_folder_removed_and_made_again_is_listened_to(desk: Desk) -> None:
    async with listening(desk) as watcher:
        for number in range(3):
            desk.paths.routines.rmdir()
            await watcher.wait()
            desk.paths.routines.mkdir()
            desk.plan.write_text(routine(f"plan{number}"))
            await booked(desk, watcher, f"plan{number}")
            desk.plan.unlink()


async def test_a_folder_swapped_for_another_is_listened_to(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "plan.md").write_text(routine("plan"))
    async with listening(desk) as watcher:
        desk.paths.routines.rename(tmp_path / "old")
        other.rename(desk.paths.routines)
        await booked(desk, watcher, "plan")
        await watcher.wait()
        desk.plan.write_text(routine("day"))
        await booked(desk, watcher, "day")


async def test_a_folder_that_comes_later_is_listened_to(desk: Desk) -> None:
    desk.paths.routines.rmdir()
    async with listening(desk) as watcher:
        desk.paths.routines.mkdir()
        await watcher.wait()
        desk.plan.write_text(routine("plan"))
        await booked(desk, watcher, "plan")


async def test_skills_and_the_tool_policy_are_noticed(desk: Desk) -> None:
    async with listening(desk) as watcher:
        desk.paths.tool_policy.write_text("denied: []\n")
        await watcher.wait()
        skill = desk.paths.skills / "mail"
        skill.mkdir(parents=True)
        await watcher.wait()
        await watcher.wait()
        (skill / "SKILL.md").write_text("---\nname: mail\n---\n")
        await watcher.wait()


async def test_it_is_calm_only_while_the_system_is_listened_to_and_says_nothing(desk: Desk) -> None:
    async with watching(desk) as watcher:
        assert not await watcher.wait()
        waiting = asyncio.create_task(watcher.wait(5))
        await desk.clock.advance(5)
        assert await waiting
        desk.plan.write_text(routine("plan"))
        assert not await watcher.wait()


async def test_without_the_system_it_is_never_calm(desk: Desk) -> None:
    trouble = OSError(28, "No space left on device")
    async with watching(desk, Silence(trouble)) as watcher:
        async with asyncio.timeout(LIMIT):
            while not desk.told.said:
                await asyncio.to_thread(lambda: None)
        waiting = asyncio.create_task(watcher.wait())
        await desk.clock.advance(SCAN_SECONDS)
        assert not await waiting


async def test_when_the_system_falls_silent_it_is_no_longer_calm(desk: Desk) -> None:
    falls_silent = threading.Event()

    def events(_: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        yield ()
        while not (falls_silent.wait(0.01) or stop.is_set()):
            yield ()

    async with listening(desk, events) as watcher:
        falls_silent.set()
        async with asyncio.timeout(LIMIT):
            while not desk.told.said:
                await asyncio.to_thread(lambda: None)
        waiting = asyncio.create_task(watcher.wait())
        await desk.clock.advance(SCAN_SECONDS)
        assert not await waiting


class Silence:
    """Events of a file system that has none. Counts how often and where one began to listen."""

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


async def passed(desk: Desk, seconds: float) -> None:
    """Let time pass for those who sleep, and wait until the threads they went to are done."""
    await desk.clock.advance(seconds)
    for _ in range(3):
        await asyncio.to_thread(lambda: None)


async def test_without_any_events_it_is_time_to_look_every_ten_seconds(desk: Desk) -> None:
    async with listening(desk, Silence()) as watcher:
        for _ in range(3):
            waiting = asyncio.create_task(anext(watcher))
            await desk.clock.advance(SCAN_SECONDS - 0.1)
            assert not waiting.done()
            await desk.clock.advance(0.1)
            await waiting


async def test_one_who_cannot_wait_so_long_says_so(desk: Desk) -> None:
    async with listening(desk, Silence()) as watcher:
        waiting = asyncio.create_task(watcher.wait(0.5))
        await desk.clock.advance(0.5)
        await waiting


async def test_trouble_with_the_events_is_told_once_and_looking_goes_on(desk: Desk) -> None:
    full = OSError(28, "No space left on device")
    silence = Silence(full, full, full)
    async with watching(desk, silence) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        async with asyncio.timeout(LIMIT):
            while len(silence.begun) < 3:
                await passed(desk, 10)
        await waiting
    [said] = desk.told.said
    assert "No space left on device" in said
    assert "within 10 seconds" in said


async def test_events_that_come_to_work_again_are_listened_to(desk: Desk) -> None:
    tries = 0

    def at_last(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(24, "Too many open files")
        return file_events(folders, stop)

    async with watching(desk, at_last) as watcher:
        async with asyncio.timeout(LIMIT):
            while tries < 2:
                await passed(desk, 10)
        desk.plan.write_text(routine("plan"))
        await booked(desk, watcher, "plan")


async def test_events_that_fall_silent_are_told(desk: Desk) -> None:
    async with watching(desk, lambda *_: iter(())):
        async with asyncio.timeout(LIMIT):
            while not desk.told.said:
                await asyncio.to_thread(lambda: None)


async def test_a_folder_swapped_unheard_is_found_in_ten_seconds(desk: Desk) -> None:
    silence = Silence()
    desk.paths.reminders.rmdir()
    async with listening(desk, silence) as watcher:
        desk.paths.reminders.mkdir()
        waiting = asyncio.create_task(watcher.wait(1000))
        async with asyncio.timeout(LIMIT):
            while len(silence.begun) < 2:
                await passed(desk, 1)
        await waiting
    assert silence.begun[1] - silence.begun[0] == {"reminders"}


async def test_a_data_directory_that_is_not_there_is_no_trouble(desk: Desk, tmp_path: Path) -> None:
    away = desk.paths.root.rename(tmp_path / "away")
    async with watching(desk) as watcher:
        waiting = asyncio.create_task(watcher.wait())
        await passed(desk, SCAN_SECONDS)
        await waiting
        away.rename(desk.paths.root)
        desk.plan.write_text(routine("plan"))
        async with asyncio.timeout(LIMIT):
            while not desk.book.jobs:
                await passed(desk, 1)
                await desk.looked()
    assert desk.told.said == []


async def test_when_it_is_over_no_thread_is_left(desk: Desk) -> None:
    async with listening(desk):
        assert "watcher" in {thread.name for thread in threading.enumerate()}
    assert "watcher" not in {thread.name for thread in threading.enumerate()}
