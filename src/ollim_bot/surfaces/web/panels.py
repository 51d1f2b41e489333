"""The panels beside the conversation: fragments of markup, each with the number of its change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from ollim_bot.domain.day import DayView
from ollim_bot.errors import OllimError
from ollim_bot.ports import ChatService, Clock
from ollim_bot.surfaces.web.day_html import day_html
from ollim_bot.surfaces.web.frames import Json

TODAY = "today"
# Seconds between two frames that say that a panel is stale.
_PAUSE = 0.2
# How long a day that was read serves further tabs, unless it changes.
_KEPT_SECONDS = 0.5

_logger = logging.getLogger(__name__)


class _KeptDay(NamedTuple):
    day: DayView
    change: int
    at: float


class TodayPanel:
    """Today for all tabs. They are told the number of each change, and then ask for it."""

    def __init__(self, reception: ChatService, clock: Clock, send: Callable[[Json], None]) -> None:
        self._reception = reception
        self._clock = clock
        self._send = send
        self._change = 0
        self._kept: _KeptDay | None = None

    async def state(self) -> Json:
        """The number of the newest change, and how many things are open."""
        # Read the number first: what changes in between is then told again.
        change = self._change
        return {"change": change, "open": await self._reception.day.open_items()}

    async def fragment(self, most: int) -> Json:
        """The markup, with `most` lines of each list at most."""
        change, now = self._change, self._clock.monotonic()
        kept = self._kept
        # All tabs ask at once after a change.
        if kept is None or kept.change != change or now - kept.at > _KEPT_SECONDS:
            kept = _KeptDay(await self._reception.day.today(), change, now)
            self._kept = kept
        html = await asyncio.to_thread(day_html, kept.day, most)
        return {"html": html, "change": change, "open": len(kept.day.overdue)}

    async def watch(self) -> None:
        """Tell the tabs of each change, until cancelled."""
        async for _ in self._reception.day.changes():
            self._change += 1
            try:
                self._send({"type": "stale", "panel": TODAY, **await self.state()})
            except OllimError:
                _logger.warning("The page could not be told of a change", exc_info=True)
            await self._clock.sleep(_PAUSE)
