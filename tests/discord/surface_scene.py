"""The whole surface on a Discord on loopback, with the whole conversation behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from devtools.localdiscord.server import LocalDiscord
from tests.conversation.scene import NOW, conversation_deps, messages_of
from tests.discord.connection_scene import usual_addresses
from tests.stores import Stores, memory_stores

from ollim_bot.app.build import (
    ConversationParts,
    build_conversation,
)
from ollim_bot.conversation.conversation import Conversation
from ollim_bot.domain.chat import Attachment, ChatMessage
from ollim_bot.domain.surface_state import DiscordState
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine
from ollim_bot.testing.repeating_store import RepeatingStore

SECONDS = 60.0
_PLENTY = 100_000


@dataclass
class Life:
    """One life of the program; `running` are the tasks that it consists of."""

    talk: ConversationParts
    chat: Conversation
    surface: DiscordSurface
    serving: asyncio.Task[None]
    running: list[asyncio.Task[Any]] = field(default_factory=list)

    async def stop(self) -> None:
        """As the app does it: the surfaces first, and then what is behind them."""
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.talk.forks.close()


class World:
    """What stays when the program dies. Time passes only while something is waited for."""

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
    async def life(self) -> AsyncIterator[Life]:
        account = Account(Secret(self.local.token), api_url=self.local.api_url)
        surface = DiscordSurface(account, self.stores.state, opened, self.folder, self.clock)
        deps = conversation_deps(self.engine, self.stores, self.clock, [], channels=[surface])
        talk = build_conversation(deps)
        await talk.load()
        chat = talk.conversation
        serving = asyncio.create_task(surface.run(chat))
        parts = (talk.loop, talk.notices, talk.deliveries, talk.failures, talk.fanout)
        running: list[asyncio.Task[Any]] = [asyncio.create_task(each.run()) for each in parts]
        life = Life(talk, chat, surface, serving, running)
        try:
            await self.until(lambda: self.local.gateway.listeners)
            yield life
        finally:
            await life.stop()

    async def until(self, condition: Callable[[], object]) -> None:
        """A real moment is a tenth of a second by our clock, so that pauses are short."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.clock.advance(0.1)
                await asyncio.sleep(0.002)

    async def ask(self, life: Life, text: str, answer: str) -> None:
        """Say something, and wait until the answer stands there and all is quiet."""
        self.engine.answers(answer)
        asked = self.local.say(text)
        await self.until(lambda: any(each.id == f"discord-{asked}" for each in self.log))
        await self.quiet(life)

    async def quiet(self, life: Life) -> None:
        """Nothing runs, nothing is on its way, no draft and no mark is left."""
        await self.until(lambda: life.talk.state.is_quiet and not self.left)

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
        """Those that the program would close when it begins again."""
        state: DiscordState = self.stores.state.query(lambda tx: tx.discord.get())
        return state.drafts

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def refs(self) -> list[str]:
        """The ids of all that is in the log, in its order."""
        return list(self.store.run(lambda tx: tx.deliveries.known_refs("discord", 10_000)))


def opened(_: Attachment) -> BinaryIO:
    return BytesIO(b"content")


@asynccontextmanager
async def world_of(folder: Path) -> AsyncIterator[World]:
    """Discord allows as much as anybody wants."""
    clock = ManualClock(NOW)
    with usual_addresses():
        async with LocalDiscord(now=clock.now, monotonic=clock.monotonic) as local:
            local.allowance(_PLENTY, 1.0, of=("send", "edit", "delete", "react", "global"))
            yield World(local, clock, folder)
