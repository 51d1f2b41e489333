"""What our way of asking adds to a turn: the wait for the first words, and the bytes sent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, StreamEvent
from claude_agent_sdk.types import SystemPromptPreset, ThinkingConfig
from devtools.scripted_model import ScriptedModel

from bench.bars import Bar
from bench.fixtures import prepared
from bench.measure import Result, Unit, seconds
from bench.storage import bare_append
from bench.timing_surface import TimingSurface
from ollim_bot.app.app import Adapters, App
from ollim_bot.domain.shared_files import Names
from ollim_bot.engine.engine import ClaudeEngine
from ollim_bot.engine.launcher import engine_variables, launcher
from ollim_bot.offline.server import MessagesServer
from ollim_bot.paths import DataPaths
from ollim_bot.prompts.turns import build_system_prompt, read_manual
from ollim_bot.settings import Settings
from ollim_bot.store.owner_files import ProfileFiles
from ollim_bot.tools.registry import TOOL_LINES

WARM_UP = 3
ROUNDS = 40
LIMIT = 300.0
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


def measure(folder: Path, open_client: OpenClient = open_bot) -> list[Result]:
    return asyncio.run(_measured(folder, open_client))


async def _measured(folder: Path, open_client: OpenClient) -> list[Result]:
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
