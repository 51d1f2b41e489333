"""The data directory, as one command uses it."""

from __future__ import annotations

import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, StorageError, WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.files import FileLock, OsDisk, ReadOnlyJournal
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    Given,
    argument,
    past_moment,
    plain,
    shown_json,
    zone_of,
)
from ollim_bot.surfaces.terminal.printing import show

if TYPE_CHECKING:
    from ollim_bot.kernel.base.job_kinds import JobKind
    from ollim_bot.kernel.changes.file_changes import FileChanges, Rows
    from ollim_bot.kernel.store.backend import SharedBackend
    from ollim_bot.kernel.store.database import Database
    from ollim_bot.kernel.store.file_store import Codec
    from ollim_bot.kernel.store.job_folder import MarkdownRepository
    from ollim_bot.kernel.store.job_formats import JobFormat
    from ollim_bot.kernel.store.journal import GitJournal
    from ollim_bot.kernel.store.transaction import Step, Transaction
    from ollim_bot.kernel.values.changes import Changer
    from ollim_bot.kernel.values.jobs import Job
    from ollim_bot.kernel.values.ports import Journal
    from ollim_bot.kernel.values.schedule import ScheduledJob
    from ollim_bot.kernel.values.simulation import Assumptions
    from ollim_bot.kernel.values.taint import Taint
    from ollim_bot.surfaces.terminal.caller import Caller

J = TypeVar("J", bound="Job")
T = TypeVar("T")


