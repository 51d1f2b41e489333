"""A turn from a message or a due moment until the first words, and forty runs at once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, StreamEvent
from claude_agent_sdk.types import SystemPromptPreset, ThinkingConfig
from devtools.scripted_model import ScriptedModel
from tests.stores import Stores

from bench.fixtures import prepared
from bench.measure import Bar, Result, Unit, seconds
from bench.storage import bare_append
from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables, launcher
from ollim_bot.kernel.prompts.turn_prompts import build_system_prompt, read_manual
from ollim_bot.kernel.store.owner_files import ProfileFiles
from ollim_bot.kernel.tools.registry import TOOL_LINES
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, TextStreamed
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.occurrences import LedgerRow, OccurrenceState
from ollim_bot.kernel.values.ports import ChatService, IncomingMessage, Status, TurnStart
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.shared_files import Names
from ollim_bot.offline.server import MessagesServer, ModelRequest, Reply, Say


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the arrival of a message to the first sign of its turn and to its words."""

    sign: float
    words: float


class TimingSurface:
    name = "bench"

    def __init__(self) -> None:
        self._reception: asyncio.Future[ChatService] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._is_answered = False
        self._sign = self._words = 0.0
        self._posted: dict[str, datetime] = {}
        self._has_posted = asyncio.Event()

    async def posted(self, words: str) -> datetime:
        """When a message with these words was first shown."""
        while words not in self._posted:
            self._has_posted.clear()
            await self._has_posted.wait()
        return self._posted[words]

    async def ask(self, words: str) -> Latency:
        reception = await self._reception
        self._ended.clear()
        self._is_answered = False
        self._sign = self._words = 0.0
        began = time.perf_counter()
        await reception.receive(IncomingMessage(InputId(str(uuid4())), self.name, words))
        await self._ended.wait()
        return Latency(self._sign - began, self._words - began)

    async def run(self, reception: ChatService) -> None:
        self._reception.set_result(reception)
        await asyncio.Event().wait()

    async def post(self, message: ChatMessage, _change: int = 0) -> None:
        self._is_answered |= message.author is Author.ASSISTANT
        self._posted.setdefault(message.text, datetime.now(UTC))
        self._has_posted.set()

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self._sign = time.perf_counter()
        async for event in events:
            if isinstance(event, TextStreamed) and not self._words:
                self._words = time.perf_counter()

    async def changed(self, status: Status) -> None:
        if self._is_answered and not status.is_busy:
            self._ended.set()


WARM_UP, ROUNDS, DUE_ROUNDS = 3, 40, 5
LIMIT = 400.0
MANY = 40
# They are due within so many seconds, of which a run takes more than one.
WITHIN = 4
ENDS = frozenset(state.value for state in OccurrenceState if state.is_end)
# An answer takes the model so many seconds at least.
ANSWERING = 0.9
SLOWLY = Reply((Say("It is done, all of it. " * 5),), pace=0.1, chunk=11)
TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "WebSearch")
PRESET: SystemPromptPreset = {"type": "preset", "preset": "claude_code"}


@dataclass(frozen=True)
class Scene:
    """A data directory, and a model that answers at once."""

    paths: DataPaths
    url: str
    model: ScriptedModel = field(default_factory=ScriptedModel)
    database: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Without the account and settings of the person who runs this."""
        home = self.paths.root.parent
        return {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_AUTH_TOKEN": "",
            "CLAUDE_CODE_OAUTH_TOKEN": "",
            "ANTHROPIC_BASE_URL": self.url,
            "NO_PROXY": "127.0.0.1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    @property
    def our_environment(self) -> dict[str, str]:
        return engine_variables(self.environment, os.environ, Path(sys.executable).parent)


# Sends a message, waits for the end of the turn, and returns the seconds until the first words.
Ask = Callable[[str], Awaitable[float]]
OpenClient = Callable[[Scene], AbstractAsyncContextManager[Ask]]


@asynccontextmanager
async def open_bot(scene: Scene) -> AsyncIterator[Ask]:
    """The whole bot without its web page, from the arrival of a message on."""
    async with watched(scene) as surface:

        async def ask(words: str) -> float:
            return (await surface.ask(words)).words

        yield ask


@asynccontextmanager
async def watched(scene: Scene) -> AsyncIterator[TimingSurface]:
    folder = scene.paths.state / "engine"
    environ = {
        **scene.environment,
        "OLLIM_DATA_DIR": str(scene.paths.root),
        "DATABASE_URL": scene.database,
    }
    settings = Settings.from_env(environ, cwd=scene.paths.root)
    engine = ClaudeEngine(scene.our_environment, folder, cli=launcher(folder))
    surface = TimingSurface()
    app = App(settings, Adapters(engine=engine, surfaces=[surface]))
    running = asyncio.create_task(app.run())
    try:
        yield surface
    finally:
        app.stop()
        await running


@asynccontextmanager
async def open_sdk_client(options: ClaudeAgentOptions) -> AsyncIterator[Ask]:
    """Only the client of the SDK."""
    async with ClaudeSDKClient(options) as client:

        async def ask(words: str) -> float:
            began = time.perf_counter()
            await client.query(words)
            first = 0.0
            async for message in client.receive_response():
                if isinstance(message, StreamEvent) and not first and _is_text(message):
                    first = time.perf_counter() - began
            return first

        yield ask


def alike(scene: Scene) -> AbstractAsyncContextManager[Ask]:
    """The SDK client with the same prompt and tools as the bot, so that only our code differs."""
    profile, _ = ProfileFiles(scene.paths).read()
    prompt = build_system_prompt(
        profile, Names("Ada", "Ollim"), "Europe/Berlin", read_manual(TOOL_LINES)
    )
    options = _options(scene, prompt, list(TOOLS))
    thinking: ThinkingConfig = {"type": "disabled"}
    return open_sdk_client(replace(options, env=scene.our_environment, thinking=thinking))


def preset(scene: Scene) -> AbstractAsyncContextManager[Ask]:
    """The SDK client with the engine's own system prompt and all of its tools."""
    return open_sdk_client(_options(scene, PRESET, None))


