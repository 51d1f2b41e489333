"""Checks the service that keeps the bot running, and the sentinel beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from ollim_bot.domain.moments import describe, duration_in_words
from ollim_bot.domain.text import counted
from ollim_bot.errors import SupervisorFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.file_store import FormatIsNewer, Malformed
from ollim_bot.store.sentinel import deliveries_left
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.installation import SERVICE, ServiceHealth, service_health
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.service import find_supervisor, service_of
from ollim_bot.upkeep.supervision import SupervisorPrograms
from ollim_bot.upkeep.systemd import TIMER

SENTINEL = "sentinel"
_NO_TIMER = "not set up; `ollim-bot service install` does it together with the service"
_SET_ASIDE = "Run `ollim-bot`: it sets the file aside when it starts, and says so."
_UPDATE = "Run `ollim-bot update`: the newer version reads it."
_READ_NEXT = "`/restart` in the chat lets the bot read it."
_READ_AT_START = "Run `ollim-bot`: it reads it first."
# A machine that slept, or a run that waited for a moment, may have left out some.
_OVERDUE = timedelta(minutes=20)
_NOT_INSTALLED = "not installed; `ollim-bot service install` lets the bot start with this machine"
_INSTALL = "Run `ollim-bot service install`."
_LOGS = "`ollim-bot service logs` says why; `ollim-bot service install` starts it."
_RESTART = "`/restart` lets the bot begin anew; `ollim-bot service logs` may say why."


def check_service(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    supervisor = find_supervisor(given.environ)
    installed = supervisor.installed() if supervisor else None
    if supervisor is None or installed is None:
        yield off(SERVICE, _NOT_INSTALLED)
        return
    definition = installed.definition
    if definition is None:
        yield failed(SERVICE, f"{installed.file} cannot be understood", _INSTALL)
    elif not _is_same(definition.data_dir, paths.root):
        yield passed(SERVICE, f"installed for the data in {definition.data_dir}, not for this")
    elif not os.access(definition.program, os.X_OK):
        yield failed(SERVICE, f"its program {definition.program} is gone", _INSTALL)
    else:
        try:
            yield service(supervisor.name, service_health(supervisor, paths, given.now))
        except SupervisorFailed as refused:
            yield warned(SERVICE, str(refused), _INSTALL)


def service(supervisor: str, health: ServiceHealth) -> DoctorFinding:
    """`health` is that of an installed service."""
    status = health.status
    age = duration_in_words(health.age) if health.age is not None else None
    if health.runs_outside:
        told = f"the bot runs outside it (process {health.pid})"
        return warned(SERVICE, told, f"Stop that process. Then: {_INSTALL}")
    if status is None or not status.is_running:
        told = f"installed, but {supervisor} says: {status.words if status else 'nothing'}"
        has_failed = status is not None and status.has_given_up
        return (failed if has_failed else warned)(SERVICE, told, _LOGS)
    if not health.is_beating:
        told = f"the last heartbeat is {age} old" if age else "there was no heartbeat yet"
        return failed(SERVICE, f"the bot runs, but {told}", _RESTART)
    if not status.is_enabled:
        return warned(SERVICE, "the bot is running, but does not start with this machine", _INSTALL)
    if status.lingers is False:
        told = "the bot is running, but ends when you log out"
        return warned(SERVICE, told, "Run `sudo loginctl enable-linger $USER`.")
    return passed(SERVICE, f"{supervisor} runs the bot (process {status.pid}), heartbeat {age} ago")


def check_sentinel(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    yield from left_by_sentinel(paths, is_running=is_running)
    supervisor = service_of(paths, given.environ)
    if supervisor is None:
        yield off(SENTINEL, _NO_TIMER)
        return
    installed = supervisor.installed()
    definition = installed.definition if installed else None
    files = supervisor.files(definition) if definition else {}
    missing = [path for path in files if "sentinel" in path.name and not path.exists()]
    if missing:
        yield warned(SENTINEL, f"its timer is missing: {missing[0]} is not there", _INSTALL)
    else:
        yield sentinel_timer(_timer(given.environ), given.local_now)


def left_by_sentinel(paths: DataPaths, *, is_running: bool) -> Iterator[DoctorFinding]:
    """What the sentinel has delivered and the bot has not read."""
    name = f"state/{paths.sentinel.name}"
    try:
        left = deliveries_left(paths)
    except FormatIsNewer:
        yield warned(SENTINEL, f"{name} is of a newer version", _UPDATE)
        return
    except Malformed as wrong:
        yield warned(SENTINEL, f"{name} cannot be understood: {wrong}", _SET_ASIDE)
        return
    unsent = sum(not one.through for one in left)
    if left:
        told = f"{name} has {counted(len(left), 'message')} that the bot has not read"
        told += f", and {unsent} of them did not reach you" if unsent else ""
        yield warned(SENTINEL, told, _READ_NEXT if is_running else _READ_AT_START)


def sentinel_timer(said: Mapping[str, str], now: datetime) -> DoctorFinding:
    """`said` is what the supervisor says of the timer; empty if it says nothing."""
    if said.get("ActiveState", "active") != "active":
        return warned(SENTINEL, "its timer does not run", _INSTALL)
    number = said.get("LastTriggerUSec", "").removeprefix("@")
    if not number.isdigit() or number == "0":
        return passed(SENTINEL, "its timer is there, every 5 minutes")
    ran_at = datetime.fromtimestamp(int(number), now.tzinfo)
    if now - ran_at > _OVERDUE:
        return warned(SENTINEL, f"its timer last ran {describe(ran_at, now)}", _INSTALL)
    return passed(SENTINEL, f"it looks every 5 minutes, last {describe(ran_at, now)}")


def _timer(environ: Mapping[str, str]) -> dict[str, str]:
    programs = SupervisorPrograms(environ)
    if programs.path("systemctl") is None:
        return {}
    wanted = ("--property=ActiveState,LastTriggerUSec", "--timestamp=unix")
    try:
        said = programs.done("systemctl", "--user", "show", TIMER, *wanted)
    except SupervisorFailed:
        return {}
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
