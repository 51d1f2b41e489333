"""A nag repeats a card, each time once, until it is answered or its times are used up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.repeating_store import RepeatingStore
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import MINUTE
from tests.kernel.schedule.test_full_disk import FullableDisk
from tests.kernel.schedule.test_heads_ups import ZONES, parts

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.changes.item_answers import add_item, skip_passed
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence

WATER: dict[str, Any] = {"plain": "true", "nag": "10m x 3"}


def shown(at: ScheduleScene) -> list[str]:
    """The titles of the cards that came, as they look now."""
    return [each.card.title for each in at.log if each.card is not None]


def labels(message: ChatMessage) -> list[str]:
    assert message.card is not None
    return [each.label for each in message.card.buttons]


async def click(at: ScheduleScene, label: str, place: int = -1) -> None:
    message = at.log[place]
    assert message.card is not None
    (button,) = (each for each in message.card.buttons if each.label == label)
    await at.chat.click("web", message.id, button.custom_id)


async def test_it_comes_again_with_other_words_until_its_times_are_used_up(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(10 * 60 + 50, step=30)
        assert shown(at) == ["Drink water."]
        await at.advance(20, step=5)
        assert shown(at) == ["Drink water · asked at 10:16", "Drink water · 10 min ago"]
        await at.advance(10 * 60, step=30)
        assert shown(at)[-1] == "Still open: Drink water?"
        assert labels(at.log[-1]) == [
            *("Done", "Later today", "Tomorrow", "Let it go", "Break it down")
        ]
        assert [labels(each) for each in at.log[:-1]] == [[], []]
        await at.advance(60 * 60, step=60)
        assert len(shown(at)) == 4
        assert parts(at, "w1") == {"": "done", "2": "done", "3": "done", "4": "done"}
        assert [each.shown for each in at.items] == [4]
        budget = at.store.query(lambda tx: tx.budget.get())
        assert budget.tokens == budget.capacity, "it costs nothing of the ping budget"
        assert at.is_right


async def test_an_answer_ends_it(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER, **{"first-step": "fill the glass"})
        await at.advance(11 * 60 + 10, step=30)
        assert shown(at)[-1] == "fill the glass", "the second time names the first step"
        assert at.log[-1].job == "Drink water"
        await click(at, "Done")
        await at.advance(60 * 60, step=60)
        assert len(shown(at)) == 2
        assert parts(at, "w1") == {"": "done", "2": "done", "3": "policy"}
        assert at.items == []
        assert at.is_right


async def test_an_answer_that_is_undone_lets_it_come_again(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(120, step=30)
        await click(at, "Done")
        await at.advance(60, step=30)
        await click(at, "Undo")
        await at.advance(9 * 60, step=30)
        assert len(shown(at)) == 1
        await at.advance(90, step=30)
        assert len(shown(at)) == 2
        assert parts(at, "w1") == {"": "done", "2": "policy", "3": "done"}
        assert at.is_right


async def test_an_answer_that_is_undone_uses_up_no_time(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(70, step=35)
        for _ in range(12):
            await click(at, "Done")
            await click(at, "Undo")
        await at.advance(60 * 60, step=60)
        assert len(shown(at)) == 4
        assert [each.shown for each in at.items] == [4]
        assert at.is_right


@pytest.mark.parametrize("how", ["paused", "removed"])
async def test_it_ends_with_its_job_and_what_was_left_comes_back_with_it(
    tmp_path: Path, how: str
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        file = at.routine("w1", "16 10 * * *", "Drink water.", **WATER)
        text = file.read_text()
        await at.advance(11 * 60 + 10, step=30)
        assert len(shown(at)) == 2
        if how == "paused":
            file.write_text(text.replace("---\n", "---\nenabled: false\n", 1))
        else:
            file.unlink()
        await at.advance(30)
        assert parts(at, "w1") == {"": "done", "2": "done", "3": "disabled"}
        await at.advance(60 * 60, step=60)
        assert (len(shown(at)), labels(at.log[-1])[0]) == (2, "Done")
        file.write_text(text)
        await at.advance(60 * 60, step=60)
        assert len(shown(at)) == 4
        assert at.is_right


async def test_what_ended_while_the_bot_was_off_does_not_come_again(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        file = at.routine("w1", "16 10 * * *", "Drink water.", **WATER)
        at.remind("w2", MINUTE, "Take the pill.", **WATER)
        await at.advance(70, step=35)
        assert at.reminders == []
    file.unlink()
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(45 * 60, step=60)
        assert len([each for each in at.log if each.job == "Drink water"]) == 1
        assert len([each for each in at.log if each.job == "Take the pill"]) == 4
        assert at.is_right


@pytest.mark.parametrize("is_off", [True, False], ids=["off", "asleep"])
async def test_after_downtime_only_the_newest_comes(tmp_path: Path, *, is_off: bool) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(70)
        if not is_off:
            at.clock.jump(26 * 60)
            await at.advance(15)
    if is_off:
        await clock.advance(26 * 60)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(30)
        assert len(shown(at)) == 2
        assert parts(at, "w1") == {"": "done", "2": "superseded", "3": "done"}
        await at.advance(8 * 60, step=30)
        assert len(shown(at)) == 2
        await at.advance(90, step=30)
        assert len(shown(at)) == 3
        assert at.is_right


async def test_a_clock_that_is_set_back_delays_it_by_its_pause_at_most(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(120)
        at.clock.jump(-3600)
        await at.advance(10 * 60 + 30, step=30)
        assert len(shown(at)) == 2


async def test_what_need_not_come_waits_for_the_end_of_the_quiet(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, **WATER, must="false")
        at.remind("w2", MINUTE, "Take the pill.", **WATER)
        await at.advance(70)
        at.configure("quiet_hours", "10:20-11:00")
        await at.advance(40 * 60, step=60)
        assert len([each for each in at.log if each.job == "Take the pill"]) == 4
        assert len([each for each in at.log if each.job == "Drink water"]) == 1
        await at.advance(5 * 60, step=30)
        assert [each.text for each in at.log if each.id.startswith("digest-")] == [
            "While it was quiet:\n- 10:26 · Drink water · 44 min ago"
        ]
        (water,) = (each for each in at.items if each.title == "Drink water.")
        assert water.shown == 2
        assert at.log[0].card is not None
        assert at.log[0].card.title == "Drink water · asked at 10:16"
        assert at.is_right


async def test_a_time_that_cannot_be_stored_is_tried_again(tmp_path: Path) -> None:
    disk = FullableDisk()
    async with schedule_scene(ScriptedEngine(), tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE, **WATER)
        await at.advance(10 * 60, step=30)
        disk.is_full = True
        await at.advance(2 * 60, step=30)
        disk.is_full = False
        await at.advance(30)
        assert len(shown(at)) == 2
        assert at.is_right


@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=st.just(UTC)),
    st.integers(2, 24 * 60),
    st.integers(1, 8),
    st.integers(0, 10 * 24 * 60),
)
def test_the_newest_of_the_passed_times_is_a_whole_number_of_pauses_later_in_every_zone(
    zone: ZoneInfo, due: datetime, pause: int, times: int, away: int
) -> None:
    due = due.replace(microsecond=0)
    nag = Nag(timedelta(minutes=pause), times)
    job = Reminder(JobSpec(id="a", message="a", nag=nag), due)
    store = RepeatingStore(lambda: due.astimezone(zone))
    one = Occurrence.scheduled(JobKind.REMINDER, "a", due)
    item = DueItem.of(job, one, MessageId("1"), due.astimezone(zone))
    store.run(lambda tx: add_item(tx, item))
    now = due + nag.pause + timedelta(minutes=away)
    after = store.run(lambda tx: skip_passed(tx, item, now))
    assert after.again_at is not None
    passed = min(timedelta(minutes=away) // nag.pause, times - 1)
    assert after.again_at.astimezone(UTC) == due + nag.pause * (1 + passed)
    again = [one.again(number) for number in range(2, times + 2)]
    stories = store.query(lambda tx: [tx.ledger.story(each) for each in again])
    assert [story.end is not None for story in stories].count(True) == passed
    assert all(story.end for story in stories[:passed])
