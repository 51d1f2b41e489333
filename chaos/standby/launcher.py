"""Starts the bot of one machine, and lets it die, freeze or sleep at named points.

`CHAOS_MACHINE` is the folder of its `PointControl`, `CHAOS_PROCESS` the name of this start,
`CHAOS_PACE` the length of a second of the lease, and `CHAOS_CLOCK` how much its clock is ahead.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.standby.points import (
    AFTER_COMMIT,
    AFTER_SEND,
    BEFORE_COMMIT,
    BEFORE_SEND,
    BEFORE_STEP,
    IN_SEND,
    IN_STEP,
    KILL,
    SLEEP,
    PointControl,
    PointFault,
)

_TIMES = ("RENEW_EVERY", "GIVE_UP_AFTER", "EXPIRES_AFTER", "ASK_EVERY")
_true_time, _true_monotonic = time.time, time.monotonic


def _boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Machine:
    """What this process passes and when it slept."""

    def __init__(self, control: PointControl, process: str) -> None:
        self._control = control
        self._process = process
        self._passed = 0
        self._slept = 0.0
        self._keeper_from = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """A clock that stops while the machine sleeps."""
        return _true_monotonic() - self._slept

    def pass_point(self, name: str) -> None:
        with self._lock:
            fault = self._control.current()
            if fault is None or fault.point != name:
                return
            if self._passed < fault.skip:
                self._passed += 1
                return
            self._passed = 0
            self._happen(fault)

    def _happen(self, fault: PointFault) -> None:
        self._control.meet()
        if fault.kind == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        began = _boot()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        if fault.kind == SLEEP:
            self._slept += _boot() - began
        self._keeper_from = _boot() + fault.keeper_late

    def wait_as_keeper(self) -> None:
        while (left := self._keeper_from - _boot()) > 0:
            time.sleep(left)

    def note_send(self) -> None:
        self._control.note_send(self._process, _true_time())


def _set_pace(pace: float) -> None:
    """Make the seconds of the lease shorter, before anything else has read them."""
    from ollim_bot_standby import held_lease as lease

    for name in _TIMES:
        setattr(lease, name, getattr(lease, name) * pace)
    from ollim_bot_standby.postgres import connection

    connection.connect_to.__defaults__ = (connection.IDLE_IN_STEP * pace,)
    waits = f"lock_timeout = {connection._milliseconds(connection._LOCK)}"
    shorter = f"lock_timeout = {connection._milliseconds(connection._LOCK * pace)}"
    connection._SETTINGS = connection._SETTINGS.replace(waits, shorter)


def _set_clock(ahead: timedelta) -> None:
    from ollim_bot.kernel.base.clock import SystemClock

    def now(self: Any) -> datetime:
        return datetime.now(self._zone) + ahead

    SystemClock.now = now  # type: ignore[method-assign]
    time.time = lambda: _true_time() + ahead.total_seconds()


def _watch_steps(machine: Machine) -> None:
    from ollim_bot_standby.postgres.database import PostgresDatabase

    begin, commit = PostgresDatabase._begin, PostgresDatabase._commit
    check_lease = PostgresDatabase._check_lease

    def watched_begin(*arguments: Any) -> Any:
        machine.pass_point(BEFORE_STEP)
        return begin(*arguments)

    def watched_check(*arguments: Any) -> None:
        check_lease(*arguments)
        machine.pass_point(IN_STEP)

    def watched_commit(*arguments: Any, **named: Any) -> None:
        machine.pass_point(BEFORE_COMMIT)
        commit(*arguments, **named)
        machine.pass_point(AFTER_COMMIT)

    PostgresDatabase._begin = watched_begin  # type: ignore[method-assign, assignment]
    PostgresDatabase._check_lease = watched_check  # type: ignore[method-assign, assignment]
    PostgresDatabase._commit = watched_commit  # type: ignore[method-assign]


def _watch_sends(machine: Machine) -> None:
    from ollim_bot.kernel.conversation.delivery import Transport

    begin, send = Transport.__init__, Transport.sent

    def watched_begin(self: Transport, channel: Any, *rest: Any) -> None:
        deliver = channel.deliver

        async def watched_deliver(*arguments: Any) -> Any:
            machine.note_send()
            machine.pass_point(IN_SEND)
            sent = await deliver(*arguments)
            machine.pass_point(AFTER_SEND)
            return sent

        channel.deliver = watched_deliver
        begin(self, channel, *rest)

    async def watched_send(*arguments: Any) -> Any:
        machine.pass_point(BEFORE_SEND)
        return await send(*arguments)

    Transport.__init__ = watched_begin  # type: ignore[method-assign, assignment]
    Transport.sent = watched_send  # type: ignore[method-assign, assignment]


def _delay_keeper(machine: Machine) -> None:
    from ollim_bot_standby.postgres.lease import LeaseKeeper

    renew, end = LeaseKeeper.renew_if_due, LeaseKeeper.end_if_lost

    def late_renew(self: LeaseKeeper) -> bool:
        machine.wait_as_keeper()
        return renew(self)

    def late_end(self: LeaseKeeper) -> bool:
        machine.wait_as_keeper()
        return end(self)

    LeaseKeeper.renew_if_due = late_renew  # type: ignore[method-assign]
    LeaseKeeper.end_if_lost = late_end  # type: ignore[method-assign]


def _stay_after_restart() -> None:
    """Let a bot that starts itself again be started by this launcher."""
    execute = os.execve

    def started_again(_path: str, _command: list[str], environment: dict[str, str]) -> None:
        paths = {"PYTHONPATH": os.environ["PYTHONPATH"]}
        own = [sys.executable, "-m", "chaos.standby.launcher"]
        execute(sys.executable, own, {**environment, **paths})

    os.execve = started_again  # type: ignore[assignment]


def main() -> None:
    machine = Machine(PointControl(Path(os.environ["CHAOS_MACHINE"])), os.environ["CHAOS_PROCESS"])
    time.monotonic = machine.monotonic
    _set_pace(float(os.environ["CHAOS_PACE"]))
    _set_clock(timedelta(seconds=float(os.environ["CHAOS_CLOCK"])))
    _watch_steps(machine)
    _watch_sends(machine)
    _delay_keeper(machine)
    _stay_after_restart()
    runpy.run_module("ollim_bot", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
