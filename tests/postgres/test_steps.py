"""A step on PostgreSQL happens once, whatever becomes of the connection, and others hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tests.kernel.store.scene import NOW, StoreScene
from tests.patience import patience
from tests.postgres.network import Network, on_network
from tests.postgres_server import leading, own_server

from ollim_bot.kernel.base.errors import StorageError, WrongInput
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.store.connection import Row, Statements
from ollim_bot.kernel.store.database_errors import (
    NOT_LEADING,
    NotLeading,
    OtherSchema,
    OutcomeUnknown,
)
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.mirrors import Mirrors
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot_standby.machines import OnStandby, ServerGone
from ollim_bot_standby.postgres.connection import Address, connect_to, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres


def note_row(tx: Transaction) -> int:
    tx.ledger.append(LedgerRow(NOW, "noted"))
    return tx.ledger.count()


@pytest.mark.parametrize(
    ("word", "is_done"),
    [("COMMIT", True), ("COMMIT", False), ("INSERT INTO ledger", True), ("BEGIN", True)],
)
def test_a_step_whose_connection_is_lost_happens_once(
    address: Address, word: str, is_done: bool
) -> None:
    network = Network()
    with on_network(address, network) as database:
        assert database.run(note_row) == 1
        network.word, network.is_done = word, is_done
        assert database.run(note_row) == 2
        assert network.lost
        assert database.query(lambda tx: tx.ledger.count()) == 2
        assert database.is_writable


def test_a_question_is_asked_again_on_a_new_connection(address: Address) -> None:
    network = Network()
    with on_network(address, network) as database:
        database.run(note_row)
        network.word = "FROM ledger"
        assert database.query(lambda tx: tx.ledger.count()) == 1
        assert network.lost


def test_a_step_and_a_question_need_few_round_trips(address: Address) -> None:
    def note_and_say(number: int, tx: Transaction) -> None:
        tx.ledger.append(LedgerRow(NOW, "noted"))
        tx.messages.add(ChatMessage(MessageId(f"m{number}"), NOW, Author.ASSISTANT, "Hello."))
        tx.updates.get()
        tx.updates.get()

    network = Network()
    with on_network(address, network) as database:
        database.run(note_row)
        for number in range(3):
            network.round_trips = 0
            database.run(partial(note_and_say, number))
            assert network.round_trips <= 5
        database.query(lambda tx: tx.messages.count())
        for _ in range(3):
            network.round_trips = 0
            assert database.query(lambda tx: tx.messages.count()) == 3
            assert network.round_trips == 1


def test_a_question_that_is_repeated_in_a_step_sees_what_was_written_between(
    address: Address,
) -> None:
    def step(tx: Transaction) -> list[int]:
        counts = [tx.ledger.count(), tx.ledger.count()]
        tx.ledger.append(LedgerRow(NOW, "noted"))
        return [*counts, tx.ledger.count()]

    with leading(address, lambda: NOW) as (_, database):
        assert database.run(step) == [0, 0, 1]
        assert database.run(step) == [1, 1, 2]


@pytest.mark.parametrize("is_asked_after", [True, False])
def test_a_write_that_the_server_refuses_leaves_nothing_behind(
    address: Address, *, is_asked_after: bool
) -> None:
    def step(rows: Statements) -> None:
        for seq in (1, 1):
            rows.write("meta", "INSERT INTO lease VALUES (?)", seq)
        if is_asked_after:
            rows.rows("SELECT 1")

    with leading(address, lambda: NOW) as (_, database):
        with pytest.raises(StorageError):
            database.run_rows(step)
        assert database.run(note_row) == 1


@pytest.mark.parametrize("value", ["'; COMMIT; SELECT '", "\\'", "ü ? $1 %s", ""])
def test_no_value_becomes_part_of_a_statement(address: Address, value: str) -> None:
    def step(rows: Statements) -> list[Row]:
        rows.write("meta", "DELETE FROM meta WHERE name = ?", "none")
        return rows.rows("SELECT CAST(? AS TEXT), CAST(? AS BIGINT)", value, -7)

    def inside_of_a_text(rows: Statements) -> None:
        rows.write("meta", "DELETE FROM meta WHERE name = ?", "none")
        rows.rows("SELECT '?'", value)

    with leading(address, lambda: NOW) as (_, database):
        assert database.run_rows(step)[0] == [(value, -7)]
        with pytest.raises(AssertionError):
            database.run_rows(inside_of_a_text)


def test_each_question_sees_the_newest_state_and_none_stays_open(address: Address) -> None:
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    with leading(address, lambda: NOW) as (_, database):
        for number in (1, 2):
            database.run(note_row)
            assert database.query(lambda tx: tx.ledger.count()) == number
        database.tidy(is_idle=True)
        with closing(connect_to(address)) as connection:
            assert connection.execute(open_ones).fetchone() == (0,)


def test_a_commit_that_cannot_be_looked_up_ends_the_process(address: Address) -> None:
    network = Network()
    with on_network(address, network) as database:
        database.run(note_row)
        network.word, network.is_done, network.is_down = "COMMIT", True, True
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                database.run(note_row)
        network.is_down = False
        with pytest.raises(OutcomeUnknown):
            database.run(note_row)


ASKED: dict[str, tuple[str, Callable[[PostgresDatabase], int], int]] = {
    "a question": ("FROM ledger", lambda database: database.query(lambda tx: tx.ledger.count()), 1),
    "a step": ("INSERT INTO ledger", lambda database: database.run(note_row), 2),
    "a commit": ("COMMIT", lambda database: database.run(note_row), 2),
}


@pytest.mark.parametrize("asked", ASKED)
def test_the_leader_waits_for_a_server_that_is_away_while_it_may_lead(
    address: Address, asked: str
) -> None:
    word, ask, found = ASKED[asked]
    network, looks = Network(), count(1)

    def may_lead() -> bool:
        """The server comes back at the third look."""
        network.is_down = next(looks) < 3
        return True

    with on_network(address, network, may_lead) as database:
        database.run(note_row)
        network.word, network.is_done, network.is_down = word, True, True
        assert ask(database) == found
        assert (network.lost != [], network.is_down, database.is_writable) == (True, False, True)
        assert database.query(lambda tx: tx.ledger.count()) == found


@pytest.mark.parametrize("asked", ["a question", "a step"])
def test_the_leader_ends_when_the_server_is_away_for_longer_than_its_lease(
    address: Address, asked: str
) -> None:
    word, ask, _ = ASKED[asked]
    network, looks = Network(), count(1)
    with on_network(address, network, lambda: next(looks) < 3) as database:
        database.run(note_row)
        network.word, network.is_down = word, True
        with pytest.raises(NotLeading, match="cannot be reached") as ended:
            ask(database)
        assert ended.value.code == NOT_LEADING
        assert next(looks) == 4


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience()
    while not condition():
        assert time.monotonic() < deadline


def test_a_standby_reads_hears_of_commits_and_changes_nothing(address: Address) -> None:
    with pytest.raises(OtherSchema):
        open_postgres(address, lambda: NOW, lease=None)
    with leading(address, lambda: NOW) as (_, leader):
        standby = open_postgres(address, lambda: NOW, lease=None)
        with closing(standby):
            assert not standby.note_version()
            leader.run(note_row)
            until(standby.note_version)
            assert not standby.note_version()
            assert not leader.note_version()
            assert standby.query(lambda tx: tx.ledger.count()) == 1
            for _ in range(2):
                with pytest.raises(OnStandby):
                    standby.run(note_row)
                standby.recovered()
            assert not standby.is_writable


def test_the_mirrors_follow_a_commit(address: Address, tmp_path: Path) -> None:
    paths = StoreScene(tmp_path).paths
    with leading(address, lambda: NOW) as (lease, _):
        mirrors = Mirrors(paths, OsDisk(), lambda _: None)
        database = open_postgres(address, lambda: NOW, lease=lease.held, mirrors=mirrors)
        with closing(database):
            for name in ("first", "second", "third"):
                database.run(lambda tx, name=name: tx.session.put(SessionId(name)))  # type: ignore[misc]
                assert (paths.state / "sessions.json").read_text() == name
        with closing(connect_to(address)) as connection:
            kept = connection.execute("SELECT count(*) FROM mirrors").fetchone()
        assert kept == (2,)


@pytest.mark.real_process
def test_when_the_server_dies_and_comes_back_the_bot_goes_on() -> None:
    with (
        own_server() as server,
        leading(parse_address(server.address), lambda: NOW) as (lease, database),
    ):
        database.run(note_row)
        server.kill()
        with pytest.raises(ServerGone, match="Nothing was changed"):
            database.run(note_row)
        assert not database.is_writable
        assert not database.note_version()
        server.start()
        database.recovered()
        assert database.is_writable
        assert lease.renew()
        assert database.run(note_row) == 2
        assert database.note_version()


def test_to_another_machine_the_connection_is_encrypted_and_checked() -> None:
    for here in (
        "postgresql:///ollim",
        "host=/run/postgresql dbname=ollim",
        "postgresql://me:secret@localhost/ollim",
        "postgresql://[::1]/ollim?sslmode=disable",
    ):
        assert "verify-full" not in parse_address(here).conninfo
    for there in ("postgresql://me:secret@nas/ollim", "host=nas sslmode=verify-full"):
        parsed = parse_address(there)
        assert "sslmode=verify-full" in parsed.conninfo
        assert "secret" not in str(parsed.place)
    wrong = (
        *("postgresql://me:secret@nas/ollim?sslmode=require", "host=nas sslmode=disable", "?x"),
        "host=/run/postgresql,nas sslmode=prefer",
    )
    for each in wrong:
        with pytest.raises(WrongInput) as refused:
            parse_address(each)
        assert "secret" not in str(refused.value)
