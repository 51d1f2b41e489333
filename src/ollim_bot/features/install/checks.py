"""Checks the service that keeps the bot running, and the sentinel beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ollim_bot
from ollim_bot.features.install.releases import (
    InstalledProgram,
    NotUpdatable,
    find_installation,
    newest_known,
)
from ollim_bot.features.install.service import (
    ServiceHealth,
    find_supervisor,
    service_health,
    service_of,
)
from ollim_bot.features.sentinel.sentinel_file import deliveries_left
from ollim_bot.kernel.base.errors import SupervisorFailed
from ollim_bot.kernel.base.instance import removed_if_free, running_pid
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.backend import SharedBackend
from ollim_bot.kernel.store.file_store import FormatIsNewer, Malformed
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
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
from ollim_bot.kernel.values.presence import Presence, Version

# A machine that slept, or a run that waited for a moment, may have left out some.
_OVERDUE = timedelta(minutes=20)
_SET_ASIDE = "Run `ollim-bot`: it sets the file aside when it starts, and says so."
_UPDATE = "Run `ollim-bot update`: the newer version reads it."
_LOGS = "`ollim-bot service logs` says why; `ollim-bot service install` starts it."
_RESTART = "`/restart` lets the bot begin anew; `ollim-bot service logs` may say why."


def check_service(given: DoctorInput) -> Iterator[DoctorFinding]:
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


def check_sentinel(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    yield from left_by_sentinel(paths, is_running=is_running)
    supervisor = service_of(paths, given.environ)
    if supervisor is None:
        yield off("not set up; `ollim-bot service install` does it together with the service")
        return
    missing = [path for path in supervisor.paths[1:] if not path.exists()]
    if missing:
        yield warned(f"its timer is missing: {missing[0]} is not there")
    else:
        said = ""
        with suppress(SupervisorFailed):
            said = supervisor.show(supervisor.jobs[1])
        yield sentinel_timer(said, given.local_now)


def left_by_sentinel(paths: DataPaths, *, is_running: bool) -> Iterator[DoctorFinding]:
    """What the sentinel has delivered and the bot has not read."""
    name = f"state/{paths.sentinel.name}"
    try:
        left = deliveries_left(paths)
    except FormatIsNewer:
        yield warned(f"{name} is of a newer version", _UPDATE)
        return
    except Malformed as wrong:
        yield warned(f"{name} cannot be understood: {wrong}", _SET_ASIDE)
        return
    if left:
        told = f"{name} has {counted(len(left), 'message')} that the bot has not read"
        if unsent := sum(not one.through for one in left):
            told += f", and {unsent} of them did not reach you"
        restart = "`/restart` in the chat lets the bot read it."
        yield warned(told, restart if is_running else "Run `ollim-bot`: it reads it first.")


def sentinel_timer(said: str, now: datetime) -> DoctorFinding:
    """`said` is what the supervisor says of the timer; launchd has no word of its runs."""
    if re.search("ActiveState=(?!active)", said):
        return warned("its timer does not run")
    found = re.search(r"LastTriggerUSec=@([1-9]\d*)$", said, re.MULTILINE)
    if found is None:
        return passed("its timer is there, every 5 minutes")
    ran_at = datetime.fromtimestamp(int(found[1]), now.tzinfo)
    if now - ran_at > _OVERDUE:
        return warned(f"its timer last ran {describe(ran_at, now)}")
    return passed(f"it looks every 5 minutes, last {describe(ran_at, now)}")


# It is written every 30 seconds, and a busy machine may be late.
_STANDS_STILL = timedelta(minutes=5)
_RECENTLY = timedelta(days=1)
_NEWS_OF_UPDATES = timedelta(days=7)
_RESTART_BOT = "`/restart` in the chat, or stop it and run `ollim-bot`; nothing is lost."


def check_bot(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    pid, last_seen = running_pid(paths.bot_pid), HeartbeatFile(paths).read()
    if given.is_shared:
        find = load_standby("bot_rows").rows_beside_bot
        by_bot: SharedBackend | None = find(paths.commands, lambda: given.now)
        if by_bot is None or not by_bot.leads:
            # What is known of a bot is known of the one that leads.
            waits = f"{ollim_bot.__version__} stands by as process {pid}"
            away = "not running on this machine; `ollim-bot` starts it"
            yield off(away) if pid is None else passed(waits)
            return
    presence = given.read(lambda tx: tx.presence.get()) or Presence()
    if pid is None:
        yield from stopped(presence, last_seen, paths.bot_pid, now)
        return
    # A bot that starts has not written its heartbeat yet, and bot.pid just now.
    with suppress(OSError):
        started = datetime.fromtimestamp(paths.bot_pid.stat().st_mtime, UTC)
        last_seen = max(filter(None, (last_seen, started)))
    yield from running(pid, presence, last_seen or now, installed_version(), now)


def running(
    pid: int, presence: Presence, last_seen: datetime, installed: str, now: datetime
) -> Iterator[DoctorFinding]:
    """`last_seen` is the heartbeat, or the start if that was later."""
    version = presence.version or "of an unknown version"
    if now - last_seen > _STANDS_STILL:
        since = duration_in_words(now - last_seen)
        stuck = f"it runs as process {pid}, but has done nothing for {since}"
        yield failed(stuck, f"Run `kill -9 {pid}`, then `ollim-bot`; nothing is lost.")
    if presence.version and presence.version != installed:
        other = f"version {presence.version} runs, and {installed} is installed"
        yield warned(other, _RESTART_BOT)
    if presence.failed_at is not None and now - presence.failed_at < _RECENTLY:
        when = describe(presence.failed_at, now)
        words = f"it ended by itself {when} and was started again: {presence.failure}"
        yield warned(words, "`ollim-bot runs list` shows what came of what was due.")
    yield passed(f"{version} runs as process {pid}")


def stopped(
    presence: Presence, last_seen: datetime | None, pid_file: Path, now: datetime
) -> Iterator[DoctorFinding]:
    if pid_file.is_file():
        left = "state/bot.pid was left behind by a bot that was cut off"

        def mend() -> str:
            return "state/bot.pid, which no bot held, is removed" * removed_if_free(pid_file)

        yield warned(left, f"Run `rm {pid_file}`.", mend)
    if presence.running_since is not None:
        seen = describe(last_seen or presence.running_since, now)
        yield warned(f"it was cut off without warning, last seen {seen}")
    elif presence.failed_at is not None and presence.failure:
        when = describe(presence.failed_at, now)
        yield warned(f"it ended by itself {when}: {presence.failure}")
    yield off("not running; `ollim-bot` starts it")


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


def of_the_last(record: UpdateRecord, now: datetime) -> Iterator[DoctorFinding]:
    when = describe(record.began_at, now)
    if not record.phase.is_over:
        words = f"the one to {record.new} of {when} was cut off"
        yield warned(words, "Run `ollim-bot`, which finishes or undoes it.")
        return
    is_failure = record.phase is not Phase.DONE and record.old != record.new
    if is_failure and now - record.began_at < _NEWS_OF_UPDATES:
        yield warned(f"{when}: {record}", "Run `ollim-bot update` to try it again.")


def of_installation(
    installation: InstalledProgram, newest: Version | None
) -> Iterator[DoctorFinding]:
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
_START = "Run `ollim-bot`; what was due is told then."

CHECKS = (
    Check("bot", check_bot, _START, is_of_machine=True, place=20),
    Check("update", check_update, is_of_machine=True, place=30),
    Check("service", check_service, _INSTALL, is_of_machine=True, place=290),
    Check("sentinel", check_sentinel, _INSTALL, is_of_machine=True, place=300),
)
