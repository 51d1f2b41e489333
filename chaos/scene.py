"""The bot under test, with the services and the owner of the harness around it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from devtools.localdiscord.server import LocalDiscord
from tests.e2e.bot import Bot
from tests.patience import patience
from tests.ports import unused_port

from chaos.calendar_server import CalendarServer
from chaos.fault_control import CRASH, POWER_CUT, FaultControl
from chaos.marking_model import MarkingModel
from chaos.phones import Phones, owners_phones
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
# The zone of the settings, which the owner leaves and comes back to.
HOME_ZONE = "Europe/Berlin"
_ROOT = Path(__file__).resolve().parents[1]
_BOT_WITH_FAULTS = ("-m", "chaos.fault_injection")
_LOOK = 0.1
# The name under which each error of the system is counted.
ERROR_NAMES = {
    "EIO": "fsync refused (EIO)",
    "EROFS": "read-only (EROFS)",
    "ENOSPC": "no room (ENOSPC)",
}
_MINUTELY = '---\nid: minutely\ncron: "* * * * *"\nbackground: true\n---\nLook around.\n'
_BY_HAND = '---\nid: byhand\ncron: "0 4 1 1 *"\nbackground: true\n---\nLook around.\n'


@dataclass
class ChaosScene:
    """The bot of one run, the services around it, and what the harness knows about them.

    `fault_control` injects faults where the bot writes. `hits` counts how often each fault really
    happened. `undo` ends the faults that last. `discord_faults` counts the faults given to Discord
    by their name and their route, until `count_hits` counts those that happened.

    `unsent` has the messages to the page that the bot has not confirmed, and `unaccepted` the
    calls of webhooks that it has not accepted, each with its webhook. `unsent_addresses` has the
    pasted addresses that it has not confirmed, each with its calendar. All are sent again.
    `subscribed` are the calendars that the owner knows to be subscribed, and `has_used_calendars`
    says that one was used since they were last read. `zone` is the owner's zone, or empty after a
    change without an answer.
    `needs_restart` is true after a fault that can leave work to the next start: the bot tries
    again then what it could not write.
    """

    bot: Bot
    discord: LocalDiscord
    model: MarkingModel
    record: Record
    fault_control: FaultControl
    calendars: CalendarServer
    phones: Phones
    webhook_port: int
    hits: Counter[str] = field(default_factory=Counter)
    undo: AsyncExitStack = field(default_factory=AsyncExitStack)
    unsent: dict[str, str] = field(default_factory=dict)
    unaccepted: dict[int, str] = field(default_factory=dict)
    unsent_addresses: dict[str, str] = field(default_factory=dict)
    subscribed: list[str] = field(default_factory=list)
    has_used_calendars: bool = False
    zone: str = HOME_ZONE
    discord_faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    number: int = 0
    needs_restart: bool = False
    starts: int = 0

    def next_number(self) -> int:
        self.number += 1
        return self.number

    async def kill(self) -> None:
        await self.bot.kill()
        self.record.keep_turns()

    async def start(self) -> None:
        """Start the bot until it is up. Afterwards no fault is pending.

        A fault that is still pending may crash the bot during the start: then it starts again.
        """
        while True:
            may_crash = self.fault_control.is_pending
            self.starts += 1
            try:
                await self._start_bot()
            except (AssertionError, TimeoutError, aiohttp.ClientError):
                if not may_crash or self.fault_control.is_pending:
                    raise
            else:
                if self.fault_control.withdraw() or not may_crash:
                    return
            await self.kill()

    async def start_with_fault(self) -> None:
        """Start the bot once, and leave a pending fault, which may crash the bot at any time."""
        self.starts += 1
        with suppress(AssertionError, TimeoutError, aiohttp.ClientError):
            await self._start_bot()

    async def _start_bot(self) -> None:
        """A busy machine gets twice the time."""
        try:
            await self.bot.start(command=_BOT_WITH_FAULTS)
        except TimeoutError:
            await self.bot.reconnect()

    def count_injected_faults(self) -> None:
        """Count the faults that happened since the last call, and note crashes for the checker."""
        reports = self.fault_control.new_reports()
        for kind, where in reports:
            if kind in (CRASH, POWER_CUT):
                self.hits[where] += 1
                self.hits["power cut"] += kind == POWER_CUT
                self.record.note("injected_faults", {"kind": kind, "where": where})
        errors = {kind for kind, _ in reports} & ERROR_NAMES.keys()
        self.hits.update(ERROR_NAMES[each] for each in errors)

    async def cli(self, *words: str, typed: str = "") -> int:
        """Run a command as the owner does in a terminal, and return its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ollim_bot",
            *words,
            env=self.bot.environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(patience()):
                await process.communicate(typed.encode())
                return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def write_job(self, path: str, text: str) -> None:
        """Write a file as an editor does that makes a new one and renames it over the old one."""
        target = self.bot.data / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.new")
        draft.write_text(text)
        draft.replace(target)

    def note_reminder(self, name: str, at: datetime, *, is_timed: bool = True) -> None:
        """Note for the checker that this reminder has to come; `is_timed` if it is due at `at`."""
        row = {"id": name, "at": at.isoformat(), "text": words_of(name), "is_timed": is_timed}
        self.record.note("orders", row)


