"""A step on PostgreSQL happens once, whatever becomes of the connection, and others hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.patience import patience
from tests.postgres.network import Network, on_network
from tests.postgres_server import leading, own_server
from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import WrongInput
from ollim_bot.store.errors import OnStandby, OtherSchema, OutcomeUnknown, ServerGone
from ollim_bot.store.files import OsDisk
from ollim_bot.store.mirrors import Mirrors
from ollim_bot.store.postgres.connection import Address, connect_to, parse_address
from ollim_bot.store.postgres.database import open_postgres
from ollim_bot.store.transaction import Transaction


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
