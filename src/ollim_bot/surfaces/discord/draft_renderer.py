"""Draws a running turn into its draft messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock, TurnStart
from ollim_bot.surfaces.discord.background_tasks import (
    BackgroundTasks,
    finishes_within,
    retry_delay,
)
from ollim_bot.surfaces.discord.drafts import DraftMessage, Drafts, TurnDrafts
from ollim_bot.surfaces.discord.messages import DmChannel, OutgoingMessage, without_previews
from ollim_bot.surfaces.discord.rendering import is_small
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
        turn_drafts: TurnDrafts,
        drafts: Drafts,
        channel: DmChannel,
        clock: Clock,
        background: BackgroundTasks,
        in_fork: Callable[[], bool],
    ) -> None:
        self._turn_drafts = turn_drafts
        self._drafts = drafts
        self._channel = channel
        self._clock = clock
        self._background = background
        self._began = clock.monotonic()
        self._drawn_at = self._began
        self._failures = 0
        self._in_fork = in_fork
        self._news = asyncio.Event()
        self._under_way: DraftMessage | None = None
        self._request: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._turn_drafts.in_fork = self._in_fork()
        self._tasks = [
            self._background.begin(each) for each in (self._draw(), self._tick(), self._type())
        ]

    def take(self, event: AgentEvent) -> None:
        self._turn_drafts.in_fork = self._in_fork()
        self._turn_drafts.live = self._turn_drafts.live.after(event)
        self._news.set()

    async def stop(self) -> None:
        """Stop drawing. The current request gets a few seconds to finish."""
        self.break_off()
        request, draft = self._request, self._under_way
        if request is None or draft is None:
            return
        if await finishes_within(request, _LAST_REQUEST, self._clock):
            return
        # The request may still arrive, after the text that replaces the draft.
        draft.is_lost = True
        request.cancel()

    def break_off(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _draw(self) -> None:
        """Every request waits for room, also the first: in a burst the typing sign is enough."""
        self._news.set()
        while True:
            await self._news.wait()
            await self._clock.sleep(
                max(self._channel.pause_before_edit(), retry_delay(self._failures))
            )
            # A more important request may have used the allowance in the meantime.
            await self._clock.sleep(self._channel.pause_before_edit())
            self._make_way()
            self._news.clear()
            step = self._next()
            if step is not None:
                # Shielded: the id of a sent draft is known only when its request ends.
                index, outgoing = step
                draft = self._under_way = self._turn_drafts.at(index)
                self._request = self._background.begin(self._drawn(draft, outgoing))
                await asyncio.shield(self._request)
                self._news.set()

    def _next(self) -> tuple[int, OutgoingMessage] | None:
        """The first draft that must be sent or edited, and its new content."""
        turn_drafts, now = self._turn_drafts, self._clock.monotonic()
        if self._is_drawn(self._drawn_at) and now - self._drawn_at < _TICK:
            return None
        wanted = self._wanted(now)
        was_moved = turn_drafts.made > 0 and not turn_drafts.drafts
        if was_moved and is_small(wanted[0].text) and now - self._drawn_at < _TICK:
            return None  # a status line is worth a second message only if the turn lasts
        for index, outgoing in enumerate(wanted):
            draft = turn_drafts.drafts[index] if index < len(turn_drafts.drafts) else None
            if draft is not None and draft.is_lost:
                return None
            if draft is None or draft.shown != outgoing:
                self._drawn_at = now
                return index, outgoing
        return None

    def _is_drawn(self, at: float) -> bool:
        wanted = self._wanted(at)
        return len(wanted) <= len(self._turn_drafts.drafts) and all(
            draft.shown == outgoing
            for draft, outgoing in zip(self._turn_drafts.drafts, wanted, strict=False)
        )

    def _wanted(self, at: float) -> list[OutgoingMessage]:
        shown = pieces(self._turn_drafts.live, at - self._began, self._turn_drafts.in_fork)
        # The turn may have read untrusted text; the answer that takes the drafts over knows it.
        return [without_previews(text) for text in shown]

    async def _drawn(self, draft: DraftMessage, outgoing: OutgoingMessage) -> None:
        try:
            if draft.ref is None:
                await self._send(draft, outgoing)
            else:
                await self._edit(draft, draft.ref, outgoing)
        except DeliveryFailed:
            draft.is_lost = True
        except (Unreachable, DeliveryUncertain):
            self._failures += 1
        else:
            self._failures = 0

    async def _send(self, draft: DraftMessage, outgoing: OutgoingMessage) -> None:
        now = self._clock.monotonic()
        first_try = draft.tried_at
        if first_try is not None and now - first_try > _REMEMBERED:
            draft.is_lost = True
            return
        draft.tried_at = now if first_try is None else first_try
        try:
            ref = await self._channel.send(outgoing, draft.nonce)
        except (DeliveryFailed, Unreachable):
            draft.tried_at = first_try
            raise
        self._drafts.drawn(draft, ref)
        # If an earlier try arrived, the draft shows the text of that try.
        draft.shown = outgoing if first_try is None else None
        draft.tried_at = None

    async def _edit(self, draft: DraftMessage, ref: str, outgoing: OutgoingMessage) -> None:
        before, draft.shown = draft.shown, None
        try:
            await self._channel.edit(ref, outgoing)
        except Unreachable:
            draft.shown = before
            raise
        draft.shown = outgoing

    def _make_way(self) -> None:
        """Move the drafts below the answer of another turn, and delete surplus drafts."""
        turn_drafts = self._turn_drafts
        if self._drafts.must_move(turn_drafts):
            turn_drafts.is_overtaken = False
            self._drafts.discard(turn_drafts.remove_from(0))
        needed = max(1, len(self._wanted(self._clock.monotonic())))
        self._drafts.discard(turn_drafts.remove_from(needed))

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK)
            self._news.set()

    async def _type(self) -> None:
        while True:
            # Shielded: a call cancelled while Discord asks to wait would block all later calls.
            await asyncio.shield(self._background.begin(self._show_typing()))
            await self._clock.sleep(_TYPING)

    async def _show_typing(self) -> None:
        with suppress(DeliveryFailed, Unreachable, DeliveryUncertain):
            await self._channel.show_typing()


class DiscordPresenter:
    """`in_fork` tells whether the conversation is in a fork now."""

    def __init__(
        self,
        channel: DmChannel,
        drafts: Drafts,
        clock: Clock,
        background: BackgroundTasks,
        in_fork: Callable[[], bool] = lambda: False,
    ) -> None:
        self._channel = channel
        self._drafts = drafts
        self._clock = clock
        self._background = background
        self._in_fork = in_fork

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Wait for the events only; pending requests to Discord finish later.

        If it is cancelled, the drafts stay as they are, and the next start closes them.
        """
        turn_drafts = self._drafts.open(start)
        drawing = DraftRenderer(
            turn_drafts, self._drafts, self._channel, self._clock, self._background, self._in_fork
        )
        turn_drafts.stop = drawing.stop
        drawing.begin()
        cause, messages = EndCause.INTERRUPTED, tuple[MessageId, ...]()
        try:
            async for event in events:
                drawing.take(event)
                if isinstance(event, TurnEnded):
                    cause, messages = event.cause, event.messages
        except asyncio.CancelledError:
            drawing.break_off()
            raise
        except Exception:  # the turn must not be shown as running for ever
            self._drafts.end(start.turn, cause)
            raise
        self._drafts.end(start.turn, cause, messages)
