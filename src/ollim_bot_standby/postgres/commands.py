"""The shared database, as a command uses it where no bot runs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from ollim_bot.kernel.base.errors import StorageError, WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.backend import ServerRows
from ollim_bot.kernel.store.connection import Row, Statements
from ollim_bot.kernel.store.database_errors import NotLeading, OtherSchema, OutcomeUnknown
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.mirrors import KEPT_HASHES, Mirrors
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.transaction import Step
from ollim_bot_standby.bot_rows import rows_beside_bot
from ollim_bot_standby.file_layout import AddsPower
from ollim_bot_standby.held_lease import HeldLease
from ollim_bot_standby.machines import NOT_NOW, OnStandby, ServerGone, machine_id
from ollim_bot_standby.postgres.connection import Address, connect_to, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.postgres.lease import CONNECTED, Lease, shown_id
from ollim_bot_standby.postgres.transfer import move_to_file
from ollim_bot_standby.stored_files import StoredFiles, adds_power

R = TypeVar("R")

# In seconds: a command that hangs inside of its step holds up the bot no longer than this.
_IDLE_IN_STEP = 1.5
_STATE = "SELECT name, until > clock_timestamp(), schema, machine FROM lease"
_TAKEN_OVER = (
    "is led by another machine since just now. Look there whether the change was made, with "
    "`ollim-bot changes`."
)
_UNKNOWN = "did not say whether the change was made. Look with `ollim-bot changes`, then try again."


@dataclass(eq=False)
class CommandDatabase(ServerRows):
    """Questions are answered on every machine; a step runs only while no machine leads.

    The command then leads for the length of the step. A server that did not answer once is not
    asked again.
    """

    is_holder = True

    address: Address
    paths: DataPaths
    now: Callable[[], datetime]
    adds_power: AddsPower
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.path = self.address.place
        self._connect = partial(connect_to, idle_in_step=_IDLE_IN_STEP)
        self._reader: PostgresDatabase | None = None
        self._gone: ServerGone | None = None

    def query(self, question: Step[R]) -> R:
        return self._asked(lambda reader: reader.query(question))

    def query_rows(self, question: Callable[[Statements], R]) -> R:
        return self._asked(lambda reader: reader.query_rows(question))

    def copy_to(self, target: Path, now: datetime) -> None:
        move_to_file(self, target, now)

    def waiting_for_this(self) -> list[tuple[str, str]]:
        by_bot = rows_beside_bot(self.paths.commands, self.now)
        if by_bot is None or not by_bot.leads:
            return []
        rows = self.query_rows(lambda found: found.rows(CONNECTED))
        *_, own = self._state()
        known = [str(each[0]).split(" ", 3) for each in rows]
        return sorted({(name, version) for _, version, of, name in known if of != shown_id(own)})

    def check_may_change(self) -> None:
        """As promised; the files here, which are about to be changed, are brought up to date."""
        self.run(lambda _: None)

    def _check_free(self) -> None:
        name, is_led, schema, _ = self._state()
        if is_led:
            raise OnStandby(self.path, name)
        if schema != SCHEMA:
            raise OtherSchema(self.path, schema, SCHEMA)

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        self._check_free()
        try:
            with self._leading() as held:
                return self._run_with(held, step)
        except NotLeading as lost:
            raise WriteFailed(self.path, _TAKEN_OVER) from lost
        except OutcomeUnknown as unknown:
            raise WriteFailed(self.path, _UNKNOWN) from unknown

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _run_with(self, held: HeldLease, step: Step[R]) -> tuple[R, frozenset[str]]:
        def report(problem: StoreProblem) -> None:
            self.tell(str(problem))

        mirrors = Mirrors(self.paths, OsDisk(), report, kept=KEPT_HASHES)
        files = StoredFiles(self.paths, self.adds_power, self.tell)
        database = PostgresDatabase(
            self.address, self.now, lease=held, mirrors=mirrors, files=files, connect=self._connect
        )
        try:
            database.take_over_files()
            return database.run_noting(step)
        finally:
            database.close()

    @contextmanager
    def _leading(self) -> Iterator[HeldLease]:
        """Lead in place of a bot; others may at once when this ends, also by an error.

        Name and id stay those of the machine whose bot led last: its files are the newest.
        """
        name, *_, machine = self._state()
        if not machine:
            name, machine = platform.node() or "this machine", machine_id(self.paths)
        lease = Lease(self.address, name, connect=self._connect, machine=machine)
        try:
            held = lease.take()
            if held is None:
                self._check_free()
                raise WriteFailed(self.path, NOT_NOW)
            try:
                yield held
            finally:
                with suppress(StorageError):  # then it expires
                    lease.release()
        finally:
            lease.close()

    def _state(self) -> Row:
        return self.query_rows(lambda rows: rows.rows(_STATE)[0])

    def _asked(self, ask: Callable[[PostgresDatabase], R]) -> R:
        if self._gone is not None:
            raise self._gone
        try:
            if self._reader is None:
                reader = PostgresDatabase(self.address, self.now, lease=None, connect=self._connect)
                reader.prepare()
                self._reader = reader
            return ask(self._reader)
        except ServerGone as gone:
            self._gone = gone
            raise


def rows_on_server(
    url: str,
    paths: DataPaths,
    now: Callable[[], datetime],
    tell: Callable[[str], None] = lambda _: None,
) -> CommandDatabase:
    """The rows on the server, which is connected when it is first asked. Raises `WrongInput`."""
    return CommandDatabase(parse_address(url), paths, now, partial(adds_power, paths), tell)
