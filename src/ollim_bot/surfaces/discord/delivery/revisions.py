"""Messages that have been delivered and are different now: buttons that were used, say."""

from __future__ import annotations

from typing import Generic, TypeVar

from ollim_bot.surfaces.discord.channel import Channel, Letter
from ollim_bot.surfaces.discord.errands import Errands

_REMEMBERED = 300

T = TypeVar("T")


class Recent(Generic[T]):
    """The newest few of many, by name."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._kept: dict[str, T] = {}

    def get(self, name: str) -> T | None:
        return self._kept.get(name)

    def put(self, name: str, value: T) -> None:
        self._kept.pop(name, None)
        self._kept[name] = value
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]


class Revisions:
    """Each message is brought to what was wanted of it last, one edit after the other.

    What stands there from an earlier life is not known, so it is edited once. A message that is
    gone is let go.
    """

    def __init__(self, channel: Channel, errands: Errands) -> None:
        self._channel = channel
        self._errands = errands
        self._shown: Recent[Letter] = Recent()
        self._wanted: dict[str, Letter] = {}

    def shown(self, ref: str, letter: Letter) -> None:
        """It was delivered so."""
        self._shown.put(ref, letter)

    def knows(self, ref: str) -> bool:
        """Whether it was delivered or changed, as far as anybody remembers."""
        return self._shown.get(ref) is not None

    def want(self, ref: str, letter: Letter) -> None:
        is_begun = ref in self._wanted
        self._wanted[ref] = letter
        if not is_begun:
            self._errands.send_off(self._revised(ref))

    async def _revised(self, ref: str) -> None:
        try:
            while (wanted := self._wanted[ref]) != self._shown.get(ref):
                if not await self._errands.is_done(lambda: self._edited(ref)):
                    self._shown.put(ref, wanted)
        finally:
            del self._wanted[ref]

    async def _edited(self, ref: str) -> None:
        """A try that comes late brings what is wanted by then."""
        letter = self._wanted[ref]
        await self._channel.edit(ref, letter)
        self._shown.put(ref, letter)
