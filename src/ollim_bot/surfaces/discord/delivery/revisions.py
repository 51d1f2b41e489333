"""Messages that have been delivered and are different now: buttons that were used, say."""

from __future__ import annotations

from ollim_bot.surfaces.discord.channel import Channel, Letter
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.recent import Recent


class Revisions:
    """Edits each message until it shows what was wanted last, one edit at a time.

    What a message from before the last start shows is not known, so it is edited once. A message
    that is gone is left alone.
    """

    def __init__(self, channel: Channel, errands: Errands) -> None:
        self._channel = channel
        self._errands = errands
        self._shown: Recent[Letter] = Recent()
        self._wanted: dict[str, Letter] = {}

    def shown(self, ref: str, letter: Letter) -> None:
        """It was delivered like this."""
        self._shown.put(ref, letter)

    def knows(self, ref: str) -> bool:
        """Whether it was delivered or changed, as far as anybody remembers."""
        return ref in self._shown

    def want(self, ref: str, letter: Letter) -> None:
        is_begun = ref in self._wanted
        self._wanted[ref] = letter
        if not is_begun:
            self._errands.send_off(self._revised(ref))

    async def _revised(self, ref: str) -> None:
        try:
            while (wanted := self._wanted[ref]) != self._shown.get(ref):
                if not await self._errands.keep_trying(lambda: self._edited(ref)):
                    self._shown.put(ref, wanted)
        finally:
            del self._wanted[ref]

    async def _edited(self, ref: str) -> None:
        """A try that comes late brings what is wanted by then."""
        letter = self._wanted[ref]
        await self._channel.edit(ref, letter)
        self._shown.put(ref, letter)
