"""Shows turns while they run, as messages that are edited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from ollim_bot.chat import TurnStart
from ollim_bot.domain.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.channel import Channel
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.turns.drafts import Drafts
from ollim_bot.surfaces.discord.turns.drawing import Drawing


class Presenter:
    """`in_fork` is whether the conversation is in a fork now."""

    def __init__(
        self,
        channel: Channel,
        drafts: Drafts,
        clock: Clock,
        errands: Errands,
        in_fork: Callable[[], bool] = lambda: False,
    ) -> None:
        self._channel = channel
        self._drafts = drafts
        self._clock = clock
        self._errands = errands
        self._in_fork = in_fork

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Waits for the events only; what Discord still has to be told then is told later.

        When it is cancelled, the drafts stay as they are, for the next start to close.
        """
        sheet = self._drafts.open(start)
        drawing = Drawing(
            sheet, self._drafts, self._channel, self._clock, self._errands, self._in_fork
        )
        sheet.stop = drawing.stop
        drawing.begin()
        cause = EndCause.INTERRUPTED
        try:
            async for event in events:
                drawing.take(event)
                if isinstance(event, TurnEnded):
                    cause = event.cause
        except asyncio.CancelledError:
            drawing.break_off()
            raise
        except Exception:  # whatever it is, the turn must not be shown as running for ever
            self._drafts.end(start.turn, cause)
            raise
        self._drafts.end(start.turn, cause)
