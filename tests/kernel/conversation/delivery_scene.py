"""The delivery queues with a log and a surface, which can be run several times on one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from devtools.doubles.surface import RecordingSurface
from tests.kernel.conversation.crashing import CrashingStore, StepCounter
from tests.kernel.conversation.scene import NOW, messages_of

from ollim_bot.app.surfaces import keep_running
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.conversation.delivery import DeliveryQueue, DeliveryQueues
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.notice_poster import FailureNotices
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.store.delivery_rows import Delivery
from ollim_bot.kernel.tools.tool_context import Arrival, Payment
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.pings import Charge, PingAllowed, PingBudget, PingRefused, PingVerdict
from ollim_bot.kernel.values.ports import Channel, MessagePart
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy

_SHORT, _LONG = 3, 100
FORK, PARENT = SessionId("fork-1"), SessionId("main-1")


def run_of(kind: RunKind, session: SessionId | None = FORK) -> Run:
    return Run(RunPolicy(kind, ()), NOW, session=session, parent=PARENT)


def ping(number: int = 7) -> ChatMessage:
    return ChatMessage(numbered_id(NOW, number), NOW, Author.BACKGROUND, f"ping {number}")


def with_a_token(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    after, is_paid = budget.spent(NOW)
    return after, PingAllowed(Charge.TOKEN) if is_paid else PingRefused("There is no token.")


def as_critical(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    after, is_paid = budget.critical_spent(NOW, 5)
    return after, PingAllowed(Charge.CRITICAL) if is_paid else PingRefused("There is none left.")


def for_nothing(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    return budget, PingAllowed(Charge.NOTHING)


class ServiceClock:
    """The clock of the chat service: it goes on while our machine sleeps, and is never set.

    `asleep` is for how many seconds our machine has slept.
    """

    def __init__(self, ours: ManualClock, asleep: float = 0.0) -> None:
        self.asleep = asleep
        self._ours = ours

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._ours.monotonic() + self.asleep

    async def sleep(self, seconds: float) -> None:
        await self._ours.sleep(seconds)


class CrashingChannel:
    """A channel; each request is a step before it arrives, and each change one after it too."""

    def __init__(self, service: FakeChatService, counter: StepCounter) -> None:
        self._service = service
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def deliver(self, part: MessagePart) -> str:
        self._counter.step("before a part is handed over")
        ref = await self._service.deliver(part)
        self._counter.step("after a part was handed over")
        return ref

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        self._counter.step("before it is looked for")
        return await self._service.find(part, since, others)

    async def edit(self, ref: str, content: ChatMessage) -> None:
        self._counter.step("before it is edited")
        await self._service.edit(ref, content)
        self._counter.step("after it was edited")


@dataclass
class RunningDelivery:
    """The queues while they run; `arrival` is that of the last message."""

    poster: MessagePoster
    deliveries: DeliveryQueues

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> bool:
        """Send it and wait as long as the agent does; gives whether it was paid for.

        Raises `DeliveryFailed`.
        """
        verdict = await self.poster.send(message, run, pay)
        if isinstance(verdict, PingAllowed):
            self.arrival = await self.poster.arrival(message.id)
        return isinstance(verdict, PingAllowed)

    arrival: Arrival | None = None


@dataclass
class DeliveryScene:
    """Everything that survives a crash; messages have to arrive at all `services`.

    `told` has what the owner was told, by its key.
    """

    services: list[FakeChatService] = field(default_factory=list)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    store: RepeatingStore = field(default_factory=lambda: RepeatingStore(lambda: NOW))
    surfaces: list[RecordingSurface] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def running(self, counter: StepCounter | None = None) -> AsyncIterator[RunningDelivery]:
        counter = counter or StepCounter()
        store = CrashingStore(self.store, counter)
        self.surfaces.append(RecordingSurface())
        channels = [cast("Channel", CrashingChannel(each, counter)) for each in self.services]
        queues = [DeliveryQueue(store, each, self.clock) for each in channels]
        deliveries = DeliveryQueues(store, queues, self.clock)
        fanout = SurfaceFanout(store, [self.surfaces[-1]], channels)
        poster = MessagePoster(store, fanout, queues, self.clock)
        await deliveries.load()
        await fanout.load()
        failures = FailureNotices(store, self._tell_owner(counter), self.clock)
        tasks = [asyncio.create_task(each.run()) for each in (deliveries, fanout)]
        kept = keep_running(failures.run, self.store, cast("Any", None), self.clock)
        tasks.append(asyncio.create_task(kept))
        try:
            yield RunningDelivery(poster, deliveries)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(
        self, condition: Callable[[], object], counter: StepCounter | None = None
    ) -> None:
        """Let time pass until the condition holds, in growing steps; a crash of the run ends it."""
        for patience in range(_LONG):
            await self.clock.advance(0)
            if condition():
                return
            if counter is not None:
                counter.check()
            await self.clock.advance(1 if patience < _SHORT else 30)
        raise AssertionError("the condition never held")

    def _tell_owner(self, counter: StepCounter) -> Callable[..., Any]:
        async def tell(sentence: str, *, key: str, **_: bool) -> None:
            counter.step("before it is told")
            assert self.told.setdefault(key, sentence) == sentence
            counter.step("after it was told")

        return tell

    @property
    def recorded(self) -> list[tuple[int, SessionId, SessionId | None]]:
        known = self.store.query(lambda tx: tx.fork_messages.get())
        return [(one.message_id, one.fork_session_id, one.parent_session_id) for one in known]

    @property
    def budget(self) -> PingBudget:
        return self.store.query(lambda tx: tx.budget.get())

    @property
    def spent(self) -> tuple[float, int, int]:
        """Tokens, pings of today, and critical ones."""
        budget = self.budget
        return budget.capacity - budget.available, budget.daily_used, budget.critical_used

    @property
    def waiting(self) -> list[MessageId]:
        """The messages that have no outcome yet on some channel."""
        names = [service.name for service in self.services]
        rows = [self.store.query(lambda tx, on=name: tx.deliveries.open(on, 100)) for name in names]  # type: ignore[misc]
        return [each.message.id for found in rows for each in found]

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.log]

    @property
    def untold(self) -> list[Delivery]:
        return self.store.query(lambda tx: tx.deliveries.untold(100))

    def refs(self, message_id: MessageId, channel: str = "discord") -> tuple[str, ...]:
        return self.store.query(lambda tx: tx.deliveries.refs(message_id)).get(channel, ())


def service_scene(**more: Any) -> tuple[DeliveryScene, FakeChatService, ServiceClock]:
    """A scene with one chat service, that service, and its clock."""
    clock = ManualClock(NOW)
    service_clock = ServiceClock(clock)
    service = FakeChatService(service_clock, **more)
    return DeliveryScene([service], clock), service, service_clock
