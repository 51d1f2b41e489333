"""An owner who clicks and types on a local Discord, the real client, and a controlled core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import discord
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.localdiscord.server import LocalDiscord
from tests.slash_commands import COMMANDS
from tests.surfaces.discord.connection_scene import restored_addresses

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, CommandSpec
from ollim_bot.surfaces.discord.client import use_api_url
from ollim_bot.surfaces.discord.interactions import COMPLETION_SECONDS, InteractionRouter, sync
from ollim_bot.surfaces.discord.translation import view_of

SUNDAY = datetime(2026, 11, 15, 12, tzinfo=UTC)


class FakeCore(FakeReception):
    """A reception with the real commands. Every call raises `fault`, if there is one. While
    `may_propose` is cleared, completions hang."""

    def __init__(self, folder: Path) -> None:
        super().__init__(ManualClock(SUNDAY), folder)
        self.fault: Exception | None = None
        self.proposed: Sequence[str] | None = None
        self.may_propose = asyncio.Event()
        self.may_propose.set()

    @property
    def commands(self) -> Sequence[CommandSpec]:
        return COMMANDS

    async def command(self, surface: str, line: str) -> CommandAnswer:
        self._check()
        return await super().command(surface, line)

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        self._check()
        return await super().click(surface, message_id, custom_id, words)

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        self._check()
        await self.may_propose.wait()
        if self.proposed is not None:
            return self.proposed
        return await super().completions(command, argument, typed)

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault


class InteractionClient(discord.Client):
    def __init__(self, interactions: InteractionRouter) -> None:
        super().__init__(intents=discord.Intents.none(), guild_ready_timeout=0.05)
        self._interactions = interactions

    async def on_interaction(self, asked: discord.Interaction) -> None:
        await self._interactions.arrived(asked)


class InteractionScene:
    """`late` is by how many seconds Discord's clock is ahead. `told` has what was sent to the owner
    as a message because it could not be sent as an answer."""

    def __init__(self, folder: Path) -> None:
        self.late = 0.0
        self.completion_seconds = COMPLETION_SECONDS
        self.told: list[str] = []
        self.core = FakeCore(folder)
        self.discord = LocalDiscord(monotonic=lambda: asyncio.get_running_loop().time() + self.late)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[InteractionClient]:
        client = InteractionClient(
            InteractionRouter(self.core, self._tell, completion_seconds=self.completion_seconds)
        )
        async with client:
            await client.login(self.discord.token)
            serving = asyncio.create_task(client.connect())
            await self.discord.connected()
            yield client
        await serving
        await self.discord.until(lambda: not self.discord.gateway.listeners)

    async def put_menu(self, client: discord.Client, *more: CommandSpec) -> None:
        specs = [*COMMANDS, *more]
        await sync(client, specs, ManualClock(SUNDAY), None, lambda _: None)

    async def show(self, client: discord.Client, card: Card) -> tuple[str, ChatMessage]:
        """Post a message with buttons that the core knows; gives its id on Discord too."""
        channel = await client.create_dm(discord.Object(int(self.discord.owner.id)))
        view = view_of(card.buttons)
        assert view is not None
        sent = await channel.send(embed=discord.Embed(title=card.title), view=view)
        message = await self.core.say("", card=card)
        self.core.show_on("discord", str(sent.id), message.id)
        return str(sent.id), message

    async def _tell(self, text: str) -> None:
        self.told.append(text)


@asynccontextmanager
async def interaction_scene(folder: Path) -> AsyncIterator[InteractionScene]:
    scene = InteractionScene(folder)
    with restored_addresses():
        async with scene.discord:
            await use_api_url(scene.discord.api_url)
            yield scene
