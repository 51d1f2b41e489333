"""Standing by: asks for the lease until this machine leads, and opens the shared database."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from ollim_bot.app.surfaces import Service, start_again
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.logs import refusal_logged
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.backend import Backend, Sharing
from ollim_bot.kernel.store.database_errors import OtherSchema
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.kernel.store.mirrors import KEPT_HASHES, Mirrors, Report
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.ports import AgentEngine, Disk, Journal
from ollim_bot_standby.command_server import CommandRows, CommandServer
from ollim_bot_standby.held_lease import ASK_EVERY, boot_time
from ollim_bot_standby.keys import key_names, note_missing
from ollim_bot_standby.machines import Leader, machine_id
from ollim_bot_standby.postgres.connection import parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease, LeaseKeeper, end_process
from ollim_bot_standby.postgres.server import KEY_NAMES
from ollim_bot_standby.postgres.transfer import keep_schedule
from ollim_bot_standby.records import RecordedEngine, SharedRecords
from ollim_bot_standby.stored_files import StoredFiles, adds_power

_NOBODY_LEADS = "No machine leads just now; this one stands by and changes nothing yet."
_NO_COMMANDS = (
    "Commands on this machine cannot ask the bot ({reason}). They connect by themselves, and "
    "change nothing while it runs."
)
_UNREACHABLE = "The database cannot be reached, so this machine stands by. {reason}"
# In seconds: how often it is written how far the schedule has come.
_SHARE_EVERY = 10.0
# In seconds: how often a machine that stands by shows that it lives.
_LIFE_EVERY = 30.0
# Tables and records that the sentinel reads, and after how many seconds they are copied again.
_OF_SCHEDULE = ("ledger", "due_items", "deliveries", "skips", "zone", "presence", "channels")
_KEEP_EVERY = 5.0
# In seconds: how often a standby listens whether the leader has committed something.
_LISTEN = 0.5

_logger = logging.getLogger(__name__)


def _put_heartbeat(text: str, tx: Transaction) -> None:
    tx.meta.put(SHARED_HEARTBEAT, text)


class SharedDatabase:
    """A PostgreSQL database that several machines share: one of them leads, by its lease."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        heartbeat: HeartbeatFile,
        hand_over: Callable[[], object] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
        end: Callable[[str], None] | None = None,
        environ: Mapping[str, str] = os.environ,
        boot: Callable[[], float] = boot_time,
    ) -> None:
        """Read the address; nothing is connected yet. Raises `OllimError`.

        Commands on this machine are answered while this waits or leads. `hand_over` is as in
        `LeaseKeeper`; `tell` gets sentences about files.
        """
        assert settings.database_url is not None
        self._address = parse_address(settings.database_url.reveal())
        paths = self._paths = settings.paths
        self._clock = clock
        self._heartbeat = heartbeat
        self._life = heartbeat.of_standby()
        self._shown_life: datetime | None = None
        self._rows: PostgresDatabase | None = None
        self._files = StoredFiles(paths, partial(adds_power, paths), tell)
        # The lease of the machine that led last.
        self._epoch = 0
        self._records = SharedRecords(paths, environ, clock, tell)
        name, machine = platform.node() or "the other machine", machine_id(paths)
        self.lease = Lease(self._address, name, boot, machine=machine)
        self._sharing = Sharing(machine, self.lease.may_act)
        self._keeper = LeaseKeeper(self.lease, end or end_process, hand_over)
        self._command_rows = CommandRows(self._address, self.lease, clock.now)
        self._commands = CommandServer(paths.commands, self._command_rows)
        self.standing = _NOBODY_LEADS
        self._was_refused = asyncio.Event()

    def close(self) -> None:
        self._records.close()
        self._commands.stop()
        self._keeper.stop()
        self.lease.close()
        self._command_rows.close()

    def check(self) -> None:
        leader = self.lease.leader()
        if leader is not None and leader.schema > SCHEMA:
            raise OtherSchema(self._address.place, leader.schema, SCHEMA)

    def open_for_reading(self) -> Backend:
        rows = open_postgres(self._address, self._clock.now, lease=None)
        rows.sharing = replace(self._sharing, read_only=lambda: self.standing)
        return rows

    def open_for_leader(self, report: Report, disk: Disk | None, journal: Journal) -> Backend:
        """The rows, for the steps of this lease, once all files here are those of the table.

        The state files are written anew from the rows.
        """
        mirrors = Mirrors(self._paths, disk or OsDisk(), report, journal, kept=KEPT_HASHES)
        self._rows = open_postgres(
            self._address,
            self._clock.now,
            lease=self.lease.held,
            mirrors=mirrors,
            files=self._files,
            may_lead=self.lease.may_act,
        )
        self._rows.sharing = self._sharing
        self._files.tell_set_aside()
        return self._rows

    def recorded(self, engine: AgentEngine) -> AgentEngine:
        return RecordedEngine(engine, self._records)

    async def follow(self, store: Store) -> None:
        await self._records.follow(store)

    async def store_records(self) -> None:
        await self._records.run()

    async def take_up(self, store: Store, own: Settings) -> Settings:
        """Go on with what the engine recorded elsewhere, and from where the schedule has come.

        Commands on this machine change rows by the store of this bot from now on.
        Gives the settings that count on every machine; this one adds those that none has noted.
        Where no zone is noted, the schedule goes on in the one in which it is planned.
        """
        self._command_rows.open(store)
        self._records.lead(store)
        found = await store.read(lambda tx: tx.meta.get(SHARED_HEARTBEAT))
        if found is not None:
            with suppress(StorageError):  # a full disk must not prevent a start
                await asyncio.to_thread(self._heartbeat.write, datetime.fromisoformat(found))
        planned = await store.read(
            lambda tx: "" if tx.config.get().timezone else tx.zone.get().name
        )
        try:
            return await asyncio.to_thread(note_missing, own, planned)
        except StorageError as refused:
            _logger.warning("%s", refused)
            return own

    def services(self, store: Store, settings: Settings) -> list[Service]:
        keys = partial(self.note_keys, store, partial(key_names, settings))
        return [partial(self.share_heartbeat, store), partial(self.keep_schedule, store), keys]

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

    async def note_keys(self, store: Store, names: Callable[[], Sequence[str]]) -> None:
        """Let other machines know the names of the keys that this one uses; never a value."""
        found = " ".join(await asyncio.to_thread(names))
        if await store.read(lambda tx: tx.meta.get(KEY_NAMES)) != found:
            with suppress(StorageError):  # the next start notes them
                await store.transact(lambda tx: tx.meta.put(KEY_NAMES, found))

    async def keep_schedule(self, store: Store) -> None:
        """Keep on this machine what its sentinel needs without a server, until cancelled."""
        rows, now = self._rows, self._clock.now
        assert rows is not None
        with store.changes(*_OF_SCHEDULE) as changed:
            while True:
                changed.clear()
                with refusal_logged("The sentinel knows an older schedule"):
                    await asyncio.to_thread(keep_schedule, rows, self._paths.known_schedule, now())
                await self._clock.sleep(_KEEP_EVERY)
                await changed.wait()

    async def lead_or_stand_by(self, ends: asyncio.Event, show: Service) -> bool:
        try:
            self._commands.start()
        except OSError as refused:
            _logger.warning("%s", _NO_COMMANDS.format(reason=refused.strerror or refused))
        asking = asyncio.create_task(self._until_leading())
        following = asyncio.create_task(self._follow_files())
        others = {asyncio.create_task(ends.wait()), asyncio.create_task(self._show(show))}
        try:
            await asyncio.wait({asking, *others}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
            return asking.done()
        finally:
            self._files.stop()
            for each in (asking, following, *others):
                each.cancel()
            await asyncio.wait({asking, following, *others})

    async def _follow_files(self) -> None:
        """Keep the files here those of the leader, until cancelled."""
        await self._was_refused.wait()
        reader, is_prepared = PostgresDatabase(self._address, self._clock.now, lease=None), False
        try:
            while True:
                with suppress(StorageError):  # the server is away; it is tried again
                    if not is_prepared:
                        await asyncio.to_thread(reader.prepare)
                        is_prepared = True
                    await asyncio.to_thread(self._files.follow, reader.query_rows, self._epoch)
                await self._until_commit(reader)
        finally:
            await asyncio.to_thread(reader.close)

    async def _until_commit(self, reader: PostgresDatabase) -> None:
        """Return when the leader has committed something, or when it is time to look again."""
        for _ in range(round(ASK_EVERY / _LISTEN)):
            await self._clock.sleep(_LISTEN)
            if await asyncio.to_thread(reader.note_version):
                return

    async def standing_changed(self) -> None:
        self._was_refused.clear()
        await self._was_refused.wait()

    async def _until_leading(self) -> None:
        while not await asyncio.to_thread(self._take):
            self._was_refused.set()
            await asyncio.to_thread(self._show_life)
            try:
                await asyncio.to_thread(self.lease.wait, ASK_EVERY)
            except StorageError:
                await self._clock.sleep(ASK_EVERY)
        self._life.forget()
        # Before anything else: to close the page of a standby may take its time.
        self._keeper.start()

    def _show_life(self) -> None:
        """Let a supervisor and an update know that this bot works, though it does not lead."""
        now, last = self._clock.now(), self._shown_life
        if last is None or abs((now - last).total_seconds()) >= _LIFE_EVERY:
            self._shown_life = now
            with suppress(StorageError):
                self._life.write(now)

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
                self._records.note_lead(held.epoch)
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
        self._epoch = leader.epoch if leader is not None else 0
        self._records.note_leader(None if leader is None else leader.epoch)
        self._command_rows.leader = leader.name if leader is not None and leader.is_leading else ""
        if leader is None or not leader.is_leading:
            self.standing = _NOBODY_LEADS
            return
        self.standing = (
            f"{leader.name} leads, and this machine stands by: it shows everything and changes "
            f"nothing. Use the page or the commands on {leader.name}."
        )
        # A sentinel acts on its own only on the machine that led last, which has a heartbeat.
        self._heartbeat.forget()
        with suppress(OSError):
            self._paths.known_schedule.unlink(missing_ok=True)
