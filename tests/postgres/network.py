"""A network between the bot and its server that fails where a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from tests.kernel.store.scene import NOW
from tests.postgres_server import leading

from ollim_bot_standby.machines import ServerGone
from ollim_bot_standby.postgres.connection import Address, Connection, connect_to
from ollim_bot_standby.postgres.database import PostgresDatabase


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Network:
    """Loses the connection once, at a statement that has `word`; `is_done` says after it ran.

    With `kills`, the process ends with its connection.
    """

    word: str = ""
    is_done: bool = False
    is_down: bool = False
    kills: bool = False
    lost: list[str] = field(default_factory=list)
    round_trips: int = 0

    def connect(self, address: Address) -> Connection:
        if self.is_down:
            raise ServerGone(address.place, "no route")
        connection = connect_to(address)
        run = connection.execute

        def execute(sql: Any, *arguments: Any, **options: Any) -> Any:
            self.round_trips += 1
            if not self.word or self.word not in sql:
                return run(sql, *arguments, **options)
            if self.is_done:
                run(sql, *arguments, **options)
            self.lost.append(sql)
            self.word = ""
            connection.close()
            if self.kills:
                raise Killed
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        connection.execute = execute  # type: ignore[method-assign, assignment]
        return connection


@contextmanager
def on_network(
    address: Address, network: Network, may_lead: Callable[[], bool] | None = None
) -> Iterator[PostgresDatabase]:
    with leading(address, lambda: NOW) as (lease, _):
        database = PostgresDatabase(
            address,
            lambda: NOW,
            lease=lease.held,
            connect=network.connect,
            look_up_for=-1.0,
            may_lead=may_lead,
            sleep=lambda _: None,
        )
        with closing(database):
            yield database
