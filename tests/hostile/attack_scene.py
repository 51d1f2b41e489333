"""The bot with a hostile model, and with the real engine, gates, guards, tools and files."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.defined_start import PYTHON
from tests.hostile.attempt import Attempt
from tests.hostile.calling_engine import CallingEngine
from tests.hostile.canary_home import CanaryHome
from tests.hostile.model import ERRAND, HostileModel
from tests.kernel.engine.scene import provider
from tests.kernel.store.files.data_directory import DataDirectory
from tests.patience import patience
from tests.stores import Stores

from ollim_bot.app.app import Adapters, App
from ollim_bot.app.build import ConversationParts
from ollim_bot.app.surfaces import Surfaces
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.conversation.background import BackgroundRuns
from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import cli_path, engine_variables, launcher
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import Job, JobSpec, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    AgentSession,
    ChatService,
    IncomingMessage,
    Refusal,
    SessionSpec,
    Status,
    ToolCall,
    Toolset,
)
from ollim_bot.kernel.values.provider import Provider
from ollim_bot.offline.server import MessagesServer

# The preflight would ask a server on the internet about each address.
_NO_RULES = {"disableSkillShellExecution": True, "skipWebFetchPreflight": True}
# Offered in addition, so that attempts with them are made where the bot leaves them out.
MORE_TOOLS = ("Agent", "Skill", "NotebookEdit")


@dataclass
class LoopbackTarget:
    """A server on loopback that the agent must not reach."""

    port: int
    visits: int = 0


@asynccontextmanager
async def loopback_target(canary_home: CanaryHome) -> AsyncIterator[LoopbackTarget]:
    page = f"HTTP/1.1 200 OK\r\n\r\n{canary_home.new_canary('a page on loopback')}"

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loopback.visits += 1
        writer.write(page.encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    loopback = LoopbackTarget(server.sockets[0].getsockname()[1])
    async with server:
        yield loopback


class TamperingEngine:
    """The real engine; the files change before and after its calls of the gate."""

    def __init__(self, engine: AgentEngine, canary_home: CanaryHome, model: HostileModel) -> None:
        self._engine = engine
        self._canary_home = canary_home
        self._model = model

    def open(self, spec: SessionSpec, tools: Toolset) -> AbstractAsyncContextManager[AgentSession]:
        return self._engine.open(spec, self._tampered(tools))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _tampered(self, tools: Toolset) -> Toolset:
        async def gate(call: ToolCall) -> Refusal | None:
            self._model.calls_by_subagents += bool(call.subagent)
            attempt, self._model.current = self._model.current, None
            if attempt is not None and attempt.before is not None:
                attempt.before(self._canary_home)
            refusal = await tools.gate(call)
            if attempt is not None and attempt.between is not None:
                attempt.between(self._canary_home)
            return refusal

        builtin = tuple(dict.fromkeys((*tools.builtin, *MORE_TOOLS)))
        return replace(tools, builtin=builtin, gate=gate)


@dataclass
class AttackScene:
    canary_home: CanaryHome
    model: HostileModel
    engine: AgentEngine
    loopback: LoopbackTarget
    settings: Settings

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patience()):
            for _ in count():
                if condition():
                    return
                await asyncio.sleep(0.01)


@asynccontextmanager
async def attack_scene(
    canary_home: CanaryHome,
    attempts: Sequence[Attempt],
    *,
    by_subagent: bool = False,
    without_rules: bool = False,
    is_real: bool = True,
) -> AsyncIterator[AttackScene]:
    """With `without_rules`, the engine has no rules of its own, and only our guards refuse.

    If the engine is not real, it is one in this process that has no rules either.
    """
    async with loopback_target(canary_home) as loopback:
        model = HostileModel(canary_home, attempts, loopback.port, by_subagent=by_subagent)
        async with MessagesServer(model) as server:
            ours = {"OLLIM_DATA_DIR": str(canary_home.data), "OLLIM_TIMEZONE": "UTC"}
            settings = Settings.from_env(
                {"HOME": str(canary_home.home), **ours}, cwd=canary_home.home
            )
            environment = engine_environment(canary_home.home, server.url, ours)
            engine: Any = CallingEngine(model, environment, canary_home)
            if is_real:
                run = canary_home.home / "run"
                cli = _without_rules(run) if without_rules else launcher(run)
                engine = ClaudeEngine(environment, run, cli=cli)
            engine = TamperingEngine(engine, canary_home, model)
            yield AttackScene(canary_home, model, engine, loopback, settings)


def engine_environment(home: Path, url: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The environment that the bot gives to the engine."""
    commands = Path(sys.executable).parent
    return engine_variables({**provider(home, url), **ours}, os.environ, commands)


