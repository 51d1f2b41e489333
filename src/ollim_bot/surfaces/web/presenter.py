"""Shows messages and running turns on the page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from html import escape
from itertools import pairwise

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import (
    Activity,
    AgentEvent,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
)
from ollim_bot.kernel.values.ports import ChatService, TurnStart
from ollim_bot.surfaces.web.frames import (
    Json,
    activity_json,
    block_starts,
    card_json,
    draft_frame,
    message_json,
    render,
)

# Drafts are rendered on the event loop; this takes a tenth of a second at most.
_MOST_WORK = 20_000
# A whole message is rendered in a thread, which takes a second at most.
_MOST_WORK_OF_ALL = 300_000
# The rendering cost of a character relative to a letter.
_WORK_OF_SIGNS = {"[": 30, "*": 4, "_": 4, "~": 4, "<": 4, "&": 4, "|": 8, "\n": 16}


_NEWLINE = re.compile("\r\n?|\n")
_PACE = 0.05
# A long list is one block and is rendered again for each draft, so it is drawn less often.
_SHARE_OF_TIME = 5


@dataclass(frozen=True, slots=True)
class HtmlDraft:
    """A growing text: `blocks` is HTML that later text cannot change, `rest` is text.

    Blocks and tail together are always the HTML of the whole text. A rest that would take too long
    to render is shown as plain text, until the message replaces the draft.
    """

    blocks: tuple[str, ...] = ()
    rest: str = ""

    def settled(self) -> HtmlDraft:
        """Move the blocks out of the rest that later text cannot change.

        The last block may always continue. A line counts only when it has ended: `***` ends a
        paragraph, but `***word***` continues it.
        """
        if not _NEWLINE.search(self.rest) or is_much_work(self.rest):
            return self
        # A carriage return at the end may be half of a newline.
        held_back = "\r" if self.rest.endswith("\r") else ""
        text = _NEWLINE.sub("\n", self.rest.removesuffix("\r"))
        end = text.rfind("\n") + 1
        *done, last = _sources(text[:end])
        if not done:
            return self
        blocks = (*self.blocks, *map(render, done))
        return HtmlDraft(blocks, last + text[end:] + held_back)

    def tail(self) -> str:
        return _as_written(self.rest) if is_much_work(self.rest) else render(self.rest)


def is_much_work(text: str, most: int = _MOST_WORK) -> bool:
    """Whether rendering the text takes more work; usually, more than the event loop can wait."""
    lines = text.replace("\r", "\n")
    signs = sum(work * lines.count(sign) for sign, work in _WORK_OF_SIGNS.items())
    return len(text) + signs > most


def _as_written(text: str) -> str:
    lines = escape(text.rstrip().encode("utf-8", "replace").decode()).splitlines()
    return f"<p>{'<br>'.join(lines)}</p>\n"


def _sources(text: str) -> list[str]:
    """The text of each block, with the gap before the next one; at least one."""
    lines = [f"{line}\n" for line in text.split("\n")[:-1]]
    bounds = [0, *block_starts(text)[1:], len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class LiveHtml:
    """`done` is the HTML of the completed pieces of the answer; `draft` is the next one."""

    done: tuple[str, ...] = ()
    streamed: str = ""
    draft: HtmlDraft = field(default_factory=HtmlDraft)
    activity: Activity = field(default_factory=Activity)

    def after(self, event: AgentEvent) -> LiveHtml:
        live = replace(self, activity=self.activity.after(event))
        match event:
            case TextStreamed(text=text):
                draft = replace(self.draft, rest=self.draft.rest + text)
                return replace(live, streamed=self.streamed + text, draft=draft)
            case TextWithdrawn():
                return replace(live, streamed="", draft=HtmlDraft())
            case TextCompleted(text=text):
                whole = (self.draft if text == self.streamed else HtmlDraft(rest=text)).settled()
                done = (*self.done, *whole.blocks, whole.tail())
                return replace(live, done=done, streamed="", draft=HtmlDraft())
            case _:
                return live

    def settled(self) -> LiveHtml:
        draft = self.draft.settled()
        return self if draft is self.draft else replace(self, draft=draft)

    @property
    def blocks(self) -> tuple[str, ...]:
        return (*self.done, *self.draft.blocks)


class WebPresenter:
    def __init__(self, clock: Clock, send: Callable[[Json], None]) -> None:
        self._clock = clock
        self._send = send
        self._shown: _Shown | None = None

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        if self._shown is not None:
            self._end(self._shown)
        shown = self._shown = _Shown(start, self._clock.monotonic())
        self._send({"type": "turn", "live": shown.json(self._clock.monotonic())})
        drawing = asyncio.create_task(self._draw_paced(shown))
        try:
            async for event in events:
                shown.take(event, self._clock.now())
            self._draw(shown)
        finally:
            drawing.cancel()
            self._end(shown)
            await asyncio.gather(drawing, return_exceptions=True)

    def answered(self, message: ChatMessage) -> None:
        """End the drafts of a turn whose answer was posted."""
        is_answer = message.author is Author.ASSISTANT
        if is_answer and self._shown and self._shown.start.turn == message.turn:
            self._shown = None

    def live(self) -> Json | None:
        """The running turn, for a tab that opens now."""
        return None if self._shown is None else self._shown.json(self._clock.monotonic())

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
        self._send({"type": "ended", "turn": shown.start.turn})


@dataclass(slots=True)
class _Shown:
    """A turn: its events so far, and which of them were drawn."""

    start: TurnStart
    _began: float
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_ended: bool = False
    _first_words: datetime | None = None
    _live: LiveHtml = field(default_factory=LiveHtml)
    _drawn: LiveHtml = field(default_factory=LiveHtml)
    _blocks: tuple[str, ...] = ()
    _tail: str = ""

    def take(self, event: AgentEvent, now: datetime) -> None:
        if self._first_words is None and isinstance(event, TextStreamed | TextCompleted):
            self._first_words = now
        self._live = self._live.after(event)
        self.news.set()

    def frames(self) -> Iterator[Json]:
        """The frames that bring a tab from the last drawing up to date."""
        self.news.clear()
        before, self._drawn = self._drawn, self._live.settled()
        self._live = self._drawn
        if self._drawn.activity != before.activity:
            activity = activity_json(self._drawn.activity)
            yield {"type": "activity", "turn": self.start.turn, **activity}
        if (self._drawn.done, self._drawn.draft) != (before.done, before.draft):
            blocks, tail = self._drawn.blocks, self._drawn.draft.tail()
            yield draft_frame(self.start.turn, self._first_words, self._blocks, blocks, tail)
            self._blocks, self._tail = blocks, tail

    def json(self, now: float) -> Json:
        """The last drawing; the next frames continue from it."""
        return {
            "turn": self.start.turn,
            "elapsed": round(now - self._began, 1),
            "began": self._first_words.isoformat() if self._first_words else None,
            "blocks": list(self._blocks),
            "tail": self._tail,
            **activity_json(self._drawn.activity),
        }


# Longer texts are rendered in a thread: they would block the event loop.
_LONG = 2000


class RenderedMessages:
    def __init__(self, reception: ChatService, kept: int = 300) -> None:
        self._reception = reception
        self._most = kept
        self._kept: dict[MessageId, tuple[ChatMessage, Json]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def shown(self, messages: Sequence[ChatMessage]) -> list[Json]:
        near, all_shown = {message.id: message for message in messages}, []
        for message in messages:
            known, shown = self._kept.pop(message.id, (None, {}))
            if known != message:
                # The text of a card is its plain form and would be shown twice.
                html = "" if message.card else await rendered(message.text)
                card = None
                if message.card is not None:
                    is_long = len(message.card.text) >= _LONG
                    draw = partial(card_json, message.card)
                    card = await asyncio.to_thread(draw) if is_long else draw()
                replied_to = near.get(message.reply_to) if message.reply_to else None
                if message.reply_to and replied_to is None:
                    replied_to = await self._found(message.reply_to)
                shown = message_json(message, html, card, replied_to)
            self._kept[message.id] = (message, shown)
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
            all_shown.append(shown)
        return all_shown

    async def _found(self, message_id: MessageId) -> ChatMessage | None:
        kept, _ = self._kept.get(message_id, (None, {}))
        with suppress(OllimError):  # a message without its quote is better than none
            return kept or await self._reception.message(message_id)
        return None


async def rendered(text: str) -> str:
    """The text as HTML; one that would take long stands as it was written."""
    if is_much_work(text, _MOST_WORK_OF_ALL):
        return _as_written(text)
    return render(text) if len(text) < _LONG else await asyncio.to_thread(render, text)
