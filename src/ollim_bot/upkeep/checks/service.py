"""Checks the service that keeps the bot running."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ollim_bot.domain.moments import duration_in_words
from ollim_bot.errors import SupervisorFailed
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, passed, warned
from ollim_bot.upkeep.installation import SERVICE, ServiceHealth, service_health
from ollim_bot.upkeep.service import find_supervisor

_NOT_INSTALLED = "not installed; `ollim-bot service install` lets the bot start with this machine"
_INSTALL = "Run `ollim-bot service install`."
_LOGS = "`ollim-bot service logs` says why; `ollim-bot service install` starts it."
_RESTART = "`/restart` lets the bot begin anew; `ollim-bot service logs` may say why."


def check_service(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    supervisor = find_supervisor(given.environ)
    installed = supervisor.installed() if supervisor else None
    if supervisor is None or installed is None:
        yield passed(SERVICE, _NOT_INSTALLED)
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
        return warned(SERVICE, "the bot lives, but does not start with this machine", _INSTALL)
    if status.lingers is False:
        told = "the bot lives, but ends when you log out"
        return warned(SERVICE, told, "Run `sudo loginctl enable-linger $USER`.")
    return passed(SERVICE, f"{supervisor} runs the bot (process {status.pid}), heartbeat {age} ago")


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
