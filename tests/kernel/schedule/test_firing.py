"""A due job runs once, at its moment, and the ledger has each of its states."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.engine import Fails, Says, ScriptedEngine, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import schedule_scene

from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LATE = "Late: it was due today 9:15."


async def test_a_reminder_comes_at_its_moment_and_its_file_goes(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("Drink water!"))
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", 2 * MINUTE)
        await at.advance(119.6, step=1)
        assert at.states("w1") == [], "it is never early"
        await at.advance(0.2, step=0.1)
        await at.until(lambda: at.reminders == [])
        assert [(one.text, one.footer) for one in at.log] == [("Drink water!", "")]
        assert at.states("w1") == ["due", "running", "effect", "done", "delivered"]


async def test_a_foreground_routine_is_a_turn_of_the_conversation(tmp_path: Path) -> None:
    async with schedule_scene(
        engine := ScriptedEngine().answers("Write the report."), tmp_path
    ) as at:
        at.routine("plan", "20 10 * * *")
        await at.advance(310)
        await at.until(lambda: at.ended("plan"))
        assert engine.prompts[0].startswith("[routine:plan]\n")
        assert at.states("plan") == ["due", "running", "done"]
        assert [each.text for each in at.log] == ["Write the report."]
        assert at.items == [], "a routine that asks nothing leaves no card"


async def test_an_edit_is_followed(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(pings("Now.")), tmp_path) as at:
        at.remind("w1", 5 * MINUTE)
        await at.advance(60)
        at.remind("w1", 20 * MINUTE)
        await at.advance(15 * 60, step=30)
        assert at.states("w1") == []
        await at.advance(5 * 60 + 30, step=30)
        await at.until(lambda: at.reminders == [])
        assert len(at.ended("w1")) == 1


async def test_one_bad_file_stops_nobody_else_and_is_named(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(pings("Now.")), tmp_path) as at:
        at.write("routines/bad.md", {"id": "bad", "cron": '"99 * * * *"'}, "Never.")
        at.remind("w1", MINUTE)
        await at.advance(70)
        await at.until(lambda: at.reminders == [])
        await at.clock.advance(2)
        await at.until(lambda: any("routines/bad.md" in text for text in at.told))


async def test_a_routine_whose_run_still_goes_is_skipped(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(Waits())
    async with schedule_scene(engine, tmp_path) as at:
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(5 * 60 + 10)
        await at.until(lambda: len(engine.prompts) == 1)
        await at.advance(5 * 60)
        await at.until(lambda: at.ended("plan"))
        (skipped,) = at.ended("plan")
        assert (skipped.state, skipped.facts["reason"]) == ("skipped", "overlap")


async def test_a_reminder_that_the_agent_keeps_to_itself_comes_all_the_same(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(Says("I say nothing.")), tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(70)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]


async def test_a_reminder_whose_agent_fails_comes_after_three_tries_and_says_why(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    for _ in range(3):
        engine.then(Fails(FailureKind.OVERLOADED))
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(120)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        states = at.states("w1")
        assert states.count("running") == 3
        assert states.count("attempt_failed") == 2
        assert [row.state for row in at.ended("w1")] == ["failed"]
        (message,) = (one for one in at.log if one.author is Author.BACKGROUND)
        assert message.footer == (
            "The agent could not do it (It failed: overloaded), so here it is as you wrote it."
        )
        assert at.told == []
        told = "“Drink water.” did not work: It failed: overloaded."
        assert at.pending == [f"{told} The owner is given the reminder all the same."]
        listed = (await at.chat.command("web", "/runs")).text
        assert "Drink water, delivered (sent as written: It failed: overloaded)" in listed


async def test_a_refused_login_is_not_tried_again_and_the_reminder_comes_at_once(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine().then(Fails(FailureKind.LOGIN)), tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(62, step=1)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert at.states("w1") == ["due", "running", "failed", "delivered"]


async def test_an_outage_of_the_model_is_told_when_it_is_met_and_when_it_is_over(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    for _ in range(9 * 3 + 2):
        engine.then(Fails(FailureKind.UNREACHABLE))
    async with schedule_scene(engine, tmp_path) as at:
        at.routine("plan", "*/10 * * * *", "Plan.", background="true")
        at.routine("mail", "30,50 * * * *", "Mail.")
        await at.advance(40 * 60, step=15)
        await at.until(lambda: len(at.ended("plan")) == 4 and len(at.ended("mail")) == 2)
        assert at.told == ["“Plan.” did not work: It failed: unreachable."]
        engine.clear()
        await at.chat.receive(IncomingMessage(InputId("m1"), "web", "hello"))
        await at.advance(30)
        await at.clock.advance(2)
        await at.until(lambda: len(at.told) == 2)
        assert at.told[1] == (
            "The model answers again. Not done without it: “Plan.” (4 times) and “Mail.” "
            "(2 times). `ollim-bot runs` says more."
        )


async def test_a_reminder_whose_agent_hangs_comes_after_a_minute_and_once(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(Waits())
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(62)
        await at.until(lambda: len(engine.prompts) == 1)
        await at.advance(50)
        assert at.pings == []
        await at.advance(12)
        await at.until(lambda: at.pings)
        assert at.pings == ["Drink water."]
        assert at.log[-1].footer.startswith("The agent was not ready in time")
        await at.advance(110, step=10)
        assert at.reminders != []
        # It keeps its slot and its file two minutes longer, not until the limit of all runs.
        await at.advance(20, step=10)
        await at.until(lambda: at.reminders == [])
        assert at.states("w1")[-2:] == ["timed_out", "delivered"]
        await at.advance(1900, step=60)
        assert at.pings == ["Drink water."]


async def test_a_run_that_has_spoken_may_work_on_until_its_own_limit(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("Time to drink."), Waits())
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(62)
        await at.until(lambda: at.pings)
        await at.advance(1700, step=60)
        assert at.states("w1")[-1] not in ("timed_out", "delivered")


async def test_what_need_not_come_stays_silent_if_the_agent_says_nothing(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, must="false")
        await at.advance(70)
        await at.until(lambda: at.reminders == [])
        assert at.pings == []


async def test_the_program_does_not_speak_for_a_ping_that_waits_for_the_owners_turn(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(Says("Well"), Waits()).then(pings("Time to drink."))
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.chat.receive(IncomingMessage(InputId("m1"), "web", "hello"))
        await at.advance(60 + 90)
        assert at.pings == []
        await at.chat.interrupt()
        await at.advance(5)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Time to drink."]
        # It comes more than a minute late, and says so.
        assert at.log[-1].footer.startswith("Late: it was due ")


async def test_a_full_ping_budget_does_not_swallow_a_reminder(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    for number in range(8):
        engine.then(pings(f"Number {number}"))
    async with schedule_scene(engine, tmp_path) as at:
        for number in range(8):
            at.remind(f"w{number}", MINUTE)
        await at.advance(130)
        await at.until(lambda: at.reminders == [])
        assert len(at.pings) == 8


async def test_a_reminder_with_a_moment_of_the_past_comes_at_once_and_is_late(
    tmp_path: Path,
) -> None:
    async with schedule_scene(engine := ScriptedEngine().then(pings("Late.")), tmp_path) as at:
        at.remind("w1", -HOUR)
        await at.advance(20)
        await at.until(lambda: at.reminders == [])
        assert "[late: was scheduled for 9:15 AM, running now]" in engine.prompts[0]
        assert [(one.text, one.footer) for one in at.log] == [("Late.", LATE)]


async def test_a_late_reminder_that_the_program_brings_says_when_it_was_due(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", -HOUR)
        await at.advance(20)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert at.log[-1].footer == LATE


async def test_a_run_knows_what_comes_after_it(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.remind("w1", MINUTE, must="false")
        at.remind("w2", 10 * MINUTE, "Stretch.", must="false")
        await at.advance(70)
        await at.until(lambda: engine.prompts)
        assert "Upcoming bg tasks (next 12h):" in engine.prompts[0]
        assert "[this task]" in engine.prompts[0]
        assert "reminders/w2.md" in engine.prompts[0]


@pytest.mark.parametrize("kind", ["reminder", "routine"])
async def test_surfaces_learn_of_the_first_job_however_it_was_set(
    kind: str, tmp_path: Path
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await at.advance(10)
        assert not at.chat.status.has_jobs
        if kind == "reminder":
            at.remind("tea", 3 * HOUR)
        else:
            at.routine("tea", "0 19 * * *")
        await at.advance(10)
        assert at.surface.statuses[-1].has_jobs
    async with schedule_scene(ScriptedEngine(), tmp_path) as again:
        assert again.chat.status.has_jobs


async def test_a_deadline_that_the_machine_slept_through_is_late(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(Waits()), tmp_path) as at:
        at.remind("w1", MINUTE)
        await at.advance(70)
        await at.until(lambda: "running" in at.states("w1"))
        at.clock.jump(150)
        await at.advance(70)
        await at.until(lambda: at.pings)
        (message,) = (one for one in at.log if one.author is Author.BACKGROUND)
        assert message.footer.startswith("Late"), message.footer
