"""The draft text of a running turn, with the lines that say what it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.values.events import (
    THINKING,
    Activity,
    AgentEvent,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolLine,
    ToolState,
)
from ollim_bot.surfaces.discord.background_tasks import FIRST_PAUSE, RecentValues
from ollim_bot.surfaces.discord.rendering import (
    FORK,
    DmChannel,
    ReceivedMessage,
    one_line,
    small,
    without_markup,
)
from ollim_bot.surfaces.discord.split import (
    LONGEST,
    LONGEST_SHOWN,
    MOST_PIECES,
    is_too_long,
    split,
    with_tables,
)

WORKING = "Working…"
GOES_ON_LATER = small("The rest comes as a file.")

_MOST_LINES = 4
_LONGEST_LABEL = 112


@dataclass(frozen=True, slots=True)
class LiveText:
    """The events of a turn so far, folded.

    `whole` is the completed text, `text` also has what streams after it: the same words as in the
    final answer, as far as messages can show them.
    """

    whole: str = ""
    text: str = ""
    is_streaming: bool = False
    activity: Activity = field(default_factory=Activity)

    def after(self, event: AgentEvent) -> LiveText:
        live = replace(self, activity=self.activity.after(event))
        match event:
            case TextStreamed(text=text):
                if live.is_streaming:
                    return replace(live, text=_limited(live.text + text))
                begin = text.lstrip()
                return replace(live, text=_followed(live.whole, begin), is_streaming=bool(begin))
            case TextWithdrawn():
                return replace(live, text=live.whole, is_streaming=False)
            case TextCompleted(text=text):
                whole = _followed(live.whole, text.strip())
                return replace(live, whole=whole, text=whole, is_streaming=False)
            case _:
                return live

    @property
    def shown(self) -> tuple[str, ...]:
        """The text in pieces of 2000 characters at most, with its tables drawn."""
        shown = split(with_tables(self.text[:LONGEST_SHOWN]))
        if not is_too_long(self.text, shown):
            return shown
        return (*shown[: MOST_PIECES - 1], GOES_ON_LATER)


def pieces(
    live: LiveText,
    elapsed_seconds: float,
    in_fork: bool = False,
    careful: str = "",
    text: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """What each draft shows now, of 2000 characters at most; at least one.

    `text` replaces the text of `live`, in pieces.
    """
    *before, last = (live.shown if text is None else text) or ("",)
    # The phase in words; empty while the growing text itself shows progress.
    if live.activity.phase:
        phase = live.activity.phase
    elif any(line.state is ToolState.RUNNING for line in live.activity.tools):
        phase = WORKING
    else:
        phase = THINKING if not last else ""
    since = "" if elapsed_seconds < 1 else f" ({elapsed(elapsed_seconds)})"
    head = [small(f"{phase}{since}")] if phase else []
    foot = [small(without_markup(one_line(careful, 160)))] if careful else []
    foot += [small(FORK)] if in_fork else []
    # The last notes and tools; running tools come before finished ones.
    activity = live.activity
    notes = [without_markup(one_line(note, _LONGEST_LABEL)) for note in activity.notes[-2:]]
    numbered = [*enumerate(activity.tools)]
    numbered.sort(key=lambda each: (each[1].state is ToolState.RUNNING, each[0]))
    tools = [_tool(line) for _, line in sorted(numbered[-(_MOST_LINES - len(notes)) :])]
    return (*before, *_with_block(last, head, [*map(small, [*notes, *tools])], foot))


def elapsed(seconds: float) -> str:
    """`3s`, `1m 05s`, `2h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def _followed(before: str, text: str) -> str:
    return _limited("\n\n".join(filter(None, (before, text))))


def _limited(text: str) -> str:
    """Enough of the text to see whether it is too long."""
    return text[: LONGEST_SHOWN + 1]


def _with_block(
    text: str, head: Sequence[str], details: Sequence[str], foot: Sequence[str]
) -> Iterator[str]:
    """The text with the lines below it: as many details as fit, and head and foot always.

    If head and foot do not fit, the lines become a draft of their own.
    """
    for begin in range(len(details) + 1):
        lines = [text, *head, *details[begin:], *foot] if text else [*head, *details[begin:], *foot]
        shown = "\n".join(lines)
        if len(shown) <= LONGEST:
            yield shown
            return
    yield text
    yield from _with_block("", head, details, foot)


def _tool(line: ToolLine) -> str:
    label = without_markup(one_line(line.label, _LONGEST_LABEL))
    reason = without_markup(one_line(line.reason, 100))
    match line.state:
        case ToolState.RUNNING:
            return f"{label} …"
        case ToolState.DONE:
            return f"{label} ✓"
        case ToolState.REFUSED:
            return f"~~{label}~~ {reason}".rstrip()
        case ToolState.FAILED:
            return f"{label} failed: {reason}" if reason else f"{label} failed"


EYES = "👀"

# Discord accepts one reaction in a quarter of a second: more of them would follow the answers.
_MOST_WANTED = 5

_logger = logging.getLogger(__name__)


class PendingReaction:
    """Sets and removes the reaction, best effort; every method but `run` returns at once.

    Removing is tried without end, setting only once.
    """

    def __init__(self, channel: DmChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._wanted: dict[str, None] = {}
        # Reactions that are set, or may be.
        self._shown: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        self._over: RecentValues[None] = RecentValues(500)
        self._is_refused = False
        self._work = asyncio.Event()

    def open(self, ref: str) -> None:
        """Request the reaction, for a few of the newest messages and no answered one."""
        if self._is_refused or ref in self._over or ref in self._shown:
            return
        self._wanted[ref] = None
        while len(self._wanted) > _MOST_WANTED:
            del self._wanted[next(iter(self._wanted))]
        self._work.set()

    def adopt(self, refs: Iterable[str]) -> None:
        """Register reactions that an earlier run of the bot has set."""
        self._shown.update((ref, None) for ref in refs if ref not in self._leaving)

    def close(self, refs: Iterable[str]) -> None:
        """Remove the reaction of answered messages; one that is not set yet is never set."""
        for ref in tuple(refs):
            self._end(ref)
            if ref in self._shown:
                self._leaving[ref] = None
        self._work.set()

    def close_all(self) -> None:
        """Remove all reactions, because no message waits."""
        self.close((*self._wanted, *self._shown))

    def forget(self, ref: str) -> None:
        """Forget the reaction of a deleted message."""
        self._end(ref)
        self._drop(ref)

    async def run(self) -> None:
        """Run until cancelled; a second run continues where the first stopped."""
        while True:
            self._work.clear()
            while self._leaving or self._wanted:
                if self._leaving:
                    await self._take_away(next(iter(self._leaving)))
                else:
                    await self._set(next(iter(self._wanted)))
            await self._work.wait()

    def _end(self, ref: str) -> None:
        self._wanted.pop(ref, None)
        self._over.put(ref, None)

    def _drop(self, ref: str) -> None:
        self._shown.pop(ref, None)
        self._leaving.pop(ref, None)

    async def _set(self, ref: str) -> None:
        """Try once: what Discord asks to try again, discord.py does."""
        del self._wanted[ref]
        self._shown[ref] = None
        try:
            await self._channel.mark(ref, EYES)
        except DeliveryUncertain as lost:
            _logger.debug("A message may be marked: %s", lost)
        except Unreachable as silent:
            _logger.debug("A message could not be marked: %s", silent)
            self._drop(ref)
        except DeliveryFailed as refused:
            self._drop(ref)
            newest: Sequence[ReceivedMessage] = ()
            with suppress(Unreachable):
                newest = await self._channel.newest(100)
            # Use no reactions if Discord refuses one on a message that still exists.
            if any(seen.ref == ref for seen in newest):
                _logger.warning("Discord lets no message be marked: %s", refused)
                self._is_refused = True
                self._wanted.clear()

    async def _take_away(self, ref: str) -> None:
        async for _ in Backoff(self._clock, FIRST_PAUSE, 60.0):
            if ref not in self._leaving:
                return
            try:
                await self._channel.unmark(ref, EYES)
            except (Unreachable, DeliveryUncertain) as silent:
                _logger.debug("A mark could not be taken away: %s", silent)
                continue
            except DeliveryFailed as refused:
                _logger.info("A mark cannot be taken away: %s", refused)
            self._drop(ref)
            return
