"""An occurrence that was claimed before a crash is run, superseded or missed after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.schedule import Skips
from ollim_bot.store.heartbeat import HeartbeatFile

PLAN = Occurrence.parse("routine:plan:2026-02-24T11:00:00Z")


def leave_claimed(at: ScheduleScene, clock: ManualClock, one: Occurrence, rows: list[str]) -> None:
    """Write what a bot leaves that claimed the occurrence and crashed now."""
    at.stores.ledger.append(*(LedgerRow(clock.now(), state, one) for state in rows))
    HeartbeatFile(at.paths).write(clock.now())


@pytest.mark.parametrize("background", ["true", "false"])
@pytest.mark.parametrize("rows", [["due"], ["due", "running"], ["due", "running", "cut_off"]])
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
        items = at.store.query(lambda tx: tx.due_items.open())
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