async def comes_true(condition: Callable[[], object], seconds: float) -> bool:
    """Whether it holds within so many seconds."""
    latest = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > latest:
            return False
        await asyncio.sleep(_LOOK)
    return True


def words_of(name: str) -> str:
    """What a reminder with this name says."""
    return f"Drink {name}."


def soon(seconds: float) -> datetime:
    """The first whole second that is at least `seconds` from now; job files have whole seconds."""
    return (datetime.now(UTC) + timedelta(seconds=seconds + 1)).replace(microsecond=0)


@asynccontextmanager
async def chaos_scene(home: Path, settings: Mapping[str, str]) -> AsyncIterator[ChaosScene]:
    """A running bot that has posted its welcome. It is killed at the end in any case."""
    record = Record(home / "record", home / "bot" / "data" / "state")
    model = MarkingModel(record)
    async with (
        LocalDiscord() as discord,
        MessagesServer(model) as server,
        CalendarServer() as calendars,
        owners_phones(record) as phones,
    ):
        fault_control = FaultControl(home / "faults")
        webhook_port = unused_port()
        environment = {
            "DISCORD_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "CHAOS_FAULTS": str(fault_control.folder),
            "OLLIM_TIMEZONE": HOME_ZONE,
            "WEBHOOK_PORT": str(webhook_port),
            "WEBHOOK_SECRET": SECRET,
            **settings,
            "PYTHONPATH": os.pathsep.join(
                [settings.get("PYTHONPATH", str(_ROOT / "src")), str(_ROOT)]
            ),
        }
        bot = Bot(home / "bot", server.url, environment)
        scene = ChaosScene(
            bot, discord, model, record, fault_control, calendars, phones, webhook_port
        )
        _prepare(scene)
        try:
            await scene.start()
            await discord.connected(patience())
            await discord.until(lambda: discord.said, patience())
            yield scene
        finally:
            await scene.undo.aclose()
            await bot.kill()


def _prepare(scene: ChaosScene) -> None:
    state = scene.bot.data / "state"
    state.mkdir(parents=True, mode=0o700)
    now = datetime.now(UTC)
    dates = {"critical_reset_date": f"{now:%Y-%m-%d}", "daily_used_reset": f"{now:%Y-%m-%d}"}
    budget = {**_BUDGET, "last_refill": now.isoformat(), **dates}
    (state / "ping_budget.json").write_text(json.dumps(budget))
    scene.phones.write_pairing(state)
    scene.write_job("routines/minutely.md", _MINUTELY)
    scene.write_job("routines/byhand.md", _BY_HAND)
    for name, text in WEBHOOKS.items():
        scene.write_job(f"webhooks/{name}.md", text)
