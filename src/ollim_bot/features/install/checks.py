"""Checks the service that keeps the bot running, and the last update."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

import ollim_bot
from ollim_bot.features.install.releases import (
    InstalledProgram,
    NotUpdatable,
    find_installation,
    newest_known,
)
from ollim_bot.features.install.service import ServiceHealth, find_supervisor, service_health
from ollim_bot.kernel.base.errors import SupervisorFailed
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    failed,
    off,
    passed,
    warned,
)
from ollim_bot.kernel.upkeep.hand_over import (
    Phase,
    UpdateRecord,
    maintenance_in_progress,
    read_update,
)
from ollim_bot.kernel.values.presence import Version

_LOGS = "`ollim-bot service logs` says why; `ollim-bot service install` starts it."
_RESTART = "`/restart` lets the bot begin anew; `ollim-bot service logs` may say why."


def check_service(given: DoctorInput) -> Found:
    paths = given.data.paths
    supervisor = find_supervisor(given.environ)
    installed = supervisor.installed() if supervisor else None
    if supervisor is None or installed is None:
        way = "`ollim-bot service install` lets the bot start with this machine"
        yield off(f"not installed; {way}")
        return
    definition = installed.definition
    if definition is None:
        yield failed(f"{installed.file} cannot be understood")
    elif os.path.realpath(definition.data_dir) != os.path.realpath(paths.root):
        yield passed(f"installed for the data in {definition.data_dir}, not for this")
    elif not os.access(definition.program, os.X_OK):
        yield failed(f"its program {definition.program} is gone")
    else:
        try:
            yield service(supervisor.name, service_health(supervisor, paths, given.now))
        except SupervisorFailed as refused:
            yield warned(str(refused))


def service(supervisor: str, health: ServiceHealth) -> DoctorFinding:
    """`health` is that of an installed service."""
    status = health.status
    age = duration_in_words(health.age) if health.age is not None else None
    if health.runs_outside:
        told = f"the bot runs outside it (process {health.pid})"
        return warned(told, "Stop that process. Then: Run `ollim-bot service install`.")
    if not status.is_running:
        told = f"installed, but {supervisor} says: {status.words}"
        return (failed if status.has_given_up else warned)(told, _LOGS)
    if not health.is_beating:
        told = f"the last heartbeat is {age} old" if age else "there was no heartbeat yet"
        return failed(f"the bot runs, but {told}", _RESTART)
    if not status.is_enabled:
        return warned("the bot is running, but does not start with this machine")
    if status.lingers is False:
        told = "the bot is running, but ends when you log out"
        return warned(told, "Run `sudo loginctl enable-linger $USER`.")
    return passed(f"{supervisor} runs the bot (process {status.pid}), heartbeat {age} ago")


_NEWS_OF_UPDATES = timedelta(days=7)


def check_update(given: DoctorInput) -> Found:
    paths, now = given.data.paths, given.local_now
    if running := maintenance_in_progress(paths):
        yield passed(f"{running} goes on")
        return
    record = read_update(paths)
    if record is not None:
        yield from of_the_last(record, now)
    try:
        installation = find_installation()
    except NotUpdatable as refused:
        yield passed(f"{ollim_bot.__version__}; {refused}")
        return
    yield from of_installation(installation, newest_known(installation, os.environ))


def of_the_last(record: UpdateRecord, now: datetime) -> Found:
    when = describe(record.began_at, now)
    if not record.phase.is_over:
        words = f"the one to {record.new} of {when} was cut off"
        yield warned(words, "Run `ollim-bot`, which finishes or undoes it.")
        return
    is_failure = record.phase is not Phase.DONE and record.old != record.new
    if is_failure and now - record.began_at < _NEWS_OF_UPDATES:
        yield warned(f"{when}: {record}", "Run `ollim-bot update` to try it again.")


def of_installation(installation: InstalledProgram, newest: Version | None) -> Found:
    """`newest` is the newest version that is known without asking the network."""
    if installation.beside.exists():
        left = f"{installation.beside} was left behind by an update"
        yield warned(left, f"Run `rm -r {installation.beside}`.")
    if newest is not None and newest > installation.version:
        words = f"{newest} is there; this is {installation.version}"
        yield warned(words, "`ollim-bot update --check` says what is new.")
        return
    yield passed(f"{installation.version}, {installation}")


_INSTALL = "Run `ollim-bot service install`."


CHECKS = (
    Check("update", check_update, is_of_machine=True, place=30),
    Check("service", check_service, _INSTALL, is_of_machine=True, place=290),
)
