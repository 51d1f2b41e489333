"""Background runs on doubles: a scripted engine, stores in memory, a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, ScriptedEngine, ScriptedSession
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.file_changes import file_changes
from tests.kernel.conversation.scene import STATUS, messages_of
from tests.patience import patience
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation.background import BackgroundRuns
from ollim_bot.kernel.conversation.background_attempt import AutoCommit, BackgroundDeps, Try
from ollim_bot.kernel.conversation.job_echo import ChangeEcho
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.notice_poster import Notices
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.prompts.turn_prompts import read_screening
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.tools.gates import Abilities, BackgroundTools
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.decision import Circumstances, Skip, decide
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import Chain, Job, JobSpec, Reminder, Routine, job_key
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.ports import AgentEngine, SessionSpec, Toolset
from ollim_bot.kernel.values.run_history import EFFECT
from ollim_bot.kernel.values.runs import Subagent, Subagents
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.sessions import SessionEvent
from ollim_bot.kernel.values.skills import AgentSkills

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
HOME = Path("/data")
MAIN = SessionId("main-session")
HELPER = Subagents({"helper": Subagent("helper", "Helps.", "You help.")})

T = TypeVar("T")


def spec(job_id: str = "abc123", **fields: Any) -> JobSpec:
    message = fields.pop("message", "Look at the mail.")
    given = {"description": "Morning mail", "background": True, **fields}
    return JobSpec(id=job_id, message=message, **given)


def routine(job_id: str = "abc123", **fields: Any) -> Routine:
    return Routine(spec(job_id, **fields), Cron.parse("0 9 * * *"))


def reminder(job_id: str = "abc123", chain: Chain | None = None, **fields: Any) -> Reminder:
    return Reminder(spec(job_id, **{"must": False, **fields}), NOW, chain or Chain())


def webhook(
    job_id: str = "abc123", properties: Mapping[str, object] | None = None, **fields: Any
) -> WebhookSpec:
    return WebhookSpec(spec(job_id, **fields), {"properties": properties or {}})


def ping(words: str = "The bank wrote.", **more: object) -> CallsTool:
    return CallsTool("mcp__discord__ping_user", {"message": words, **more})


def report(words: str = "Three mails need replies.") -> CallsTool:
    return CallsTool("mcp__discord__report_updates", {"message": words})


class WatchedEngine(ScriptedEngine):
    """Records which sessions are open and which were closed.

    While `may_close` is cleared, no session can be closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open_now: list[ScriptedSession] = []
        self.closed: list[ScriptedSession] = []
        self.may_close = asyncio.Event()
        self.may_close.set()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        async with super().open(spec, tools) as session:
            self.open_now.append(session)
            try:
                yield session
            finally:
                try:
                    await self.may_close.wait()
                finally:
                    self.open_now.remove(session)
                    self.closed.append(session)


ONLY_TRY = Try()


