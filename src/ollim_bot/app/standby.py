"""Standing by: asks for the lease until this machine leads, and opens the shared database."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from ollim_bot.app.command_rows import CommandRows
from ollim_bot.app.lead import LeaseKeeper
from ollim_bot.app.provider_engine import ProviderEngine
from ollim_bot.app.records import RecordedEngine, SharedRecords
from ollim_bot.app.services import Service, start_again
from ollim_bot.clock import boot_time
from ollim_bot.domain.lease import ASK_EVERY
from ollim_bot.domain.standby import Leader
from ollim_bot.errors import StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Disk, Journal
from ollim_bot.store.backend import Backend
from ollim_bot.store.command_server import CommandServer
from ollim_bot.store.files import OsDisk
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.mirrors import KEPT_HASHES, Mirrors, Report
from ollim_bot.store.postgres.connection import parse_address
from ollim_bot.store.postgres.database import open_postgres
from ollim_bot.store.postgres.lease import Lease
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_STANDS_BY = (
    "{leader} leads, and this machine stands by: it shows everything and changes nothing. Use the "
    "page or the commands on {leader}."
)
_NOBODY_LEADS = "No machine leads just now; this one stands by and changes nothing yet."
_NO_COMMANDS = (
    "Commands on this machine cannot ask the bot ({reason}). They connect by themselves, and "
    "change nothing while it runs."
)
_UNREACHABLE = "The database cannot be reached, so this machine stands by. {reason}"
# The fact that says how far the schedule has come, and how often it is written, in seconds.
_HEARTBEAT, _SHARE_EVERY = "heartbeat", 10.0

_logger = logging.getLogger(__name__)


def _put_heartbeat(text: str, tx: Transaction) -> None:
    tx.meta.put(_HEARTBEAT, text)


class SharedDatabase:
    """A PostgreSQL database that several machines share: one of them leads, by its lease."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        heartbeat: HeartbeatFile,
        commands: Path,
        records: SharedRecords,
        end: Callable[[str], None],
        hand_over: Callable[[], object] = lambda: None,
        boot: Callable[[], float] = boot_time,
    ) -> None:
        """Read the address; nothing is connected yet. Raises `OllimError`.

        Commands on this machine are answered at `commands`, while this waits or leads. `end` and
        `hand_over` are as in `LeaseKeeper`.
        """
        self._address = parse_address(url)
        self._clock = clock
        self._heartbeat = heartbeat
        self.records = records
        self.lease = Lease(self._address, platform.node() or "the other machine", boot)
        self._keeper = LeaseKeeper(self.lease, end, boot, hand_over)
        self._command_rows = CommandRows(self._address, self.lease, clock.now)
        self._commands = CommandServer(commands, self._command_rows)
        self.standing = _NOBODY_LEADS
        self._was_refused = asyncio.Event()

    def close(self) -> None:
        """Let another machine lead at once, if this one does."""
        self.records.close()
        self._commands.stop()
        self._keeper.stop()
        self.lease.close()
        self._command_rows.close()

    def answer_commands(self, store: Store) -> None:
        """Let commands on this machine change rows by the store of this bot."""
        self._command_rows.open(store)

    def check(self) -> None:
        """Raises `StorageError` if the server does not answer."""
        self.lease.leader()

    def open_for_reading(self, now: Callable[[], datetime]) -> Backend:
        """The rows, for questions only. Raises `StorageError`."""
        return open_postgres(self._address, now, lease=None)

    def open_for_leader(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        report: Report,
        disk: Disk | None,
        journal: Journal,
    ) -> Backend:
        """The rows, for the steps of this lease. The state files are written anew from them."""
        mirrors = Mirrors(paths, disk or OsDisk(), report, journal, kept=KEPT_HASHES)
        return open_postgres(self._address, now, lease=self.lease.held, mirrors=mirrors)

    def recorded(self, chosen: ProviderEngine) -> ProviderEngine:
        """The engine, with what it records stored for the other machines."""
        return replace(chosen, engine=RecordedEngine(chosen.engine, self.records))

    async def take_up(self, store: Store) -> None:
        """Go on with what the engine recorded elsewhere, and from where the schedule has come."""
        self.records.lead(store)
        found = await store.read(lambda tx: tx.meta.get(_HEARTBEAT))
        if found is not None:
            with suppress(StorageError):  # a full disk must not prevent a start
                await asyncio.to_thread(self._heartbeat.write, datetime.fromisoformat(found))

    async def share_heartbeat(self, store: Store) -> None:
        """Let the other machines know how far the schedule has come, until cancelled."""
        shared: datetime | None = None
        while True:
            moment = await asyncio.to_thread(self._heartbeat.read)
            if moment is not None and moment != shared:
                text = moment.isoformat()
                with suppress(StorageError):  # the next one is tried again
                    await store.transact(partial(_put_heartbeat, text))
                    shared = moment
            await self._clock.sleep(_SHARE_EVERY)

    async def lead_or_stand_by(self, ends: asyncio.Event, show: Service) -> bool:
        """Return when this machine leads; False if `ends` is set before.

        While it stands by, `show` runs, and is started again after each failure.
        """
        try:
            self._commands.start()
        except OSError as refused:
            _logger.warning("%s", _NO_COMMANDS.format(reason=refused.strerror or refused))
        asking = asyncio.create_task(self._until_leading())
        others = {asyncio.create_task(ends.wait()), asyncio.create_task(self._show(show))}
        try:
            await asyncio.wait({asking, *others}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
            return asking.done()
        finally:
            for each in (asking, *others):
                each.cancel()
            await asyncio.wait({asking, *others})

    async def standing_changed(self) -> None:
        """Return when `standing` may have changed."""
        self._was_refused.clear()
        await self._was_refused.wait()

    async def _until_leading(self) -> None:
        while not await asyncio.to_thread(self._take):
            self._was_refused.set()
            await self._until_next_try()
        # Before anything else: to close the page of a standby may take its time.
        self._keeper.start()

    async def _until_next_try(self) -> None:
        """Return when it is time to ask again; a lease that is let go is heard of at once."""
        try:
            await asyncio.to_thread(self.lease.wait, ASK_EVERY)
        except StorageError:
            await self._clock.sleep(ASK_EVERY)

    async def _show(self, show: Service) -> None:
        async def tell(error: BaseException) -> None:
            _logger.warning("The page cannot be shown while this machine stands by: %s", error)

        await self._was_refused.wait()
        _logger.info("%s", self.standing)
        await start_again(show, "page of a standby", tell, self._clock)

    def _take(self) -> bool:
        try:
            held = self.lease.take()
            if held is not None:
                self.records.note_lead(held.epoch)
                return True
            leader = self.lease.leader()
        except StorageError as gone:
            if self.standing != (sentence := _UNREACHABLE.format(reason=gone)):
                _logger.warning("%s", sentence)
            self.standing = sentence
        else:
            self._note(leader)
        return False

    def _note(self, leader: Leader | None) -> None:
        self.records.note_leader(None if leader is None else leader.epoch)
        self._command_rows.leader = leader.name if leader is not None and leader.is_leading else ""
        if leader is None or not leader.is_leading:
            self.standing = _NOBODY_LEADS
            return
        self.standing = _STANDS_BY.format(leader=leader.name)
        # A sentinel acts on its own only on the machine that led last, which has a heartbeat.
        self._heartbeat.forget()
