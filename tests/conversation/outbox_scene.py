"""An outbox with a log and a surface, through several lives on the same stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.conversation.fate import Fate, SteppedLog, SteppedStore, fated
from tests.conversation.scene import NOW

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.outbox.outbox import DurableOutbox
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.outgoing import Outbox, OutboxRow
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import SessionId
from ollim_bot.stores import Stores
from ollim_bot.testing.chat_service import FakeChatService
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.memory import memory_stores
from ollim_bot.testing.surface import RecordingSurface

_SHORT, _LONG = 3, 100
FORK, PARENT = SessionId("fork-1"), SessionId("main-1")


def run_of(kind: RunKind, session: SessionId | None = FORK) -> Run:
    return Run(RunPolicy(kind, ()), NOW, session=session, parent=PARENT)


def ping(number: int = 7) -> ChatMessage:
    return ChatMessage(numbered_id(NOW, number), NOW, Author.BACKGROUND, f"ping {number}")


def with_a_token(budget: PingBudget) -> tuple[PingBudget, Charge | None]:
    after, is_paid = budget.spent(NOW)
    return after, Charge.TOKEN if is_paid else None


def as_critical(budget: PingBudget) -> tuple[PingBudget, Charge | None]:
    after, is_paid = budget.critical_spent(NOW, 5)
    return after, Charge.CRITICAL if is_paid else None


def for_nothing(budget: PingBudget) -> tuple[PingBudget, Charge | None]:
    return budget, Charge.NOTHING


class WitnessingSurface(RecordingSurface):
    """Looks, when something is shown, whether a reply to it would find its session."""

    def __init__(self, stores: Stores) -> None:
        super().__init__("witness")
        self.unknown: list[MessageId] = []
        self._stores = stores

    async def post(self, message: ChatMessage) -> None:
        known = {str(each.message_id) for each in self._stores.fork_messages.read()}
        if message.id not in known:
            self.unknown.append(message.id)
        await super().post(message)


class TrueTime:
    """The time of everybody else: it passes while our machine sleeps, and nobody sets it."""

    def __init__(self, ours: ManualClock) -> None:
        self.asleep = 0.0
        self._ours = ours

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._ours.monotonic() + self.asleep

    async def sleep(self, seconds: float) -> None:
        await self._ours.sleep(seconds)


class SteppedCourier:
    """To hand a message over is two steps: before it arrives, and before we know; so is reading."""

    def __init__(self, service: FakeChatService, fate: Fate) -> None:
        self.name = service.name
        self._service = service
        self._fate = fate

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return self._service.parts(message)

    async def deliver(self, part: ChatMessage, nonce: str) -> str:
        self._fate.step("before a part is handed over")
        ref = await self._service.deliver(part, nonce)
        self._fate.step("after a part was handed over")
        return ref

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
        self._fate.step("before it is looked for")
        return await self._service.find(part, nonce, since, others)


@dataclass
class Mailbag:
    """What stays when the process dies; `rows` is all that the outbox ever got.

    With a `service` messages have to arrive there. `told` is what the owner was told, by its key.
    """

    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    rows: list[OutboxRow] = field(default_factory=list)
    surfaces: list[WitnessingSurface] = field(default_factory=list)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    service: FakeChatService | None = None
    told: dict[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def life(self, fate: Fate | None = None) -> AsyncIterator[DurableOutbox]:
        fate = fate or Fate()
        stores = self._fated(fate)
        surface = WitnessingSurface(self.stores)
        self.surfaces.append(surface)
        chat = ChatLog(stores.messages)
        courier = None if self.service is None else SteppedCourier(self.service, fate)
        stage, tell = Stage(chat, [surface]), self._teller(fate)
        outbox = DurableOutbox(stores, chat, stage, self.clock, courier, tell)
        await chat.load()
        await outbox.load()
        running = asyncio.create_task(outbox.run())
        try:
            yield outbox
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until(self, condition: Callable[[], object], fate: Fate | None = None) -> None:
        """Let time pass for it, if need be: by seconds, then by more; a death ends it too."""
        for patience in range(_LONG):
            await self.clock.advance(0)
            if condition():
                return
            if fate is not None:
                fate.check()
            await self.clock.advance(1 if patience < _SHORT else 30)
        raise AssertionError("it never came to that")

    def _teller(self, fate: Fate) -> Callable[..., Any]:
        async def tell(sentence: str, *, key: str) -> None:
            fate.step("before it is told")
            assert self.told.setdefault(key, sentence) == sentence
            fate.step("after it was told")

        return tell

    def _fated(self, fate: Fate) -> Stores:
        return replace(
            fated(self.stores, fate),
            pings=SteppedStore("the budget", self.stores.pings, fate),
            fork_messages=SteppedStore("the fork messages", self.stores.fork_messages, fate),
            outbox=SteppedLog("the outbox", self.stores.outbox, fate, self.rows),
        )

    @property
    def texts(self) -> list[str]:
        """Every line of the log: a message that was posted again would stand there twice."""
        return [message.text for message in self.stores.messages.read().entries]

    @property
    def recorded(self) -> list[tuple[int, SessionId, SessionId | None]]:
        known = self.stores.fork_messages.read()
        return [(one.message_id, one.fork_session_id, one.parent_session_id) for one in known]

    @property
    def spent(self) -> tuple[float, int, int]:
        """Tokens, pings of today, and critical ones."""
        budget = self.stores.pings.read()
        return budget.capacity - budget.available, budget.daily_used, budget.critical_used

    @property
    def waiting(self) -> list[MessageId]:
        rows = self.stores.outbox.read().entries
        return [each.message.id for each in Outbox.of(rows).open]

    @property
    def log(self) -> list[ChatMessage]:
        """Every message once, as it stands last."""
        entries = self.stores.messages.read().entries
        return list({message.id: message for message in entries}.values())

    @property
    def unsettled(self) -> list[MessageId]:
        outbox = Outbox.of(self.stores.outbox.read().entries)
        return [failure.id for _, failure in outbox.unsettled]


def far_bag(**more: Any) -> tuple[Mailbag, FakeChatService, TrueTime]:
    """A mailbag whose messages have to arrive at a service."""
    clock = ManualClock(NOW)
    time = TrueTime(clock)
    service = FakeChatService(time, **more)
    return Mailbag(clock=clock, service=service), service, time
