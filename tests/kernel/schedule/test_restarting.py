"""After a stop, a sleep or a set clock, no job is lost or run twice, and a late one says so."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import HOUR, MINUTE

from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.kernel.values.schedule import Skips

DAY = timedelta(days=1)

TO_SKIP = Skips(
    {"routine:pills": datetime(2026, 2, 25, 8, tzinfo=UTC)},
    {"routine:pills": (datetime(2026, 2, 25, 20, tzinfo=UTC),)},
)

WATER = Occurrence.parse("reminder:w1:2026-02-24T10:16:00Z")


async def test_a_reminder_that_was_missed_comes_late_and_says_so(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine().then(pings("Late.")), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.remind("w1", HOUR)
        await at.advance(20)
    await clock.advance(3 * 3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Late."]
        assert "[late: was scheduled for 11:15 AM, running now]" in engine.prompts[0]
        assert len(at.ended("w1")) == 1


async def test_what_is_too_late_is_told_in_one_message(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        for name in ("plan", "mail", "walk"):
            at.routine(name, "0 12 * * *", background="true")
        await at.advance(20)
    await clock.advance(8 * 3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.clock.advance(2)
        await at.until(lambda: at.told)
        assert [text for text in at.told if "While I was away" in text] == at.told
        assert at.told[0].startswith("While I was away I missed 3 things:")
        assert engine.prompts == []
        assert [row.state for row in at.ended("plan")] == ["missed"]


@pytest.mark.parametrize(
    ("fields", "waiting", "is_asleep"),
    [
        ({"kind": "dose"}, {"26 20": 0, "26 8": 0, "25 20": 0, "25 8": 0, "24 20": 0}, True),
        ({"must": "true"}, {"26 20": 4}, False),
        ({"nag": "24h x 1", "late": "skip"}, {"26 20": 4}, True),
        (
            {"nag": "24h x 1", "kind": "dose", "late": "tell"},
            {"26 20": 0, "26 8": 0, "24 20": 0},
            False,
        ),
    ],
    ids=["dose", "must", "nag", "skipped-dose"],
)
async def test_what_must_come_comes_however_late_and_today_has_the_older_moments(
    tmp_path: Path, fields: dict[str, str], waiting: dict[str, int], *, is_asleep: bool
) -> None:
    clock = ManualClock(NOW)
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(
            schedule_scene(ScriptedEngine(), tmp_path, clock=clock)
        )
        at.routine("pills", "0 8,20 * * *", plain="true", **fields)
        at.routine("news", "0 8,20 * * *", background="true")
        await at.advance(20)
        if len(waiting) == 3:
            await at.store.transact(lambda tx: tx.skips.put(TO_SKIP))
        if is_asleep:
            at.clock.jump(65 * 3600)
        else:
            await stack.aclose()
            await clock.advance(65 * 3600)
            at = await stack.enter_async_context(
                schedule_scene(ScriptedEngine(), tmp_path, clock=clock)
            )
        await at.advance(60)
        await at.until(lambda: len(at.ended("pills")) == 5)
        (card,) = (each for each in at.log if each.card)
        assert card.footer == "Late: it was due yesterday 20:00."
        items = at.items
        assert {f"{each.due:%-d %-H}": each.earlier_count for each in items} == waiting
        assert [row.state for row in at.ended("news")].count("missed") == 1
        assert check(at.rows, clock.now()) == []


async def test_late_runs_begin_one_by_one_and_reminders_first(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.routine("plan", "0 11 * * *", background="true", late="run")
        at.remind("w1", 2 * HOUR, must="false")
        at.remind("w2", HOUR, must="false")
        await at.advance(20)
    await clock.advance(4 * 3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: len(engine.prompts) == 1)
        await at.advance(4)
        assert len(engine.prompts) == 1
        await at.advance(12, step=2)
        await at.until(lambda: len(engine.prompts) == 3)
        tags = [prompt.partition("]")[0] for prompt in engine.prompts]
        assert tags == ["[reminder-bg:w2", "[reminder-bg:w1", "[routine-bg:plan"]


async def test_a_machine_that_slept_over_the_moment_catches_up(tmp_path: Path) -> None:
    """The process goes on afterwards: only the wall clock has moved."""
    async with schedule_scene(ScriptedEngine().then(pings("Late.")), tmp_path) as at:
        at.remind("w1", HOUR)
        await at.advance(60)
        at.clock.jump(4 * 3600)
        await at.advance(40)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Late."]


async def test_a_clock_that_goes_back_fires_nothing_twice(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "*/10 * * * *", background="true")
        await at.advance(6 * 60, step=30)
        await at.until(lambda: len(at.ended("plan")) == 1)
        at.clock.jump(-3 * 60)
        await at.advance(4 * 60, step=30)
        await at.advance(30)
        assert len(at.ended("plan")) == 1
        await at.advance(10 * 60, step=30)
        await at.until(lambda: len(at.ended("plan")) == 2)


async def test_a_clock_that_was_a_day_ahead_does_not_silence_the_bot(tmp_path: Path) -> None:
    clock = ManualClock(NOW + DAY)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.routine("plan", "0 11 * * *", background="true")
        await at.advance(60)
        at.clock.jump(-86400)
        await at.advance(50 * 60, step=30)
        await at.until(lambda: len(at.ended("plan")) == 1)


async def test_what_was_cut_off_and_has_no_file_any_more_is_closed(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        await clock.advance(90)
        at.stores.ledger.append(LedgerRow(clock.now(), "due", WATER))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.ended("w1"))
        assert [row.state for row in at.ended("w1")] == ["skipped"]


async def test_the_heartbeat_waits_for_what_is_not_claimed_yet(tmp_path: Path) -> None:
    """After a crash before the claim is on disk, the moment must still be due."""
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(4 * 60)
        before = HeartbeatFile(at.paths).read()
        assert before is not None
        assert before <= clock.now()
        await at.advance(2 * 60)
        after = HeartbeatFile(at.paths).read()
        assert after is not None
        assert after > before
        claimed = [row for row in at.rows if row.state == "due"]
        assert claimed[0].ts <= after


async def test_of_a_night_of_a_frequent_routine_only_the_newest_counts(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.routine("look", "*/2 * * * *", background="true", late="run")
        await at.advance(20)
    await clock.advance(10 * 3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: len(at.ended("look")) == 300)
        ends = sorted((row.occurrence.key, row.state) for row in at.ended("look") if row.occurrence)
        assert [state for _, state in ends] == ["skipped"] * 299 + ["done"]
        assert len(engine.prompts) == 1
        assert check(at.rows, clock.now()) == []


async def test_of_two_files_with_one_id_the_one_that_was_armed_first_stays_armed_across_restarts(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "*/5 * * * *", "The first.")
        await at.advance(15)
        copy = {"id": "plan", "cron": '"*/5 * * * *"'}
        at.write("routines/a-copy.md", copy, "The copy.")
        await at.advance(15)
        clock = at.clock
    for _ in range(2):
        async with schedule_scene(engine := ScriptedEngine(), tmp_path, clock=clock) as at:
            await at.advance(310)
            await at.until(lambda: engine.prompts)
            assert engine.prompts[-1].endswith("The first.")
            report = at.stores.repositories.routines.report()
            assert [one.path.name for one in report.jobs] == ["plan.md"]
            [problem] = report.problems
            assert problem.endswith("Until then, routines/plan.md is in use.")
            assert problem in at.told


PLAN = Occurrence.parse("routine:plan:2026-02-24T11:00:00Z")


def leave_claimed(at: ScheduleScene, clock: ManualClock, one: Occurrence, rows: list[str]) -> None:
    """Write what a bot leaves that claimed the occurrence and crashed now."""
    at.stores.ledger.append(*(LedgerRow(clock.now(), state, one) for state in rows))
    HeartbeatFile(at.paths).write(clock.now())


@pytest.mark.parametrize(("background", "rows"), [("true", ["due", "running"]), ("false", ["due"])])
async def test_of_what_was_not_done_and_what_was_missed_only_the_newest_is_run(
    tmp_path: Path, rows: list[str], background: str
) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.routine("plan", "0 * * * *", background=background, late="run")
        await at.advance(20)
    await clock.advance(45 * 60)
    leave_claimed(at, clock, PLAN, rows)
    await clock.advance(2.5 * 3600)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: len(at.ended("plan")) == 3)
        ends = {row.occurrence.key[11:13]: row for row in at.ended("plan") if row.occurrence}
        assert ends["13"].state == "done"
        for hour in ("11", "12"):
            assert (ends[hour].state, ends[hour].facts["reason"]) == ("skipped", "superseded")
        assert len(engine.prompts) == 1
        assert check(at.rows, clock.now()) == []


@pytest.mark.parametrize(
    ("fields", "waiting"),
    [({"kind": "dose"}, {11: 0, 12: 0, 13: 0}), ({"must": "true"}, {13: 2}), ({}, {13: 0})],
    ids=["dose", "must", "neither"],
)
async def test_of_what_must_come_the_older_ones_stay_open(
    tmp_path: Path, fields: dict[str, str], waiting: dict[int, int]
) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.routine("plan", "0 * * * *", plain="true", late="run", **fields)
        await at.advance(20)
    await clock.advance(45 * 60)
    leave_claimed(at, clock, PLAN, ["due"])
    await clock.advance(2.5 * 3600)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: len(at.ended("plan")) == 3 and any(each.card for each in at.log))
        items = at.items
        assert {each.due.hour: each.earlier_count for each in items} == waiting


async def test_what_was_not_done_is_done_if_the_newer_one_has_ended(tmp_path: Path) -> None:
    """The newer one was skipped because the older one was still running."""
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.routine("plan", "0 * * * *", background="true", late="run")
        await at.advance(20)
    await clock.advance(45 * 60)
    leave_claimed(at, clock, PLAN, ["due"])
    await clock.advance(3600)
    noon = Occurrence.parse("routine:plan:2026-02-24T12:00:00Z")
    at.stores.ledger.append(*(LedgerRow(clock.now(), state, noon) for state in ("due", "skipped")))
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await at.until(lambda: len(at.ended("plan")) == 2)
        assert [row.state for row in at.ended("plan")] == ["skipped", "done"]


@pytest.mark.parametrize(("late", "told"), [("tell", 1), ("skip", 0)])
async def test_what_was_claimed_and_not_begun_is_missed_if_it_is_too_late_for_it(
    tmp_path: Path, late: str, told: int
) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        at.routine("plan", "0 11 * * *", background="true", late=late)
        await at.advance(20)
    await clock.advance(45 * 60)
    leave_claimed(at, clock, PLAN, ["due"])
    await clock.advance(5 * 3600)
    for _ in range(2):
        async with schedule_scene(engine, tmp_path, clock=clock) as at:
            await at.advance(20)
            assert [row.state for row in at.ended("plan")] == ["missed"]
            assert engine.prompts == []
            away = [text for text in at.told if text.startswith("While I was away I missed")]
            assert len(away) == told
            assert check(at.rows, clock.now()) == []


async def test_but_what_the_owner_wanted_left_out_is_not_told_as_missed(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.routine("plan", "0 11 * * *", background="true", late="tell")
        await at.advance(20)
    await clock.advance(45 * 60)
    leave_claimed(at, clock, PLAN, ["due"])
    skips = Skips().with_moment(PLAN, clock.now())
    at.stores.state.run(lambda tx: tx.skips.put(skips))
    await clock.advance(5 * 3600)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.ended("plan"))
        assert [row.facts["reason"] for row in at.ended("plan")] == ["policy"]
        assert at.told == []


async def ask(at: ScheduleScene, text: str) -> None:
    await at.chat.receive(IncomingMessage(InputId(text), "web", text))


async def test_a_reminder_that_waits_behind_a_long_answer_comes_and_ends(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine().then(Waits()), tmp_path) as at:
        at.remind("w1", MINUTE, background="false")
        await at.advance(30)
        await ask(at, "Tell me all.")
        await at.until(lambda: engine.prompts)
        await at.advance(100)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert at.states("w1") == ["due", "skipped", "delivered"]
        assert at.is_right
        assert len(engine.prompts) == 1


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        (["due", "missed"], ""),
        (["due", "skipped"], "superseded"),
        (["due", "running", "failed", "delivered"], ""),
    ],
)
async def test_a_reminder_that_was_left_out_or_delivered_does_not_come_after_a_crash(
    tmp_path: Path, states: list[str], reason: str
) -> None:
    """The bot crashed before it removed the file."""
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        at.remind("w1", MINUTE)
        await clock.advance(90)
        facts = {"reason": reason}
        at.stores.ledger.append(*(LedgerRow(clock.now(), each, WATER, facts) for each in states))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        assert at.pings == []
        assert at.states("w1") == states
