"""A step and a question in PostgreSQL over a local socket, against those in a file."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path

from devtools.localpostgres import LocalPostgres, find_binaries

from bench.fixtures import NOW, new_database
from bench.measure import Result, compare
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.store.backend import Backend
from ollim_bot.store.postgres.connection import parse_address
from ollim_bot.store.postgres.database import open_postgres
from ollim_bot.store.postgres.lease import Lease
from ollim_bot.store.transaction import Transaction

ROUNDS = 200
ROW = LedgerRow(NOW, "noted", facts={"text": "x" * 200})


def measure(folder: Path) -> list[Result]:
    binaries = find_binaries()
    if binaries is None:
        return []
    server = LocalPostgres(binaries, is_durable=True)
    try:
        server.start()
        return _measured(server, folder)
    finally:
        server.stop()


def _measured(server: LocalPostgres, folder: Path) -> list[Result]:
    address = parse_address(server.address)
    with closing(Lease(address, "bench")) as lease:
        theirs = open_postgres(address, lambda: NOW, lease=lease.take())
        ours = new_database(folder)
        with closing(theirs), closing(ours):
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


_numbers = count()


def note(backend: Backend) -> None:
    """Append a row to the ledger and a message to the log."""
    message = ChatMessage(MessageId(f"m{next(_numbers)}"), NOW, Author.ASSISTANT, "said " * 10)

    def step(tx: Transaction) -> None:
        tx.ledger.append(ROW)
        tx.messages.add(message)

    backend.run(step)
