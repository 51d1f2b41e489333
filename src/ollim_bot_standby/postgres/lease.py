"""The lease: its row, which says who leads by the clock of the server, and who keeps it."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from ollim_bot import __version__
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.logs import refusal_logged
from ollim_bot.kernel.base.processes import children_of_this
from ollim_bot.kernel.store.connection import Row
from ollim_bot.kernel.store.database_errors import NOT_LEADING
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot_standby.held_lease import EXPIRES_AFTER, HeldLease, boot_time
from ollim_bot_standby.machines import Leader
from ollim_bot_standby.postgres.connection import (
    Address,
    Connection,
    ConnectTo,
    connect_to,
    is_lost,
    make_lease_row,
    parse_address,
    translated,
)

_RENEWED = (
    f"until = clock_timestamp() + interval '{EXPIRES_AFTER} seconds', renewed = clock_timestamp()"
)
# Those who wait hear here at once that the lease is free, or asked for.
_CHANNEL = "ollim_lease"
_LEADER = """SELECT name, epoch,
    CASE WHEN until > clock_timestamp()
        THEN extract(epoch FROM until - clock_timestamp()) ELSE 0 END,
    schema, version, extract(epoch FROM clock_timestamp() - since),
    extract(epoch FROM clock_timestamp() - renewed), machine
    FROM lease WHERE epoch > 0"""


# Each machine says in its connection which one it is, and with which version.
CONNECTED = """SELECT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user
    AND application_name LIKE 'ollim-bot % % %'"""


def shown_id(machine: str) -> str:
    """What a connection says of the id of its machine: the server cuts its name after 63 bytes."""
    return machine[:12] or "-"


def read_leader(connection: Connection) -> Leader | None:
    """The leader as its row says it; None if none ever led. Raises `psycopg.Error`."""
    return _leader(connection.execute(_LEADER).fetchone())


def _leader(row: Row | None) -> Leader | None:
    if row is None:
        return None
    name, epoch, left, schema, version, since, renewed, machine = row
    return Leader(name, epoch, float(left), schema, version, float(since), float(renewed), machine)


def request_hand_over(connection: Connection) -> int | None:
    """Ask the leader to let go; returns its epoch, or None if no machine leads.

    The leader finds it at its next renewal, or at once by `Lease.wait`. Raises `psycopg.Error`.
    """
    row = connection.execute(
        "UPDATE lease SET wanted = epoch WHERE until > clock_timestamp() RETURNING epoch"
    ).fetchone()
    connection.execute(f"NOTIFY {_CHANNEL}")
    return None if row is None else int(row[0])


@dataclass(eq=False)
class Lease:
    """Takes, renews and releases the lease for this process, on a connection of its own.

    `name` is what people call this machine, `machine` is the id of its installation. `move` is the
    name of the move that may lead in a closed database. `is_wanted` says since the last renewal or
    `wait` that this process was asked to let another one lead. Each method raises
    `StorageError` if the server does not answer; what it has done is unknown then, and the lease
    counts as it did before.
    """

    address: Address
    name: str
    boot: Callable[[], float] = boot_time
    connect: ConnectTo = connect_to
    move: str = ""
    machine: str = ""

    def __post_init__(self) -> None:
        self.holder = secrets.token_hex(16)
        self.held: HeldLease | None = None
        self.is_wanted = False
        self.place = self.address.place
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def take(self) -> HeldLease | None:
        """Lead from now on; None while another process may, or since a newer version did.

        None also while the database is closed by another move.
        """
        with self._lock:
            asked_at = self.boot()
            row = self._row(
                "UPDATE lease SET holder = $1, name = $2, machine = $6, epoch = epoch + 1,"
                f" step = '', version = $4, since = clock_timestamp(), {_RENEWED}"
                " WHERE schema <= $3"
                # An earlier try of this process counts, whose answer was lost.
                " AND (until < clock_timestamp() OR holder = $1)"
                " AND closed IN ('', $5) RETURNING epoch",
                self.holder,
                self.name,
                SCHEMA,
                __version__,
                self.move,
                self.machine,
            )
            self.is_wanted = False
            self.held = None if row is None else HeldLease(self.holder, int(row[0]), asked_at)
            return self.held

    def renew(self) -> bool:
        """Lead for longer; False if this process leads no more, and never will with this epoch."""
        with self._lock:
            if self.held is None:
                return False
            asked_at = self.boot()
            row = self._row(
                f"UPDATE lease SET {_RENEWED} WHERE holder = $1 AND epoch = $2"
                " RETURNING wanted = epoch",
                self.holder,
                self.held.epoch,
            )
            self.held = None if row is None else self.held.renewed(asked_at)
            self.is_wanted = row is not None and bool(row[0])
            return self.held is not None

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until another process tells that the lease is free or asked for.

        `release` waits for it too: a leader waits for a second at most.
        """
        with self._lock:
            if self._connection is None or is_lost(self._connection):
                self.is_wanted = self._is_asked()
            if self.is_wanted or self._connection is None:
                return
            try:
                told = [*self._connection.notifies(timeout=seconds, stop_after=1)]
            except psycopg.Error as refused:
                raise translated(self.place, refused) from refused
            self.is_wanted = bool(told) and self._is_asked()

    def release(self) -> None:
        """Let another process lead at once."""
        with self._lock:
            held, self.held = self.held, None
            if held is not None:
                self._row(
                    "UPDATE lease SET until = '-infinity' WHERE holder = $1 AND epoch = $2"
                    " RETURNING epoch",
                    self.holder,
                    held.epoch,
                )
                self._row(f"SELECT pg_notify('{_CHANNEL}', '')")

    def may_act(self) -> bool:
        """Whether no other process can lead yet; asked before all that cannot be undone."""
        held = self.held
        return held is not None and held.may_act(self.boot())

    def is_renewal_due(self) -> bool:
        held = self.held
        return held is not None and held.is_renewal_due(self.boot())

    def leader(self) -> Leader | None:
        """The machine that leads, or led last; None if none ever did."""
        with self._lock:
            return _leader(self._row(_LEADER))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _is_asked(self) -> bool:
        row = self._row("SELECT epoch FROM lease WHERE wanted = epoch")
        return row is not None and self.held is not None and row[0] == self.held.epoch

    def _row(self, sql: str, *arguments: Any) -> Row | None:
        """What the statement returns; it is run again if the connection was lost."""
        for is_last in (False, True):
            if self._connection is None or is_lost(self._connection):
                self._connection = self.connect(self.address)
                make_lease_row(self._connection, self.place)
                self._begin(self._connection)
            try:
                return self._connection.execute(sql, arguments).fetchone()
            except psycopg.Error as refused:
                if is_last or not is_lost(self._connection):
                    raise translated(self.place, refused) from refused
        return None

    def _begin(self, connection: Connection) -> None:
        """Hear of the lease, and say which machine this is."""
        of = f"{__version__} {shown_id(self.machine)} {self.name}"
        name = f"ollim-bot {of}" if self.name else "ollim-bot"
        try:
            connection.execute(f"LISTEN {_CHANNEL}")
            connection.execute("SELECT set_config('application_name', $1, false)", (name,))
        except psycopg.Error as refused:
            raise translated(self.place, refused) from refused


