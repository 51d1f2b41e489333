"""The unmodified discord.py, connected to a local Discord."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import discord
import yarl
from devtools.localdiscord.server import LocalDiscord
from discord.gateway import DiscordWebSocket
from discord.http import Route


class RecordingClient(discord.Client):
    """Records all events in order. `own` has the messages of the bot itself, `heard` the others."""

    def __init__(self, *, heartbeat_timeout: float = 60.0) -> None:
        intents = discord.Intents.none()
        intents.dm_messages = True
        intents.dm_reactions = True
        super().__init__(
            intents=intents, guild_ready_timeout=0.01, heartbeat_timeout=heartbeat_timeout
        )
        self.heard: list[discord.Message] = []
        self.own: list[discord.Message] = []
        self.edits: list[discord.RawMessageUpdateEvent] = []
        self.deletions: list[discord.RawMessageDeleteEvent] = []
        self.reactions: list[discord.RawReactionActionEvent] = []
        self._news = asyncio.Event()
        self.interactions: asyncio.Queue[discord.Interaction] = asyncio.Queue()

    async def on_message(self, message: discord.Message) -> None:
        heard = self.own if message.author == self.user else self.heard
        heard.append(message)
        self._news.set()

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.append(event)
        self._news.set()

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.deletions.append(event)
        self._news.set()

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self.reactions.append(event)
        self._news.set()

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        self.reactions.append(event)
        self._news.set()

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.interactions.put_nowait(interaction)

    @property
    def texts(self) -> list[str]:
        return [each.content for each in self.heard]

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def dm(self, server: LocalDiscord) -> discord.DMChannel:
        return await self.create_dm(discord.Object(int(server.owner.id)))

    async def interaction(self) -> discord.Interaction:
        async with asyncio.timeout(60):
            return await self.interactions.get()


@contextmanager
def discord_py_connects_to(server: LocalDiscord) -> Iterator[None]:
    """discord.py has the addresses of Discord in two class constants; set and restore them."""
    base, gateway = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    Route.BASE = server.api_url
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(server.gateway_url)
    try:
        yield
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = base, gateway


@asynccontextmanager
async def connected_client(
    server: LocalDiscord, *, heartbeat_timeout: float = 60.0
) -> AsyncIterator[RecordingClient]:
    """A client that is connected and ready."""
    client = RecordingClient(heartbeat_timeout=heartbeat_timeout)
    with discord_py_connects_to(server):
        running = asyncio.create_task(client.start(server.token))
        try:
            async with asyncio.timeout(60):
                await server.connected()
                await client.wait_until_ready()
            yield client
        finally:
            await client.close()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, discord.DiscordException):
                await running
