"""The keeper of the lease: it renews in time, and ends a process that leads no more."""

from __future__ import annotations

from contextlib import closing

from tests.postgres.test_lease import expire

from ollim_bot_standby.errors import ServerGone
from ollim_bot_standby.held_lease import HeldLease, LeaseDuty, duty_of
from ollim_bot_standby.lease_keeper import LeaseKeeper
from ollim_bot_standby.postgres.connection import Address, Connection, connect_to
from ollim_bot_standby.postgres.lease import Lease


class Machine:
    """A process with a clock of its own; `is_cut` cuts it off from the server."""

    def __init__(self, address: Address, name: str) -> None:
        self.boot = 1000.0
        self.is_cut = False
        self.ends: list[str] = []
        self.lease = Lease(address, name, lambda: self.boot, self._connect)
        self.keeper = LeaseKeeper(self.lease, self.ends.append, lambda: self.boot)

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
    duties = {after: duty_of(held, 100.0 + after) for after in (-1.0, 0.0, 4.9, 5.0, 9.9, 10.0, 99)}
    assert [each.value for each in duties.values()] == [
        *("end", "wait", "wait", "renew", "renew", "end", "end")
    ]
    assert duty_of(None, 100.0) is LeaseDuty.END


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
