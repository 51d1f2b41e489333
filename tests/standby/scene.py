"""Machines with homes of their own, and one database for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.postgres.test_transfer import corpus
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.environment import read_env_file
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import ask
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot_standby.machines import machine_id
from ollim_bot_standby.postgres.connection import Address, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

R = TypeVar("R")

# Of the messages that a search is tried with; the long ones are dear to move.
FEW = tuple(corpus()[:30])


def url_of(address: Address) -> str:
    """The address as a person writes it."""
    parts = {name: str(value) for name, value in conninfo_to_dict(address.conninfo).items()}
    return f"postgresql:///{parts.pop('dbname')}?{urlencode(parts, quote_via=quote)}"


class StandbyScene:
    """`desk` has a bot with a conversation; `name` is what the machine in use is called."""

    def __init__(self, folder: Path, address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.url = url_of(address)
        self.address = parse_address(self.url)
        self.file = folder / "address.txt"
        self.file.write_text(f"{self.url}\n")
        self.file.chmod(0o600)
        self._patch = monkeypatch
        self.use("desk")
        self.desk = self.machine("desk")
        self.fill(self.desk)

    def use(self, name: str) -> None:
        self._patch.setattr("platform.node", lambda: name)

    def machine(self, name: str) -> Terminal:
        home = self.folder / name
        home.mkdir()
        terminal = Terminal(home)
        prepare_data_directory(terminal.paths)  # without a history, for which git would run
        return terminal

    def fill(self, terminal: Terminal) -> None:
        def add(tx: Transaction) -> None:
            for message in FEW:
                tx.messages.add(message)

        with opened(terminal) as database:
            database.run(add)

    def init(self, terminal: Terminal | None = None) -> str:
        words = ("standby", "init", "--yes", "--from", str(self.file))
        return (terminal or self.desk).done(*words)

    def on_server(self, question: Step[R]) -> R:
        with closing(open_postgres(self.address, lambda: SUNDAY, lease=None)) as database:
            return database.query(question)

    def rows_on_server(self, question: Callable[[Statements], R]) -> R:
        with closing(open_postgres(self.address, lambda: SUNDAY, lease=None)) as database:
            return database.query_rows(question)

    @contextmanager
    def leading(self, name: str, on: Terminal | None = None) -> Iterator[Lease]:
        """A bot leads on `desk`, or on the given machine, which has this name."""
        lease = Lease(self.address, name, machine=machine_id((on or self.desk).paths))
        assert lease.take() is not None
        try:
            yield lease
        finally:
            lease.release()
            lease.close()

    @contextmanager
    def leading_store(self, name: str) -> Iterator[PostgresDatabase]:
        """The rows, for the steps of a bot that leads on `desk`."""
        with self.leading(name) as lease:
            opening = open_postgres(self.address, lambda: self.desk.now, lease=lease.held)
            with closing(opening) as database:
                yield database


@contextmanager
def opened(terminal: Terminal) -> Iterator[Database]:
    database = open_database(
        terminal.paths, lambda: terminal.now, is_holder=True, report=lambda _: None
    )
    try:
        yield database
    finally:
        database.close()


def in_file(terminal: Terminal, question: Step[R]) -> R:
    return ask(terminal.paths, terminal.now, question)


def env_of(terminal: Terminal) -> dict[str, str]:
    path = terminal.paths.env_file
    return dict(read_env_file(path.read_text()).values) if path.exists() else {}


def has_address(terminal: Terminal) -> bool:
    return "DATABASE_URL" in env_of(terminal)
