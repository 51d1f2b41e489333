"""A crash at any step after a call was accepted: it ends once, and its message comes once."""

from __future__ import annotations

from pathlib import Path

from tests.scheduling.crash_scenario import CrashScenario, crash_at_every_step
from tests.scheduling.scene import NOW, ScheduleScene
from tests.scheduling.test_firing import pings
from tests.scheduling.webhook_calls import HOOK, WASHING, accept, data_of
from tests.storage.data_directory import DataDirectory

from ollim_bot.domain.ledger_check import check
from ollim_bot.store.transaction import Transaction

WASHED = "The washing is done after 40 min: towels"


def with_accepted_calls(root: Path) -> CrashScenario:
    """A bot that has accepted two calls and crashed."""
    scenario = CrashScenario(root, [pings("Built.")])
    scenario.write("webhooks/build.md", HOOK)
    scenario.write("webhooks/washing.md", WASHING)

    def accepted(tx: Transaction) -> None:
        accept(tx, "build", "one", {"result": "passed", "seconds": 1}, NOW)
        accept(tx, "washing", "two", {"minutes": 40, "note": "towels"}, NOW)

    DataDirectory(root).run(accepted)
    return scenario


def is_over(at: ScheduleScene) -> bool:
    has_ended = bool(at.ended("build") and at.ended("washing"))
    return has_ended and data_of(at, "build") == data_of(at, "washing", "two") == {}


async def test_whenever_the_bot_dies_an_accepted_call_ends_once_and_comes_once(
    tmp_path: Path,
) -> None:
    def verify(at: ScheduleScene, where: str) -> None:
        (built,), (washed,) = at.ended("build"), at.ended("washing")
        # A run that had called a tool is not repeated, but told.
        is_cut = built.state == "interrupted" and "Built." not in at.pings
        assert sorted(at.pings) == ([WASHED] if is_cut else ["Built.", WASHED]), where
        assert washed.state == "done", where
        assert built.state in ("done", "interrupted"), where
        assert check(at.rows, at.clock.now(), at.clock.now()) == [], where

    steps = await crash_at_every_step(
        with_accepted_calls(tmp_path / "bot"), is_over, verify, seconds=1
    )
    assert "after a step that changes webhook_deliveries" in steps
    assert len(steps) > 20
