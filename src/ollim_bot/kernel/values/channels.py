"""The base of channels that only send, such as push messages on a phone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime

from ollim_bot.kernel.base.errors import DeliveryUncertain
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.ports import Channel, ChatService, MessagePart, Status, TurnStart

_NOT_SEARCHED = "What has arrived there cannot be looked up."


class PushChannel(Channel):
    """A channel without drafts, edits and look-ups: it needs a `name` and `deliver`.

    It sends everything but the owner's own words. A message that may have arrived is given up and
    reported, because nothing can be looked up; a service that can tell overrides `find`.
    """

    def is_set_up(self) -> bool:
        """Whether there is somewhere to send to; without, nothing waits to be sent."""
        return True

    async def run(self, service: ChatService) -> None:  # noqa: ARG002
        await asyncio.Event().wait()

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Show nothing: the answer comes as a message."""

    async def changed(self, status: Status) -> None:
        """Show no status."""

    async def connected(self) -> str:
        return self.name

    def concerns(self, message: ChatMessage) -> bool:
        return message.author is not Author.OWNER

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return (message,)

    async def take_drafts(
        self,
        message: ChatMessage,  # noqa: ARG002
        parts: Sequence[ChatMessage],  # noqa: ARG002
    ) -> Sequence[str]:
        return ()

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:  # noqa: ARG002
        raise DeliveryUncertain(_NOT_SEARCHED)

    async def edit(self, ref: str, content: ChatMessage) -> None:
        """Leave what was sent as it is."""

    def discard(self, refs: Sequence[str]) -> None:
        """There are no drafts."""

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        """Keep nothing of a delivery."""
