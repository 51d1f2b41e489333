"""Timers: a card that counts to the end of each, and stays true."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import MINUTE
from tests.scheduling.test_plain_delivery import is_right

from ollim_bot.domain.cards import Card

TIMER = {"plain": "true", "set-at": f'"{NOW.isoformat()}"'}


def shown(at: ScheduleScene, name: str = "t1") -> list[Card | None]:
    return [each.card for each in at.log if each.id == f"timer-{name}"]


async def test_a_timer_has_a_card_that_counts_to_its_end_and_says_when_it_is_over(
    tmp_path: Path,
) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.remind("t1", 25 * MINUTE, "Take the bread out.", **TIMER)
        at.remind("w1", 25 * MINUTE, "Drink water.", plain="true")
        await at.advance(35, step=5)
        end = NOW + 25 * MINUTE
        running = Card("Timer until today 10:40", "Take the bread out", until=end)
        assert shown(at) == [running]
        assert shown(at, "w1") == []
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(60, step=30)
        assert shown(at) == [running]
        await at.advance(25 * 60, step=30)
        await at.until(lambda: at.reminders == [])
        await at.advance(60, step=30)
        assert shown(at) == [Card("Timer over: Take the bread out")]
        assert sorted(at.pings) == ["Drink water.", "Take the bread out."]
        assert is_right(at)


async def test_the_card_follows_a_timer_that_is_moved_or_cancelled(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("t1", 25 * MINUTE, "Take the bread out.", **TIMER)
        await at.advance(35, step=5)
        file = at.remind("t1", 40 * MINUTE - timedelta(seconds=35), "Take the bread out.", **TIMER)
        await at.advance(35, step=5)
        (card,) = shown(at)
        assert card is not None
        assert card.until == NOW + 40 * MINUTE
        file.unlink()
        await at.advance(60, step=5)
        assert shown(at) == [Card("Timer cancelled: Take the bread out")]
        assert at.pings == []


async def test_a_timer_that_a_run_has_set_shows_nothing_before_its_ping(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        by_run = {"set-at": TIMER["set-at"], "set-by": "routine:abc"}
        at.remind("t1", 25 * MINUTE, "Look.", **by_run)
        await at.advance(60, step=5)
        assert at.log == []
