"""The whole Discord surface and conversation, connected to a local Discord."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.repeating_store import RepeatingStore
from devtools.localdiscord.server import LocalDiscord
from tests.kernel.conversation.scene import NOW, conversation_deps, messages_of
from tests.stores import Stores, memory_stores
from tests.surfaces.discord.connection_scene import restored_addresses

from ollim_bot.app.build import ConversationParts
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.conversation.conversation import Conversation
from ollim_bot.kernel.values.chat import Attachment, ChatMessage
from ollim_bot.kernel.values.surface_state import DiscordState
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

SECONDS = 180.0
_PLENTY = 100_000


@dataclass
class RunningBot:
    """One run of the bot; `running` are its tasks."""

    talk: ConversationParts
    chat: Conversation
    surface: DiscordSurface
    serving: asyncio.Task[None]
    running: list[asyncio.Task[Any]] = field(default_factory=list)

    async def stop(self) -> None:
        """Stop in the order of the app: first the surface, then the conversation."""
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.talk.forks.close()


class SurfaceScene:
    """Everything that survives a restart. Time passes only in `until`."""

    def __init__(self, local: LocalDiscord, clock: ManualClock, folder: Path) -> None:
        self.local = local
        self.clock = clock
        self.folder = folder
        self.engine = ScriptedEngine(clock)
        self.stores: Stores = memory_stores(clock.now)
        self.store = self.stores.state
        assert isinstance(self.store, RepeatingStore)
        self.disk = self.store

    @asynccontextmanager
    async def started(self) -> AsyncIterator[RunningBot]:
        account = Account(Secret(self.local.token), api_url=self.local.api_url)
        surface = DiscordSurface(account, self.stores.state, opened, self.folder, self.clock)
        deps = conversation_deps(self.engine, self.stores, self.clock, [], channels=[surface])
        talk = ConversationParts(deps)
        await talk.load()
        chat = talk.conversation
        serving = asyncio.create_task(surface.run(chat))
        parts = (talk.loop, talk.notices, talk.deliveries, talk.failures, talk.fanout)
        running: list[asyncio.Task[Any]] = [asyncio.create_task(each.run()) for each in parts]
        bot = RunningBot(talk, chat, surface, serving, running)
        try:
            await self.until(lambda: self.local.gateway.listeners)
            yield bot
        finally:
            await bot.stop()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for the condition; two real milliseconds are a tenth of a second on our clock."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.clock.advance(0.1)
                await asyncio.sleep(0.002)

    async def ask(self, bot: RunningBot, text: str, answer: str) -> None:
        """Say something, and wait until the answer was delivered and nothing is left to do."""
        self.engine.answers(answer)
        asked = self.local.say(text)
        await self.until(lambda: any(each.id == f"discord-{asked}" for each in self.log))
        await self.quiet(bot)

    async def quiet(self, bot: RunningBot) -> None:
        """Wait until no turn and no delivery is open, and no draft and no reaction is left."""
        await self.until(lambda: bot.talk.state.is_quiet and not self.left)

    @property
    def left(self) -> list[object]:
        edit = self.store.run(lambda tx: tx.deliveries.next_edit("discord"))
        return [
            *self.store.run(lambda tx: tx.deliveries.open("discord", 100)),
            *([edit] if edit else []),
            *self.drafts,
            *(each for each in self.local.messages if any(each.reactions.values())),
        ]

    @property
    def drafts(self) -> tuple[str, ...]:
        """The open drafts, which the bot would close at its next start."""
        state: DiscordState = self.stores.state.query(lambda tx: tx.discord.get())
        return state.drafts

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def refs(self) -> list[str]:
        """The ids on Discord of all messages of the log, in its order."""
        return list(self.store.run(lambda tx: tx.deliveries.known_refs("discord", 10_000)))


def opened(_: Attachment) -> BinaryIO:
    return BytesIO(b"content")


@asynccontextmanager
async def surface_scene(folder: Path) -> AsyncIterator[SurfaceScene]:
    """A scene whose Discord has no rate limits that a test could reach."""
    clock = ManualClock(NOW)
    with restored_addresses():
        async with LocalDiscord(now=clock.now, monotonic=clock.monotonic) as local:
            local.allowance(_PLENTY, 1.0, of=("send", "edit", "delete", "react", "global"))
            yield SurfaceScene(local, clock, folder)
