"""What Discord costs: the wait for a first sign, the edits of a long answer, and being there."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median

import discord
from devtools.localdiscord.server import LocalDiscord, RecordedRequest
from devtools.scripted_model import ScriptedModel

from bench.fixtures import (
    BOT,
    cpu_seconds,
    has_page,
    python_process,
    resident_bytes,
    until,
    unused_port,
)
from bench.measure import Bar, Result, Unit
from ollim_bot.offline.server import MessagesServer, Reply, Say
from ollim_bot.surfaces.discord.client import use_api_url

BARE = ("-m", "bench.discord")
LIMIT = 300.0
WARM_UP = 3
ROUNDS = 20
STARTS = 3
CHARACTERS = 20_000
FLOOD = 100_000
BETWEEN_CHECKS = 0.05
# As fast as a quick model writes.
PACE, CHUNK = 0.05, 50
# About the rate that Discord allows, which the bot must keep to.
BETWEEN_EDITS = 1.2
SETTLING_SECONDS = 8.0
IDLE_SECONDS = 20.0

_TICKS = os.sysconf("SC_CLK_TCK")


def measure(folder: Path) -> list[Result]:
    """What Discord costs: the wait for a first sign, the edits of a long answer, being there."""
    return asyncio.run(_measured(folder))


async def _measured(folder: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT), MessagesServer(model := ScriptedModel()) as server:
        provider = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}
        return [
            *await _first_signs(folder / "signs", provider),
            *await _long_answer(folder / "long", provider, model),
            *await _floods(folder / "floods", provider, model),
            await _start(folder / "start", provider),
            *await _idle(folder / "idle", provider),
        ]


async def _first_signs(folder: Path, provider: Mapping[str, str]) -> list[Result]:
    """Medians of rounds in which the two alternate."""
    times: tuple[list[float], list[float]] = ([], [])
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(on_discord(folder / name, command, provider))
            for name, command in (("ours", BOT), ("bare", BARE))
        ]
        for discord in both:
            # Otherwise the rate limits of Discord would be measured.
            discord.allowance(1000, 1.0, of=["send", "edit", "delete", "react", "global"])
        for number in range(WARM_UP + ROUNDS):
            for which in (0, 1) if number % 2 else (1, 0):
                times[which].append(await _first_sign(both[which]))
    ours, bare = (median(each[WARM_UP:]) for each in times)
    name, client, of = "first sign on Discord", "bare client that reacts", Bar.FIRST_SIGN
    return [Result(name, ours, client, bare, of, most=0.3, most_more=0.05)]


async def _first_sign(discord: LocalDiscord) -> float:
    """From the event of a message to the first request that lets the owner see something."""
    await discord.until(lambda: not _at_work(discord), LIMIT)
    begin = len(discord.requests)
    began = time.monotonic()
    discord.say("hi")
    await discord.until(lambda: _visible(discord.requests[begin:]), LIMIT)
    return min(each.at for each in _visible(discord.requests[begin:])) - began


def _visible(requests: Sequence[RecordedRequest]) -> list[RecordedRequest]:
    """A reaction or a message, but not the typing notice."""
    return [
        each
        for each in requests
        if each.method in ("PUT", "POST") and "/messages" in each.path and each.status < 300
    ]


def _at_work(discord: LocalDiscord) -> bool:
    return any("…" in text for text in discord.texts)


async def _long_answer(
    folder: Path, provider: Mapping[str, str], model: ScriptedModel
) -> list[Result]:
    """All that is sent and edited for it, against the least that keeps it fresh: one request
    whenever one is due, and one more to complete each message before the next begins."""
    text = "\n\n".join(f"Paragraph {n} says a little more about tea. " * 4 for n in range(200))
    text = text[:CHARACTERS]
    async with on_discord(folder, BOT, provider) as discord:
        await discord.until(lambda: discord.said, LIMIT)
        before, begin, began = len(discord.said), len(discord.requests), time.monotonic()
        model.then(Reply((Say(text),), pace=PACE, chunk=CHUNK))
        discord.say("tell me all about tea")
        await discord.until(lambda: _stands(discord, text), LIMIT)
        taken = time.monotonic() - began
        written = [each for each in discord.requests[begin:] if _is_written(each)]
        refused = [each for each in discord.requests if each.status == 429]
        messages = len(discord.said) - before
    least, of, unit = taken / BETWEEN_EDITS + messages, Bar.EDITS, Unit.COUNT
    name, sent = f"sends and edits of {CHARACTERS} characters", len(written)
    return [
        Result(name, sent, "least for it", least, of, most_times=1.2, unit=unit),
        Result("answers 429 meanwhile", len(refused), "all of them", sent, of, 0, unit=unit),
    ]


def _is_written(request: RecordedRequest) -> bool:
    return request.method in ("POST", "PATCH") and "/messages" in request.path


def _stands(discord: LocalDiscord, text: str) -> bool:
    """Whether the answer is there, in messages or as the file that follows its beginning."""
    files = [each.content.decode() for message in discord.said for each in message.files]
    shown = ["".join(words.split()) for words in ("".join(discord.texts), *files)]
    return any(each.endswith("".join(text.split())) for each in shown)


async def _floods(folder: Path, provider: Mapping[str, str], model: ScriptedModel) -> list[Result]:
    """The longest wait for a health check from the question until the answer is there."""
    waits: list[float] = []
    messages = 0
    for name, unit in (("words", "tea "), ("headings", "#\n")):
        text, port = unit * (FLOOD // len(unit)), unused_port()
        settings = {**provider, "OLLIM_WEB_PORT": str(port)}
        async with on_discord(folder / name, BOT, settings) as discord:
            await discord.until(lambda: discord.said, LIMIT)
            before = len(discord.said)
            model.then(Reply((Say(text),), pace=PACE, chunk=20 * CHUNK))
            discord.say("tell me all about tea")
            waits.append(0.0)
            while not _stands(discord, text):
                waits[-1] = max(waits[-1], await _health_check(port))
            messages = len(discord.said) - before
    name, words, headings = f"beside {FLOOD} characters of headings", *waits
    return [
        Result(f"health check {name}", headings, "of words", words, most=0.2),
        Result(
            f"messages {name}",
            messages,
            "the most of one answer",
            10,
            most_times=1,
            unit=Unit.COUNT,
        ),
    ]


async def _health_check(port: int) -> float:
    await asyncio.sleep(BETWEEN_CHECKS)
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    host = f"127.0.0.1:{port}"
    writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()
    return time.monotonic() - began


async def _start(folder: Path, provider: Mapping[str, str]) -> Result:
    """Seconds from the start command until the bot is ready: on Discord, or on its page."""
    connected: list[float] = []
    up: list[float] = []
    for number in range(STARTS):
        began = time.monotonic()
        async with on_discord(folder / f"with-{number}", BOT, provider):
            connected.append(time.monotonic() - began)
        began = time.monotonic()
        port = unused_port()
        settings = {**provider, "OLLIM_WEB_PORT": str(port)}
        with python_process(folder / f"without-{number}", BOT, settings) as process:
            await asyncio.to_thread(until, partial(has_page, port), process)
            up.append(time.monotonic() - began)
    page = "page, without Discord"
    return Result("start until connected", median(connected), page, median(up), most_times=1.5)


async def _idle(folder: Path, provider: Mapping[str, str]) -> list[Result]:
    """The cost of our own process, without the engine's, with and without Discord."""
    async with LocalDiscord() as discord:
        account = {"DISCORD_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url}
        with (
            python_process(folder / "with", BOT, {**provider, **account}) as with_it,
            python_process(folder / "without", BOT, provider) as without,
        ):
            await discord.connected(LIMIT)
            await asyncio.sleep(SETTLING_SECONDS)
            both = (with_it.pid, without.pid)
            before = [cpu_seconds(pid) for pid in both]
            await asyncio.sleep(IDLE_SECONDS)
            on, off = (
                (cpu_seconds(pid) - used) / IDLE_SECONDS
                for pid, used in zip(both, before, strict=True)
            )
            memory, memory_off = (resident_bytes(pid) for pid in both)
    return [
        Result(
            "idle with Discord",
            on,
            "without",
            max(off, 1 / IDLE_SECONDS / _TICKS),
            most_more=0.005,
            unit=Unit.SHARE,
        ),
        Result(
            "memory of the idle bot with Discord",
            memory,
            "without",
            memory_off,
            most_more=40e6,
            unit=Unit.BYTES,
        ),
    ]


@asynccontextmanager
async def on_discord(
    folder: Path, command: Sequence[str], provider: Mapping[str, str]
) -> AsyncIterator[LocalDiscord]:
    """A local Discord, and a program that is connected to it."""
    async with LocalDiscord() as discord:
        account = {"DISCORD_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url}
        with python_process(folder, command, {**provider, **account}):
            await discord.connected(LIMIT)
            yield discord


class BareClient(discord.Client):
    async def on_message(self, message: discord.Message) -> None:
        if message.author != self.user:
            await message.add_reaction("👀")


async def _react() -> None:
    await use_api_url(os.environ["DISCORD_API_URL"])
    intents = discord.Intents.none()
    intents.dm_messages = True
    async with BareClient(intents=intents) as client:
        await client.start(os.environ["DISCORD_TOKEN"])


if __name__ == "__main__":
    asyncio.run(_react())
