"""The day on the page is that of `ollim-bot today`, and its buttons do what those of cards do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from devtools.doubles.journal import RecordingJournal
from devtools.doubles.memory import RecordingStore
from devtools.doubles.tasks import MemoryTasks
from tests.features.today.test_today import HOUR, PILLS, STRETCH, TEA, WATER, item, put, put_day
from tests.kernel.conversation.scene import NOW, scene, scripted
from tests.kernel.store.files.data_directory import QuickDisk
from tests.patience import patience
from tests.stores import Stores

from ollim_bot.features.today.day import DayLine, DayView
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.store import Watches
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.jobs import JobSpec
from ollim_bot.kernel.values.views import ActingView, ViewAnswer


def labels(line: DayLine) -> list[str]:
    return [each.label for each in line.buttons]


def press_id(line: DayLine, label: str) -> str:
    return next(each.custom_id for each in line.buttons if each.label == label)


def titles(day: DayView) -> dict[str, list[str]]:
    following = [day.next] if day.next else []
    groups = {"overdue": day.overdue, "next": [*following, *day.later], "done": day.done}
    return {name: [each.title for each in lines] for name, lines in groups.items()}


async def test_the_day_has_what_waits_what_comes_and_what_was_answered() -> None:
    tasks = MemoryTasks()
    tasks.add("call mum", NOW.date() - timedelta(days=1))
    tasks.add("not yet", NOW.date() + timedelta(days=1))
    async with scene(scripted(), tasks=lambda: tasks) as at:
        put_day(at)
        day = await at.chat.views["today"].look({})
        assert titles(day) == {
            "overdue": ["Take the pills", "Drink water"],
            "next": ["Stretch", "Make tea", "Take the pills"],
            "done": ["✓ Make tea · 8:15"],
        }
        assert [each.title for each in day.tasks] == ["call mum · overdue since yesterday"]
        assert labels(day.overdue[0]) == [
            *("Taken", "Skipped", "Snooze 10 min", "1 h", "Other…", "Let it go")
        ]
        assert labels(day.overdue[1]) == [
            *("Done", "Snooze 10 min", "1 h", "Tomorrow 9:00", "Other…"),
            *("Break it down", "Let it go"),
        ]
        assert labels(day.tasks[0]) == ["Done", "Break it down"]
        assert day.next is not None
        assert labels(day.next) == ["Skip once"]
        lines = (*day.overdue, day.next, *day.later)
        assert [each.job for each in lines] == ["p1", "", "s1", "t1", "p1"]
        assert day.next.at == NOW.replace(hour=11, minute=0)
        assert (day.pings.left, day.pings.capacity, day.pings.held) == (5, 5, 0)
        assert await at.chat.views["today"].open_items() == 2


async def test_a_press_does_what_the_button_of_a_card_does_once() -> None:
    tasks = MemoryTasks()
    tasks.add("call mum", NOW.date())
    async with scene(scripted(), tasks=lambda: tasks) as at:
        at.stores.routines.add(STRETCH)
        put(at, item(WATER, NOW - HOUR), item(PILLS, NOW - 2 * HOUR))
        view: ActingView[DayView] = at.chat.views["today"]

        async def press(custom_id: str, words: str = "") -> ViewAnswer:
            return await view.act("web", "press", {"custom_id": custom_id, "words": words})

        async def today() -> DayView:
            return await view.look({})

        pills, water = (await today()).overdue

        both = (press(press_id(water, "Done")) for _ in range(2))
        assert sorted(each.is_error for each in await asyncio.gather(*both)) == [False, True]
        assert (await press(press_id(pills, "Let it go"))).text == ""
        assert [each.title for each in (await today()).done] == [
            "✓ Drink water · 10:15",
            "– Take the pills · let go 10:15",
        ]
        undo = press_id((await today()).done[0], "Undo")
        assert not (await press(undo)).is_error
        assert [each.title for each in (await today()).overdue] == ["Drink water"]

        other = press_id((await today()).overdue[0], "Other…")
        assert (await press(other, "after lunch")).is_error
        assert not (await press(other, "17:30")).is_error
        day = await today()
        assert [each.title for each in day.put_off] == ["⏱ Drink water · again at 17:30"]

        assert day.next is not None
        assert "Skipped: Stretch" in (await press(press_id(day.next, "Skip once"))).text
        day = await today()
        skipped = next(each for each in day.later if each.is_skipped)
        assert (skipped.title, labels(skipped)) == ("Stretch", ["Do not skip"])

        assert not (await press(press_id(day.tasks[0], "Done"))).is_error
        (line,) = (await today()).tasks
        assert line.title == "✓ call mum · 10:15"
        assert [each.done for each in tasks.tasks(with_done=True)] == [True]
        assert not (await press(press_id(line, "Undo"))).is_error
        assert [each.done for each in tasks.tasks(with_done=True)] == [False]


async def test_an_answer_is_taken_back_until_its_next_moment_and_then_says_why_not() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PILLS)
        put(at, item(PILLS, NOW - 2 * HOUR), item(WATER, NOW - HOUR))
        view: ActingView[DayView] = at.chat.views["today"]

        async def press(custom_id: str) -> ViewAnswer:
            return await view.act("web", "press", {"custom_id": custom_id})

        for line in (await view.look({})).overdue:
            await press(line.buttons[0].custom_id)
        await at.clock.advance(9 * 3600)
        undo_pills, undo_water = (press_id(each, "Undo") for each in (await view.look({})).done)
        assert not (await press(undo_water)).is_error
        await at.clock.advance(3600)
        assert [labels(each) for each in (await view.look({})).done] == [[]]
        refused = await press(undo_pills)
        why = "The next moment of “Take the pills” has come since, so this answer stays."
        assert (refused.text, refused.is_error) == (why, True)
        assert [each.title for each in (await view.look({})).overdue] == ["Drink water"]


async def test_what_only_looks_like_a_button_of_the_day_does_nothing() -> None:
    async with scene(scripted()) as at:
        at.stores.reminders.add(TEA)
        before = len(at.log)
        for given in ("act:job_cancel:reminder:t1", "act:approve:x", "act:done:x", "nonsense"):
            assert (await at.chat.views["today"].act("web", "press", {"custom_id": given})).is_error
        assert [each.item.spec.id for each in at.stores.reminders.all()] == ["t1"]
        assert len(at.log) == before


async def test_a_change_is_told_at_once() -> None:
    news = Watches()
    async with scene(scripted(), news=news) as at, asyncio.timeout(patience()):
        changes = at.chat.views["today"].changes()
        told = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        put(at, item(WATER, NOW - HOUR))
        await told
        # `tasks.md` was changed by hand, and a calendar has another event.
        by_hand = ChangeRow("0a1b2c3d", NOW, "tasks.md", Changer.HAND, "", "- [ ] milk\n")
        for is_by_hand in (True, False):
            told = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            assert not told.done()
            if is_by_hand:
                at.store.run(lambda tx: tx.changes.put(by_hand))
            else:
                news.publish()
            await told
        await changes.aclose()


async def test_a_changed_job_file_is_seen_at_the_next_look(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    for each in (paths.reminders, paths.routines, paths.locks):
        each.mkdir(parents=True)
    repositories = open_repositories(paths, RecordingJournal(), QuickDisk())
    async with scene(scripted(), stores=Stores(RecordingStore(lambda: NOW), repositories)) as at:

        async def coming() -> list[tuple[str, str]]:
            day = await at.chat.views["today"].look({})
            lines = [day.next, *day.later] if day.next else day.later
            return [(each.title, f"{each.at:%H:%M}") for each in lines]

        file = repositories.routines.add(STRETCH)
        repositories.reminders.add(TEA)
        assert await coming() == await coming() == [("Stretch", "11:00"), ("Make tea", "11:15")]
        file.write_text(file.read_text().replace("0 * * * *", "0 17 * * *"))
        assert await coming() == [("Make tea", "11:15"), ("Stretch", "17:00")]
        file.unlink()
        assert await coming() == [("Make tea", "11:15")]
        await at.clock.advance(2 * 3600)
        assert await coming() == []


async def test_words_of_others_are_marked_for_the_owner() -> None:
    theirs = JobSpec(id="w2", message="Pay now", untrusted="web page")
    async with scene(scripted()) as at:
        put(at, item(replace(WATER, spec=theirs), NOW - HOUR))
        (line,) = (await at.chat.views["today"].look({})).overdue
        assert line.title == "Pay now (from untrusted content)"


async def test_what_waits_for_the_end_of_the_quiet_says_so_in_its_line() -> None:
    async with scene(scripted()) as at:
        put(
            at,
            replace(item(WATER, NOW - HOUR), waiting=MessageId("held")),
            item(PILLS, NOW - 2 * HOUR),
        )
        said, held = (await at.chat.views["today"].look({})).overdue
        assert held.note == "since 9:15 · held until the quiet ends"
        assert "held" not in said.note
