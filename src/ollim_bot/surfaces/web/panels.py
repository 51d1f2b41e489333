"""The panels beside the conversation: fragments of markup, each with the number of its change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ollim_bot.errors import OllimError
from ollim_bot.ports import ChatService, Clock
from ollim_bot.surfaces.web.day_html import day_html
from ollim_bot.surfaces.web.frames import Json

TODAY = "today"
# Seconds between two frames that say that a panel is stale.
_PAUSE = 0.2

_logger = logging.getLogger(__name__)


class TodayPanel:
    """Today for all tabs. They are told the number of each change, and then ask for it."""

    def __init__(self, reception: ChatService, clock: Clock, send: Callable[[Json], None]) -> None:
        self._reception = reception
        self._clock = clock
        self._send = send
        self._change = 0

    async def state(self) -> Json:
        """The number of the newest change, and how many things are open."""
        # Read the number first: what changes in between is then told again.
        change = self._change
        return {"change": change, "open": await self._reception.day.open_items()}

    async def fragment(self) -> Json:
        change = self._change
        day = await self._reception.day.today()
        html = await asyncio.to_thread(day_html, day)
        return {"html": html, "change": change, "open": len(day.overdue)}

    async def watch(self) -> None:
        """Tell the tabs of each change, until cancelled."""
        async for _ in self._reception.day.changes():
            self._change += 1
            try:
                self._send({"type": "stale", "panel": TODAY, **await self.state()})
            except OllimError:
                _logger.warning("The page could not be told of a change", exc_info=True)
            await self._clock.sleep(_PAUSE)
