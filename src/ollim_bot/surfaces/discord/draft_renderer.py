"""Draws a running turn into its draft messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from ollim_bot.chat import TurnStart
from ollim_bot.domain.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.errors import NotSent, Unreachable, Unsure
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks, is_over, pause_after
from ollim_bot.surfaces.discord.drafts import Draft, Drafts, TurnDrafts
from ollim_bot.surfaces.discord.messages import Channel, OutgoingMessage
from ollim_bot.surfaces.discord.status_line import pieces

# Seconds between updates of the elapsed time while no event arrives.
_TICK = 5.0
_TYPING = 8.0
_LAST_REQUEST = 5.0
# Discord forgets a nonce after some minutes: sending again later might duplicate a draft.
_REMEMBERED = 120.0


class DraftRenderer:
    """Sends one request at a time, for the first draft that is out of date.

    The next request shows all events that came in between, so that no event waits for Discord.
    """

    def __init__(
        self,
        sheet: TurnDrafts,
        drafts: Drafts,
        channel: Channel,
        clock: Clock,
        errands: BackgroundTasks,
        in_fork: Callable[[], bool],
    ) -> None:
        self._sheet = sheet
        self._drafts = drafts
        self._channel = channel
        self._clock = clock
        self._errands = errands
        self._began = clock.monotonic()
        self._drawn_at = self._began
        self._failures = 0
        self._in_fork = in_fork
        self._news = asyncio.Event()
        self._under_way: Draft | None = None
        self._request: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._sheet.in_fork = self._in_fork()
        self._tasks = [
            self._errands.begin(each) for each in (self._draw(), self._tick(), self._type())
        ]

    def take(self, event: AgentEvent) -> None:
        self._sheet.in_fork = self._in_fork()
        self._sheet.live = self._sheet.live.after(event)
        self._news.set()

    async def stop(self) -> None:
        """Stop drawing. The current request gets a few seconds to finish."""
        self.break_off()
        request, draft = self._request, self._under_way
        if request is None or draft is None:
            return
        if await is_over(request, _LAST_REQUEST, self._clock):
            return
        # The request may still arrive, after the text that replaces the draft.
        draft.is_lost = True
        request.cancel()

    def break_off(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _draw(self) -> None:
        while True:
            self._news.clear()
            step = self._next()
            if step is not None:
                # Shielded: the id of a sent draft is known only when its request ends.
                index, letter = step
                draft = self._under_way = self._sheet.at(index)
                self._request = self._errands.begin(self._drawn(draft, letter))
                await asyncio.shield(self._request)
                self._news.set()
            await self._news.wait()
            await self._clock.sleep(
                max(self._channel.pause_before_edit(), pause_after(self._failures))
            )
            # A more important request may have used the allowance in the meantime.
            await self._clock.sleep(self._channel.pause_before_edit())
            self._make_way()

    def _next(self) -> tuple[int, OutgoingMessage] | None:
        """The first draft that must be sent or edited, and its new content."""
        sheet, now = self._sheet, self._clock.monotonic()
        if self._is_drawn(self._drawn_at) and now - self._drawn_at < _TICK:
            return None
        for index, letter in enumerate(self._letters(now)):
            draft = sheet.drafts[index] if index < len(sheet.drafts) else None
            if draft is not None and draft.is_lost:
                return None
            if draft is None or draft.shown != letter:
                self._drawn_at = now
                return index, letter
        return None

    def _is_drawn(self, at: float) -> bool:
        letters = self._letters(at)
        return len(letters) <= len(self._sheet.drafts) and all(
            draft.shown == letter
            for draft, letter in zip(self._sheet.drafts, letters, strict=False)
        )

    def _letters(self, at: float) -> list[OutgoingMessage]:
        shown = pieces(self._sheet.live, at - self._began, self._sheet.in_fork)
        return [OutgoingMessage(text) for text in shown]

    async def _drawn(self, draft: Draft, letter: OutgoingMessage) -> None:
        try:
            if draft.ref is None:
                await self._send(draft, letter)
            else:
                await self._edit(draft, draft.ref, letter)
        except NotSent:
            draft.is_lost = True
        except (Unreachable, Unsure):
            self._failures += 1
        else:
            self._failures = 0

    async def _send(self, draft: Draft, letter: OutgoingMessage) -> None:
        now = self._clock.monotonic()
        first_try = draft.tried_at
        if first_try is not None and now - first_try > _REMEMBERED:
            draft.is_lost = True
            return
        draft.tried_at = now if first_try is None else first_try
        try:
            ref = await self._channel.send(letter, draft.nonce)
        except (NotSent, Unreachable):
            draft.tried_at = first_try
            raise
        self._drafts.drawn(draft, ref)
        # If an earlier try arrived, the draft shows the text of that try.
        draft.shown = letter if first_try is None else None
        draft.tried_at = None

    async def _edit(self, draft: Draft, ref: str, letter: OutgoingMessage) -> None:
        before, draft.shown = draft.shown, None
        try:
            await self._channel.edit(ref, letter)
        except Unreachable:
            draft.shown = before
            raise
        draft.shown = letter

    def _make_way(self) -> None:
        """Move the drafts below the answer of another turn, and delete surplus drafts."""
        sheet = self._sheet
        if self._drafts.must_move(sheet):
            sheet.is_overtaken = False
            self._drafts.discard(sheet.torn_off(0))
        needed = max(1, len(self._letters(self._clock.monotonic())))
        self._drafts.discard(sheet.torn_off(needed))

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK)
            self._news.set()

    async def _type(self) -> None:
        while True:
            with suppress(NotSent, Unreachable, Unsure):
                await self._channel.show_typing()
            await self._clock.sleep(_TYPING)


class Presenter:
    """`in_fork` tells whether the conversation is in a fork now."""

    def __init__(
        self,
        channel: Channel,
        drafts: Drafts,
        clock: Clock,
        errands: BackgroundTasks,
        in_fork: Callable[[], bool] = lambda: False,
    ) -> None:
        self._channel = channel
        self._drafts = drafts
        self._clock = clock
        self._errands = errands
        self._in_fork = in_fork

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Wait for the events only; pending requests to Discord finish later.

        If it is cancelled, the drafts stay as they are, and the next start closes them.
        """
        sheet = self._drafts.open(start)
        drawing = DraftRenderer(
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
        except Exception:  # the turn must not be shown as running for ever
            self._drafts.end(start.turn, cause)
            raise
        self._drafts.end(start.turn, cause)