class Data:
    """`now` is in the owner's zone. `agent` is as in `Caller`; `environ` is the caller's."""

    def __init__(
        self,
        paths: DataPaths,
        now: datetime,
        journal: Journal,
        agent: str | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.paths = paths
        self.now = now
        self.agent = agent
        self.journal = journal
        self.environ = environ
        self._is_told = False

    @cached_property
    def shared(self) -> SharedBackend | None:
        """The database on a server that this machine uses; None if it uses a file.

        The bot here is asked, and without one the server. Raises `OllimError` if that cannot be
        done. It is closed with this object.
        """
        return self._rows_of_bot() or self._rows_of_server()

    def _rows_of_bot(self) -> SharedBackend | None:
        if not self.paths.commands.exists():
            return None
        from ollim_bot.kernel.store.standby_loader import load_standby
        from ollim_bot.kernel.values.agent_caller import CONVERSATION

        now, is_agent = self.now, self.agent is not None
        find = load_standby("bot_rows").rows_beside_bot
        found: SharedBackend | None = find(self.paths.commands, lambda: now, is_agent=is_agent)
        if found is not None and found.is_agent:
            self.agent = self.agent or CONVERSATION
        return found

    def _rows_of_server(self) -> SharedBackend | None:
        from ollim_bot.kernel.store.standby_loader import load_standby, shared_address

        url = shared_address(self.environ, self.paths)
        if url is None:
            return None
        now = self.now
        open_rows = load_standby("postgres.commands").rows_on_server
        opened: SharedBackend = open_rows(url, self.paths, lambda: now, note)
        weakref.finalize(self, opened.close)
        return opened

    def repository(self, folder: Path, form: JobFormat[J]) -> MarkdownRepository[J]:
        """Open one repository only: to open all of them would slow a listing."""
        from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository

        return MarkdownRepository(
            JobFileIndex(folder, form, OsDisk()),
            FileLock(self.paths.lock_of(folder)),
            journal=self.journal,
            keep=self._keeping,
            choose_holder=self._holder_of_id,
            plan=self.planned,
        )

    def jobs(self, kind: JobKind) -> Sequence[Job]:
        """The valid jobs of a kind."""
        from ollim_bot.kernel.store.job_types import JOB_TYPES

        return [each.item for each in self.repository(self.paths.jobs(kind), JOB_TYPES[kind]).all()]

    def scheduled_jobs(self) -> tuple[list[ScheduledJob], list[str]]:
        """The valid routines and reminders, and the problems of the others."""
        from ollim_bot.kernel.store.job_formats import REMINDERS
        from ollim_bot.kernel.store.routine_format import ROUTINES

        routines = self.repository(self.paths.routines, ROUTINES).report()
        reminders = self.repository(self.paths.reminders, REMINDERS).report()
        jobs: list[ScheduledJob] = [each.item for each in routines.jobs]
        jobs += [each.item for each in reminders.jobs]
        return jobs, [*routines.problems, *reminders.problems]

    def assumptions(self) -> Assumptions:
        """What a rehearsal starts from now."""
        from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec
        from ollim_bot.kernel.store.codecs.record_codecs import ping_budget_codec
        from ollim_bot.kernel.store.steps import pushed_to_phone, quiet_settings
        from ollim_bot.kernel.values.simulation import Assumptions

        budget = self.stored(self.paths.ping_budget, ping_budget_codec(lambda: self.now))
        config = self.stored(self.paths.config, RuntimeConfigCodec())
        if self.shared is not None:
            # The files of this machine are as old as its last lead.
            found = self.read(lambda tx: (tx.budget.get(), tx.config.get()))
            budget, config = found or (budget, config)
        quiet, pushes = self.read(quiet_settings), self.read(pushed_to_phone)
        return Assumptions(self.now, zone_of(self.now), budget, config, quiet=quiet, pushes=pushes)

    def _holder_of_id(self, rivals: Sequence[Job]) -> int:
        from ollim_bot.kernel.store.steps import holder_of_id

        return self.read(lambda tx: holder_of_id(tx, rivals)) or 0

    def planned(self, job: Job) -> Job:
        """The job with its next moment, if an answer has set one."""
        from ollim_bot.kernel.store.answer_plan_rows import with_known_plan

        return self.read(lambda tx: with_known_plan(tx, job)) or job

    def _keeping(self, place: str, after: str | None) -> AbstractContextManager[None]:
        """Changes are kept; the bot shows those of the agent to the owner."""
        from ollim_bot.kernel.changes.file_changes import Acting

        acting = Acting(self.changer, session=self.agent or "")
        return self.changes().keeping(place, after, acting)

    def changes(self) -> FileChanges:
        """The changes of files, with a database that is opened for each question."""
        from ollim_bot.kernel.changes.file_changes import FileChanges

        return FileChanges(self.paths, self.rows, self.journal, lambda: self.now)

    @property
    def rows(self) -> Rows:
        """The database, opened for each step and question."""
        return _LateRows(self)

    @property
    def changer(self) -> Changer:
        from ollim_bot.kernel.values.changes import Changer

        return Changer.COMMAND if self.agent is None else Changer.AGENT

    def keep_files(self, *places: str, is_before: bool = False) -> None:
        """Keep what the command has changed in these files, or, before it does, what others did.

        A person is not refused a change that cannot be kept.
        """
        from ollim_bot.kernel.values.changes import Changer

        by = Changer.HAND if is_before else self.changer
        try:
            self.changes().look(places, by, "" if is_before else self.agent or "")
        except StorageError:
            if self.agent is not None and is_before:
                raise

    def keep_elsewhere(
        self,
        place: str,
        before: str | None,
        after: str | None,
        untrusted: str = "",
        receipt: str = "",
    ) -> None:
        """Keep a change of something that is kept at a service."""

        from ollim_bot.kernel.changes.file_changes import cause_of
        from ollim_bot.kernel.values.changes import ChangeRow

        taint, by, agent = self.standing_taint(), self.changer, self.agent or ""
        mark = taint.mark if taint else untrusted

        def step(tx: Transaction) -> None:
            key = tx.changes.new_key(place)
            cause = cause_of(tx, agent)
            row = ChangeRow(key, self.now, place, by, before, after, cause, mark)
            tx.changes.put(replace(row, receipt=receipt))

        try:
            with self.database() as database:
                database.run(step)
        except StorageError as refused:
            note(f"the change is made, but could not be kept for `ollim-bot changes`: {refused}")

    def stored(
        self, path: Path, codec: Codec[T], on_problem: Callable[[str], None] = lambda _: None
    ) -> T:
        """Read one value only; an unreadable file counts as missing, and `on_problem` is told."""
        from ollim_bot.kernel.store.file_store import FormatIsNewer, Malformed

        try:
            value, warnings = codec.decode(OsDisk().read(path, SizeLimit.STATE))
        except FileNotFoundError:
            return codec.missing()
        except (OSError, Malformed, FormatIsNewer) as unread:
            on_problem(f"state/{path.name} cannot be read: {unread}")
            return codec.missing()
        for warning in warnings:
            on_problem(f"state/{path.name}: {warning}")
        return value

    def read(self, question: Step[T]) -> T | None:
        """Answer a question from the database as it is; None if there is no database yet."""
        from ollim_bot.kernel.store.questions import look_into

        if self.shared is None:
            return look_into(self.paths, self.now, question)
        try:
            return self.shared.query(question)
        except StorageError as unread:
            if not self._is_told:
                note(str(unread))
            self._is_told = True
            return None

    def ask(self, question: Step[T]) -> T:
        """As `read`, but raises `StorageError` if the database cannot be read."""
        from ollim_bot.kernel.store.questions import ask

        if self.shared is not None:
            return self.shared.query(question)
        return ask(self.paths, self.now, question)

    def ask_if_used(self, question: Step[T]) -> T | None:
        """As `ask`, but None while no bot has run in this data directory."""
        return self.ask(question) if self._is_used() else None

    def standing_taint(self) -> Taint | None:
        """What the turn or run has read in which the agent calls; None if nothing untrusted.

        Raises `StorageError` for a database that cannot be read: it may say that it is tainted.
        """
        from ollim_bot.kernel.store.steps import standing_taint

        if self.agent is None or not self._is_used():
            return None
        taint = self.ask(partial(standing_taint, called_by=self.agent))
        return taint if taint.sources else None

    def _is_used(self) -> bool:
        from ollim_bot.kernel.store.questions import has_state

        return self.shared is not None or has_state(self.paths)

    @contextmanager
    def database(self) -> Iterator[Database | SharedBackend]:
        """Open the database beside the running bot; if none runs, with the instance lock."""
        from ollim_bot.kernel.base.instance import single_instance
        from ollim_bot.kernel.store.opening import open_database

        if self.shared is not None:
            yield self.shared
            return

        with ExitStack() as stack:
            try:
                lock = single_instance(self.paths.bot_pid, patience=0.2, with_sentinel=0.2)
                stack.enter_context(lock)
                is_holder = True
            except AlreadyRunning:
                is_holder = False
            database = open_database(
                self.paths,
                lambda: self.now,
                is_holder=is_holder,
                report=lambda problem: note(str(problem)),
            )
            stack.callback(database.close)
            yield database


def open_data(caller: Caller) -> Data:
    """Open for reading: nothing is created on disk."""
    place = caller.place()
    now = caller.now().astimezone(place.zone)
    return Data(place.paths, now, ReadOnlyJournal(), caller.agent, caller.environ)


@contextmanager
def writable(data: Data) -> Iterator[Data]:
    """The same, to write with, as `prepared` does.

    Raises `StorageError` on a machine that stands by, before anything is changed.
    """
    if data.shared is not None:
        data.shared.check_may_change()
    with prepared(data.paths) as journal:
        yield Data(data.paths, data.now, journal, data.agent, data.environ)
        if data.shared is not None:
            data.shared.run(lambda _: None)  # each step stores the files that were changed


@contextmanager
def prepared(paths: DataPaths) -> Iterator[GitJournal]:
    """Create the directory if needed; commit what was written to the history at the end."""
    from ollim_bot.kernel.store.data_directory import prepare_data_directory

    found = prepare_data_directory(paths)
    for problem in found.problems:
        note(problem)
    journal = opened_journal(paths)
    if found.is_new:
        journal.prepare()
    try:
        yield journal
    finally:
        journal.flush()


def opened_journal(paths: DataPaths) -> GitJournal:
    """Open the journal. Its problems are notes on standard error: no data is lost."""
    from ollim_bot.kernel.store.journal import open_journal

    return open_journal(paths, on_problem=note)


def note(sentence: str) -> None:
    show(plain(f"note: {sentence}"), "  ", stream=sys.stderr)


ONLY_THERE = "the bot can only show this on its page. A phone: `ollim-bot push setup`."


def is_page_only(data: Data, caller: Caller) -> bool:
    """Whether it is certain that nothing but the page shows what comes, and a person must know.

    The terminal does not know which pages are open, nor the desktop of the running bot. So it
    speaks only if the bot runs without a channel, and no notification of its own is wanted or
    possible. Of what the agent adds, the bot's card tells it.
    """
    from ollim_bot.kernel.base.instance import running_pid

    if caller.agent is not None or running_pid(data.paths.bot_pid) is None:
        return False
    from ollim_bot.kernel.base.desktop_notification import DesktopNotifier

    has_program = DesktopNotifier(caller.environ).has_program

    def question(tx: Transaction) -> bool:
        may_show = has_program and tx.config.get().desktop_notifications != "off"
        return not may_show and not tx.channels.all()

    return bool(data.read(question))


class _LateRows:
    """Opens the database for each step: most commands need none."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def run(self, step: Step[T]) -> T:
        with self._data.database() as database:
            return database.run(step)

    def query(self, question: Step[T]) -> T:
        with self._data.database() as database:
            return database.query(question)


# Exports of the logs in the database: one JSON object a line, oldest first.
PAGE_SIZE = 500


# The rows after a place, at most `PAGE_SIZE`, each with its moment and as a line of JSON; and the
# place of the last one.
PageReader = Callable[[int, "Transaction"], tuple[list[tuple[datetime, bytes]], int]]


EXPORT_ARGUMENTS = (
    argument(
        "--since", metavar="DATE", help="only what is not older: 2026-11-01, or 30d; all if omitted"
    ),
    argument("--format", choices=["jsonl"], help="one JSON object a line"),
    argument("--output", metavar="FILE", help="write to this file, not to the terminal"),
    argument("--force", action="store_true", help="replace FILE if it exists"),
)


def export(given: Given, caller: Caller, read_page: PageReader) -> None:
    """Write the rows that `read_page` gives, from place 0 on; the database is not changed."""
    data = open_data(caller)
    lines = _lines(data, read_page, past_moment(given, "since", data.now))
    if "output" not in given:
        for line in lines:
            print(shown_json(line.decode()))
        sys.stdout.flush()
        return
    path = caller.path(given["output"])
    with _new_file(path, is_forced="force" in given) as file:
        count = sum(bool(file.write(line + b"\n")) for line in lines)
    rows = "1 row is" if count == 1 else f"{count} rows are"
    show(plain(f"{rows} in {caller.shown(path)}."))


def _lines(data: Data, read_page: PageReader, since: datetime | None) -> Iterator[bytes]:
    # One transaction for each page: a long one would keep the running bot from checkpoints.
    rows, last = data.ask(partial(read_page, 0))
    while rows:
        yield from (line for at, line in rows if since is None or at >= since)
        rows, last = data.ask(partial(read_page, last))


@contextmanager
def _new_file(path: Path, *, is_forced: bool) -> Iterator[BinaryIO]:
    """Create a file that only its owner can read; it gets its name once it is complete."""
    import tempfile

    if os.path.lexists(path):
        if not is_forced:
            raise _taken(path)
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise OllimError(f"{path} is not a file. Name another one.")
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
    except OSError as refused:
        raise _not_written(path, refused) from refused
    temporary = Path(name)
    try:
        with open(descriptor, "wb") as file:
            yield file
        OsDisk().sync(temporary)
        disk = OsDisk()
        if is_forced:
            disk.replace(temporary, target)
        else:
            try:
                disk.link(temporary, target)
            except FileExistsError:
                raise _taken(target) from None
        disk.sync_folder(target.parent)
    except OSError as refused:
        raise _not_written(path, refused) from refused
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _taken(path: Path) -> OllimError:
    return OllimError(f"{path} exists already. --force replaces it.")


def _not_written(path: Path, refused: OSError) -> WriteFailed:
    return WriteFailed(path, f"could not be written: {refused.strerror or refused}.")