def _without_rules(folder: Path) -> Path:
    """A script that starts the engine's program without the rules in its settings."""
    real = launcher(folder) or cli_path()
    script = folder / "without-rules"
    script.write_text(
        f"#!{PYTHON}\nimport os, sys\n"
        f"words = [{str(real)!r}, *sys.argv[1:]]\n"
        f'words[words.index("--settings") + 1] = {json.dumps(_NO_RULES)!r}\n'
        "os.execv(words[0], words)\n"
    )
    script.chmod(0o700)
    return script


class AppWithParts(App):
    """Gives a test access to the parts of the conversation, to start background runs.

    An engine that is given counts as the built-in model, unless `has_model`.
    """

    parts: ConversationParts | None = None
    has_model = False

    def _parts(self, *given: Any) -> ConversationParts:
        self.parts = super()._parts(*given)
        return self.parts

    def _status(self, provider: Provider) -> Status:
        status = super()._status(provider)
        return replace(status, is_offline=status.is_offline and not self.has_model)

    async def _opened_surfaces(self, store: Store) -> Surfaces:
        """The surfaces of the adapters, and beside them the channels."""
        opened = await super()._opened_surfaces(store)
        channels = [make(store, _nothing, self._clock) for make in self._make_channels]
        return Surfaces(opened.followers, self._clock, channels=channels)


def _nothing(_: object) -> BinaryIO:
    raise FileNotFoundError


@asynccontextmanager
async def running(at: AttackScene) -> AsyncIterator[tuple[ChatService, BackgroundRuns]]:
    """The whole bot."""
    surface = RecordingSurface()
    app = AppWithParts(at.settings, Adapters(engine=at.engine, surfaces=[surface]))
    task = asyncio.create_task(app.run())
    try:
        await at.until(lambda: surface.receptions or task.done())
        assert app.parts is not None
        yield surface.receptions[0], app.parts.background
    finally:
        app.stop()
        await task


async def in_main(at: AttackScene, *first: str) -> None:
    """`first` are the owner's commands before the errand."""
    async with running(at) as (reception, _):
        for line in first:
            await reception.command("test", line)
        await reception.receive(IncomingMessage(InputId("errand"), "test", at.model.errand))
        await at.until(lambda: at.model.is_done)


async def in_fork(at: AttackScene) -> None:
    await in_main(at, "/fork")


async def with_everything_allowed(at: AttackScene) -> None:
    """In this mode no pattern is needed, and the owner is not asked."""
    await in_main(at, "/permissions bypassPermissions")


async def in_background(at: AttackScene, *allowed: str) -> None:
    """`allowed` are the tools that the file of the job allows."""
    spec = JobSpec(id="spy", message=ERRAND, background=True, allowed_tools=allowed)
    await run_job(at, Routine(spec, Cron.parse("0 9 * * *")))


async def run_job(at: AttackScene, job: Job) -> None:
    occurrence = Occurrence.scheduled(job.kind, job.spec.id, datetime.now(UTC))
    async with running(at) as (_, background), asyncio.timeout(patience()):
        await background.run_agent_background(job, occurrence)
    assert at.model.is_done


def logged_messages(at: AttackScene) -> list[ChatMessage]:
    log = DataDirectory(at.canary_home.data).run(lambda tx: tx.messages.page(10_000))
    return [each.message for each in log]


def open_stores(at: AttackScene) -> Stores:
    database = open_database(
        at.canary_home.paths,
        SystemClock(at.settings.zone).now,
        is_holder=False,
        report=lambda _: None,
    )
    repositories = open_repositories(at.canary_home.paths, RecordingJournal())
    return Stores(ImmediateStore(database), repositories)
