"""A step and a question in PostgreSQL, on a local socket and from afar, against a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from statistics import median

from devtools.localpostgres import LocalPostgres, find_binaries

from bench.far_server import FarServer, far_server
from bench.fixtures import NOW, new_database
from bench.measure import Result, compare, seconds
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.store.backend import Backend
from ollim_bot.store.database import Database
from ollim_bot.store.transaction import Transaction
from ollim_bot_standby.postgres.connection import Address, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

ROUNDS, FAR_ROUNDS = 200, 30
AWAY = (0.001, 0.02)
ROW = LedgerRow(NOW, "noted", facts={"text": "x" * 200})


def measure(folder: Path) -> list[Result]:
    binaries = find_binaries()
    if binaries is None:
        return []
    server = LocalPostgres(binaries, is_durable=True)
    try:
        server.start()
        with far_server(server.folder) as far:
            return [*_measured(server, folder / "near"), *_from_afar(far, folder / "far")]
    finally:
        server.stop()


def _measured(server: LocalPostgres, folder: Path) -> list[Result]:
    address = parse_address(server.address)
    ours = new_database(folder)
    with led(address) as theirs, closing(ours):
        return [
            compare(
                "step in PostgreSQL",
                lambda: note(theirs),
                "step in a file",
                lambda: note(ours),
                rounds=ROUNDS,
                most_times=3,
            ),
            compare(
                "question to PostgreSQL",
                lambda: theirs.query(lambda tx: tx.session.get()),
                "question to a file",
                lambda: ours.query(lambda tx: tx.session.get()),
                rounds=ROUNDS,
            ),
        ]


@contextmanager
def led(address: Address) -> Iterator[PostgresDatabase]:
    with closing(Lease(address, "bench")) as lease:
        with closing(open_postgres(address, lambda: NOW, lease=lease.take())) as database:
            yield database
        lease.release()


def _from_afar(far: FarServer, folder: Path) -> list[Result]:
    address, ours = parse_address(far.address), new_database(folder)
    with led(address) as theirs, closing(ours):
        return [each for away in AWAY for each in _at_distance(away, far, theirs, ours)]


def _at_distance(
    away: float, far: FarServer, theirs: PostgresDatabase, ours: Database
) -> list[Result]:
    far.is_away(away)
    note(theirs)
    theirs.query(lambda tx: tx.session.get())
    name = f"step, database {away * 1000:.0f} ms away"
    steps = compare(name, lambda: note(theirs), "a file", lambda: note(ours), rounds=FAR_ROUNDS)
    before = far.traffic()
    for _ in range(FAR_ROUNDS):
        note(theirs)
    trips = far.traffic().since(before).of_one(FAR_ROUNDS).round_trips
    trip = median(
        seconds(lambda: theirs.query(lambda tx: tx.session.get())) for _ in range(FAR_ROUNDS)
    )
    return [steps, Result(f"{name}, a round trip of it", steps.amount / trips, "a question", trip)]


_numbers = count()


def note(backend: Backend) -> None:
    """Append a row to the ledger and a message to the log."""
    message = ChatMessage(MessageId(f"m{next(_numbers)}"), NOW, Author.ASSISTANT, "said " * 10)

    def step(tx: Transaction) -> None:
        tx.ledger.append(ROW)
        tx.messages.add(message)

    backend.run(step)
