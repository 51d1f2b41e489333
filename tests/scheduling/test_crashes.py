"""A crash at any step of a job: its message comes once, it ends once, its file is removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from tests.scheduling.crash_scenario import CrashScenario, crash_at_every_step
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import pings
from tests.storage.data_directory import DataDirectory, QuickDisk

from ollim_bot.domain.chat import Author
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import CallsTool, Says, ScriptedEngine, Step

REMINDER = '---\nid: w1\nrun-at: "2026-02-24T10:15:02+00:00"\n---\nDrink water.\n'
MISSED = '---\nid: {0}\ncron: "{1}"\nlate: tell\n---\nlook at {0}\n'
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MAIL = Occurrence.parse("routine:mail:2026-02-24T10:16:00Z")
ROUTINE = '---\nid: plan\ncron: "16 10 * * *"\nbackground: {}\n---\nPlan the day.\n'


def verify(at: ScheduleScene, where: str) -> None:
    said = [one.text for one in at.log if one.author is not Author.PROGRAM and not one.is_cut_off]
    ends = [*at.ended("w1"), *at.ended("plan")]
    assert len(ends) == 1, (where, at.states("w1"), at.states("plan"))
    assert at.reminders == [], where
    # A run that had called a tool is not repeated, but told; a reminder comes nevertheless.
    is_cut = ends[0].state == "interrupted" and not reminder_is_over(at)
    assert said in ([["Drink water."], ["Planned."]] if not is_cut else [[], ["Planned."]]), where
    assert check(at.rows, at.clock.now(), at.clock.now()) == [], where


def reminder_is_over(at: ScheduleScene) -> bool:
    return at.reminders == [] and bool(at.ended("w1"))


def has_heartbeat(at: ScheduleScene) -> bool:
    return at.scheduler.heartbeat_age is not None


def routine_is_over(at: ScheduleScene) -> bool:
    return bool(at.ended("plan")) and at.talk.state.is_quiet


@pytest.mark.parametrize(
    "agent", [[pings("Drink water.")], [Says("I say nothing.")]], ids=["pings", "keeps"]
)
async def test_whenever_the_bot_dies_a_reminder_comes_once(
    tmp_path: Path, agent: Sequence[Step]
) -> None:
    scenario = CrashScenario(tmp_path / "bot", agent)
    scenario.write("reminders/w1.md", REMINDER)
    steps = await crash_at_every_step(scenario, reminder_is_over, verify, seconds=2.5)
    assert "after the file is removed" in steps
    rows = [step for step in steps if step.startswith("after") and "ledger" in step]
    assert len(rows) >= len(["armed", "due", "running", "done", "delivered"])


@pytest.mark.parametrize(
    ("background", "agent"),
    [("true", pings("Planned.")), ("false", Says("Planned."))],
    ids=["background", "foreground"],
)
async def test_whenever_the_bot_dies_a_routine_is_run_and_ends_once(
    tmp_path: Path, background: str, agent: CallsTool | Says
) -> None:
    """It is due at the moment of a heartbeat of the schedule."""
    scenario = CrashScenario(tmp_path / "bot", [agent], ManualClock(NOW.replace(second=30)))
    scenario.write("routines/plan.md", ROUTINE.format(background))
    steps = await crash_at_every_step(scenario, routine_is_over, verify, seconds=30.5)
    assert "after a step that changes ledger" in steps


async def test_a_crash_of_the_very_first_start_leaves_nothing_armed_without_a_trace(
    tmp_path: Path,
) -> None:
    scenario = CrashScenario(
        tmp_path / "bot", clock=ManualClock(NOW.replace(second=30)), is_new=True
    )
    scenario.write("routines/plan.md", ROUTINE.format("true"))

    def verify(at: ScheduleScene, where: str) -> None:
        assert check(at.rows, at.clock.now(), at.clock.now()) == [], where

    steps = await crash_at_every_step(scenario, has_heartbeat, verify, seconds=30.5)
    assert any("ledger" in each for each in steps)


def all_is_told(at: ScheduleScene) -> bool:
    """Whether the owner and the agent were told all."""
    is_told = bool(at.told) and at.stores.state.query(lambda tx: tx.notices.get()).untold == ()
    return is_told and has_heartbeat(at) and bool(at.ended("mail"))


@pytest.mark.parametrize("hours", [0, 3], ids=["at once", "later"])
async def test_whenever_the_bot_dies_what_was_missed_is_told_once(
    tmp_path: Path, hours: int
) -> None:
    """Also if another job is missed before the next start."""
    scenario = CrashScenario(tmp_path / "bot", clock=ManualClock(NOW + HOUR))
    scenario.write("routines/mail.md", MISSED.format("mail", "0 11 * * *"))
    scenario.write("routines/news.md", MISSED.format("news", "0 13 * * *"))

    def verify(at: ScheduleScene, where: str) -> None:
        left = [update.message for update in at.stores.updates.read().entries]
        missed = [name for name in ("mail", "news") if at.ended(name)]
        for said in ("\n".join(at.told), "\n".join(left)):
            times = [said.count(f"look at {name}") for name in missed]
            assert times == [1] * len(missed), (where, said)
        assert "mail" in missed, where
        assert check(at.rows, at.clock.now(), at.clock.now()) == [], where

    # Notices come ten minutes apart.
    steps = await crash_at_every_step(
        scenario, all_is_told, verify, seconds=3, away=hours * 3600, then=600 if hours else None
    )
    assert "after a step that changes ledger, mirrors, notices, updates" in steps


@pytest.mark.parametrize("rows", [["effect"], ["cut_off", "running"] * 2], ids=["acts", "thrice"])
async def test_whenever_the_bot_dies_what_was_cut_off_is_told_once(
    tmp_path: Path, rows: list[str]
) -> None:
    scenario = CrashScenario(tmp_path / "bot", clock=ManualClock(NOW + HOUR))
    scenario.write("routines/mail.md", MISSED.format("mail", "16 10 * * *"))
    ledger = DataDirectory(scenario.root).open(QuickDisk()).ledger
    states = ["due", "running", *rows]
    ledger.append(*(LedgerRow(NOW + MINUTE, state, MAIL) for state in states))

    def verify(at: ScheduleScene, where: str) -> None:
        left = [update.message for update in at.stores.updates.read().entries]
        assert [text.count("was cut off") for text in (*at.told, *left)] == [1, 1], where
        assert len(at.ended("mail")) == 1, where

    steps = await crash_at_every_step(scenario, all_is_told, verify, seconds=3)
    assert "after a step that changes ledger, mirrors, notices, updates" in steps


async def test_a_crash_between_two_late_runs_forgets_none_of_them(tmp_path: Path) -> None:
    names, clock, engine = ("mail", "news", "plan"), ManualClock(NOW), ScriptedEngine()
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        for name in names:
            at.routine(name, "0 11 * * *", background="true", late="run")
        await at.advance(20)
    await clock.advance(3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: at.ended("mail"))
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.advance(20)
        assert [len(at.ended(name)) for name in names] == [1, 1, 1]
        assert check(at.rows, clock.now(), clock.now()) == []
