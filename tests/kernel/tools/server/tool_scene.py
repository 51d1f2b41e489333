"""The tools of one run, with stores in memory and a poster that only records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from devtools.doubles.clock import ManualClock
from tests.patience import patience
from tests.stores import Stores, memory_stores, on_store

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import DeliveryFailed
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.store.steps import store_prompts
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.tools.registry import OWN_TOOLS
from ollim_bot.kernel.tools.tool_context import Arrival, Payment, ToolContext
from ollim_bot.kernel.values.cards import ButtonPrompt
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import Job, ReportMode
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.pings import Charge, PingAllowed, PingBudget, PingVerdict
from ollim_bot.kernel.values.ports import Tool, ToolAnswer
from ollim_bot.kernel.values.runs import Intent, Run, RunKind, RunPolicy

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 9, tzinfo=BERLIN)
NOWHERE = Path("/nowhere")
EVERYWHERE = tuple(RunKind)
BACKGROUND = (RunKind.BACKGROUND, RunKind.ISOLATED)


@dataclass
class RecordingPoster:
    """A `Poster`. A message waits for `may_arrive`, if set; with `is_unreachable`, none arrives."""

    store: Store
    clock: Clock
    messages: list[ChatMessage] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    sent: dict[MessageId, tuple[ChatMessage, Charge]] = field(default_factory=dict)
    is_unreachable: bool = False
    paid: asyncio.Event = field(default_factory=asyncio.Event)
    may_arrive: asyncio.Event | None = None
    is_slow: bool = False
    waits_as: str | None = None
    held_until: datetime | None = None

    async def budget(self) -> PingBudget:
        return await self.store.read(lambda tx: tx.budget.get())

    async def send(
        self,
        message: ChatMessage,
        _: Run,
        pay: Payment | None = None,
        prompts: Sequence[ButtonPrompt] = (),
        item: DueItem | None = None,
        *,
        waits_as: str | None = None,
    ) -> PingVerdict:
        self.waits_as = waits_as
        verdict: PingVerdict = PingAllowed(Charge.NOTHING)
        if pay is not None:
            verdict = await self.store.transact(lambda tx: tx.budget.take(pay))
        if isinstance(verdict, PingAllowed):
            self.paid.set()
            self.sent[message.id] = message, verdict.charge
            verdict = replace(verdict, held_until=self.held_until)
            await self.store.transact(lambda tx: store_prompts(tx, prompts))
            if item is not None:
                await self.store.transact(lambda tx: tx.due_items.add(item))
        return verdict

    async def arrival(self, message_id: MessageId) -> Arrival:
        message, charge = self.sent.pop(message_id)
        if self.may_arrive is not None:
            await self.may_arrive.wait()
        if self.is_unreachable:
            await self.store.transact(
                lambda tx: tx.budget.change(lambda budget: self._given_back(budget, charge))
            )
            raise DeliveryFailed("The chat cannot be reached.")
        self.messages.append(message)
        self.charges.append(charge)
        return Arrival.ON_ITS_WAY if self.is_slow else Arrival.SENT

    def _given_back(self, budget: PingBudget, charge: Charge) -> PingBudget:
        match charge:
            case Charge.TOKEN:
                return budget.given_back(self.clock.now())
            case Charge.CRITICAL:
                return budget.critical_given_back(self.clock.now())
            case Charge.NOTHING:
                return budget


@dataclass
class ToolScene:
    """The tools of one run. `wanted` has the intents that they declared."""

    context: ToolContext
    poster: RecordingPoster
    clock: ManualClock
    is_busy: bool = False
    wanted: list[Intent] = field(default_factory=list)

    async def want(self, intent: Intent) -> None:
        self.wanted.append(intent)

    @property
    def run(self) -> Run:
        return self.context.run

    @property
    def stores(self) -> Stores:
        return Stores(self.context.store, self.context.repositories)

    @property
    def budget(self) -> PingBudget:
        return self.poster.store.run(lambda tx: tx.budget.get())

    def empty_the_budget(self, left: float = 0.0) -> None:
        empty = replace(PingBudget.full(self.clock.now()), available=left)
        self.poster.store.run(lambda tx: tx.budget.put(empty))

    def tool(self, name: str) -> Tool:
        tools = (tool for some in OWN_TOOLS.values() for tool in some)
        return next(tool.bound_to(self.context) for tool in tools if tool.name == name)

    async def call(self, name: str, **arguments: object) -> ToolAnswer:
        async with asyncio.timeout(patience()):
            return await self.tool(name).run(arguments)

    async def works(self, name: str, **arguments: object) -> str:
        answer = await self.call(name, **arguments)
        assert not answer.is_error, answer.text
        return answer.text

    async def is_refused(self, name: str, **arguments: object) -> str:
        answer = await self.call(name, **arguments)
        assert answer.is_error, answer.text
        return answer.text


MakeToolScene = Callable[..., ToolScene]


def make_tool_scene(
    root: Path,
    kind: RunKind = RunKind.BACKGROUND,
    *,
    job: Job | None = None,
    stores: Stores | None = None,
    store: Store | None = None,
    report: ReportMode = ReportMode.FREELY,
    allow_ping: bool = True,
    must: bool = False,
) -> ToolScene:
    clock = ManualClock(NOW, BERLIN)
    policy = RunPolicy(kind, (), report, allow_ping, must)
    due = Occurrence.scheduled(JobKind.REMINDER, "r1", NOW).id if must else ""
    due = due if job is None else Occurrence.by_hand(job.kind, job.spec.id, NOW).id
    run = Run(
        policy, NOW, occurrence=due, label="Check the mail", job=job, session=SessionId("s-1")
    )
    stores = stores or memory_stores(NOW)
    if store is not None:
        stores = on_store(stores, store)
    poster = RecordingPoster(stores.state, clock)
    context = ToolContext(
        run, stores.state, stores.repositories, clock, root, poster, lambda: False
    )
    scene = ToolScene(context, poster, clock)
    context.is_busy = lambda: scene.is_busy
    context.wants = scene.want
    context.items = ItemAnswers(stores.state, JobFileChanges(stores.state, stores.repositories))
    return scene
