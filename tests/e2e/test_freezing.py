"""No search or pattern of a hostile model or file freezes the bot; reminders come in time."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.e2e.test_reminders import left, remind, said
from tests.features.tool_servers import hostile_server
from tests.patience import patience

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.values.tool_servers import ServerState, ToolServerRecord
from ollim_bot.offline.server import CallTool, ModelRequest, Reply
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.terminal_data import open_data, writable

# In seconds; much less than a delay that an owner would notice as a freeze.
_POLL_SECONDS = 0.05
STARS = "*a" * 12
LONG = "a" * 4000
ROUTINE = """---
id: {name}
cron: "0 9 * * *"
background: true
allowed-tools: ["Write(./{stars}b)", "Bash(ollim-bot runs {words} x)", "Grep(./{stars}b)"]
---
look
"""
ADD = "ollim-bot reminder add --in 2h -m"
CALLS = [
    CallTool("Bash", {"command": "ollim-bot reminder list /usr/*/*"}),
    CallTool("Bash", {"command": f"ollim-bot reminder list {' '.join(['a/b'] * 5000)}"}),
    CallTool("Bash", {"command": f"{ADD} '{'a/b/c ' * 15000}'"}),
    CallTool("Bash", {"command": f"{ADD} '{'.' * 90000}'"}),
    CallTool("Bash", {"command": '"' * 90000}),
    CallTool("Bash", {"command": f"cat {' '.join(f'routines/{n}' for n in range(150))}"}),
    CallTool("Read", {"file_path": LONG}),
    CallTool("Write", {"file_path": "a" * 250, "content": "x"}),
    CallTool("Bash", {"command": f"ollim-bot runs {'a ' * 190}"}),
    CallTool("Read", {"file_path": "a/" * 2000}),
    CallTool("Read", {"file_path": "../" * 1300}),
    CallTool("Grep", {"pattern": "x", "path": "a/" * 2000, "glob": STARS * 50}),
    CallTool("Glob", {"pattern": f"{'**/' * 500}*.md"}),
    CallTool("WebFetch", {"url": f"https://{'a.' * 20000}example", "prompt": "x"}),
    CallTool("WebFetch", {"url": f"https://example.com/{'%' * 50000}", "prompt": "x"}),
    CallTool(
        "Write",
        {
            "file_path": "routines/own.md",
            "content": ROUTINE.format(name="own", stars=STARS, words="** a " * 12),
        },
    ),
    CallTool("Write", {"file_path": "skills/a/SKILL.md", "content": f"---\n{'- ' * 40000}\n---\n"}),
]


class HealthWatch:
    """`worst` is the longest time of an answer to a health check, in seconds."""

    def __init__(self) -> None:
        self.worst = 0.0
        self.answers = 0

    @property
    def is_prompt(self) -> bool:
        """Whether none took longer than a second; more where even Python starts slowly."""
        return self.worst < patience() / 120


@asynccontextmanager
async def watched(bot: Bot) -> AsyncIterator[HealthWatch]:
    """Check the health all the time, over new connections; own delays do not count."""
    watch = HealthWatch()

    async def ask() -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:
            while True:
                begun = time.monotonic()
                await asyncio.sleep(_POLL_SECONDS)
                own = time.monotonic() - begun - _POLL_SECONDS
                begun = time.monotonic()
                async with http.get(f"{bot.url}/healthz") as answer:
                    assert answer.status == 200
                watch.worst = max(watch.worst, time.monotonic() - begun - own)
                watch.answers += 1

    task = asyncio.create_task(ask())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait({task})


def is_told(word: str) -> Callable[[ModelRequest], bool]:
    def told(asked: ModelRequest) -> bool:
        last = asked.messages[-1]
        return word in asked.last_user_text and not list(last.of_type("tool_result"))

    return told


async def run_now(bot: Bot, job: str) -> int | None:
    command = (sys.executable, "-m", "ollim_bot", "routine", "run", job)
    process = await asyncio.create_subprocess_exec(
        *command, env=bot.environment(), stdout=asyncio.subprocess.PIPE
    )
    await process.communicate()
    return process.returncode


def ends(bot: Bot) -> dict[str, str]:
    """The last state of each routine."""
    rows = [row for row in bot.ledger() if row.state in ("done", "skipped")]
    named = {row.occurrence.job_id: row.state for row in rows if row.occurrence}
    return {name: state for name, state in named.items() if name.startswith("wide")}


FLOODING = ("empty", "changed", "log")
LARGE = ("schema", "tools")


def start_hostile_servers(bot: Bot) -> None:
    """Name a server of each manner in the file, and let the bot start them all."""
    entries = {
        manner: {"command": sys.executable, "args": ["-S", hostile_server.__file__, manner]}
        for manner in (*FLOODING, *LARGE, "honest")
    }
    (bot.data / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    specs = read_servers(DataPaths(bot.data)).specs

    def started(record: ToolServerRecord) -> ToolServerRecord:
        record = record.written(specs)
        for name in specs:
            record = record.holding(name, record.of(name).started())
        return record

    data = open_data(Caller(bot.environment(), bot.home))
    with writable(data) as changed, changed.database() as database:
        database.run(lambda tx: tx.tool_servers.change(started))


def server_state(bot: Bot, name: str) -> ServerState:
    paths = DataPaths(bot.data)
    record = look_into(paths, datetime.now(UTC), lambda tx: tx.tool_servers.get())
    return (record or ToolServerRecord()).of(name)


def is_listed_or_late(bot: Bot, name: str) -> bool:
    """On a slow machine, a large listing may take longer than the time for a start."""
    state = server_state(bot, name)
    return bool(state.waiting or state.trouble)


@pytest.mark.minutes
@pytest.mark.own_process
async def test_hostile_tool_servers_hold_up_neither_the_bot_nor_a_reminder(killable: Scene) -> None:
    bot = killable.bot
    async with watched(bot) as watch:
        start_hostile_servers(bot)
        moment = remind(bot, "water", 4, head="must: true\n")
        await bot.until(lambda: all(server_state(bot, name).trouble for name in FLOODING))
        await bot.until(lambda: all(is_listed_or_late(bot, name) for name in LARGE))
        await bot.until(lambda: server_state(bot, "honest").waiting)
        await bot.until(lambda: "water" not in left(bot))
        await bot.until(lambda: watch.answers > 10)
    (came,) = await said(bot, "Drink water.")
    assert came - moment < timedelta(seconds=5)
    assert watch.is_prompt, watch.worst


@pytest.mark.real_process
@pytest.mark.minutes
@pytest.mark.real_engine
async def test_nothing_that_is_looked_at_holds_up_the_bot(scene: Scene) -> None:
    bot = scene.bot
    folder = bot.data / "routines"
    for number in range(150):
        (folder / f"{number}").mkdir(parents=True)
    # The widest pattern that is allowed, and a wider one, which an owner may write by hand.
    widest = ROUTINE.format(name="widest", stars="*a" * 7, words="** a " * 7)
    (folder / "widest.md").write_text(widest)
    (folder / "wider.md").write_text(ROUTINE.format(name="wider", stars=STARS, words="** a " * 12))
    scene.model.when(is_told("YOUR TASK:\n\nlook"), Reply(tuple(CALLS), chunk=20_000))
    scene.model.when(is_told("begin"), Reply(tuple(CALLS), chunk=20_000))
    async with watched(bot) as watch:
        moment = remind(bot, "water", 4)
        await bot.say("begin")
        assert await run_now(bot, "widest") == 0
        assert await run_now(bot, "wider") == 2
        await bot.answer()
        await bot.until(lambda: len(ends(bot)) == 1)
        await bot.until(lambda: "water" not in left(bot))
        await bot.until(lambda: watch.answers > 10)
    (came,) = await said(bot, "Drink water.")
    assert came - moment < timedelta(seconds=60)
    assert ends(bot) == {"widest": "done"}
    assert watch.is_prompt, watch.worst
