"""Known defects of schedulers: each has a test here, or names its test in another file."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Fails, Says, ScriptedEngine
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, schedule_scene
from tests.kernel.schedule.test_firing import MINUTE
from tests.kernel.schedule.test_full_disk import FullableDisk

from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.jobs import JobSpec, Reminder

TESTS = Path(__file__).parents[2]

DEFECTS = {
    "weekday numbering": "kernel/values/test_cron.py::test_the_days_of_a_line",
    "either-day rule": "kernel/values/test_cron.py::test_the_days_of_a_line",
    "autumn double fire": "kernel/values/test_cron.py::"
    "test_a_time_is_due_once_when_the_clocks_change",
    "spring gap": "kernel/values/test_schedule.py::test_on_both_nights_a_time_is_due_once",
    "late by more than a second": "kernel/schedule/test_defects.py::"
    "test_what_is_noticed_some_seconds_late_is_run_and_is_not_late",
    "laptop asleep over the due moment": "kernel/schedule/test_restarting.py::"
    "test_a_machine_that_slept_over_the_moment_catches_up",
    "edit of a file not noticed": "kernel/schedule/test_watcher.py::"
    "test_an_edit_is_noticed_however_it_is_saved",
    "an edit not followed": "kernel/schedule/test_firing.py::test_an_edit_is_followed",
    "quotes or dashes in a value": "kernel/schedule/test_defects.py::"
    "test_quotes_and_dashes_in_a_reminder_come_as_they_were_written",
    "naive run-at": "kernel/schedule/test_defects.py::"
    "test_a_moment_without_an_offset_is_one_of_the_owners_clock",
    "one bad file stopping the rest": "kernel/schedule/test_firing.py::"
    "test_one_bad_file_stops_nobody_else_and_is_named",
    "failed one-shot deleted": "kernel/schedule/test_defects.py::"
    "test_a_reminder_that_could_not_be_delivered_keeps_its_file",
    "crash after running fires again": "crashes/test_schedule.py::"
    "test_whenever_the_bot_dies_each_job_comes_once_and_ends_once",
    "two processes both firing": "kernel/schedule/test_defects.py::"
    "test_two_bots_on_one_directory_fire_once",
    "catch-up flood": "kernel/schedule/test_defects.py::"
    "test_days_away_are_one_message_and_one_run_for_each_job",
    "model overloaded at the due moment": "kernel/schedule/test_firing.py::"
    "test_a_reminder_whose_agent_fails_comes_after_three_tries_and_says_why",
    "Discord down at the due moment": "kernel/schedule/test_defects.py::"
    "test_what_is_due_while_the_service_is_down_arrives_once_when_it_is_up",
    "disk full at the claim": "kernel/schedule/test_full_disk.py::"
    "test_a_reminder_comes_once_although_it_cannot_be_claimed",
}


@pytest.mark.parametrize("place", DEFECTS.values(), ids=DEFECTS)
def test_each_known_defect_has_its_test(place: str) -> None:
    file, _, name = place.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}


async def test_what_is_noticed_some_seconds_late_is_run_and_is_not_late(tmp_path: Path) -> None:
    """On a very busy machine, for example."""
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "16 10 * * *", background="true")
        at.remind("w1", MINUTE)
        await at.advance(40)
        at.clock.jump(45)
        await at.advance(40)
        await at.until(lambda: at.reminders == [] and at.ended("plan"))
        assert at.pings == ["Drink water."]
        assert len(engine.prompts) == 2
        assert not any("[late:" in prompt for prompt in engine.prompts)


async def test_quotes_and_dashes_in_a_reminder_come_as_they_were_written(tmp_path: Path) -> None:
    words = 'Say "yes": --- and\n---\nid: other\n---\n# no comment'
    described = "\"---\": 'quoted' # and more"
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spec = JobSpec(id="w1", message=words, description=described, background=True)
        at.stores.reminders.add(Reminder(spec, NOW + MINUTE))
        await at.advance(70)
        await at.until(lambda: at.reminders == [])
        assert at.pings == [f"{described}\n{words}"]
        assert engine.prompts[0].endswith(words)


async def test_a_moment_without_an_offset_is_one_of_the_owners_clock(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.write("reminders/w1.md", {"id": "w1", "run-at": "2026-02-24T10:16"}, "Drink water.")
        away = {"id": "w2", "run-at": "2026-02-24T11:16", "timezone": "Europe/Berlin"}
        at.write("reminders/w2.md", away, "Drink tea.")
        await at.advance(59, step=1)
        assert at.pings == []
        await at.advance(2, step=1)
        await at.until(lambda: at.reminders == [])
        assert sorted(at.pings) == ["Drink tea.", "Drink water."]


async def test_a_reminder_that_could_not_be_delivered_keeps_its_file(tmp_path: Path) -> None:
    engine, disk = ScriptedEngine().then(Fails(FailureKind.OVERLOADED)), FullableDisk("ollim.db")
    async with schedule_scene(engine, tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        await at.advance(30)
        disk.is_full = True
        await at.advance(120)
        assert (at.reminders, at.pings) == (["w1"], [])
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert len(at.ended("w1")) == 1


async def test_two_bots_on_one_directory_fire_once(tmp_path: Path) -> None:
    clock, engine = ManualClock(NOW), ScriptedEngine()
    async with (
        schedule_scene(engine, tmp_path, clock=clock) as one,
        schedule_scene(engine, tmp_path, clock=clock) as other,
    ):
        for number in range(5):
            one.remind(f"w{number}", MINUTE, f"Drink glass {number}.")
        one.routine("plan", "16 10 * * *", background="true")
        for _ in range(15):
            await one.advance(5)
            await other.advance(0)
        await one.until(lambda: one.reminders == [] and one.ended("plan"))
        assert sorted(one.pings) == [f"Drink glass {number}." for number in range(5)]
        names = [f"w{number}" for number in range(5)]
        assert [len(one.ended(name)) for name in (*names, "plan")] == [1] * 6
        assert len(engine.prompts) == 6


async def test_days_away_are_one_message_and_one_run_for_each_job(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        for number in range(6):
            at.routine(f"plan{number}", f"{number} * * * *", background="true")
            at.routine(f"mail{number}", f"{number} 12 * * *", background="true")
        await at.advance(20)
    await clock.advance(timedelta(days=9).total_seconds())
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.advance(60)
        assert len(at.told) == 1
        assert at.told[0].startswith("While I was away I missed 6 things:")
        assert len(engine.prompts) == 6
        assert at.is_right


@pytest.mark.parametrize("agent", [pings("Drink water!"), Says("Nothing.")], ids=["pings", "keeps"])
async def test_what_is_due_while_the_service_is_down_arrives_once_when_it_is_up(
    tmp_path: Path, agent: Says
) -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    service.is_down = True
    engine = ScriptedEngine().then(agent)
    async with schedule_scene(engine, tmp_path, clock=clock, channels=[service]) as at:
        at.remind("w1", MINUTE)
        await at.advance(300, step=10)
        assert service.texts == []
        service.is_down = False
        await at.advance(300, step=10)
        await at.until(lambda: at.reminders == [])
        assert service.texts == at.pings
        assert len(at.pings) == 1
        assert len(at.ended("w1")) == 1
