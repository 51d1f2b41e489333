"""What the page shows of the costs is kept for a minute, but never past a change."""

from __future__ import annotations

from dataclasses import replace

from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.scene import NOW
from tests.stores import memory_stores

from ollim_bot.features.money.money_view import MoneyView
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

TURN = UsageRow(NOW, UsageKind.TURN, "sonnet", Price.LISTED, 1_000_000, 900, "t1")


async def test_the_costs_are_read_again_after_a_use_a_new_limit_or_a_minute() -> None:
    clock, state = ManualClock(NOW), memory_stores(NOW).state
    view = MoneyView(state, clock)
    await state.transact(lambda tx: tx.usage.add(TURN))
    first = await view.look({})
    assert first.month.micros == 1_000_000
    assert await view.look({}) is first
    await state.transact(lambda tx: tx.usage.add(TURN._replace(turn="t2")))
    assert (await view.look({})).month.micros == 2_000_000
    await state.transact(lambda tx: tx.config.put(replace(tx.config.get(), daily_cost_cap=3.0)))
    second = await view.look({})
    assert second.cap == 3.0
    await clock.advance(60)
    assert await view.look({}) is not second
    assert (await view.look({"since": "2d"})).since != first.since