def measure_turns(folder: Path, open_client: OpenClient = open_bot) -> list[Result]:
    """What our way of asking adds to a turn: the wait for the first words, and the bytes sent."""
    return asyncio.run(_turns_rows(folder, open_client))


async def _turns_rows(folder: Path, open_client: OpenClient) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        first, bare_first = await _first_words(folder, open_client, alike)
        sign = await _first_sign(folder / "sign")
        sent = await _bytes_sent(folder / "ours", open_client)
        bare_sent = await _bytes_sent(folder / "preset", preset)
        safe = median([await asyncio.to_thread(_append, folder) for _ in range(ROUNDS)])
    client, unit = "bare SDK client", Unit.BYTES
    return [
        Result("first sign of a turn", sign, "write, fsync", safe, Bar.FIRST_SIGN, 0.05),
        Result("first words of a turn", first, client, bare_first, Bar.FIRST_TEXT, most_more=0.03),
        Result("sent for a message", sent, "bare preset", bare_sent, most_times=0.9, unit=unit),
    ]


def _append(folder: Path) -> float:
    return seconds(lambda: bare_append(folder))


async def _first_words(
    folder: Path, open_client: OpenClient, baseline: OpenClient
) -> tuple[float, float]:
    """Medians of rounds in which the two alternate in going first."""
    async with AsyncExitStack() as stack:
        asks = [
            await stack.enter_async_context(
                each(await stack.enter_async_context(make_scene(place)))
            )
            for each, place in ((open_client, folder / "first"), (baseline, folder / "second"))
        ]
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(WARM_UP + ROUNDS):
            for which in (0, 1) if number % 2 else (1, 0):
                times[which].append(await asks[which]("hi"))
    assert all(times[0] + times[1]), "a turn came to its end without a word"
    return median(times[0][WARM_UP:]), median(times[1][WARM_UP:])


async def _first_sign(folder: Path) -> float:
    """Seconds from the arrival of a message until the surface is told of its turn."""
    async with make_scene(folder) as scene, watched(scene) as surface:
        signs = [(await surface.ask("hi")).sign for _ in range(WARM_UP + ROUNDS)]
    return median(signs[WARM_UP:])


async def _bytes_sent(folder: Path, open_client: OpenClient) -> float:
    """The bytes that the model is sent for the first message of a conversation."""
    async with make_scene(folder) as scene, open_client(scene) as ask:
        await ask("hi")
        bodies = [dict(request.body) for request in scene.model.requests]
    return float(sum(len(json.dumps(body, ensure_ascii=False).encode()) for body in bodies))


@asynccontextmanager
async def make_scene(folder: Path, database: str = "") -> AsyncIterator[Scene]:
    """With the address of a database, the rows are there."""
    paths, _ = await asyncio.to_thread(prepared, folder / "data")
    model = ScriptedModel()
    async with MessagesServer(model) as server:
        yield Scene(paths, server.url, model, database)


def _options(
    scene: Scene, system_prompt: str | SystemPromptPreset, tools: list[str] | None
) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(
        system_prompt=system_prompt,
        tools=tools,
        cwd=scene.paths.root,
        env=scene.environment,
        setting_sources=[],
        include_partial_messages=True,
    )


def _is_text(message: StreamEvent) -> bool:
    delta = message.event.get("delta")
    return isinstance(delta, dict) and delta.get("type") == "text_delta"


def measure_due(folder: Path) -> list[Result]:
    """From the due moment of a reminder to the prompt at the model."""
    return asyncio.run(_due_rows(folder))


