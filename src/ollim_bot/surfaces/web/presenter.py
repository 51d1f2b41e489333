"""Shows the turn that runs to all tabs, at a pace that an eye can follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from ollim_bot.chat import TurnStart
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.events import AgentEvent
from ollim_bot.ports import Clock
from ollim_bot.surfaces.web.frames import (
    Json,
    activity_frame,
    draft_frame,
    ended_frame,
    live_json,
    turn_frame,
)
from ollim_bot.surfaces.web.live import Live

_PACE = 0.05
# A long list is one block and is rendered again for each draft: then it comes less often.
_SHARE_OF_TIME = 5


class Presenter:
    def __init__(self, clock: Clock, send: Callable[[Json], None]) -> None:
        self._clock = clock
        self._send = send
        self._shown: _Shown | None = None

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        if self._shown is not None:
            self._end(self._shown)
        shown = self._shown = _Shown(start, self._clock.monotonic())
        self._send(turn_frame(shown.json(self._clock.monotonic())))
        drawing = asyncio.create_task(self._draw_paced(shown))
        try:
            async for event in events:
                shown.take(event)
            self._draw(shown)
        finally:
            drawing.cancel()
            self._end(shown)
            await asyncio.gather(drawing, return_exceptions=True)

    def answered(self, message: ChatMessage) -> None:
        """The answer of a turn takes the place of its drafts, so there are no more of them."""
        if message.author is Author.ASSISTANT and self._shows(message):
            self._shown = None

    def live(self) -> Json | None:
        """For a tab that comes while a turn runs."""
        return None if self._shown is None else self._shown.json(self._clock.monotonic())

    def _shows(self, message: ChatMessage) -> bool:
        return self._shown is not None and self._shown.start.turn == message.turn

    async def _draw_paced(self, shown: _Shown) -> None:
        while True:
            await shown.news.wait()
            began = self._clock.monotonic()
            self._draw(shown)
            cost = self._clock.monotonic() - began
            await self._clock.sleep(max(_PACE, _SHARE_OF_TIME * cost))

    def _draw(self, shown: _Shown) -> None:
        if shown is self._shown:
            for frame in shown.frames():
                self._send(frame)

    def _end(self, shown: _Shown) -> None:
        if shown.is_ended:
            return
        shown.is_ended = True
        if shown is self._shown:
            self._shown = None
        self._send(ended_frame(shown.start.turn))


class _Shown:
    """A turn: what has happened in it, and what of that was drawn."""

    def __init__(self, start: TurnStart, began: float) -> None:
        self.start = start
        self.news = asyncio.Event()
        self.is_ended = False
        self._began = began
        self._live = self._drawn = Live()
        self._blocks: tuple[str, ...] = ()
        self._tail = ""

    def take(self, event: AgentEvent) -> None:
        self._live = self._live.after(event)
        self.news.set()

    def frames(self) -> Iterator[Json]:
        """What brings a tab from what was drawn before to what is now."""
        self.news.clear()
        before, self._drawn = self._drawn, self._live.settled()
        self._live = self._drawn
        if self._drawn.activity != before.activity:
            yield activity_frame(self.start.turn, self._drawn.activity)
        if not self._drawn.has_same_text(before):
            blocks, tail = self._drawn.blocks, self._drawn.draft.tail()
            yield draft_frame(self.start.turn, self._blocks, blocks, tail)
            self._blocks, self._tail = blocks, tail

    def json(self, now: float) -> Json:
        """As it was drawn last: the next frames go on from there."""
        activity = self._drawn.activity
        return live_json(self.start, now - self._began, activity, self._blocks, self._tail)