def is_led(url: str) -> bool:
    """Whether a machine leads the database at `url`. Raises `OllimError` if it does not answer."""
    with closing(Lease(parse_address(url), "")) as lease:
        leader = lease.leader()
    return leader is not None and leader.is_leading


# In seconds: how often the deadline is looked at, and how long a renewal that failed waits.
_LOOK, _AGAIN = 0.25, 1.0
# In seconds: for so long at a stretch a leader listens whether another machine shall lead.
_LISTEN = 0.5
_LOST = (
    "This machine leads no more: it could not renew its lease, or another machine has taken over. "
    "ollim-bot ends here, and stands by after the next start."
)

_logger = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the lease, in a thread of its own: no work of the event loop can hold it up.

    Another thread watches the deadline, since a renewal may wait for the server for long. `end` is
    called once, with a sentence, if this process leads no more; nothing may be sent after that.
    `hand_over` is called once if another machine shall lead: the process ends what it does, and
    then `stop` lets the other one lead.
    """

    def __init__(
        self,
        lease: Lease,
        end: Callable[[str], None],
        hand_over: Callable[[], object] = lambda: None,
    ) -> None:
        self._lease = lease
        self._end = end
        self._hand_over = hand_over
        self._is_handing_over = False
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=each, name=name, daemon=True)
            for each, name in ((self._renew_in_time, "lease"), (self._watch, "lease-deadline"))
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Lead no more, and let another machine lead at once."""
        self._is_over.set()
        for each in filter(threading.Thread.is_alive, self._threads):
            each.join()
        with refusal_logged("The lease could not be released, and expires"):
            self._lease.release()

    def renew_if_due(self) -> bool:
        """Do what is due; False if a renewal has failed that may succeed at the next try."""
        try:
            if self._lease.is_renewal_due():
                self._lease.renew()
        except StorageError as gone:
            _logger.warning("The lease could not be renewed: %s", gone)
            return False
        return True

    def end_if_lost(self) -> bool:
        """End the process if its time is over; returns whether it is."""
        if self._lease.may_act():
            return False
        if not self._is_over.is_set():
            self._is_over.set()
            self._end(_LOST)
        return True

    def _renew_in_time(self) -> None:
        while not self._is_over.is_set():
            if not (self.renew_if_due() and self._listen()):
                self._is_over.wait(_AGAIN)

    def _listen(self) -> bool:
        """Hear for a moment whether another machine shall lead; False if the server is away."""
        try:
            self._lease.wait(_LISTEN)
        except StorageError:
            return False
        if self._is_handing_over:
            self._is_over.wait(_LISTEN)
        elif self._lease.is_wanted:
            self._is_handing_over = True
            self._hand_over()
        return True

    def _watch(self) -> None:
        while not self._is_over.is_set() and not self.end_if_lost():
            self._is_over.wait(_LOOK)


def end_process(sentence: str) -> None:
    """End this process and the engines at once: a wait could let one of them change something."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"ollim-bot: {sentence}\n")
        sys.stderr.flush()
    # Git may finish what it writes. Where the system does not list the programs that this process
    # has started, each ends when it finds its input closed.
    for child in children_of_this(but="git"):
        with suppress(OSError):
            if os.getpgid(child) == child:
                os.killpg(child, signal.SIGKILL)
    os._exit(NOT_LEADING)
