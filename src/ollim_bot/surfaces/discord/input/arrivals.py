"""The owner's messages that are not accepted yet, in the order in which they were written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ollim_bot.surfaces.discord.channel import Seen
from ollim_bot.surfaces.discord.recent import Recent

_REMEMBERED = 1000


@dataclass(slots=True)
class Arrival:
    """`seen` is the message as it stands there now, however it stood when it came."""

    seen: Seen
    is_deleted: bool = False


class Arrivals:
    """A line of messages, each once, however often it comes. The first stays until it is `done`.

    While the line is held, since earlier messages are being looked for, what comes waits apart.
    """

    def __init__(self) -> None:
        self._line: list[Arrival] = []
        self._apart: list[Arrival] = []
        # The newest text of each message that has come, by its id.
        self._known: Recent[str] = Recent(_REMEMBERED)
        # Changes while it is held, since what is found may be from before them; None if deleted.
        self._meanwhile: dict[str, str | None] = {}
        self._is_held = False
        self._is_filled = asyncio.Event()

    def knows(self, ref: str) -> bool:
        """Whether it has come, as far as anybody remembers."""
        return ref in self._known

    def add(self, seen: Seen) -> None:
        if self.knows(seen.ref):
            return
        self._known.put(seen.ref, seen.text)
        (self._apart if self._is_held else self._line).append(Arrival(seen))
        self._is_filled.set()

    def hold(self) -> None:
        self._is_held = True

    def release(self, found: Iterable[Seen] = ()) -> None:
        """`found` are those that were looked for; they stand before all that came meanwhile."""
        new = [Arrival(self._as_it_is_now(each)) for each in found if not self.knows(each.ref)]
        for each in new:
            each.is_deleted = self._meanwhile.get(each.seen.ref, "") is None
            self._known.put(each.seen.ref, each.seen.text)
        self._line += sorted((*new, *self._apart), key=lambda each: int(each.seen.ref))
        self._apart.clear()
        self._meanwhile.clear()
        self._is_held = False
        self._is_filled.set()

    def edit(self, ref: str, text: str) -> bool:
        """False if it says that already, as when Discord has only added a preview."""
        if self._known.get(ref) == text:
            return False
        if self._is_held:
            self._meanwhile[ref] = text
        if self.knows(ref):
            self._known.put(ref, text)
        for each in self._all_of(ref):
            each.seen = replace(each.seen, text=text)
        return True

    def delete(self, ref: str) -> None:
        if self._is_held:
            self._meanwhile[ref] = None
        for each in self._all_of(ref):
            each.is_deleted = True

    async def first(self) -> Arrival:
        while not self._line:
            self._is_filled.clear()
            await self._is_filled.wait()
        return self._line[0]

    def done(self) -> None:
        self._line.pop(0)

    def __contains__(self, ref: str) -> bool:
        return bool(self._all_of(ref))

    def _all_of(self, ref: str) -> list[Arrival]:
        return [each for each in (*self._line, *self._apart) if each.seen.ref == ref]

    def _as_it_is_now(self, seen: Seen) -> Seen:
        return replace(seen, text=self._meanwhile.get(seen.ref) or seen.text)
