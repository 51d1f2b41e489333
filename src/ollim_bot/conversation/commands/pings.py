"""`/ping-budget`: how often the bot may speak up by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.domain.pings import PingBudget
from ollim_bot.ports import Clock, Store

_MOST_DIGITS = 9


class PingCommands:
    def __init__(self, pings: Store[PingBudget], clock: Clock) -> None:
        self._pings = pings
        self._clock = clock

    async def ping_budget(self, arguments: Mapping[str, str]) -> str:
        """Set what is given and show it all; raises `WrongInput`."""
        now = self._clock.now()

        def step(budget: PingBudget) -> tuple[PingBudget, PingBudget]:
            after = budget.refilled(now)
            if arguments:
                after = budget.resized(
                    now,
                    capacity=_number(arguments.get("capacity"), budget.capacity),
                    refill_rate_minutes=_number(
                        arguments.get("refill_rate"), budget.refill_rate_minutes
                    ),
                )
            return after, after

        budget = await asyncio.to_thread(self._pings.transact, step)
        return f"{budget.full_status(now)}\n{_limits(budget)}"


def _number(word: str | None, before: int) -> int:
    """Zero, which no limit can be, for what is not a number."""
    if word is None:
        return before
    is_number = word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS
    return int(word) if is_number else 0


def _limits(budget: PingBudget) -> str:
    many = "1 ping" if budget.capacity == 1 else f"{budget.capacity} pings"
    return f"It holds {many} at most, and gets one more every {budget.refill_rate_minutes} min."
