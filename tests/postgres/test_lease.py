"""One process leads: by the clock of the server and its own; the keeper renews in time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import pytest
from tests.kernel.store.scene import NOW
from tests.postgres_server import leading

from ollim_bot import __version__
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.database_errors import NotLeading
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot_standby.held_lease import (
    EXPIRES_AFTER,
    GIVE_UP_AFTER,
    RENEW_EVERY,
    HeldLease,
    boot_time,
)
from ollim_bot_standby.machines import Leader, ServerGone
from ollim_bot_standby.postgres.connection import IDLE_IN_STEP, Address, Connection, connect_to
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease, LeaseKeeper, read_leader, request_hand_over


def change(address: Address, sql: str) -> None:
    with closing(connect_to(address)) as connection:
        connection.execute(sql)


def expire(address: Address) -> None:
    """Let the time of the lease pass on the server; waits while a step holds the row."""
    change(address, "UPDATE lease SET until = clock_timestamp() - interval '1 second'")


@contextmanager
def process(address: Address, name: str = "shelf", boot: float = 0.0) -> Iterator[Lease]:
    with closing(Lease(address, name, lambda: boot)) as lease:
        yield lease


def put_session(name: str, tx: Transaction) -> None:
    tx.session.put(SessionId(name))


def test_the_holder_gives_up_before_another_can_lead() -> None:
    assert RENEW_EVERY < GIVE_UP_AFTER < EXPIRES_AFTER
    held = HeldLease("holder", 7, renewed_at=100.0)
    at = {moment: (held.is_renewal_due(moment), held.may_act(moment)) for moment in (99, 100, 105)}
    assert at == {99: (False, False), 100: (False, True), 105: (True, True)}
    assert [held.may_act(100.0 + after) for after in (9.9, 10.0, 3600.0)] == [True, False, False]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one clock for both")
def test_the_deadline_is_by_a_clock_that_counts_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 5.0}.__getitem__)
    assert boot_time() == 5.0


def test_one_process_leads_until_it_lets_go_or_its_time_is_over(address: Address) -> None:
    with process(address, "desk") as desk, process(address) as shelf:
        assert desk.leader() is None
        first = desk.take()
        assert first is not None
        assert first.epoch == 1
        assert shelf.take() is None
        assert shelf.renew() is False
        desk.release()
        assert not desk.may_act()
        second = shelf.take()
        assert second is not None
        assert second.epoch == 2
        assert desk.take() is None
        assert desk.renew() is False
        expire(address)
        assert shelf.renew() is True
        assert desk.take() is None
        expire(address)
        assert desk.leader() == Leader("shelf", 2, 0.0, 0)
        assert desk.take() is not None
        assert shelf.renew() is False
        assert not shelf.may_act()


def test_neither_the_clock_of_a_machine_nor_an_older_version_makes_it_lead(
    address: Address,
) -> None:
    with process(address, "desk") as desk, process(address, boot=10_000.0) as shelf:
        desk.take()
        assert shelf.take() is None
        desk.release()
        change(address, f"UPDATE lease SET schema = {SCHEMA + 1}")
        assert shelf.take() is None


def test_a_step_of_an_older_epoch_is_refused(address: Address) -> None:
    with leading(address, lambda: NOW) as (_, old), process(address) as shelf:
        old.run(partial(put_session, "old"))
        expire(address)
        held = shelf.take()
        with closing(open_postgres(address, lambda: NOW, lease=held)) as new:
            new.run(partial(put_session, "new"))
            for _ in range(2):
                with pytest.raises(NotLeading):
                    old.run(partial(put_session, "late"))
            assert new.query(lambda tx: tx.session.get()) == "new"


def test_a_process_that_is_frozen_in_a_step_keeps_the_lease_for_seconds_only(
    address: Address,
) -> None:
    assert IDLE_IN_STEP == 3.0
    taken: list[HeldLease | None] = []

    def frozen(tx: Transaction) -> None:
        put_session("frozen", tx)
        if not taken:
            expire(address)
            taken.append(shelf.take())
        put_session("woken", tx)

    with leading(address, lambda: NOW) as (lease, _), process(address) as shelf:
        impatient = partial(connect_to, idle_in_step=0.2)
        old = PostgresDatabase(address, lambda: NOW, lease=lease.held, connect=impatient)
        with closing(old):
            with pytest.raises(NotLeading):
                old.run(frozen)
            assert [each and each.epoch for each in taken] == [2]
            assert old.query(lambda tx: tx.session.get()) is None


def test_every_connection_ends_what_it_waits_for(address: Address) -> None:
    with closing(connect_to(address)) as connection:
        found = {
            name: connection.execute(f"SHOW {name}").fetchone()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")
        }
        durable = connection.execute("SHOW synchronous_commit").fetchone()
    assert found == {
        "idle_in_transaction_session_timeout": ("3s",),
        "lock_timeout": ("5s",),
        "statement_timeout": ("10s",),
    }
    assert durable == ("on",)


def test_a_leader_hears_at_once_that_it_is_asked_to_hand_over_and_the_other_that_it_did(
    address: Address,
) -> None:
    with (
        process(address, "desk") as desk,
        process(address) as shelf,
        closing(connect_to(address)) as asking,
        ThreadPoolExecutor(2) as threads,
    ):
        desk.take()
        assert request_hand_over(asking) == 1
        desk.wait(60)
        assert desk.is_wanted
        assert desk.renew()
        assert desk.is_wanted
        shelf.wait(0)
        waiting = threads.submit(shelf.wait, 60)
        desk.release()
        waiting.result(timeout=30)
        assert request_hand_over(asking) is None
        assert shelf.take() is not None
        assert not shelf.is_wanted
        shelf.wait(0)
        assert not shelf.is_wanted
        leader = read_leader(asking)
        assert leader is not None
        assert (leader.name, leader.epoch, leader.version) == ("shelf", 2, __version__)
        assert leader.is_leading


class Machine:
    """A process with a clock of its own; `is_cut` cuts it off from the server."""

    def __init__(self, address: Address, name: str) -> None:
        self.boot = 1000.0
        self.is_cut = False
        self.ends: list[str] = []
        self.lease = Lease(address, name, lambda: self.boot, self._connect)
        self.keeper = LeaseKeeper(self.lease, self.ends.append)

    def close(self) -> None:
        self.lease.close()

    def cut(self, address: Address) -> None:
        """Cut it off, also on the connection that it has."""
        self.is_cut = True
        with closing(connect_to(address)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND application_name LIKE 'ollim-bot%'"
            )

    def _connect(self, address: Address) -> Connection:
        if self.is_cut:
            raise ServerGone(address.place, "no network")
        return connect_to(address)


def test_what_a_holder_has_to_do_follows_from_its_last_renewal() -> None:
    held = HeldLease("holder", 7, renewed_at=100.0)
    moments = [100.0 + after for after in (-1.0, 0.0, 4.9, 5.0, 9.9, 10.0, 99)]
    assert [*map(held.may_act, moments)] == [False, True, True, True, True, False, False]
    assert [*map(held.is_renewal_due, moments)] == [False, False, False, True, True, False, False]


def test_the_lease_is_renewed_every_five_seconds_and_kept(address: Address) -> None:
    with closing(Machine(address, "desk")) as desk, closing(Machine(address, "shelf")) as shelf:
        assert desk.lease.take()
        for _ in range(10):
            desk.boot += 5.0
            assert desk.keeper.renew_if_due()
            assert not desk.keeper.end_if_lost()
            assert desk.lease.held is not None
            assert desk.lease.held.renewed_at == desk.boot
        assert shelf.lease.take() is None
        desk.keeper.stop()
        assert shelf.lease.take() is not None


def test_a_holder_that_is_cut_off_ends_before_another_can_lead(address: Address) -> None:
    with closing(Machine(address, "desk")) as desk:
        desk.lease.take()
        desk.cut(address)
        for seconds, may_act in ((5.0, True), (9.9, True), (10.0, False)):
            desk.boot = 1000.0 + seconds
            assert desk.lease.may_act() is may_act
            desk.keeper.renew_if_due()
            assert desk.keeper.end_if_lost() is not may_act
        assert len(desk.ends) == 1
        assert "leads no more" in desk.ends[0]


def test_a_holder_that_slept_ends_even_if_its_lease_is_still_its_own(address: Address) -> None:
    with closing(Machine(address, "desk")) as desk, closing(Machine(address, "shelf")) as shelf:
        desk.lease.take()
        desk.boot += 3600.0
        assert not desk.lease.may_act()
        assert desk.keeper.renew_if_due()
        assert not desk.lease.may_act()
        assert desk.keeper.end_if_lost()
        expire(address)
        assert shelf.lease.take() is not None


def test_a_holder_learns_from_its_renewal_that_another_leads(address: Address) -> None:
    with closing(Machine(address, "desk")) as desk, closing(Machine(address, "shelf")) as shelf:
        desk.lease.take()
        expire(address)
        shelf.lease.take()
        desk.boot += 5.0
        assert desk.keeper.renew_if_due()
        assert not desk.lease.may_act()
        assert desk.keeper.end_if_lost()
        assert not shelf.ends
