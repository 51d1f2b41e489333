"""What a day may cost: above it, nothing that is due by itself is asked of the model."""

from __future__ import annotations

import asyncio

from ollim_bot.domain.session_statistics import answers
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores


class DailyCosts:
    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    async def cap_reached(self) -> float | None:
        """The cap, if today has cost as much; None if there is none, or it is not reached."""
        return await asyncio.to_thread(self._cap_reached)

    def _cap_reached(self) -> float | None:
        cap = self._stores.config.read().daily_cost_cap
        if cap is None:
            return None
        return cap if self._today() >= cap else None

    def _today(self) -> float:
        """In dollars, of the conversation and of all runs."""
        midnight = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        said = answers(self._stores.messages.read(midnight).entries)
        talk = sum(message.spent.cost_usd for message in said if message.spent)
        ended = self._stores.ledger.read(midnight).entries
        costs = (row.facts.get("cost_usd") for row in ended if row.occurrence is not None)
        return talk + sum(float(cost) for cost in costs if isinstance(cost, int | float))
