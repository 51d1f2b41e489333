"""The messages that show a running turn."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import TurnStart
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.discord.background_tasks import (
    LONGEST_PAUSE,
    BackgroundTasks,
    finishes_within,
)
from ollim_bot.surfaces.discord.rendering import (
    DmChannel,
    OutgoingMessage,
    ReceivedMessage,
    is_small,
    parts_of,
    small,
    without_previews,
)
from ollim_bot.surfaces.discord.split import LONGEST, split
from ollim_bot.surfaces.discord.status_line import GOES_ON_LATER, LiveText, pieces

# An answer that is delivered this soon is edited into its drafts even if the next turn has begun: a
# queued question begins at once.
_SOON = timedelta(seconds=10)
_LOOK_BACK = 50


@dataclass(slots=True, eq=False)
class DraftMessage:
    """One draft message. `shown` is None while its content on Discord is unknown.

    `tried_at` is when it was first sent, while it is unknown whether it arrived. A draft that
    `is_lost` is no longer drawn and cannot be taken over; one that `is_taken` is part of an
    answer.
    """

    nonce: str
    ref: str | None = None
    shown: OutgoingMessage | None = None
    tried_at: float | None = None
    is_lost: bool = False
    is_taken: bool = False


async def _no_drawing() -> None:
    pass


@dataclass(slots=True, eq=False)
class TurnDrafts:
    """The drafts of one turn.

    `holder` is the message that takes `taken` of them over; the others are deleted. `delivered` are
    the messages of the turn whose delivery has ended, and `awaited` those that are still to come
    once the turn is over. `is_overtaken` means that a message was sent below the drafts which they
    have to follow. `is_over` means that the turn has ended, by `cause`; `is_closed` that it has
    ended without an answer. `stop` ends the drawing, and returns when no request is running.
    """

    start: TurnStart
    live: LiveText = field(default_factory=LiveText)
    drafts: list[DraftMessage] = field(default_factory=list)
    stop: Callable[[], Coroutine[Any, Any, None]] = _no_drawing
    holder: MessageId | None = None
    taken: Sequence[DraftMessage] = ()
    delivered: set[MessageId] = field(default_factory=set)
    awaited: set[MessageId] = field(default_factory=set)
    cause: EndCause = EndCause.INTERRUPTED
    in_fork: bool = False
    is_overtaken: bool = False
    is_over: bool = False
    is_closed: bool = False
    made: int = 0

    @property
    def turn(self) -> TurnId:
        return self.start.turn

    @property
    def text(self) -> str:
        """The text that was written so far."""
        return self.live.text

    @property
    def has_text(self) -> bool:
        return bool(self.text.strip())

    @property
    def shows_words(self) -> bool:
        """Whether the owner may have read words of the answer, not only status lines."""
        shown = [each.shown for each in self.drafts if each.ref is not None]
        return any(outgoing is None or not is_small(outgoing.text) for outgoing in shown)

    def stands_above(self, ref: str) -> bool:
        """Whether a draft that is not taken over is above that message."""
        refs = (each.ref for each in self.drafts if not each.is_taken)
        return any(each is not None and int(each) < int(ref) for each in refs)

    def fitting(self, wanted: Sequence[OutgoingMessage]) -> list[DraftMessage]:
        """The first drafts, as far as each can be edited to show its part of `wanted`."""
        fitting = []
        for draft, outgoing in zip(self.drafts, wanted, strict=False):
            if draft.ref is None or draft.is_lost or outgoing.files:
                break
            fitting.append(draft)
        return fitting

    def cut_off(self) -> tuple[OutgoingMessage, ...]:
        """The text so far, marked as cut off."""
        *shown, last = self.live.shown
        is_long = last == GOES_ON_LATER
        message = ChatMessage(
            MessageId(self.turn),
            self.start.at,
            Author.ASSISTANT,
            "" if is_long else self.text,
            is_cut_off=True,
            in_fork=self.in_fork,
        )
        texts = [*(shown if is_long else ()), *(part.text for part in parts_of(message))]
        return tuple(map(without_previews, texts))

    def at(self, index: int) -> DraftMessage:
        """The draft at `index`, which may be one past the end: then a new one."""
        if index == len(self.drafts):
            # Stable for each draft, so that a late arrival is recognised.
            nonce = hashlib.blake2s(f"{self.turn} {self.made}".encode(), digest_size=12)
            self.drafts.append(DraftMessage(nonce.hexdigest()))
            self.made += 1
        return self.drafts[index]

    def remove_from(self, index: int) -> list[DraftMessage]:
        """Remove and return the drafts from `index` on."""
        rest = self.drafts[index:]
        del self.drafts[index:]
        return rest


class DraftMemory(Protocol):
    """Remembers the ids of drafts across a crash. Its methods return at once and never fail."""

    def add_draft(self, ref: str) -> None: ...

    def remove_draft(self, ref: str) -> None: ...


class Drafts:
    """The drafts of all turns.

    An answer is edited into the drafts of its turn, part by part. It is sent as new messages, and
    the drafts are deleted, if it would otherwise be overlooked or out of order: the whole answer if
    a newer turn has run for more than a moment; the part and the rest if a draft cannot be edited.

    Drafts of a running turn move to the end, by being deleted and sent again, when the answer of
    another turn was sent below them. As long as they show no words, they move below every message,
    such as a card that the turn waits for.
    """

    def __init__(
        self, channel: DmChannel, clock: Clock, background: BackgroundTasks, memory: DraftMemory
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._background = background
        self._memory = memory
        self._by_turn: dict[TurnId, TurnDrafts] = {}
        self._newest: TurnId | None = None
        self._arriving: MessageId | None = None
        self._last_answer = "0"

    def open(self, start: TurnStart) -> TurnDrafts:
        self._by_turn = {
            turn: each
            for turn, each in self._by_turn.items()
            if not each.is_closed and (each.drafts or not each.is_over)
        }
        turn_drafts = self._by_turn[start.turn] = TurnDrafts(start)
        self._newest = start.turn
        return turn_drafts

    def drawn(self, draft: DraftMessage, ref: str) -> None:
        draft.ref = ref
        self._memory.add_draft(ref)

    def begin(self, message_id: MessageId) -> None:
        """Note that a message is being delivered."""
        if self._arriving != message_id:
            # Messages come in order, so the previous one will no longer be delivered.
            self._give_up(self._arriving)
        self._arriving = message_id

    async def take_over(
        self, message: ChatMessage, wanted: Sequence[OutgoingMessage]
    ) -> Sequence[DraftMessage]:
        """Stop drawing and return the drafts to edit the first of `wanted` into.

        Repeated calls for a message give the same drafts.
        """
        self.begin(message.id)
        turn_drafts = None if message.turn is None else self._by_turn.get(message.turn)
        if turn_drafts is None or turn_drafts.holder not in (None, message.id):
            return ()
        # A note replaces status lines only.
        is_note = message.author is not Author.ASSISTANT
        if is_note and turn_drafts.has_text and turn_drafts.holder is None:
            return ()
        await turn_drafts.stop()
        if turn_drafts.holder is None:
            turn_drafts.holder = message.id
            turn_drafts.taken = (
                turn_drafts.fitting(wanted) if self._is_current(turn_drafts, message) else ()
            )
        return turn_drafts.taken

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        """Note that the message is on Discord under `refs`; without any, it never will be."""
        self._arriving = None
        turn_drafts = None if message.turn is None else self._by_turn.get(message.turn)
        if refs:
            self._overtake(message, refs[-1])
        if turn_drafts is None:
            return
        turn_drafts.delivered.add(message.id)
        turn_drafts.awaited.discard(message.id)
        if turn_drafts.holder == message.id and refs:
            for draft in turn_drafts.drafts:
                if draft.ref is not None and draft.ref in refs:
                    draft.is_taken = True
                    self._memory.remove_draft(draft.ref)
            self.discard(turn_drafts.drafts)
            del self._by_turn[turn_drafts.turn]
        elif turn_drafts.holder == message.id:
            self._give_up(message.id)
        elif turn_drafts.is_over and turn_drafts.holder is None and not turn_drafts.awaited:
            self._background.start(self._close(turn_drafts, turn_drafts.cause))

    def end(self, turn: TurnId, cause: EndCause, messages: Sequence[MessageId] = ()) -> None:
        """End the turn, which has added `messages` to the log.

        Without an answer, its words stay only if it was interrupted.
        """
        turn_drafts = self._by_turn.get(turn)
        if turn_drafts is None:
            return
        turn_drafts.is_over, turn_drafts.cause = True, cause
        turn_drafts.awaited = {*messages} - turn_drafts.delivered
        if not turn_drafts.awaited and turn_drafts.holder is None:
            self._background.start(self._close(turn_drafts, cause))
        else:
            self._background.start(turn_drafts.stop())

    def must_move(self, turn_drafts: TurnDrafts) -> bool:
        """Whether the drafts have to move to the end, and no delivery is in progress."""
        return self._is_overtaken(turn_drafts) and self._arriving is None

    def is_draft(self, ref: str) -> bool:
        return any(draft.ref == ref for each in self._by_turn.values() for draft in each.drafts)

    def remove(self, refs: Sequence[str]) -> None:
        """Delete messages that were drafts as soon as possible, in the background."""
        self.discard([DraftMessage("", ref) for ref in refs])

    def discard(self, drafts: list[DraftMessage]) -> None:
        """Delete the drafts as soon as possible, in the background."""
        for draft in drafts:
            if not draft.is_taken and (draft.ref is not None or draft.tried_at is not None):
                self._background.start(self._discarded(draft))

    def _is_current(self, turn_drafts: TurnDrafts, message: ChatMessage) -> bool:
        if self._is_overtaken(turn_drafts) or turn_drafts.is_closed:
            return False
        is_soon = self._clock.now() - message.at < _SOON
        return turn_drafts.turn == self._newest or is_soon

    def _is_overtaken(self, turn_drafts: TurnDrafts) -> bool:
        """Evaluated anew each time, because a slow draft gets its position late."""
        return turn_drafts.is_overtaken or turn_drafts.stands_above(self._last_answer)

    def _overtake(self, message: ChatMessage, ref: str) -> None:
        """Note a message below the drafts, which may have to follow it."""
        if message.turn is not None:
            self._last_answer = ref
            return
        for each in self._by_turn.values():
            # An answer never stands above what it answers, such as a quote from the page.
            is_before = InputId(message.id) in each.start.inputs
            each.is_overtaken |= is_before or not each.shows_words

    def _give_up(self, message_id: MessageId | None) -> None:
        for turn_drafts in self._by_turn.values():
            if message_id is not None and turn_drafts.holder == message_id:
                turn_drafts.holder = None
                self._background.start(self._close(turn_drafts, EndCause.INTERRUPTED))

    async def _discarded(self, draft: DraftMessage) -> None:
        async def gone() -> None:
            ref = draft.ref
            if ref is None:
                newest = await self._channel.newest(_LOOK_BACK)
                ref = next((each.ref for each in newest if each.nonce == draft.nonce), None)
            if ref is not None:
                await self._channel.delete(ref)

        await self._background.keep_trying(gone)
        if draft.ref is not None:
            self._memory.remove_draft(draft.ref)

    async def _close(self, turn_drafts: TurnDrafts, cause: EndCause) -> None:
        """End the drafts of a turn without an answer; a completed turn leaves none behind."""
        turn_drafts.is_over = turn_drafts.is_closed = True
        await turn_drafts.stop()
        if turn_drafts.holder is not None:
            return
        wanted = (
            ()
            if cause is EndCause.COMPLETED or not turn_drafts.has_text
            else await asyncio.to_thread(turn_drafts.cut_off)
        )
        self.discard(turn_drafts.remove_from(len(wanted)))
        for draft, outgoing in zip(list(turn_drafts.drafts), wanted, strict=False):
            if draft.ref is None:
                self.discard([draft])
            elif not draft.is_taken:
                if draft.shown != outgoing:
                    edit = partial(self._channel.edit, draft.ref, outgoing)
                    await self._background.keep_trying(edit)
                self._memory.remove_draft(draft.ref)


# A longer text is split beside the loop, since that may take many milliseconds.
_AT_ONCE = 8_000
# Seconds between updates of the elapsed time while no event arrives.
_TICK = 5.0
# Discord forgets a nonce after some minutes: sending again later might duplicate a draft.
_REMEMBERED = 120.0


class DraftRenderer:
    """Sends one request at a time, for the first draft that is out of date.

    The next request shows all events that came in between, so that no event waits for Discord.
    """

    def __init__(self, turn_drafts: TurnDrafts, of: DiscordPresenter) -> None:
        self._turn_drafts = turn_drafts
        self._of = of
        self._began = of.clock.monotonic()
        self._drawn_at = self._began
        self._failures = 0
        self._text: tuple[str, ...] = ()
        self._news = asyncio.Event()
        self._under_way: DraftMessage | None = None
        self._request: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._turn_drafts.in_fork = self._of.in_fork()
        self._tasks = [
            self._of.background.begin(each) for each in (self._draw(), self._tick(), self._type())
        ]

    def take(self, event: AgentEvent) -> None:
        self._turn_drafts.in_fork = self._of.in_fork()
        self._turn_drafts.live = self._turn_drafts.live.after(event)
        self._news.set()

    async def stop(self) -> None:
        """Stop drawing. The current request gets a few seconds to finish."""
        self.break_off()
        request, draft = self._request, self._under_way
        if request is None or draft is None:
            return
        if await finishes_within(request, 5.0, self._of.clock):
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
            wait = min(LONGEST_PAUSE, 2.0 ** min(self._failures, 6) / 2) if self._failures else 0.0
            await self._of.clock.sleep(max(self._of.channel.pause_before_edit(), wait))
            # A more important request may have used the allowance in the meantime.
            await self._of.clock.sleep(self._of.channel.pause_before_edit())
            self._news.clear()
            live = self._turn_drafts.live
            is_long, shown = len(live.text) > _AT_ONCE, attrgetter("shown")
            self._text = await asyncio.to_thread(shown, live) if is_long else live.shown
            # Move the drafts below the answer of another turn, and delete surplus drafts.
            turn_drafts = self._turn_drafts
            if self._of.drafts.must_move(turn_drafts):
                turn_drafts.is_overtaken = False
                self._of.drafts.discard(turn_drafts.remove_from(0))
            needed = max(1, len(self._wanted(self._of.clock.monotonic())))
            self._of.drafts.discard(turn_drafts.remove_from(needed))
            step = self._next()
            if step is not None:
                # Shielded: the id of a sent draft is known only when its request ends.
                index, outgoing = step
                draft = self._under_way = self._turn_drafts.at(index)
                self._request = self._of.background.begin(self._drawn(draft, outgoing))
                await asyncio.shield(self._request)
                self._news.set()

    def _next(self) -> tuple[int, OutgoingMessage] | None:
        """The first draft that must be sent or edited, and its new content."""
        turn_drafts, now = self._turn_drafts, self._of.clock.monotonic()
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
        turn_drafts, careful = self._turn_drafts, self._of.careful()
        words, buttons = (careful.words, (careful.button,)) if careful else ("", ())
        elapsed = at - self._began
        shown = pieces(turn_drafts.live, elapsed, turn_drafts.in_fork, words, self._text)
        # The turn may have read untrusted text; the answer that takes the drafts over knows it.
        drawn = [without_previews(text) for text in shown]
        return [*drawn[:-1], replace(drawn[-1], buttons=buttons)]

    async def _drawn(self, draft: DraftMessage, outgoing: OutgoingMessage) -> None:
        try:
            if draft.ref is None:
                await self._send(draft, outgoing)
            else:
                before, draft.shown = draft.shown, None
                try:
                    await self._of.channel.edit(draft.ref, outgoing)
                except Unreachable:
                    draft.shown = before
                    raise
                draft.shown = outgoing
        except DeliveryFailed:
            draft.is_lost = True
        except (Unreachable, DeliveryUncertain):
            self._failures += 1
        else:
            self._failures = 0

    async def _send(self, draft: DraftMessage, outgoing: OutgoingMessage) -> None:
        now = self._of.clock.monotonic()
        first_try = draft.tried_at
        if first_try is not None and now - first_try > _REMEMBERED:
            draft.is_lost = True
            return
        draft.tried_at = now if first_try is None else first_try
        try:
            ref = await self._of.channel.send(outgoing, draft.nonce)
        except (DeliveryFailed, Unreachable):
            draft.tried_at = first_try
            raise
        self._of.drafts.drawn(draft, ref)
        # If an earlier try arrived, the draft shows the text of that try.
        draft.shown = outgoing if first_try is None else None
        draft.tried_at = None

    async def _tick(self) -> None:
        while True:
            await self._of.clock.sleep(_TICK)
            self._news.set()

    async def _type(self) -> None:
        async def show_typing() -> None:
            with suppress(DeliveryFailed, Unreachable, DeliveryUncertain):
                await self._of.channel.show_typing()

        while True:
            # Shielded: a call cancelled while Discord asks to wait would block all later calls.
            await asyncio.shield(self._of.background.begin(show_typing()))
            await self._of.clock.sleep(8.0)


@dataclass(frozen=True)
class DiscordPresenter:
    """`in_fork` tells whether the conversation is in a fork now, `careful` since when it is so."""

    channel: DmChannel
    drafts: Drafts
    clock: Clock
    background: BackgroundTasks
    in_fork: Callable[[], bool] = lambda: False
    careful: Callable[[], CarefulTime | None] = lambda: None

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Wait for the events only; pending requests to Discord finish later.

        If it is cancelled, the drafts stay as they are, and the next start closes them.
        """
        turn_drafts = self.drafts.open(start)
        drawing = DraftRenderer(turn_drafts, self)
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
            self.drafts.end(start.turn, cause)
            raise
        self.drafts.end(start.turn, cause, messages)


