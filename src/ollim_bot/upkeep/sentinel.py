"""Delivers what must come while the bot does not run, without starting anything itself."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.definitions import holder_among
from ollim_bot.domain.due_items import DueItem, why_now
from ollim_bot.domain.item_messages import item_message
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import ScheduledJob, key_of, late_since
from ollim_bot.domain.sentinel import (
    AFTER_OTHERS,
    LONGEST_RUN,
    PATIENCE,
    BotState,
    DueDelivery,
    Outcome,
    SentinelReport,
    acts_from,
    due_deliveries,
    perhaps_again,
    reason_of,
)
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, StorageError, Unreachable
from ollim_bot.paths import DataPaths
from ollim_bot.store.answer_plans import with_known_plan
from ollim_bot.store.connection import Connect, connect
from ollim_bot.store.database import Database
from ollim_bot.store.deliveries import part_nonce
from ollim_bot.store.errors import OutcomeUnknown
from ollim_bot.store.file_store import StoreProblem
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.heartbeat import HeartbeatFile, is_beating
from ollim_bot.store.job_folder import FolderWatch, kept_versions
from ollim_bot.store.job_formats import REMINDERS, JobFormat
from ollim_bot.store.opening import open_database
from ollim_bot.store.questions import look_into, look_into_file
from ollim_bot.store.routine_format import ROUTINES
from ollim_bot.store.sentinel import (
    SentinelDelivery,
    SentinelFile,
    begin_again,
    begin_delivery,
    end_delivery,
    is_owed,
    may_send,
    note_revival,
    times_to_come,
    unfinished_deliveries,
)
from ollim_bot.store.steps import armed_marks
from ollim_bot.store.transaction import Step, Transaction
from ollim_bot.upkeep.direct_channels import (
    DirectChannel,
    LookUp,
    SentinelClock,
    SentinelEnvironment,
)
from ollim_bot.upkeep.instance import running_pid

_T = TypeVar("_T")
_J = TypeVar("_J", Reminder, Routine)

# The reasons why it did not arrive, by the names of the channels.
_Problems = dict[str, str]

NOTIFICATION = "notification"

_LOCK = "sentinel"
_BETWEEN_LOOKS = 5.0
_KNOWN = 500
# A message of this occurrence is not older; the clocks of two machines differ by less.
_SKEW = timedelta(minutes=10)
_LEDGER, _FILE = "ledger", "sentinel.json"

_logger = logging.getLogger(__name__)


class _BotIsBack(Exception):
    """The heartbeat has moved, or the database is back, so a bot delivers by itself."""


class Sentinel:
    """One run of the sentinel. `connection` opens the database for writing.

    While a server is away that machines share, it goes by what the bot here has kept of its rows.
    """

    def __init__(
        self,
        paths: DataPaths,
        zone: tzinfo,
        clock: SentinelClock,
        around: SentinelEnvironment,
        connection: Connect = connect,
    ) -> None:
        self._paths = paths
        self._zone = zone
        self._clock = clock
        self._around = around
        self._names = [each.name for each in around.channels]
        self._is_cut_off = around.is_server_away is not None
        self._connect = connection
        self._heartbeat_file = HeartbeatFile(paths)
        self._file = SentinelFile(paths, self._report_problem)
        self._report = SentinelReport(BotState.UNUSED)
        self._jobs: dict[JobKey, ScheduledJob] = {}
        self._heartbeat = datetime.min.replace(tzinfo=UTC)

    def run(self) -> SentinelReport:
        """Look, and deliver what must come. Ends before the timer starts the next run."""
        report, heartbeat, now = self._report, self._heartbeat_file.read(), self._clock.now()
        if heartbeat is None:
            return report
        self._heartbeat = report.heartbeat = heartbeat
        report.state = BotState.RUNNING if is_beating(heartbeat, now) else self._state()
        if report.state is BotState.RUNNING:
            return report
        self._jobs = {key_of(job): self._planned(job) for job in self._read_jobs()}
        due, unfinished = self._look(now)
        again = self._to_come_again(now)
        is_left = any(self._is_left(each) for each in self._kept())
        if not (due or unfinished or again or is_left):
            return report
        report.waits_for = due
        with ExitStack() as stack:
            # A disk that takes no lock must not keep a reminder from coming.
            with suppress(StorageError):
                lock = FileLock(self._paths.lock_of(self._paths.state / _LOCK))
                report.is_second = not stack.enter_context(lock.held_if_free())
            if not report.is_second:
                with suppress(_BotIsBack):
                    self._act(due, again, self._clock.monotonic() + LONGEST_RUN.total_seconds())
        return report

    def _act(
        self, due: list[DueDelivery], again: list[tuple[datetime, DueItem]], deadline: float
    ) -> None:
        """Wait until the bot counts as dead, give it a last chance, and then deliver."""
        if not self._wait_until(acts_from(self._heartbeat, self._clock.now()), deadline):
            return
        is_running = running_pid(self._paths.bot_pid) is not None
        has_revived = bool(due) and self._revive(is_running=is_running)
        if has_revived or (is_running and not self._is_cut_off):
            self._wait_until(self._clock.now().astimezone(UTC) + PATIENCE, deadline)
        # Move what an earlier run left in its file into the database, if that works again.
        if self._state().keeps_database and self._paths.sentinel.exists():
            with suppress(StorageError), closing(self._database()) as database:
                self._file.give_to(database)
        for kept in self._kept():
            # Deliver what an earlier run has kept in its file, and may not have sent.
            if self._is_left(kept):
                sent, problems = self._sent(kept, kept.missing(self._names), is_new=False)
                self._conclude(sent, _FILE)
                self._note_outcome(kept, sent, _FILE, problems)
        for waiting in self._look(self._clock.now())[1]:
            self._finish(waiting)
        later = AFTER_OTHERS if self._is_cut_off else timedelta(0)
        works = [(one.due + later, partial(self._deliver_if_owed, one)) for one in due]
        works += [(at, partial(self._show_again, item)) for at, item in again]
        for moment, work in sorted(works, key=itemgetter(0)):
            if not self._wait_until(moment, deadline):
                return
            work()

    def _wait_until(self, moment: datetime, deadline: float) -> bool:
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
            self._clock.sleep(min(left, _BETWEEN_LOOKS))

    def _state(self) -> BotState:
        """Why the bot does not beat."""
        if self._is_cut_off:
            return BotState.CUT_OFF
        kind = self._around.maintenance()
        if kind is not None:
            return BotState.RESTORE if kind == BotState.RESTORE else BotState.UPDATE
        presence = self._ask(lambda tx: tx.presence.get())
        is_running = running_pid(self._paths.bot_pid) is not None
        if presence is not None and presence.running_since is None and not is_running:
            return BotState.STOPPED
        return BotState.SILENT

    def _revive(self, *, is_running: bool) -> bool:
        """Ask the supervisor, once for each silence, unless the disk is the reason for it."""
        revive = self._around.revive
        if revive is None or not self._state().may_be_started:
            return False
        if not self._commit(lambda tx: note_revival(tx, self._heartbeat)):
            return False
        self._report.is_revived = revive(is_running)
        return self._report.is_revived

    def _look(self, now: datetime) -> tuple[list[DueDelivery], list[SentinelDelivery]]:
        """What is owed now or becomes due in this run, and what did not arrive."""
        found = due_deliveries(self._jobs.values(), self._heartbeat, now, self._zone)
        found += self._begun_before({one.occurrence.id for one in found})
        kept = {one.message.occurrence for one in self._kept()}
        found = [one for one in found if one.occurrence.id not in kept]
        found.sort(key=lambda one: one.due)
        known = self._ask(
            lambda tx: (
                [one for one in found if is_owed(tx, one, max(now, one.due), self._zone)],
                [] if self._is_cut_off else unfinished_deliveries(tx, self._names),
            )
        )
        if known is not None:
            return known
        # Without the ledger, only what no earlier run has had to deliver.
        return [one for one in found if self._is_of_this_run(one, now)], []

    def _deliver_if_owed(self, one: DueDelivery) -> None:
        """Deliver it as its file says now: it may have been changed or removed in between."""
        if self._around.is_server_away is not None and not self._around.is_server_away():
            self._report.came_back = True
            raise _BotIsBack
        self._jobs = {key_of(job): self._planned(job) for job in self._read_jobs()}
        due, _ = self._look(self._clock.now())
        current = next((each for each in due if each.occurrence == one.occurrence), None)
        if current is not None:
            self._deliver(current)

    def _to_come_again(self, now: datetime) -> list[tuple[datetime, DueItem]]:
        """The open items that are shown again in this run; a routine must still be there."""

        def may_come_again(item: DueItem) -> bool:
            first = Occurrence.parse(item.occurrence)
            job = self._jobs.get(JobKey(first.kind, first.job_id))
            return not item.is_of_routine or (job is not None and job.spec.enabled)

        found = self._ask(lambda tx: times_to_come(tx, now.astimezone(UTC) + LONGEST_RUN)) or []
        return [(at, item) for at, item in found if may_come_again(item)]

    def _show_again(self, item: DueItem) -> None:
        """Show an open item once more, as its nag says; without the database it waits."""
        state, begun = self._state(), list[SentinelDelivery]()
        if not state.keeps_database:
            return

        def step(tx: Transaction) -> bool:
            one = begin_again(tx, item.key, reason_of(state), self._names)
            begun[:] = [] if one is None else [one]
            return one is not None

        if self._commit(step):
            sent, problems = self._sent(begun[0], self._names, is_new=True)
            self._conclude(sent, _LEDGER)
            now = self._clock.now()
            self._report.outcomes.append(_outcome(sent, now, now, _LEDGER, problems))

    def _begun_before(self, known: Collection[str]) -> list[DueDelivery]:
        """What the bot had claimed before its last heartbeat, and left without an end."""

        def question(tx: Transaction) -> list[DueDelivery]:
            history = tx.ledger.open_history()
            found = []
            for story in (*history.begun, *history.owed):
                one = story.occurrence
                job, at = self._jobs.get(JobKey(one.kind, one.job_id)), one.scheduled_at
                is_wanted = job is not None and job.must and not one.manual and not one.part
                if is_wanted and job is not None and at is not None and one.id not in known:
                    found.append(DueDelivery(job, one, at))
            return found

        return self._ask(question) or []

    def _is_of_this_run(self, one: DueDelivery, now: datetime) -> bool:
        begins = acts_from(self._heartbeat, now)
        return max(one.due, begins) > now.astimezone(UTC) - LONGEST_RUN

    def _deliver(self, due: DueDelivery) -> None:
        now, state = self._clock.now(), self._state()
        footer = why_now(reason_of(state), late_since(due.occurrence, now), now)
        message, item = item_message(due.job, due.occurrence, now, footer)
        one = SentinelDelivery.of(due.job, due.occurrence, message, item).tried(self._names, now)
        kept_in = self._begun(due, one, is_in_ledger=state.keeps_database)
        # What cannot be kept may be sent by each run: an earlier one may have sent it.
        is_new = bool(kept_in) or self._is_of_this_run(due, now)
        if kept_in is None or not (is_new or self._names):
            return
        sent, problems = self._sent(one, self._names, is_new=is_new)
        self._conclude(sent, kept_in)
        self._report.outcomes.append(_outcome(sent, due.due, now, kept_in, problems))

    def _begun(self, due: DueDelivery, one: SentinelDelivery, *, is_in_ledger: bool) -> str | None:
        """Where the claim is kept, empty if nowhere; None if it is not owed any more."""
        begun = None
        if is_in_ledger:
            begun = self._commit(
                lambda tx: begin_delivery(tx, due, one, self._heartbeat, self._zone)
            )
        if begun is None:
            now = self._clock.now()
            if self._ask(lambda tx: is_owed(tx, due, now, self._zone)) is False:
                return None
            return _FILE if self._keep(one) else ""
        return _LEDGER if begun else None

    def _is_left(self, one: SentinelDelivery) -> bool:
        """Whether a delivery of the file has not reached the owner, or not by each channel."""
        return not one.through or bool(one.missing(self._names))

    def _finish(self, one: SentinelDelivery) -> None:
        """Deliver a message that is in the log and has not arrived on these channels."""
        fresh = {name for name, each in one.tries.items() if each.tried_at is None}
        is_new = bool(fresh) and len(fresh) == len(one.tries)
        open_on: list[str] = []

        def step(tx: Transaction) -> bool:
            open_on[:] = [name for name in one.tries if may_send(tx, name, one.message.id)]
            return bool(open_on)

        if self._names and not self._commit(step):
            return
        begun = one.tried(open_on, self._clock.now())
        sent, problems = self._sent(begun, open_on, is_new=is_new, fresh=fresh)
        self._conclude(sent, _LEDGER)
        if sent.through != one.through:
            self._note_outcome(one, sent, _LEDGER, problems)

    def _note_outcome(
        self, before: SentinelDelivery, sent: SentinelDelivery, kept_in: str, problems: _Problems
    ) -> None:
        """Report a delivery that was begun before, unless it stands as it did."""
        if not before.through or sent.through != before.through:
            outcome = _outcome(sent, sent.item.due, self._clock.now(), kept_in, problems)
            self._report.outcomes.append(outcome)

    def _sent(
        self,
        one: SentinelDelivery,
        names: Collection[str],
        *,
        is_new: bool,
        fresh: Collection[str] = (),
    ) -> tuple[SentinelDelivery, _Problems]:
        """The delivery after these channels were tried, and why it did not arrive on which.

        If it has reached the owner by no channel, a notification is shown. Unless it `is_new`, it
        may have been sent before, but not on the `fresh` channels.
        """
        problems: _Problems = {}
        for channel in self._around.channels:
            if channel.name in names:
                is_fresh = is_new or channel.name in fresh
                one, problem = self._sent_by(channel, one, is_new=is_fresh)
                problems |= {channel.name: problem} if problem else {}
        notifier = None if one.through else self._around.notifier
        words = one.message.text if is_new else perhaps_again(one.message.text)
        if notifier is not None and notifier.notify(words, one.message.footer):
            one = replace(one, through=(NOTIFICATION,))
        return one, problems

    def _sent_by(
        self, channel: DirectChannel, one: SentinelDelivery, *, is_new: bool
    ) -> tuple[SentinelDelivery, str]:
        """The delivery after one channel was tried; the second is empty if it arrived there."""
        name = channel.name
        others = self._ask(lambda tx: set(tx.deliveries.known_refs(name, _KNOWN)))
        since = one.item.due.astimezone(UTC) - _SKEW
        # Another machine, which has the database, may have sent it.
        is_in_doubt = not is_new or others is None or self._is_cut_off
        look = LookUp(others or (), since, is_in_doubt, not is_new)
        try:
            ref = channel.deliver(one.message, part_nonce(one.message.id, 0), look)
        except DeliveryUncertain as lost:
            return one, str(lost)
        except (Unreachable, DeliveryFailed) as refused:
            return one if look.is_in_doubt else one.absent(name), str(refused)
        return one.arrived(name, ref), ""

    def _conclude(self, one: SentinelDelivery, kept_in: str) -> None:
        is_in_ledger = kept_in == _LEDGER
        if is_in_ledger and self._commit(lambda tx: end_delivery(tx, one)) is not None:
            return
        if kept_in:
            self._keep(one)

    def _kept(self) -> tuple[SentinelDelivery, ...]:
        try:
            return self._file.read()
        except StorageError as unreadable:
            self._report.problems.append(str(unreadable))
            return ()

    def _keep(self, one: SentinelDelivery) -> bool:
        """Put it into the file; False, with a problem in the report, if that failed."""
        try:
            self._file.put(one)
        except StorageError as refused:
            self._report.problems.append(str(refused))
            return False
        return True

    def _database(self) -> Database:
        return open_database(
            self._paths,
            self._clock.now,
            is_holder=False,
            report=self._report_problem,
            connection=self._connect,
        )

    def _commit(self, step: Step[bool | None]) -> bool | None:
        """The answer of the step; None if the database cannot be written."""
        if self._is_cut_off:
            return None
        try:
            with closing(self._database()) as database:
                return database.run(lambda tx: step(tx) is not False)
        except (StorageError, OutcomeUnknown) as refused:
            _logger.info("The database cannot be written: %s", refused)
            return None

    def _ask(self, question: Step[_T]) -> _T | None:
        now = self._clock.now()
        if self._is_cut_off:
            return look_into_file(self._paths.known_schedule, now, question)
        return look_into(self._paths, now, question)

    def _report_problem(self, problem: StoreProblem) -> None:
        self._report.problems.append(str(problem))

    def _planned(self, job: ScheduledJob) -> ScheduledJob:
        """The job with the moment that its last answer has set."""
        if not job.follows_answers:
            return job
        return self._ask(lambda tx: with_known_plan(tx, job)) or job

    def _read_jobs(self) -> Iterator[ScheduledJob]:
        """The jobs as the bot reads them: of a wrong file, the last valid version."""
        armed: Mapping[JobKey, str] = self._ask(armed_marks) or {}
        yield from self._jobs_in(self._paths.reminders, REMINDERS, armed)
        yield from self._jobs_in(self._paths.routines, ROUTINES, armed)

    def _jobs_in(
        self, folder: Path, form: JobFormat[_J], armed: Mapping[JobKey, str]
    ) -> Iterator[_J]:
        disk = OsDisk()
        try:
            readings = FolderWatch(folder, form, disk).look().readings
            kept = kept_versions(self._paths, folder, form, disk).all()
        except StorageError as unreadable:
            self._report.problems.append(str(unreadable))
            return
        claimed: dict[str, list[_J]] = {}
        for reading in readings.values():
            if reading.job is not None:
                claimed.setdefault(reading.job.spec.id, []).append(reading.job)
        for name, reading in readings.items():
            if reading.job is None and name in kept:
                claimed.setdefault(kept[name].spec.id, [kept[name]])
        for rivals in claimed.values():
            yield rivals[holder_among(rivals, armed)]


def _outcome(
    one: SentinelDelivery, due: datetime, now: datetime, kept_in: str, problems: _Problems
) -> Outcome:
    title, occurrence = one.item.short_title, one.message.occurrence
    problem = " ".join(problems.values())
    if not one.through:
        problem = problem or "no channel is set up, and this machine cannot show a notification"
    missed = tuple(problems)
    return Outcome(title, occurrence, due, now, one.through, kept_in, problem, missed)
