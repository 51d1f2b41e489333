"""Delivers what must come while the bot does not run: a short start of its deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ollim_bot.features.sentinel.sentinel_file import (
    LONGEST_RUN,
    NOT_TRIED,
    PATIENCE,
    BotState,
    DueDelivery,
    SentinelDelivery,
    SentinelFile,
    SentinelReport,
    acts_from,
    begin_delivery,
    due_deliveries,
    end_delivery,
    is_owed,
    note_revival,
    take_over,
    unfinished_deliveries,
)
from ollim_bot.kernel.base.clock import Clock, zone_of
from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, StorageError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.instance import running_pid, single_instance
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.item_answers import show_again
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.answer_plan_rows import with_known_plan
from ollim_bot.kernel.store.backend import Backend
from ollim_bot.kernel.store.connection import Connect, connect
from ollim_bot.kernel.store.database_errors import OutcomeUnknown
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.heartbeat import HeartbeatFile, is_beating
from ollim_bot.kernel.store.job_folder import JobFileIndex, kept_versions
from ollim_bot.kernel.store.job_formats import REMINDERS, JobFormat
from ollim_bot.kernel.store.opening import RowsInMemory, open_database
from ollim_bot.kernel.store.questions import DATABASE, look_into
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.store.store import DatabaseStore, Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.definitions import holder_among
from ollim_bot.kernel.values.due_items import DueItem, why_now
from ollim_bot.kernel.values.item_messages import AFTER_OTHERS
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import Channel
from ollim_bot.kernel.values.run_history import SENTINEL
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of, late_since

_Jobs = Mapping[JobKey, ScheduledJob]

NOTIFICATION = "notification"

_LOCK = "sentinel"
_BETWEEN_LOOKS = 5.0
_LEDGER, _FILE = "ledger", "sentinel.json"

_logger = logging.getLogger(__name__)


class SendingChannel(Channel, Protocol):
    """A channel that can deliver without the bot, while `sending` is entered."""

    def sending(self, *, keeps_rows: bool) -> AbstractAsyncContextManager[None]:
        """Raises `OllimError` if nothing can be sent. `keeps_rows` says that its rows stay."""


MakeChannel = Callable[[Store, Clock], SendingChannel]


@dataclass(frozen=True, slots=True)
class SentinelEnvironment:
    """What is outside of the data directory; None where there is none.

    A message is sent on all `channels`, and has reached the owner when one of them has it; `notify`
    shows it on the desktop where none has. `revive` asks the supervisor to start the bot anew, and
    returns whether it was asked. `maintenance` names the `update` or `restore` in progress.
    `ask_server` raises `OllimError` as long as the server of a shared database does not answer.
    `push_content` holds where no database says it.
    """

    channels: Mapping[str, MakeChannel] = field(default_factory=dict)
    notify: Callable[[str, str], bool] | None = None
    revive: Callable[[], bool] | None = None
    maintenance: Callable[[], str | None] = lambda: None
    ask_server: Callable[[], object] | None = None
    push_content: str = PushContent.NONE


class _BotIsBack(Exception):
    """The heartbeat has moved, or the server is back, so a bot delivers by itself."""


class _Look(NamedTuple):
    """What is owed now or becomes due, what has not arrived, and what comes again."""

    due: list[DueDelivery]
    waiting: list[SentinelDelivery]
    again: list[tuple[datetime, DueItem, ScheduledJob | None]]


# Deliveries that have begun, each with where it is kept; empty if it could not be.
_Works = list[tuple[SentinelDelivery, str]]


class _Way(NamedTuple):
    """Rows that take the steps, and where what they took is kept."""

    opened: Callable[[], Backend]
    kept_in: str = _FILE
    is_known: bool = True


class Sentinel:
    """One run of the sentinel. `connection` opens the database for writing.

    While a server is away that machines share, it goes by what the bot here has kept of its rows.
    """

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        around: SentinelEnvironment,
        connection: Connect = connect,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._around = around
        self._is_cut_off = around.ask_server is not None
        self._after_others = AFTER_OTHERS if self._is_cut_off else timedelta(0)
        self._connect = connection
        self._heartbeat_file = HeartbeatFile(paths)
        self._file = SentinelFile(paths, self._report_problem)
        self._report = SentinelReport(BotState.UNUSED)
        self._began = clock.now()
        self._heartbeat = datetime.min.replace(tzinfo=UTC)
        self._kept: set[MessageId] = set()
        self._notified: set[MessageId] = set()
        source = paths.known_schedule if self._is_cut_off else paths.state / DATABASE
        self._ways = (
            _Way(self._database, _LEDGER),
            _Way(partial(self._in_memory, source)),
            _Way(partial(self._in_memory, None), is_known=False),
        )

    async def run(self) -> SentinelReport:
        """Look, and deliver what must come. Ends before the timer starts the next run."""
        report, heartbeat, now = self._report, self._heartbeat_file.read(), self._began
        if heartbeat is None:
            return report
        self._heartbeat = report.heartbeat = heartbeat
        report.state = BotState.RUNNING if is_beating(heartbeat, now) else self._state()
        if report.state is BotState.RUNNING:
            return report
        look = self._look_around(now)
        if not any(look):
            return report
        report.waits_for = look.due
        with ExitStack() as stack:
            # A disk that takes no lock must not keep a reminder from coming.
            with suppress(StorageError):
                lock = FileLock(self._paths.lock_of(self._paths.state / _LOCK))
                report.is_second = not stack.enter_context(lock.held_if_free())
            if not report.is_second:
                with suppress(_BotIsBack):
                    await self._act(look, self._clock.monotonic() + LONGEST_RUN.total_seconds())
        return report

    async def _act(self, look: _Look, deadline: float) -> None:
        """Wait until the bot counts as dead, give it a last chance, and then deliver."""
        if not await self._wait_until(acts_from(self._heartbeat, self._clock.now()), deadline):
            return
        is_running = running_pid(self._paths.bot_pid) is not None
        if (look.due and self._revive()) or (is_running and not self._is_cut_off):
            await self._wait_until(self._clock.now().astimezone(UTC) + PATIENCE, deadline)
        moments = {one.due + self._after_others for one in look.due}
        served = self._clock.now()
        await self._serve()
        for moment in sorted(moments | {at for at, *_ in look.again}):
            if moment > served:
                if not await self._wait_until(moment, deadline):
                    return
                served = self._clock.now()
                await self._serve()

    async def _wait_until(self, moment: datetime, deadline: float) -> bool:
        """Wait for the moment; False if it comes after the deadline. Raises `_BotIsBack`."""
        while True:
            if self._heartbeat_file.read() != self._heartbeat:
                self._report.came_back = True
                raise _BotIsBack
            left = (moment - self._clock.now().astimezone(UTC)).total_seconds()
            if left <= 0:
                return True
            if self._clock.monotonic() + left > deadline:
                return False
            await self._clock.sleep(min(left, _BETWEEN_LOOKS))

    def _state(self) -> BotState:
        """Why the bot does not beat."""
        if self._is_cut_off:
            return BotState.CUT_OFF
        kind = self._around.maintenance()
        if kind is not None:
            return BotState.RESTORE if kind == BotState.RESTORE else BotState.UPDATE
        presence = look_into(self._paths, self._clock.now(), lambda tx: tx.presence.get())
        is_running = running_pid(self._paths.bot_pid) is not None
        if presence is not None and presence.running_since is None and not is_running:
            return BotState.STOPPED
        return BotState.SILENT

    def _revive(self) -> bool:
        """Ask the supervisor, once for each silence, unless the disk is the reason for it."""
        revive = self._around.revive
        if revive is None or not self._state().may_be_started:
            return False
        try:
            with closing(self._database()) as database:
                if not database.run(lambda tx: note_revival(tx, self._heartbeat)):
                    return False
        except (StorageError, OutcomeUnknown):
            return False
        self._report.is_revived = revive()
        return self._report.is_revived

    def _look_around(self, now: datetime) -> _Look:
        """What there is to do in this run, with nothing changed."""
        until = now.astimezone(UTC) + LONGEST_RUN + self._after_others
        for way in self._ways[1:]:
            with suppress(StorageError), closing(way.opened()) as rows:
                return rows.query(partial(self._look, now=now, until=until, way=way))
        return _Look([], [], [])

    def _look(self, tx: Transaction, now: datetime, until: datetime, way: _Way) -> _Look:
        zone, jobs = zone_of(self._clock), self._jobs(tx)
        found = due_deliveries(jobs.values(), self._heartbeat, now, zone)
        found += _begun_before(tx, jobs, {one.occurrence.id for one in found})
        due = [
            one
            for one in sorted(found, key=lambda one: one.due)
            if one.due + self._after_others <= until
            and is_owed(tx, one, max(now, one.due), zone)
            # Without the ledger, only what no earlier run has had to deliver.
            and (way.is_known or self._is_of_this_run(one.due))
        ]
        waiting = unfinished_deliveries(tx, [*self._around.channels])
        if self._is_cut_off:
            # Another machine may have brought what is not in the file.
            waiting = [each for each in waiting if each.message.id in self._kept]
        again = []
        for item in tx.due_items.to_come_again():
            if item.again_at is not None and item.again_at <= until and item.as_reminder.must:
                first = Occurrence.parse(item.occurrence)
                again.append((item.again_at, item, jobs.get(JobKey(first.kind, first.job_id))))
        return _Look(due, waiting, again)

    def _is_of_this_run(self, due: datetime) -> bool:
        begins = acts_from(self._heartbeat, self._began)
        return max(due, begins) > self._began.astimezone(UTC) - LONGEST_RUN

    async def _serve(self) -> None:
        """Deliver what is due now, as the files say now, and what has not arrived.

        Where the database cannot take it, it is taken by what is known of its rows, and at last by
        none; what was done is kept in the file then.
        """
        if self._around.ask_server is not None:
            with suppress(OllimError):
                self._around.ask_server()
                self._report.came_back = True
                raise _BotIsBack
        state = self._state()
        with ExitStack() as stack:
            if state.keeps_database:
                # A frozen bot holds the lock; the claim in the ledger decides then.
                lock = single_instance(self._paths.bot_pid, patience=0.0, is_sentinel=True)
                with suppress(AlreadyRunning, StorageError):
                    stack.enter_context(lock)
            for way in self._ways if state.keeps_database else self._ways[1:]:
                try:
                    await self._deliver(way, state)
                except (StorageError, OutcomeUnknown) as refused:
                    _logger.info("The rows cannot be written: %s", refused)
                else:
                    return

    async def _deliver(self, way: _Way, state: BotState) -> None:
        """Claim what is due now, send it with what waits, and record how far it came."""
        before = self._file.give_to if way.kept_in == _LEDGER else lambda _: False
        store = DatabaseStore(way.opened(), self._clock, before)
        try:
            if works := await store.transact(partial(self._begin, way=way, state=state)):
                await self._send(store, works, keeps_rows=way.kept_in == _LEDGER)
        finally:
            await store.close()

    def _begin(self, tx: Transaction, way: _Way, state: BotState) -> _Works:
        """What waits and what is due now, which is claimed, and kept before it is sent."""
        names, now, reason = [*self._around.channels], self._clock.now(), state.reason
        for name in names:
            tx.channels.join(name, "")
        if not way.is_known:
            content = self._around.push_content
            tx.config.change(lambda known: replace(known, push_content=content))
        due, waiting, again = self._look(tx, now, now, way)
        works = [(one, way.kept_in) for one in waiting]
        for one in due:
            footer = why_now(reason, late_since(one.occurrence, now), now)
            made, kept_in = SentinelDelivery.of(one, now, footer, names), way.kept_in
            if kept_in == _FILE and not self._keep(made.tried(now)):
                kept_in = ""
            if not kept_in and not self._is_of_this_run(one.due):
                # What cannot be kept may have been sent by an earlier run.
                made = made.tried(now)
                if not names:
                    continue
            begin_delivery(tx, one, made, self._heartbeat, zone_of(self._clock))
            works.append((made, kept_in))
        for _, item, job in again if way.kept_in == _LEDGER else ():
            shown = show_again(tx, item.key, now, job, reason, SENTINEL)
            message = tx.messages.get(shown.card) if shown else None
            if shown is not None and message is not None:
                tries = dict.fromkeys(names, NOT_TRIED)
                works.append((SentinelDelivery(message, shown, {}, tries=tries), _LEDGER))
        return works

    async def _send(self, store: Store, works: _Works, *, keeps_rows: bool) -> None:
        """Send on all channels at once, and record by which ways each message came."""
        sending = [
            self._send_on(make(store, self._clock), store, works, keeps_rows=keeps_rows)
            for make in self._around.channels.values()
        ]
        problems: dict[MessageId, dict[str, str]] = {}
        for found in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found
            for message, name, problem in found:
                problems.setdefault(message, {})[name] = problem
        for one, kept_in in works:
            sent = self._notified_of(one, await store.read(one.sent))
            was_met = len(one.missing) < len(one.tries)
            await store.transact(partial(end_delivery, one=sent, was_met=was_met))
            if kept_in == _FILE:
                self._keep(sent)
            if not one.through or sent.through != one.through:
                found_problems = problems.get(one.message.id, {})
                self._report.note(sent.outcome(self._clock.now(), kept_in, found_problems))

    async def _send_on(
        self, channel: SendingChannel, store: Store, works: _Works, *, keeps_rows: bool
    ) -> list[tuple[MessageId, str, str]]:
        """The messages that did not arrive on the channel, with its name, and why."""
        name = channel.name
        missing = [one.message.id for one, _ in works if name in one.missing]
        try:
            async with channel.sending(keeps_rows=keeps_rows):
                queue = DeliveryQueue(store, channel, self._clock, suspects=True)
                tried = [(message, name, await queue.deliver(message)) for message in missing]
        except StorageError:
            raise
        except OllimError as refused:
            return [(message, name, str(refused)) for message in missing]
        return [each for each in tried if each[2]]

    def _notified_of(self, one: SentinelDelivery, sent: SentinelDelivery) -> SentinelDelivery:
        """The delivery, after a notification if it has reached the owner by no channel."""
        again = " (this may be the second time it is shown)" if one.was_tried else ""
        words = f"{one.message.text}{again}"
        notify, name = self._around.notify, one.message.id
        if sent.through or notify is None:
            return sent
        if name not in self._notified and not notify(words, one.message.footer):
            return sent
        self._notified.add(name)
        return replace(sent, through=(NOTIFICATION,))

    def _keep(self, one: SentinelDelivery) -> bool:
        """Put it into the file; False, with a problem in the report, if that failed."""
        try:
            self._file.put(one)
        except StorageError as refused:
            self._report.problems.append(str(refused))
            return False
        return True

    def _database(self) -> Backend:
        return open_database(
            self._paths,
            self._clock.now,
            is_holder=False,
            report=self._report_problem,
            connection=self._connect,
        )

    def _in_memory(self, source: Path | None) -> Backend:
        """What is known of the rows, with what the file has beyond them."""
        now = self._clock.now
        rows = RowsInMemory.copied(source, now) if source else RowsInMemory.empty(now)
        try:
            kept = self._file.read()
        except StorageError as unreadable:
            self._report.problems.append(str(unreadable))
            return rows
        self._kept = {each.message.id for each in kept}
        rows.run(partial(take_over, known=kept))
        return rows

    def _report_problem(self, problem: StoreProblem) -> None:
        self._report.problems.append(str(problem))

    def _jobs(self, tx: Transaction) -> _Jobs:
        """The jobs as the bot reads them: of a wrong file, the last valid version.

        Those that follow their answers have the moment that the last one has set.
        """
        disk, armed = OsDisk(), tx.ledger.armed().marks
        folders: list[tuple[Path, JobFormat[Any]]] = [
            (self._paths.reminders, REMINDERS),
            (self._paths.routines, ROUTINES),
        ]
        claimed: dict[JobKey, list[ScheduledJob]] = {}
        for folder, form in folders:
            try:
                readings = JobFileIndex(folder, form, disk).look()
                kept = kept_versions(self._paths, folder, form, disk).all()
            except StorageError as unreadable:
                self._report.problems.append(str(unreadable))
                continue
            found = [(each.content.job, name) for name, each in readings.items()]
            for read, name in sorted(found, key=lambda each: each[0] is None):
                if job := read or kept.get(name):
                    claimed.setdefault(key_of(job), []).append(job)
        holders = (rivals[holder_among(rivals, armed)] for rivals in claimed.values())
        return {
            key_of(job): with_known_plan(tx, job) if job.follows_answers else job for job in holders
        }


def _begun_before(tx: Transaction, jobs: _Jobs, known: Collection[str]) -> list[DueDelivery]:
    """What the bot had claimed before its last heartbeat, and left without an end."""
    history = tx.ledger.open_history()
    found = []
    for story in (*history.begun, *history.owed):
        one = story.occurrence
        job, at = jobs.get(JobKey(one.kind, one.job_id)), one.scheduled_at
        is_wanted = job is not None and job.must and not one.manual and not one.part
        if is_wanted and job is not None and at is not None and one.id not in known:
            found.append(DueDelivery(job, one, at))
    return found