async def _due_rows(folder: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        main, apart = await _prompted(folder / "due")
        bare = await _bare(folder / "bare")
    timer = "a timer and the bare SDK client"
    return [
        Result("due in the conversation, until asked", main, timer, bare, Bar.DUE, 1.0),
        Result("due in the background, until asked", apart, timer, bare),
    ]


async def _prompted(folder: Path) -> tuple[float, float]:
    """Medians in a running conversation, so that the engine is warm."""
    async with make_scene(folder) as scene, watched(scene) as surface:
        await surface.ask("hi")
        main = [await asked_after(scene, f"m{n}", "false") for n in range(DUE_ROUNDS)]
        apart = [await asked_after(scene, f"b{n}", "true") for n in range(DUE_ROUNDS)]
    return median(main), median(apart)


async def asked_after(scene: Scene, name: str, background: str) -> float:
    due = soon(3)
    head = f'id: {name}\nrun-at: "{due.isoformat()}"\nbackground: {background}'
    text = f"---\n{head}\n---\nCall {name} back.\n"
    (scene.paths.reminders / f"{name}.md").write_text(text)
    return await _seen_after(scene, f"Call {name} back.", due, len(scene.model.requests) + 1)


async def _bare(folder: Path) -> float:
    async with make_scene(folder) as scene, alike(scene) as ask:
        await ask("hi")
        return median([await _bare_after(scene, ask, f"c{n}") for n in range(DUE_ROUNDS)])


async def _bare_after(scene: Scene, ask: Ask, name: str) -> float:
    due, number = soon(1), len(scene.model.requests) + 1
    await asyncio.sleep((due - datetime.now(UTC)).total_seconds())
    asking = asyncio.create_task(_told(ask, f"Call {name} back."))
    seconds = await _seen_after(scene, f"Call {name} back.", due, number)
    await asking
    return seconds


async def _told(ask: Ask, words: str) -> float:
    return await ask(words)


async def _seen_after(scene: Scene, words: str, due: datetime, number: int) -> float:
    """The seconds from `due` until a request has these words; looks from request `number` on."""
    while words not in str((await scene.model.seen(number)).body):
        number += 1
    return (datetime.now(UTC) - due).total_seconds()


def soon(seconds: int) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


def measure_background(folder: Path) -> list[Result]:
    """Forty background runs due at once: how many together, in which order, and for how long."""
    return asyncio.run(_background_rows(folder))


async def _background_rows(folder: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT), make_scene(folder) as scene, watched(scene) as surface:
        request_times = _RequestTimes()
        scene.model.when(request_times, SLOWLY)
        _, stores = await asyncio.to_thread(prepared, scene.paths.root)
        await surface.ask("hi")
        alone = await _run(scene, stores, ["alone"])
        together = await _run(scene, stores, [f"q{number:02}" for number in range(MANY)])
    slots, one = RuntimeConfig().bg_concurrency, alone.seconds
    of, unit = Bar.BACKGROUND, Unit.COUNT
    return [
        Result(
            "runs at once", request_times.most, "the setting", slots, of, most_times=1, unit=unit
        ),
        Result("runs out of order", together.swapped(slots), "all", MANY, of, 0, unit=unit),
        Result(
            f"{MANY} runs due at once, until done",
            together.seconds,
            f"one run, {MANY} times, {slots} at once",
            one * -(-MANY // slots),
            of,
        ),
    ]


class _RequestTimes:
    """A rule of the model that records the time of each request of a run."""

    def __init__(self) -> None:
        self._at: list[float] = []

    def __call__(self, request: ModelRequest) -> bool:
        is_run = "Look after number" in request.last_user_text
        if is_run:
            self._at.append(time.monotonic())
        return is_run

    @property
    def most(self) -> int:
        """The largest number of requests that were answered at the same time."""
        return max(sum(at <= other < at + ANSWERING for other in self._at) for at in self._at)


class _Runs:
    """The ledger rows of some runs, in the order in which the runs began."""

    def __init__(self, rows: Sequence[LedgerRow]) -> None:
        self._due: list[datetime] = []
        began: dict[str, datetime] = {}
        ended: dict[str, datetime] = {}
        for row in rows:
            if row.occurrence is None or row.occurrence.scheduled_at is None:
                continue
            if row.state == OccurrenceState.RUNNING:
                began[row.occurrence.id] = row.ts
                self._due.append(row.occurrence.scheduled_at)
            elif row.state == OccurrenceState.DONE:
                ended[row.occurrence.id] = row.ts
        self.seconds = (max(ended.values()) - min(began.values())).total_seconds()

    def swapped(self, slots: int) -> int:
        """How many runs began after one that was due later, except for runs that began together."""
        return sum(
            any(due < earlier for earlier in self._due[: max(0, place - slots + 1)])
            for place, due in enumerate(self._due)
        )


async def _run(scene: Scene, stores: Stores, names: Sequence[str]) -> _Runs:
    """Run jobs that are due in another order than their names."""
    start = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
    for number, name in enumerate(names):
        due = start + timedelta(seconds=number * 7 % len(names) * WITHIN // len(names))
        head = f'id: {name}\nrun-at: "{due.isoformat()}"\nallow-ping: false'
        text = f"---\n{head}\nupdate-main-session: freely\n---\nLook after number {number}.\n"
        (scene.paths.reminders / f"{name}.md").write_text(text)
    while True:
        rows = (await asyncio.to_thread(stores.ledger.read, start - timedelta(minutes=1))).entries
        own = [row for row in rows if row.occurrence and row.occurrence.job_id in names]
        ends = [row for row in own if row.state in ENDS]
        if len(ends) == len(names):
            assert all(row.state == OccurrenceState.DONE for row in ends), ends
            return _Runs(own)
        await asyncio.sleep(0.5)
