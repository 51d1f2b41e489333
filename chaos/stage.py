"""The bot under test with all that surrounds it: its Discord, its model, its owner's hand."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from devtools.localdiscord.server import LocalDiscord
from tests.e2e.bot import LIMIT, Bot
from tests.ports import unused_port

from chaos.companion import Companion
from chaos.orders import CUT, DIE, Orders
from chaos.record import Record
from ollim_bot.offline.server import MessagesServer

_BUDGET = {
    "version": 1,
    "capacity": 500,
    "available": 500.0,
    "refill_rate_minutes": 100_000,
    "critical_used": 0,
    "daily_used": 0,
}
_FIELDS = "fields: {type: object, required: [number], properties: {number: {type: integer}}}"
_PLAIN = f"---\nid: plain\ndescription: A parcel\ndeliver: plain\n{_FIELDS}\n---\n"
WEBHOOKS = {
    "plain": f"{_PLAIN}Ping p{{{{number}}}}\n",
    "look": f"---\nid: look\n{_FIELDS}\n---\nLook around.\n",
}
SECRET = "the-secret-of-all-webhooks-of-the-chaos"
_ROOT = Path(__file__).resolve().parent.parent
_WOUNDED = ("-m", "chaos.wounded")
REFUSALS = {
    "EIO": "fsync refused (EIO)",
    "EROFS": "read-only (EROFS)",
    "ENOSPC": "no room (ENOSPC)",
}
_MINUTELY = '---\nid: minutely\ncron: "* * * * *"\nbackground: true\n---\nLook around.\n'
_BY_HAND = '---\nid: byhand\ncron: "0 4 1 1 *"\nbackground: true\n---\nLook around.\n'


@dataclass
class Stage:
    """`hits` counts how often each fault was really met.

    `undo` is what has to be done before all can be well again. `unsent` are messages to the page
    that nobody has confirmed, and `unaccepted` such calls of webhooks, each with its webhook; the
    page and the caller send them again. `is_owed_a_start` is whether something was left to the
    next start, as the bot does with what it could not write down. By `orders` the bot dies and
    fails at points of its own writing.
    """

    bot: Bot
    discord: LocalDiscord
    model: Companion
    record: Record
    orders: Orders
    webhook_port: int
    hits: Counter[str] = field(default_factory=Counter)
    undo: AsyncExitStack = field(default_factory=AsyncExitStack)
    unsent: dict[str, str] = field(default_factory=dict)
    unaccepted: dict[int, str] = field(default_factory=dict)
    ordered: Counter[tuple[str, str]] = field(default_factory=Counter)
    number: int = 0
    is_owed_a_start: bool = False
    starts: int = 0

    def next_number(self) -> int:
        self.number += 1
        return self.number

    async def kill(self) -> None:
        await self.bot.kill()
        self.record.gather()

    async def start(self) -> None:
        """Until it is up, also if it has to die once more on the way; then no order is left."""
        while True:
            is_to_die = self.orders.is_given
            self.starts += 1
            try:
                await self._bot_is_up()
            except (AssertionError, TimeoutError, aiohttp.ClientError):
                if not is_to_die or self.orders.is_given:
                    raise
            else:
                if self.orders.withdraw() or not is_to_die:
                    return
            await self.kill()

    async def _bot_is_up(self) -> None:
        """On a machine that is busy it takes its time."""
        try:
            await self.bot.start(command=_WOUNDED)
        except TimeoutError:
            await self.bot.reconnect()

    def count_wounds(self) -> None:
        """What has been carried out since; the judge has to know of what was torn."""
        done = self.orders.carried_out()
        for deed, where in done:
            if deed in (DIE, CUT):
                self.hits[where] += 1
                self.hits["power cut"] += deed == CUT
                self.record.note("wounds", {"deed": deed, "where": where})
        self.hits.update(REFUSALS[deed] for deed in {deed for deed, _ in done} & REFUSALS.keys())

    async def cli(self, *words: str) -> int:
        """Run a command as the owner does in a terminal; gives its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ollim_bot",
            *words,
            env=self.bot.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(LIMIT):
                return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def write_job(self, path: str, text: str) -> None:
        """As an editor does that writes a new file and puts it in place of the old one."""
        place = self.bot.data / path
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.new")
        draft.write_text(text)
        draft.replace(place)

    def order(self, name: str, at: datetime, text: str) -> None:
        """What the judge has to know about a reminder."""
        self.record.note("orders", {"id": name, "at": at.isoformat(), "text": text})


def soon(seconds: float) -> datetime:
    """A whole second, as job files have them, not before so many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds + 1)).replace(microsecond=0)


@asynccontextmanager
async def staged(home: Path, settings: Mapping[str, str]) -> AsyncIterator[Stage]:
    """A bot that has said its welcome. It is gone afterwards, whatever happens."""
    record = Record(home / "record", home / "bot" / "data" / "state")
    model = Companion(record)
    async with LocalDiscord() as discord, MessagesServer(model) as server:
        orders = Orders(home / "orders")
        webhook_port = unused_port()
        surroundings = {
            "DISCORD_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "CHAOS_ORDERS": str(orders.folder),
            "WEBHOOK_PORT": str(webhook_port),
            "WEBHOOK_SECRET": SECRET,
            **settings,
            "PYTHONPATH": os.pathsep.join(
                [settings.get("PYTHONPATH", str(_ROOT / "src")), str(_ROOT)]
            ),
        }
        bot = Bot(home / "bot", server.url, surroundings)
        stage = Stage(bot, discord, model, record, orders, webhook_port)
        _prepare(stage)
        try:
            await stage.start()
            await discord.connected(LIMIT)
            await discord.until(lambda: discord.said, LIMIT)
            yield stage
        finally:
            await stage.undo.aclose()
            await bot.kill()


def _prepare(stage: Stage) -> None:
    state = stage.bot.data / "state"
    state.mkdir(parents=True, mode=0o700)
    now = datetime.now(UTC)
    dates = {"critical_reset_date": f"{now:%Y-%m-%d}", "daily_used_reset": f"{now:%Y-%m-%d}"}
    budget = {**_BUDGET, "last_refill": now.isoformat(), **dates}
    (state / "ping_budget.json").write_text(json.dumps(budget))
    stage.write_job("routines/minutely.md", _MINUTELY)
    stage.write_job("routines/byhand.md", _BY_HAND)
    for name, text in WEBHOOKS.items():
        stage.write_job(f"webhooks/{name}.md", text)
