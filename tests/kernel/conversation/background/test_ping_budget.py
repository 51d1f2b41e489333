"""`/ping-budget`: what is left, what was used, and how much there may be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any, cast

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.conversation.background.scene import NOW
from tests.kernel.conversation.scene import call

from ollim_bot.features.settings.setting_commands import SettingCommands
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.pings import LARGEST_LIMIT


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def store() -> Store:
    return RepeatingStore(lambda: NOW)


@pytest.fixture
def commands(store: Store, clock: ManualClock) -> SettingCommands:
    nothing = cast("Any", None)
    return SettingCommands(store, nothing, clock, UTC, nothing)


def use(store: Store, **changes: object) -> None:
    store.run(lambda tx: tx.budget.change(lambda now: replace(now, **changes)))  # type: ignore[arg-type]


async def test_a_full_budget_is_two_short_lines(commands: SettingCommands) -> None:
    assert await commands.ping_budget(call()) == (
        "budget: 5/5\nIt holds 5 pings at most, and gets one more every 90 min."
    )


async def test_what_was_used_today_is_shown_where_anything_was(
    commands: SettingCommands, store: Store
) -> None:
    use(store, available=2.5, daily_used=3, critical_used=1)
    assert await commands.ping_budget(call()) == (
        "budget: 2/5 (next refill in 45 min)\n"
        "used today: 3\n"
        "critical bypasses: 1\n"
        "It holds 5 pings at most, and gets one more every 90 min."
    )


async def test_what_was_shown_is_not_taken_away_by_a_clock_that_goes_back(
    commands: SettingCommands, store: Store, clock: ManualClock
) -> None:
    use(store, available=1.0)
    clock.jump(90 * 60)
    assert (await commands.ping_budget(call())).startswith("budget: 2/5")
    clock.jump(-90 * 60)
    assert (await commands.ping_budget(call())).startswith("budget: 2/5")


async def test_both_limits_can_be_set_and_are_said(commands: SettingCommands, store: Store) -> None:
    assert await commands.ping_budget(call(capacity="1", refill_rate="30")) == (
        "budget: 1/1\nIt holds 1 ping at most, and gets one more every 30 min."
    )
    budget = store.run(lambda tx: tx.budget.get())
    assert (budget.capacity, budget.refill_rate_minutes, budget.available) == (1, 30, 1.0)


@pytest.mark.parametrize(
    ("given", "limits"), [({"capacity": "9"}, (9, 90)), ({"refill_rate": "15"}, (5, 15))]
)
async def test_what_is_not_given_stays(
    commands: SettingCommands, store: Store, given: dict[str, str], limits: tuple[int, int]
) -> None:
    await commands.ping_budget(call(**given))
    budget = store.run(lambda tx: tx.budget.get())
    assert (budget.capacity, budget.refill_rate_minutes) == limits
    assert budget.available == 5.0


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "many", "", "٣", "²", "9" * 5000, "1000001"])
@pytest.mark.parametrize("name", ["capacity", "refill_rate"])
async def test_a_wrong_limit_is_said_in_a_sentence_and_changes_nothing(
    commands: SettingCommands, store: Store, name: str, word: str
) -> None:
    before = store.run(lambda tx: tx.budget.get())
    given = {"capacity": "7", "refill_rate": "7", name: word}
    with pytest.raises(WrongInput) as wrong:
        await commands.ping_budget(call(**given))
    assert str(wrong.value) == (
        "The ping budget takes a capacity and the minutes per ping, both whole numbers "
        f"from 1 to {LARGEST_LIMIT}, such as 5 and 90."
    )
    assert store.run(lambda tx: tx.budget.get()) == before
