"""Checks the service that keeps the bot running, and the sentinel beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ollim_bot
from ollim_bot.domain.moments import describe, duration_in_words
from ollim_bot.domain.presence import Presence, Version
from ollim_bot.domain.text import counted
from ollim_bot.errors import SupervisorFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.backend import SharedBackend
from ollim_bot.store.file_store import FormatIsNewer, Malformed
from ollim_bot.store.sentinel import deliveries_left
from ollim_bot.store.standby import load_standby
from ollim_bot.upkeep.checks.jobs import heartbeat
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.hand_over import Phase, UpdateRecord, maintenance_in_progress, read_update
from ollim_bot.upkeep.installation import (
    SERVICE,
    ServiceHealth,
    find_supervisor,
    service_health,
    service_of,
)
from ollim_bot.upkeep.instance import removed_if_free, running_pid
from ollim_bot.upkeep.releases import (
    InstalledProgram,
    NotUpdatable,
    find_installation,
    newest_known,
)

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
    elif os.path.realpath(definition.data_dir) != os.path.realpath(paths.root):
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
    watch = [supervisor.folder / name for name in supervisor.names[1:]]
    missing = [path for path in watch if not path.exists()]
    if missing:
        yield warned(SENTINEL, f"its timer is missing: {missing[0]} is not there", _INSTALL)
    else:
        said: Mapping[str, str] = {}
        with suppress(SupervisorFailed):
            said = supervisor.timer()
        yield sentinel_timer(said, given.local_now)


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


NAME = "bot"
UPDATE = "update"
# It is written every 30 seconds, and a busy machine may be late.
_STANDS_STILL = timedelta(minutes=5)
_RECENTLY = timedelta(days=1)
_NEWS_OF_UPDATES = timedelta(days=7)
_RESTART_BOT = "`/restart` in the chat, or stop it and run `ollim-bot`; nothing is lost."
_START = "Run `ollim-bot`; what was due is told then."


def check_bot(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    pid = running_pid(paths.bot_pid)
    if given.is_shared and not _leads(given):
        # What is known of a bot is known of the one that leads.
        return standing_by(pid)
    presence = given.read(lambda tx: tx.presence.get()) or Presence()
    if pid is not None:
        # A bot that starts has not written its heartbeat yet, and bot.pid just now.
        seen = filter(None, (heartbeat(paths), _written_at(paths.bot_pid)))
        return running(pid, presence, max(seen, default=now), installed_version(), now)
    return stopped(presence, heartbeat(paths), paths.bot_pid, now)


def _leads(given: DoctorInput) -> bool:
    find, path = load_standby("bot_rows").rows_beside_bot, given.data.paths.commands
    by_bot: SharedBackend | None = find(path, lambda: given.now)
    return by_bot is not None and by_bot.leads


def standing_by(pid: int | None) -> Iterator[DoctorFinding]:
    if pid is None:
        yield off(NAME, "not running on this machine; `ollim-bot` starts it")
    else:
        yield passed(NAME, f"{ollim_bot.__version__} stands by as process {pid}")


def running(
    pid: int, presence: Presence, last_seen: datetime, installed: str, now: datetime
) -> Iterator[DoctorFinding]:
    """`last_seen` is the heartbeat, or the start if that was later."""
    version = presence.version or "of an unknown version"
    if now - last_seen > _STANDS_STILL:
        since = duration_in_words(now - last_seen)
        stuck = f"it runs as process {pid}, but has done nothing for {since}"
        yield failed(NAME, stuck, f"Run `kill -9 {pid}`, then `ollim-bot`; nothing is lost.")
    if presence.version and presence.version != installed:
        other = f"version {presence.version} runs, and {installed} is installed"
        yield warned(NAME, other, _RESTART_BOT)
    if presence.failed_at is not None and now - presence.failed_at < _RECENTLY:
        when = describe(presence.failed_at, now)
        words = f"it ended by itself {when} and was started again: {presence.failure}"
        yield warned(NAME, words, "`ollim-bot runs list` shows what came of what was due.")
    yield passed(NAME, f"{version} runs as process {pid}")


def _written_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None


def stopped(
    presence: Presence, last_seen: datetime | None, pid_file: Path, now: datetime
) -> Iterator[DoctorFinding]:
    if pid_file.is_file():
        left = "state/bot.pid was left behind by a bot that was cut off"

        def mend() -> str:
            return "state/bot.pid, which no bot held, is removed" * removed_if_free(pid_file)

        yield warned(NAME, left, f"Run `rm {pid_file}`.", mend)
    if presence.running_since is not None:
        seen = describe(last_seen or presence.running_since, now)
        yield warned(NAME, f"it was cut off without warning, last seen {seen}", _START)
    elif presence.failed_at is not None and presence.failure:
        when = describe(presence.failed_at, now)
        yield warned(NAME, f"it ended by itself {when}: {presence.failure}", _START)
    yield off(NAME, "not running; `ollim-bot` starts it")


def installed_version() -> str:
    """The version on disk, which an update may have changed under the running program."""
    source = Path(ollim_bot.__file__ or "")
    try:
        text = read_file(source, SizeLimit.SETTINGS).decode("utf-8", "replace")
    except OSError:
        return ollim_bot.__version__
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return found[1] if found else ollim_bot.__version__


def check_update(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    if running := maintenance_in_progress(paths):
        yield passed(UPDATE, f"{running} goes on")
        return
    record = read_update(paths)
    if record is not None:
        yield from of_the_last(record, now)
    try:
        installation = find_installation()
    except NotUpdatable as refused:
        yield passed(UPDATE, f"{ollim_bot.__version__}; {refused}")
        return
    yield from of_installation(installation, newest_known(installation, os.environ))


def of_the_last(record: UpdateRecord, now: datetime) -> Iterator[DoctorFinding]:
    when = describe(record.began_at, now)
    if not record.phase.is_over:
        words = f"the one to {record.new} of {when} was cut off"
        yield warned(UPDATE, words, "Run `ollim-bot`, which finishes or undoes it.")
        return
    is_failure = record.phase is not Phase.DONE and record.old != record.new
    if is_failure and now - record.began_at < _NEWS_OF_UPDATES:
        yield warned(UPDATE, f"{when}: {record}", "Run `ollim-bot update` to try it again.")


def of_installation(
    installation: InstalledProgram, newest: Version | None
) -> Iterator[DoctorFinding]:
    """`newest` is the newest version that is known without asking the network."""
    if installation.beside.exists():
        left = f"{installation.beside} was left behind by an update"
        yield warned(UPDATE, left, f"Run `rm -r {installation.beside}`.")
    if newest is not None and newest > installation.version:
        words = f"{newest} is there; this is {installation.version}"
        yield warned(UPDATE, words, "`ollim-bot update --check` says what is new.")
        return
    yield passed(UPDATE, f"{installation.version}, {installation}")
