"""Transactions and appends against the bare system calls, and with a long history behind them."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from tests.stores import Stores

from bench.bars import Bar
from bench.fixtures import NOW, prepared
from bench.measure import Result, compare
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates

ROUNDS = 60
LONG = 100_000
WAITING = 10_000
# Without growth the ratio is 1; the rest allows for the noise between two medians of a disk.
NO_GROWTH = 1.5


def measure(folder: Path) -> list[Result]:
    paths, stores = prepared(folder / "short")
    _, old = prepared(folder / "long")
    row = LedgerRow(NOW, "noted", facts={"text": "x" * 200})
    old.ledger.append(*[row] * LONG)
    keep_waiting(old, WAITING)
    keep_waiting(stores, 10)
    numbers = count()

    def transact(on: Stores) -> None:
        value = f"n{next(numbers)}"
        on.state.run(lambda tx: tx.session.put(SessionId(value)))

    return [
        compare(
            "transaction",
            lambda: transact(stores),
            "write, fsync, rename, fsync",
            lambda: bare_replace(folder),
            rounds=ROUNDS,
            most_times=2,
        ),
        compare(
            "append to the ledger",
            lambda: stores.ledger.append(row),
            "write, fsync",
            lambda: bare_append(folder),
            rounds=ROUNDS,
            most_times=3,
        ),
        compare(
            f"append with {LONG} rows before it",
            lambda: old.ledger.append(row),
            "with none",
            lambda: stores.ledger.append(row),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            f"pending update with {WAITING} others",
            lambda: old.leave_update("more", NOW),
            "with 10",
            lambda: stores.leave_update("more", NOW),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            "reading a value",
            stores.session.read,
            "reading its bytes",
            paths.sessions.read_bytes,
            rounds=ROUNDS,
        ),
    ]


def keep_waiting(stores: Stores, how_many: int) -> None:
    """The state after the owner was silent: ten updates are kept, and the others counted."""

    def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
        for number in range(how_many):
            pending, _ = pending.appended(PendingUpdate(NOW, f"update {number}", f"{number:08x}"))
        return pending, None

    stores.updates.transact(step)


def bare_replace(folder: Path) -> None:
    temporary, target = folder / "bare.tmp", folder / "bare"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, b'{"version": 1, "n": 1}')
    os.fsync(descriptor)
    os.close(descriptor)
    os.replace(temporary, target)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def bare_append(folder: Path) -> None:
    descriptor = os.open(folder / "bare.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, b"x" * 280 + b"\n")
    os.fsync(descriptor)
    os.close(descriptor)
