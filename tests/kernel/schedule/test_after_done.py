"""A routine that comes after it is done: each answer sets its next moment, and no other does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_nags import click
from tests.kernel.schedule.test_travelling import (
    AUCKLAND,
    BERLIN,
    LOS_ANGELES,
    NEW_YORK,
    TOKYO,
    clock_in,
    travel,
    wait_for,
)

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.store.answer_plan_rows import open_plans
from ollim_bot.kernel.values.job_list import job_card
from ollim_bot.kernel.values.jobs import Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.kernel.values.simulation import Assumptions, rehearse

DAY = timedelta(days=1)
FIRST, SECOND = "2026-02-24T10:20:00Z", "2026-02-27T10:20:00Z"
CLOCKS = ("7:00", "12:00", "23:30")
PLANTS: dict[str, Any] = {"plain": "true", "must": "true"}


def plants(at: ScheduleScene, days: str = "3 days", clock: str = "10:20", **more: Any) -> Path:
    """The plants, first on the day of the scene at 10:20."""
    head = {"id": "plants", "after-done": days, "at": f'"{clock}"', "from": "2026-02-24"}
    return at.write("routines/plants.md", {**head, **PLANTS, **more}, "Water the plants.")


def planned(at: ScheduleScene) -> str | None:
    """The planned moment in UTC."""
    plan = at.store.query(open_plans).get("plants")
    return None if plan is None else plan.occurrence.key


def came(at: ScheduleScene) -> list[str]:
    """The moments that were claimed, in order."""
    due = (row.occurrence for row in at.rows if row.state == "due")
    mine = (one for one in due if one is not None and one.job_id == "plants")
    return [one.key for one in mine if not (one.manual or one.part)]


def following(at: ScheduleScene) -> datetime | None:
    """The next moment as the running schedule knows it."""
    job = at.scheduler.job(JobKey(JobKind.ROUTINE, "plants"))
    assert isinstance(job, Routine)
    return job.next_after(at.clock.now(), at.clock.now().tzinfo or UTC)


async def first_answered(at: ScheduleScene, answer: str = "Done", **more: Any) -> Path:
    """The file, after the first moment came and got its answer."""
    file = plants(at, **more)
    await at.advance(20)
    await wait_for(at, "2026-02-24T10:20")
    assert came(at) == [FIRST]
    await click(at, answer)
    await at.advance(20)
    return file


async def test_each_answer_sets_the_next_moment(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        assert planned(at) == SECOND
        assert following(at) == datetime(2026, 2, 27, 10, 20, tzinfo=UTC)
        await wait_for(at, "2026-02-27T10:20")
        assert came(at) == [FIRST, SECOND]
        assert (planned(at), following(at)) == (None, None)
        await wait_for(at, "2026-02-28T18:00")
        await click(at, "Done")
        await at.advance(20)
        assert planned(at) == "2026-03-03T10:20:00Z", "it counts from the day of the answer"
        assert at.is_right


@pytest.mark.parametrize("answer", ["Taken", "Skipped"])
async def test_a_dose_follows_its_answer_whatever_that_is(tmp_path: Path, answer: str) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at, answer, kind="dose")
        assert planned(at) == SECOND
        await wait_for(at, "2026-02-27T10:20")
        assert came(at) == [FIRST, SECOND]
        assert at.is_right


async def test_unanswered_it_stays_open_and_nothing_follows(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        plants(at)
        await at.advance(20)
        for moment in ("02-24T10:20", "02-27T10:20", "03-24T10:20"):
            await wait_for(at, f"2026-{moment}")
        assert came(at) == [FIRST]
        assert len(at.items) == 1
        assert planned(at) is None
        assert at.is_right


async def test_an_undo_withdraws_it_and_another_answer_plans_it_again(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        await click(at, "Undo")
        await at.advance(20)
        assert (planned(at), following(at)) == (None, None)
        await click(at, "Done")
        await click(at, "Undo")
        await click(at, "Done")
        await at.advance(20)
        assert planned(at) == SECOND
        await wait_for(at, "2026-02-27T10:20")
        assert came(at) == [FIRST, SECOND]
        assert at.is_right


async def test_an_answer_that_stays_undone_lets_nothing_come(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        await click(at, "Undo")
        for moment in ("02-27T10:20", "03-02T10:20"):
            await wait_for(at, f"2026-{moment}")
        assert came(at) == [FIRST]
        assert at.is_right


async def test_what_was_snoozed_follows_the_answer_of_its_reminder(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at, "Tomorrow 9:00")
        assert planned(at) is None
        await wait_for(at, "2026-02-25T09:00")
        await click(at, "Done")
        await at.advance(20)
        assert planned(at) == "2026-02-28T10:20:00Z"
        assert at.is_right


async def test_what_is_done_again_before_its_moment_counts_from_then(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        await wait_for(at, "2026-02-26T18:00")
        job = at.scheduler.job(JobKey(JobKind.ROUTINE, "plants"))
        assert job is not None
        at.talk.manual_runs.request(job)
        await at.advance(20)
        await click(at, "Done")
        await at.advance(20)
        assert planned(at) == "2026-03-01T10:20:00Z"
        await click(at, "Undo")
        await at.advance(20)
        assert planned(at) == SECOND
        await wait_for(at, "2026-02-27T10:20")
        assert came(at) == [FIRST, SECOND]
        assert at.is_right


async def test_after_downtime_it_comes_late_once(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        clock = at.clock
    clock.jump(5 * DAY.total_seconds())
    for _ in range(2):
        async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
            await at.advance(30)
            assert came(at) == [FIRST, SECOND]
            assert len(at.items) == 1
            assert at.is_right
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(30)
        await click(at, "Done")
        await at.advance(30)
        assert planned(at) == "2026-03-04T10:20:00Z"
        assert at.is_right


async def test_a_moment_that_ends_without_asking_counts_as_let_go(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at, must="false", late="tell")
        clock = at.clock
    clock.jump(5 * DAY.total_seconds())
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(30)
        assert at.states("plants")[-2:] == ["missed", "planned"]
        assert planned(at) == "2026-03-04T10:20:00Z"
        assert at.is_right


@pytest.mark.parametrize("how", ["paused", "removed", "another rhythm"])
async def test_it_ends_with_its_routine_and_comes_back_with_it(tmp_path: Path, how: str) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        file = await first_answered(at)
        text = file.read_text()
        if how == "removed":
            file.unlink()
        elif how == "paused":
            file.write_text(text.replace("---\n", "---\nenabled: false\n", 1))
        else:
            at.routine("plants", "0 4 1 1 *", "Water the plants.", **PLANTS)
        await at.advance(30)
        assert planned(at) is None
        await wait_for(at, "2026-02-26T12:00")
        file.write_text(text)
        await at.advance(30)
        assert planned(at) == SECOND, "its moment is still ahead"
        file.unlink()
        await at.advance(30)
        await wait_for(at, "2026-03-10T12:00")
        assert came(at) == [FIRST]
        file.write_text(text)
        await at.advance(30)
        assert planned(at) == "2026-03-11T10:20:00Z", "it has passed: the next time of day"
        await wait_for(at, "2026-03-11T10:20")
        assert came(at) == [FIRST, "2026-03-11T10:20:00Z"]
        assert at.is_right


async def test_it_follows_an_edit_of_its_days_and_its_time(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        plants(at, days="1 week", clock="7:00")
        await at.advance(30)
        assert planned(at) == "2026-03-03T07:00:00Z"
        assert following(at) == datetime(2026, 3, 3, 7, tzinfo=UTC)
        await wait_for(at, "2026-03-01T12:00")
        plants(at, days="1 day", clock="7:00")
        await at.advance(30)
        assert planned(at) == "2026-03-02T07:00:00Z"
        await wait_for(at, "2026-03-02T07:00")
        assert came(at) == [FIRST, "2026-03-02T07:00:00Z"]
        assert at.is_right


async def test_a_first_day_in_the_past_comes_at_the_next_time_of_day(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        plants(at, **{"from": "2026-01-01"})
        await at.advance(30)
        assert planned(at) == FIRST
        await wait_for(at, "2026-02-24T10:20")
        assert came(at) == [FIRST]
        assert at.is_right


@pytest.mark.parametrize("is_there_before", [True, False], ids=["first start", "written later"])
@pytest.mark.parametrize(("clock", "is_late"), [("10:15", False), ("10:12", True)])
async def test_a_first_moment_that_has_just_passed_comes_at_once(
    tmp_path: Path, clock: str, is_late: bool, is_there_before: bool
) -> None:
    moment = f"2026-02-24T{clock}:00Z"
    async with schedule_scene(ScriptedEngine(), tmp_path, runs=False) as at:
        if is_there_before:
            plants(at, clock=clock)
    for _ in range(2):
        async with schedule_scene(ScriptedEngine(), tmp_path, clock=at.clock) as at:
            await at.advance(5)
            plants(at, clock=clock)
            await at.advance(30)
            assert came(at) == [moment]
            (item,) = at.items
            assert item.is_open
            footer = "Late: it was due today 10:12." if is_late else ""
            assert [each.footer for each in at.log if each.job] == [footer]
            assert at.is_right


async def test_it_is_announced_before(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at, before="[30m]")
        await wait_for(at, "2026-02-27T09:50")
        assert at.pings[-1] == "in 30 min: Water the plants"
        await wait_for(at, "2026-02-27T10:20")
        assert came(at) == [FIRST, SECOND]
        assert at.is_right


async def test_it_comes_at_the_same_time_of_day_by_a_new_clock(tmp_path: Path) -> None:
    clock = clock_in(BERLIN, NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        plants(at, clock="12:00")
        await at.advance(20)
        await wait_for(at, "2026-02-24T11:00")
        await click(at, "Done")
        await at.advance(20)
        assert planned(at) == "2026-02-27T11:00:00Z"
        await travel(at, TOKYO)
        await at.advance(20)
        assert planned(at) == "2026-02-27T03:00:00Z"
        await wait_for(at, "2026-02-27T03:00")
        assert came(at) == ["2026-02-24T11:00:00Z", "2026-02-27T03:00:00Z"]
        assert at.is_right


async def test_a_moment_that_the_new_clock_jumps_over_comes_late(tmp_path: Path) -> None:
    clock = clock_in(BERLIN, NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        plants(at, clock="12:00")
        await at.advance(20)
        await wait_for(at, "2026-02-24T11:00")
        await click(at, "Done")
        await wait_for(at, "2026-02-27T08:00")
        await travel(at, TOKYO)
        await at.advance(20)
        assert came(at) == ["2026-02-24T11:00:00Z", "2026-02-27T03:00:00Z"]
        assert len(at.items) == 1
        assert at.is_right


@pytest.mark.parametrize("zone", [BERLIN, AUCKLAND])
async def test_what_passed_while_the_bot_was_off_and_the_clock_was_moved_comes_late(
    tmp_path: Path, zone: str
) -> None:
    clock = clock_in(NEW_YORK, NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, NEW_YORK)
        plants(at, clock="12:00")
        await at.advance(20)
        await wait_for(at, "2026-02-24T17:00")
        await click(at, "Done")
        await wait_for(at, "2026-02-27T15:00")
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        at.configure("timezone", zone)
    clock.jump(3 * 3600)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(20)
        assert len(came(at)) == 2
        assert len(at.items) == 1
        assert at.is_right


async def test_the_rehearsal_tells_what_comes_if_each_moment_is_answered(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        plants(at)
        await at.advance(20)
        budget, config = at.store.query(lambda tx: (tx.budget.get(), tx.config.get()))
        jobs = [each.item for each in at.stores.repositories.routines.all()]
        told = rehearse(jobs, Assumptions(at.clock.now(), UTC, budget, config), days=10)
        for fire in told.fires:
            await wait_for(at, f"{fire.due:%Y-%m-%dT%H:%M}")
            await click(at, "Done")
        await at.advance(20)
        assert came(at) == [f"{fire.due:%Y-%m-%dT%H:%M:%SZ}" for fire in told.fires]
        assert len(told.fires) == 4
        assert at.is_right


async def test_the_lists_know_the_next_moment(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        plants(at)
        await at.advance(20)
        await wait_for(at, "2026-02-24T10:20")
        (job,) = (each.item for each in at.stores.repositories.routines.all())
        assert job_card(job, Skips(), at.clock.now()).text.endswith("It waits for your answer.")
        await click(at, "Done")
        await at.advance(20)
        (job,) = (each.item for each in at.stores.repositories.routines.all())
        card = job_card(job, Skips(), at.clock.now())
        assert "Next: Fri 27 Feb 10:20" in card.text, card


async def test_a_skipped_moment_counts_as_let_go(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await first_answered(at)
        second = Occurrence.parse(f"routine:plants:{SECOND}")
        await at.store.transact(
            lambda tx: tx.skips.change(lambda skips: skips.with_moment(second, tx.now))
        )
        await wait_for(at, "2026-02-27T10:20")
        await at.advance(20)
        assert at.ended("plants")[-1].facts["reason"] == "policy"
        assert planned(at) == "2026-03-02T10:20:00Z"
        assert at.is_right


LIVES = (
    *["comes", "answered"] * 4,
    "undone",
    "snoozed",
    "paused",
    "resumed",
    "edited",
    "off",
    "moved",
)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_it_comes_once_and_never_stands_still(
    tmp_path: Path, seed: int
) -> None:
    """It has a next moment, or waits for an answer, unless it is paused."""
    chance, clock = Random(seed), clock_in(BERLIN, NOW)
    head: dict[str, Any] = {"clock": "12:00", "kind": "dose", "enabled": "true"}
    events = ["comes", *chance.choices(LIVES, k=14)]
    has_zone = False
    while events:
        async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
            if not has_zone:
                await travel(at, BERLIN)
                has_zone = True
            plants(at, **head)
            await at.advance(30)
            while events and (event := events.pop(0)) != "off":
                await _live(at, event, head, chance)
                await at.advance(30)
                assert at.is_right, event
                assert len(came(at)) == len(set(came(at)))
                is_waiting = any(each.is_open for each in at.items) or at.reminders
                is_on = head["enabled"] == "true"
                assert not is_on or is_waiting or following(at), event
        clock.jump(chance.choice([600, 86400, 300000]))


async def _live(at: ScheduleScene, event: str, head: dict[str, Any], chance: Random) -> None:
    buttons = {"answered": ("Taken", "Skipped"), "undone": ("Undo",), "snoozed": ("1 h",)}
    match event:
        case "comes":
            at.clock.jump(chance.choice([3600, 86400, 4 * 86400]))
        case "paused" | "resumed":
            head["enabled"] = str(event == "resumed").lower()
            plants(at, **head)
        case "edited":
            head |= {"days": chance.choice(["1 day", "3 days"]), "clock": chance.choice(CLOCKS)}
            plants(at, **head)
        case "moved":
            await travel(at, chance.choice([BERLIN, TOKYO, NEW_YORK, LOS_ANGELES, AUCKLAND]))
        case _:
            found = [
                (message.id, button.custom_id)
                for message in at.log
                if message.card is not None
                for button in message.card.buttons
                if button.label in buttons[event]
            ]
            if found:
                await at.chat.click("web", *chance.choice(found))
