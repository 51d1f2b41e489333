"""An outbox with a log and a surface, through several lives on the same stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.conversation.fate import Fate, SteppedLog, SteppedStore, fated
from tests.conversation.scene import NOW

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.outbox import DurableOutbox
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.outgoing import Charge, Outbox, OutboxRow
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import SessionId
from ollim_bot.stores import Stores
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.memory import memory_stores
from ollim_bot.testing.surface import RecordingSurface

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


@dataclass
class Mailbag:
    """What stays when the process dies; `rows` is all that the outbox ever got."""

    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    rows: list[OutboxRow] = field(default_factory=list)
    surfaces: list[WitnessingSurface] = field(default_factory=list)

    @asynccontextmanager
    async def life(self, fate: Fate | None = None) -> AsyncIterator[DurableOutbox]:
        stores = self._fated(fate or Fate())
        surface = WitnessingSurface(self.stores)
        self.surfaces.append(surface)
        chat = ChatLog(stores.messages)
        outbox = DurableOutbox(stores, chat, Stage(chat, [surface]), ManualClock(NOW))
        await chat.load()
        await outbox.load()
        yield outbox

    def _fated(self, fate: Fate) -> Stores:
        return replace(
            fated(self.stores, fate, []),
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
