"""A connection of the real discord.py to a local Discord, and a listener that records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from io import BytesIO
from typing import BinaryIO

import discord
from devtools.localdiscord.server import LocalDiscord
from discord.gateway import DiscordWebSocket
from discord.http import Route
from tests.virtual_loop import LoopClock

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.values.chat import Attachment
from ollim_bot.surfaces.discord.client import DiscordConnection, use_api_url
from ollim_bot.surfaces.discord.direct_messages import DirectMessages, LoggedInClient
from ollim_bot.surfaces.discord.errors import EditAllowance
from ollim_bot.surfaces.discord.rendering import ReceivedMessage


@contextmanager
def restored_addresses() -> Iterator[None]:
    """Restore the addresses of Discord in discord.py at the end of the context."""
    base, gateway = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    try:
        yield
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = base, gateway


@dataclass
class RecordingListener:
    """A `Listener` that records all events, and calls `has_heard` after each."""

    has_heard: Callable[[], None]
    ready_calls: list[tuple[LoggedInClient, bool]] = field(default_factory=list)
    resumes: int = 0
    messages: list[ReceivedMessage] = field(default_factory=list)
    edits: list[tuple[str, str]] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)
    reactions: list[tuple[str, str]] = field(default_factory=list)
    interactions: list[discord.Interaction] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    async def ready(self, session: LoggedInClient, *, is_first: bool) -> None:
        self.order.append("ready")
        self.ready_calls.append((session, is_first))
        self.has_heard()

    def disconnected(self) -> None:
        self.order.append("disconnected")
        self.has_heard()

    def resumed(self) -> None:
        self.resumes += 1
        self.has_heard()

    def message(self, message: ReceivedMessage) -> None:
        self.order.append(message.text)
        self.messages.append(message)
        self.has_heard()

    def edited(self, ref: str, text: str) -> None:
        self.edits.append((ref, text))
        self.has_heard()

    def deleted(self, ref: str) -> None:
        self.deletions.append(ref)
        self.has_heard()

    async def reaction(self, ref: str, emoji: str) -> None:
        self.reactions.append((ref, emoji))
        self.has_heard()

    async def interaction(self, interaction: discord.Interaction) -> None:
        self.interactions.append(interaction)
        await interaction.response.defer()
        self.has_heard()

    @property
    def words(self) -> list[str]:
        return [each.text for each in self.messages]


@dataclass
class ConnectionScene:
    """`files` has the contents of attachments by their paths."""

    local: LocalDiscord
    clock: Clock
    owner_id: int | None = None
    longest_silence: float = 60.0
    files: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.heard = RecordingListener(self.local.state.has_changed)
        self.allowance = EditAllowance(self.clock.monotonic)
        self.connection = self.connect()
        self.dm = self.channel(lambda: self.connection.session)

    def channel(self, session: Callable[[], LoggedInClient | None]) -> DirectMessages:
        return DirectMessages(session, self.allowance, self._opened)

    def connect(self, token: str | None = None) -> DiscordConnection:
        return DiscordConnection(
            token or self.local.token,
            self.owner_id,
            self.heard,
            self.allowance.trace(),
            self.longest_silence,
        )

    @asynccontextmanager
    async def served(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run the connection; the task may also end before the context does."""
        serving = asyncio.create_task(self.connection.run())
        serving.add_done_callback(lambda _: self.local.state.has_changed())
        try:
            await self.local.until(lambda: self.heard.ready_calls or serving.done())
            yield serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def _opened(self, attachment: Attachment) -> BinaryIO:
        if attachment.path not in self.files:
            raise FileNotFoundError(attachment.path)
        return BytesIO(self.files[attachment.path])


@asynccontextmanager
async def connection_scene(
    local: LocalDiscord, *, owner_id: int | None = None, longest_silence: float = 60.0
) -> AsyncIterator[ConnectionScene]:
    with restored_addresses():
        async with local:
            await use_api_url(local.api_url)
            yield ConnectionScene(local, LoopClock(UTC), owner_id, longest_silence)
