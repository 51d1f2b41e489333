"""The approvals without a conversation: a log, and a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.scene import messages_of
from tests.patience import patience
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.conversation.approvals import Approvals, CarefulTimes
from ollim_bot.kernel.conversation.chat_sessions import main_run
from ollim_bot.kernel.conversation.command_handlers import PermissionCommands
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runtime_config import PermissionMode

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
ROOT = Path("/data")
WRITE = ToolCall("Write", {"file_path": "notes/a.txt", "content": "hello"})

T = TypeVar("T")


@dataclass
class ApprovalScene:
    """`approvals` on `stores`, which `restarted` uses again."""

    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    def __post_init__(self) -> None:
        poster = MessagePoster(self.store, SurfaceFanout(self.store, []), [], self.clock)
        state = ConversationState(self.store)
        self.approvals = Approvals(self.store, state, poster, self.clock, ROOT)
        run = main_run(NOW)
        careful = CarefulTimes(self.store, poster, lambda: run, self.clock)
        self.command = PermissionCommands(self.approvals, careful)

    @property
    def store(self) -> Store:
        return self.stores.state

    async def restarted(self) -> ApprovalScene:
        return ApprovalScene(self.stores, self.clock)

    def ask(self, call: ToolCall = WRITE) -> asyncio.Task[Refusal | None]:
        return asyncio.create_task(self.approvals.ask(call))

    async def asked(self, *calls: ToolCall) -> list[asyncio.Task[Refusal | None]]:
        """Ask about each call and wait until its card is shown."""
        asking = []
        for call in calls or (WRITE,):
            seen = len(self.cards)
            asking.append(self.ask(call))
            await self.until(lambda seen=seen: len(self.cards) > seen)  # type: ignore[misc]
        return asking

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(patience()):
            while not holds():  # noqa: ASYNC110 - threads change it too
                await asyncio.sleep(0.001)

    async def within(self, work: Awaitable[T]) -> T:
        async with asyncio.timeout(patience()):
            return await work

    async def set_mode(self, mode: PermissionMode, *, seconds: int = 600) -> None:
        config = self.stores.config.read().with_value("permission_mode", mode.value)
        changed = config.with_value("approval_timeout", seconds)
        self.stores.config.transact(lambda _: (changed, None))

    async def click(self, word: str, place: int = -1) -> CommandAnswer:
        """Click on the newest card, or on the one at `place`, as it is shown now."""
        message = self.shown[place]
        return await self.within(self.approvals.answer("web", message, button(message, word)))

    @property
    def shown(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def cards(self) -> list[Card]:
        return [message.card for message in self.shown if message.card is not None]

    @property
    def granted(self) -> list[str]:
        return list(self.stores.state.query(lambda tx: tx.grants.get()).texts)


def button(message: ChatMessage, word: str) -> Button:
    assert message.card is not None
    return next(each for each in message.card.buttons if each.data.endswith(f":{word}"))


def outcome(card: Card) -> str:
    """The answer that the card shows; empty while the question is open."""
    said = [field.value for field in card.fields if field.name == "Answer"]
    assert [each.is_used for each in card.buttons] == [bool(said)] * len(card.buttons)
    assert not said or len(card.buttons) < 2
    return "".join(said)