GOES_ON_BELOW = small("cut off here; it goes on below")

# The status line of a running turn: `Thinking…`, `Working… (1m 05s)`.
_RUNNING = re.compile(r"-# (Thinking|Working|Compacting|Retrying \(\d+ of \d+\))…( \([\dhms ]+\))?")


@dataclass(frozen=True)
class StaleDrafts:
    """Closes drafts. `is_known` tells whether a message is in the log.

    `caught_up` returns when every open delivery has arrived or was given up.
    """

    _channel: DmChannel
    _background: BackgroundTasks
    _memory: DraftMemory
    _caught_up: Callable[[], Awaitable[None]]
    _is_known: Callable[[str], Awaitable[bool]]

    async def close(self, refs: Collection[str], newest: int) -> None:
        """Close the drafts; returns when all are closed, even if Discord is unreachable for long.

        `refs` are the recorded drafts from before the start. A draft that was sent just before a
        crash may be missing there and is recognised by its look, among the messages up to `newest`,
        the last one from before the start. Deliveries come first, since an answer may take over
        some drafts.
        """
        await self._caught_up()
        seen: list[ReceivedMessage] = []

        async def look() -> None:
            read = await self._channel.newest(_LOOK_BACK)
            oldest = min((int(ref) for ref in refs), default=None)
            if oldest is not None and read and int(read[0].ref) > oldest:
                read = await self._channel.after(str(oldest - 1))
            seen[:] = read

        await self._background.keep_trying(look)
        there = [each async for each in self._orphaned(seen, refs, newest)]
        kept = [each for each in there if _words(each.text) and not _is_said_below(each, seen)]
        for each in there:
            if each not in kept:
                await self._background.keep_trying(partial(self._channel.delete, each.ref))
            elif each is kept[-1] or _words(each.text) != each.text:
                # A full draft above others is complete and stays unchanged.
                words = split(_words(each.text), LONGEST - len(GOES_ON_BELOW) - 1)[0]
                outgoing = without_previews(f"{words}\n{GOES_ON_BELOW}")
                await self._background.keep_trying(partial(self._channel.edit, each.ref, outgoing))
        for ref in refs:
            self._memory.remove_draft(ref)

    async def _orphaned(
        self, seen: Sequence[ReceivedMessage], refs: Collection[str], newest: int
    ) -> AsyncIterator[ReceivedMessage]:
        """Drafts without a turn; one without a status line is recognised by the draft before it."""
        is_after_another = False
        for each in seen:
            words = _words(each.text)
            below = each.text.removeprefix(words).strip().split("\n")[0]
            looks_so = _RUNNING.fullmatch(below) or (is_after_another and words)
            may_be = int(each.ref) <= newest and looks_so and not each.has_card
            is_one = each.is_ours and (each.ref in refs or may_be)
            is_orphaned = is_one and not await self._is_known(each.ref)
            if is_orphaned:
                yield each
            is_after_another = bool(is_orphaned and words)


def _is_said_below(draft: ReceivedMessage, seen: Sequence[ReceivedMessage]) -> bool:
    """Whether a later message repeats the whole draft: its answer was then sent anew."""
    words = _words(draft.text)
    below = (each for each in seen if each.is_ours and int(each.ref) > int(draft.ref))
    return any(each.text.startswith(words) for each in below)


def _words(text: str) -> str:
    """The text without the status lines at its end."""
    lines = text.rstrip().split("\n")
    while lines and is_small(lines[-1]):
        lines.pop()
    return "\n".join(lines).rstrip()
