"""Draws a running turn into its draft messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from ollim_bot.chat import TurnStart
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.errors import NotSent, Unreachable, Unsure
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks, is_over, pause_after
from ollim_bot.surfaces.discord.drafts import Draft, Drafts, TurnDrafts
from ollim_bot.surfaces.discord.messages import DmChannel, OutgoingMessage
from ollim_bot.surfaces.discord.status_line import pieces

# How often the seconds that are shown change while nothing else happens.
_TICK = 5.0
_TYPING = 8.0
_LAST_REQUEST = 5.0
# Discord remembers a nonce for some minutes: sending again after that might double a draft.
_REMEMBERED = 120.0


class DraftRenderer:
    """Sends one request at a time, for the first draft that does not show what it should.

    What happens meanwhile is shown by the next request, so that no event waits for Discord.
    """

    def __init__(
        self,
        sheet: TurnDrafts,
        drafts: Drafts,
        channel: DmChannel,
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
        """Nothing is begun any more. What is under way is waited for, but not for long."""
        self.break_off()
        request, draft = self._request, self._under_way
        if request is None or draft is None:
            return
        if await is_over(request, _LAST_REQUEST, self._clock):
            return
        # It may still get there, and then after the words that take its place.
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
                # Who stops the drawing does not stop the request: only its end tells its id.
                index, letter = step
                draft = self._under_way = self._sheet.at(index)
                self._request = self._errands.begin(self._drawn(draft, letter))
                await asyncio.shield(self._request)
                self._news.set()
            await self._news.wait()
            await self._clock.sleep(
                max(self._channel.pause_before_edit(), pause_after(self._failures))
            )
            # Something that mattered may have taken its place meanwhile.
            await self._clock.sleep(self._channel.pause_before_edit())
            self._make_way()

    def _next(self) -> tuple[int, OutgoingMessage] | None:
        """The first draft that has to be sent or edited, and how it should be."""
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
        # Where an earlier try has arrived, that one's words stand there.
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
        """Begin again below what another turn has said, and take away what is too much."""
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
    """`in_fork` is whether the conversation is in a fork now."""

    def __init__(
        self,
        channel: DmChannel,
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
        """Waits for the events only; what Discord still has to be told then is told later.

        When it is cancelled, the drafts stay as they are, for the next start to close.
        """
        sheet = self._drafts.open(start)
        drawing = DraftRenderer(
            sheet, self._drafts, self._channel, self._clock, self._errands, self._in_fork
        )
        sheet.stop = drawing.stop
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
        except Exception:  # whatever it is, the turn must not be shown as running for ever
            self._drafts.end(start.turn, cause)
            raise
        self._drafts.end(start.turn, cause, messages)
