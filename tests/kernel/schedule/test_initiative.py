"""Reminders that a background run sets are limited, cost a ping, and get no extra rights."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import IncomingMessage

MINUTE = timedelta(minutes=1)


def sets(words: str, minutes: float = 1, **more: object) -> CallsTool:
    given = {"prompt": words, "delay_minutes": minutes, **more}
    return CallsTool("mcp__discord__add_reminder", given)


def budget(at: ScheduleScene) -> PingBudget:
    return at.store.run(lambda tx: tx.budget.get())


def set_jobs(at: ScheduleScene) -> list[str]:
    return [one.item.spec.id for one in at.stores.reminders.all()]


def quiet_routine(at: ScheduleScene, **more: Any) -> None:
    freely = {"update-main-session": "freely", **more}
    at.routine("plan", "16 10 * * *", background="true", **freely)


async def set_by_plan(at: ScheduleScene, **more: Any) -> list[str]:
    """What the run of a routine has set."""
    quiet_routine(at, **more)
    await at.advance(65)
    await at.until(lambda: at.ended("plan"))
    return set_jobs(at)


async def fired(at: ScheduleScene, jobs: list[str]) -> None:
    await at.advance(70)
    await at.until(lambda: all(at.ended(job) for job in jobs) and at.reminders == [])


async def test_a_run_that_sets_twelve_gets_three_and_each_costs_a_ping(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(*(sets(f"Number {n}.") for n in range(12)))
    for n in range(3):
        engine.then(pings(f"Number {n}."))
    async with schedule_scene(engine, tmp_path) as at:
        # All that the run sets is due in one second.
        at.clock.jump(-A_FRACTION.total_seconds())
        jobs = await set_by_plan(at)
        assert len(jobs) == 3
        await fired(at, jobs)
        assert sorted(at.pings) == ["Number 0.", "Number 1.", "Number 2."]
        assert (budget(at).tokens, budget(at).daily_used, budget(at).held) == (2, 3, ())
        assert at.told == []


async def test_beyond_the_budget_its_text_becomes_an_update_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(*(sets(f"Number {n}.") for n in range(3)))
    engine.then(pings("The first.")).then(pings("The second."))
    async with schedule_scene(engine, tmp_path) as at:
        at.store.run(lambda tx: tx.budget.change(_small))
        jobs = await set_by_plan(at)
        await fired(at, jobs)
        assert at.pings == ["The first."]
        rows = [row for job in jobs for row in at.ended(job)]
        ends = sorted((row.state, str(row.facts.get("reason"))) for row in rows)
        assert ends == [("done", "None"), ("skipped", "budget"), ("skipped", "budget")]
        left = [each for each in at.pending if "the ping budget is used up" in each]
        assert len(left) == 2
        assert len({each.rpartition("Its text: ")[2] for each in left}) == 2
        assert (budget(at).tokens, at.told) == (0, [])


async def test_the_runs_of_a_job_that_may_not_ping_set_nothing_that_may(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(sets("Look here!"), sets("And here!", must=True))
    engine.then(pings("Look here!"), pings("Look here!", critical=True), sets("Again!"))
    engine.then(pings("Again!", critical=True))
    async with schedule_scene(engine, tmp_path) as at:
        (first,) = await set_by_plan(at, **{"allow-ping": "false"})
        await at.advance(70)
        await at.until(lambda: at.ended(first))
        (second,) = set_jobs(at)
        await fired(at, [second])
        assert (at.pings, at.told) == ([], [])
        assert (budget(at).daily_used, budget(at).critical_used) == (0, 0)


async def test_reminders_that_set_reminders_come_to_an_end_within_a_day(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    for _ in range(30):
        engine.then(*(sets("And on.") for _ in range(4)))
    async with schedule_scene(engine, tmp_path) as at:
        quiet_routine(at)
        await at.advance(30 * 60, step=10)
        begun = {row.occurrence.job_id for row in at.rows if row.occurrence}
        assert len(begun - {"plan"}) == 10
        assert at.reminders == []


async def test_what_stays_silent_gives_its_ping_back(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(sets("Has Ann answered?")).then(Says("She has."))
    async with schedule_scene(engine, tmp_path) as at:
        (job,) = await set_by_plan(at)
        await fired(at, [job])
        assert at.states(job) == ["due", "running", "done"]
        assert (budget(at).tokens, budget(at).daily_used, budget(at).held) == (5, 0, ())
        assert "one ping is set aside for this run" in engine.prompts[1]
        assert "one ping is set aside" not in engine.prompts[0]


async def test_a_ping_that_is_refused_leaves_its_text(tmp_path: Path) -> None:
    """Also during an answer to the owner, and if the run itself does not report it."""
    engine = ScriptedEngine().then(sets("Water the plants.")).then(Waits()).then(pings("Water!"))
    async with schedule_scene(engine, tmp_path) as at:
        (job,) = await set_by_plan(at)
        await at.chat.receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await at.until(lambda: len(engine.prompts) == 2)
        await fired(at, [job])
        assert at.pings == []
        (left,) = at.pending
        assert left.endswith("Its text: Water the plants.")
        assert (budget(at).tokens, budget(at).held) == (5, ())


async def test_a_failure_of_what_it_set_is_told_to_the_agent_alone(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(sets("Buy this now!"))
    for _ in range(3):
        engine.then(Fails(FailureKind.OTHER))
    async with schedule_scene(engine, tmp_path) as at:
        (job,) = await set_by_plan(at)
        await at.advance(300)
        await at.until(lambda: at.ended(job))
        assert [row.state for row in at.ended(job)] == ["failed"]
        assert (at.pings, at.told) == ([], [])
        assert [each for each in at.pending if "Buy this now!" in each]
        assert (budget(at).tokens, budget(at).held) == (5, ())


async def test_what_the_owner_asked_for_comes_without_the_budget(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("Drink!"))
    async with schedule_scene(engine, tmp_path) as at:
        at.store.run(lambda tx: tx.budget.change(_empty))
        at.remind("w1", MINUTE)
        await fired(at, ["w1"])
        assert at.pings == ["Drink!"]
        assert budget(at).daily_used == 0


async def test_a_crash_after_the_payment_pays_once_and_pings_once(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(sets("Has Ann answered?")).then(Waits())
    clock = ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        (job,) = await set_by_plan(at)
        await at.advance(70)
        await at.until(lambda: len(engine.prompts) == 2)
        assert (budget(at).tokens, len(budget(at).held)) == (4, 1)
    async with schedule_scene(
        ScriptedEngine().then(pings("She has not.")), tmp_path, clock=clock
    ) as at:
        await at.advance(30)
        await at.until(lambda: at.ended(job) and at.reminders == [])
        assert at.pings == ["She has not."]
        assert (budget(at).tokens, budget(at).daily_used, budget(at).held) == (4, 1, ())


async def test_the_next_check_of_a_chain_stays_its_initiative_and_is_not_counted(
    tmp_path: Path,
) -> None:
    follow_up = CallsTool("mcp__discord__follow_up_chain", {"minutes_from_now": 1})
    engine = ScriptedEngine().then(*(sets(f"Check {n}.", max_chain=2) for n in range(3)))
    for _ in range(3):
        engine.then(follow_up)
    async with schedule_scene(engine, tmp_path) as at:
        quiet_routine(at)
        await at.advance(65)
        await at.until(lambda: at.ended("plan"))
        await at.advance(70)
        await at.until(lambda: len(engine.prompts) == 4)
        await at.advance(1)
        checks = [one.item for one in at.stores.reminders.all() if one.item.chain.depth == 1]
        assert [(each.spec.set_by, each.must) for each in checks] == [("routine:plan", False)] * 3


async def test_a_tainted_run_that_begins_a_thousand_checks_at_once_gets_ten_in_an_hour(
    tmp_path: Path,
) -> None:
    """All of them are five minutes apart, and each that pings pays."""
    again = CallsTool("mcp__discord__follow_up_chain", {"minutes_from_now": 0.0001})
    engine = ScriptedEngine().then(
        sets("Go on.", 0.001, max_chain=1000), sets("Go on.", 0.001, max_chain=9)
    )
    speaks = (pings("Look!"), CallsTool("mcp__discord__report_updates", {"message": "Looked."}))
    for number in range(30):
        engine.then(again, *(speaks if number in (3, 6) else ()))
    async with schedule_scene(engine, tmp_path) as at:
        quiet_routine(at, untrusted="web page")
        await at.advance(65)
        await at.advance(40, step=1)
        assert len(engine.prompts) == 2, "the run and the first check"
        await at.advance(70 * 60, step=30)
        assert len(engine.prompts) == 11
        assert (at.reminders, at.pings) == ([], ["Look!", "Look!"])
        assert budget(at).daily_used == 2
        due = [row.ts for row in at.rows if row.state == "due"][1:]
        assert all(after - before >= 5 * MINUTE for before, after in pairwise(due))


def _empty(known: PingBudget) -> PingBudget:
    return replace(known, available=0.0)


def _small(known: PingBudget) -> PingBudget:
    return known.resized(NOW, capacity=1, refill_rate_minutes=900)