@dataclass
class Scene:
    """`main` is the main session; a test may set it to None, or set `is_busy`."""

    engine: AgentEngine
    stores: Stores
    store: Store
    clock: ManualClock
    surface: RecordingSurface
    notices: Notices
    poster: MessagePoster
    fanout: SurfaceFanout
    main: SessionId | None = MAIN
    is_busy: bool = False
    base: SessionSpec = field(default_factory=lambda: SessionSpec("You help.", HOME))
    root: Path = HOME
    allowed: tuple[str, ...] = DEFAULT_BG_TOOLS
    tasks: list[asyncio.Task[OccurrenceState]] = field(default_factory=list)
    journal: RecordingJournal = field(default_factory=RecordingJournal)
    skills_by_agent: AgentSkills = field(default_factory=AgentSkills)

    def __post_init__(self) -> None:
        self.echo = self._echo()
        self.runs = BackgroundRuns(
            BackgroundDeps(
                self.engine,
                self.store,
                self.stores.repositories,
                self.clock,
                self.root,
                self.poster,
                self.notices,
                BackgroundTools(
                    PathPolicy(self.root),
                    lambda: self._usual(),
                    abilities=Abilities(
                        lambda: HELPER,
                        SkillFolder(self.root / "skills").read,
                        skills_by_agent=lambda job: self.skills_by_agent.of_job(job_key(job)),
                    ),
                ),
                self.echo,
                AutoCommit(self.journal, self.root),
                spec=lambda: self._spec(),
                is_busy=lambda: self.is_busy,
                main=lambda: self._main(),
                screening=read_screening(),
            )
        )

    def _echo(self) -> ChangeEcho:
        paths = DataPaths(self.root)
        former = file_changes(paths, self.journal)
        files = JobFileChecker(paths)
        return ChangeEcho(
            self.root, files, former, self.store, self.stores.reminders, self._show, self.clock
        )

    async def _show(self, message: ChatMessage, *, may_wait: bool = False) -> None:
        is_undone = message.card is not None and message.card.title.startswith("Undone.")
        assert may_wait or is_undone
        await self.surface.post(message)

    async def run(self, job: Job, this: Try = ONLY_TRY) -> OccurrenceState:
        async with asyncio.timeout(patience()):
            return await self.runs.run_agent_background(job, self.occurrence(job), this)

    async def skip(self, job: Job) -> OccurrenceState:
        """Skip a job that cannot run, as the dispatcher does."""
        missing, excess = await self.runs.problems_with_skills(job)
        now = self.clock.now()
        given = Circumstances(now, now, UTC, missing_skills=missing, excess_tools=excess)
        decision = decide(job, given)
        assert isinstance(decision, Skip)
        async with asyncio.timeout(patience()):
            await self.runs.skip(job, self.occurrence(job), decision)
        return OccurrenceState.SKIPPED

    def start(self, job: Job, due: datetime | None = None) -> asyncio.Task[OccurrenceState]:
        work = self.runs.run_agent_background(job, self.occurrence(job, due))
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    def occurrence(self, job: Job, due: datetime | None = None) -> Occurrence:
        kind = job.kind
        if isinstance(job, WebhookSpec):
            return Occurrence(kind, job.spec.id, "delivery-1")
        return Occurrence.scheduled(kind, job.spec.id, due or self.clock.now())

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patience()):
            for looks in count():
                if condition():
                    return
                await asyncio.sleep(0 if looks < 500 else 0.001)

    async def settled(self) -> None:
        """Wait until all tasks and threads that can run have run."""
        for _ in range(30):
            await asyncio.sleep(0)
            await asyncio.to_thread(int)

    def configure(self, **changes: Any) -> None:
        self.stores.config.transact(lambda config: (_changed(config, changes), None))

    @property
    def rows(self) -> Sequence[LedgerRow]:
        """The rows that change the state of an occurrence."""
        return [row for row in self.stores.ledger.read().entries if row.state != EFFECT]

    @property
    def states(self) -> list[str]:
        return [row.state for row in self.rows]

    @property
    def end(self) -> LedgerRow:
        ends = [row for row in self.rows if OccurrenceState(row.state).is_end]
        assert len(ends) == 1
        return ends[0]

    @property
    def events(self) -> Sequence[SessionEvent]:
        return self.stores.session_history.read().entries

    @property
    def pending(self) -> list[str]:
        return [entry.message for entry in self.stores.updates.read().entries]

    @property
    def said(self) -> list[str]:
        return [message.text for message in messages_of(self.store)]

    async def told(self) -> list[str]:
        """The lines that the program posts itself from now on."""
        await self.fanout.catch_up()
        before = len(self.surface.posts)
        await self.notices.flush()
        await self.fanout.catch_up()
        return [line for text in self.surface.texts[before:] for line in text.splitlines()]

    def _main(self) -> SessionId | None:
        return self.main

    async def _spec(self) -> SessionSpec:
        return self.base

    def _usual(self) -> tuple[str, ...]:
        return self.allowed


def _changed(config: RuntimeConfig, changes: dict[str, object]) -> RuntimeConfig:
    for key, value in changes.items():
        config = config.with_value(key, str(value))
    return config


@asynccontextmanager
async def background_scene(
    engine: AgentEngine,
    *,
    root: Path = HOME,
    stores: Stores | None = None,
    seen: Callable[[Store], Store] = lambda store: store,
    now: datetime = NOW,
) -> AsyncIterator[Scene]:
    """The runs use the store that `seen` returns; `root` is the data directory."""
    clock = ManualClock(now)
    stores = stores or memory_stores(clock.now)
    surface = RecordingSurface()
    store = seen(stores.state)
    state = ConversationState(store)
    fanout = SurfaceFanout(store, [surface])
    poster = MessagePoster(store, fanout, [], clock)
    board = StatusBoard(store, state, fanout, STATUS, clock)
    notices = Notices(store, state, poster, board, clock)
    if isinstance(engine, ScriptedEngine):
        engine.known.add(MAIN)
    await fanout.load()
    made = Scene(engine, stores, store, clock, surface, notices, poster, fanout, root=root)
    following = asyncio.create_task(fanout.run())
    try:
        yield made
    finally:
        for task in (*made.tasks, following):
            task.cancel()
        await asyncio.gather(*made.tasks, following, return_exceptions=True)
