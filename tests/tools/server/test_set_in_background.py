"""`add_reminder` in a background run: few, marked, paid for later, and no louder than the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.stores import Stores, memory_stores
from tests.tools.server.tool_scene import BACKGROUND, NOW, MakeToolScene, ToolScene, make_tool_scene

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.initiative import SetByAgent
from ollim_bot.domain.jobs import JobSpec, Reminder, Routine
from ollim_bot.domain.runs import RunKind

PLAN = Routine(JobSpec(id="plan", message="Plan.", background=True), Cron.parse("0 9 * * *"))


def run_of(root: Path, stores: Stores, number: int = 1, *, allow_ping: bool = True) -> ToolScene:
    at = make_tool_scene(root, job=PLAN, stores=stores, allow_ping=allow_ping)
    at.context.run.occurrence = f"routine:plan:2026-11-16T08:0{number}:00Z"
    return at


def only(stores: Stores) -> Reminder:
    (one,) = stores.reminders.all()
    return one.item


async def set_one(at: ToolScene, **more: object) -> str:
    answer = await at.call("add_reminder", prompt="Call mum", delay_minutes=5, **more)
    return answer.text if answer.is_error else ""


async def test_it_is_marked_and_says_what_it_costs(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    at = run_of(tmp_path, stores)
    answer = await at.works("add_reminder", prompt="Call mum", delay_minutes=5)
    assert "it takes a ping of the budget when it is due" in answer
    assert (only(stores).spec.set_by, only(stores).must) == ("routine:plan", False)
    assert "set by routine:plan" in await at.works("list_reminders")


async def test_the_fourth_of_a_run_and_the_eleventh_of_a_day_are_refused(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    said = [await set_one(run_of(tmp_path, stores, n)) for n in range(1, 5) for _ in range(4)]
    assert [bool(each) for each in said[:4]] == [False, False, False, True]
    assert "Leave the rest with `report_updates`, or end without it." in said[3]
    assert len(stores.reminders.all()) == 10
    assert said[-1].startswith("All runs of a job set 10 jobs a day at most")


@pytest.mark.parametrize("said", [{"must": True}, {"foreground": True}])
async def test_an_order_or_a_turn_of_the_conversation_is_not_its_to_set(
    tmp_path: Path, said: dict[str, object]
) -> None:
    stores = memory_stores(NOW)
    assert await set_one(run_of(tmp_path, stores), **said)
    assert stores.reminders.all() == []
    assert stores.state.query(lambda tx: tx.initiative.get()) == SetByAgent()


async def test_what_a_silent_run_sets_is_silent(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    assert await set_one(run_of(tmp_path, stores, allow_ping=False)) == ""
    assert not only(stores).spec.allow_ping


async def test_in_the_conversation_it_is_what_the_owner_asked_for(
    tool_scene: MakeToolScene,
) -> None:
    for kind in (RunKind.MAIN, RunKind.FORK):
        at = tool_scene(kind)
        for _ in range(12):
            assert await set_one(at) == ""
        assert {one.item.spec.set_by for one in at.stores.reminders.all()} == {None}
        assert at.stores.state.query(lambda tx: tx.initiative.get()) == SetByAgent()
    assert RunKind.MAIN not in BACKGROUND


async def test_a_run_by_hand_is_bounded_too(tmp_path: Path) -> None:
    stores = memory_stores(NOW)
    at = run_of(tmp_path, stores)
    at.context.run = replace(at.context.run, occurrence="routine:plan:2026-11-16T08:01:00Z:manual")
    assert [bool(await set_one(at)) for _ in range(4)] == [False, False, False, True]
