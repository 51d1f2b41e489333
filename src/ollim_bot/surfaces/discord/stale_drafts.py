"""Removes drafts that a crash left behind."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.drafts import DraftMemory
from ollim_bot.surfaces.discord.messages import DmChannel, ReceivedMessage, without_previews
from ollim_bot.surfaces.discord.rendering import is_small, small
from ollim_bot.surfaces.discord.split import LONGEST, split

GOES_ON_BELOW = small("cut off here; it goes on below")

# The status line of a running turn: `Thinking…`, `Working… (1m 05s)`.
_RUNNING = re.compile(r"-# (Thinking|Working|Compacting|Retrying \(\d+ of \d+\))…( \([\dhms ]+\))?")
_LOOK_BACK = 50

IsKnown = Callable[[str], Awaitable[bool]]


class StaleDrafts:
    """Closes drafts. `is_known` tells whether a message is in the log.

    `caught_up` returns when every open delivery has arrived or was given up.
    """

    def __init__(
        self,
        channel: DmChannel,
        background: BackgroundTasks,
        memory: DraftMemory,
        caught_up: Callable[[], Awaitable[None]],
        is_known: IsKnown,
    ) -> None:
        self._channel = channel
        self._background = background
        self._memory = memory
        self._caught_up = caught_up
        self._is_known = is_known

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
            seen[:] = await self._seen(refs)

        await self._background.keep_trying(look)
        there = [each async for each in self._orphaned(seen, refs, newest)]
        kept = [each for each in there if _words(each.text) and not _is_said_below(each, seen)]
        for each in there:
            if each not in kept:
                await self._take_away(each.ref)
            elif each is kept[-1] or _words(each.text) != each.text:
                # A full draft above others is complete and stays unchanged.
                await self._say_where_it_ends(each)
        for ref in refs:
            self._memory.remove_draft(ref)

    async def _seen(self, refs: Collection[str]) -> Sequence[ReceivedMessage]:
        newest = await self._channel.newest(_LOOK_BACK)
        oldest = min((int(ref) for ref in refs), default=None)
        if oldest is None or not newest or int(newest[0].ref) <= oldest:
            return newest
        return await self._channel.after(str(oldest - 1))

    async def _orphaned(
        self, seen: Sequence[ReceivedMessage], refs: Collection[str], newest: int
    ) -> AsyncIterator[ReceivedMessage]:
        """Drafts without a turn; one without a status line is recognised by the draft before it."""
        is_after_another = False
        for each in seen:
            looks_so = _is_running(each.text) or (is_after_another and bool(_words(each.text)))
            may_be = int(each.ref) <= newest and looks_so and not each.has_card
            is_one = each.is_ours and (each.ref in refs or may_be)
            if is_one and not await self._is_known(each.ref):
                yield each
                is_after_another = bool(_words(each.text))
            else:
                is_after_another = False

    async def _take_away(self, ref: str) -> None:
        await self._background.keep_trying(lambda: self._channel.delete(ref))

    async def _say_where_it_ends(self, seen: ReceivedMessage) -> None:
        words = split(_words(seen.text), LONGEST - len(GOES_ON_BELOW) - 1)[0]
        outgoing = without_previews(f"{words}\n{GOES_ON_BELOW}")
        await self._background.keep_trying(lambda: self._channel.edit(seen.ref, outgoing))


def _is_said_below(draft: ReceivedMessage, seen: Sequence[ReceivedMessage]) -> bool:
    """Whether a later message repeats the whole draft: its answer was then sent anew."""
    words = _words(draft.text)
    below = (each for each in seen if each.is_ours and int(each.ref) > int(draft.ref))
    return any(each.text.startswith(words) for each in below)


def _is_running(text: str) -> bool:
    below = text.removeprefix(_words(text)).strip().split("\n")
    return _RUNNING.fullmatch(below[0]) is not None


def _words(text: str) -> str:
    """The text without the status lines at its end."""
    lines = text.rstrip().split("\n")
    while lines and is_small(lines[-1]):
        lines.pop()
    return "\n".join(lines).rstrip()
