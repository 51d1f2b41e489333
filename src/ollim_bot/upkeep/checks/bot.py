"""The checks of the running bot and of its updates: alive, current, and how each last ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ollim_bot
from ollim_bot.domain.moments import describe, duration_in_words
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.releases import Version
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.opening import look_into
from ollim_bot.upkeep.checks.jobs import heartbeat
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.hand_over import Phase, UpdateRecord, read_update
from ollim_bot.upkeep.installed_program import InstalledProgram, NotUpdatable, find_installation
from ollim_bot.upkeep.instance import removed_if_free, running_pid
from ollim_bot.upkeep.maintenance import maintenance_in_progress
from ollim_bot.upkeep.releases import newest_known

NAME = "bot"
UPDATE = "update"
# It is written every 30 seconds, and a busy machine may be late.
_STANDS_STILL = timedelta(minutes=5)
_RECENTLY = timedelta(days=1)
_NEWS_OF_UPDATES = timedelta(days=7)
_RESTART = "`/restart` in the chat, or stop it and run `ollim-bot`; nothing is lost."
_START = "Run `ollim-bot`; what was due is told then."


def check_bot(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    presence = look_into(paths, now, lambda tx: tx.presence.get()) or Presence()
    pid = running_pid(paths.bot_pid)
    if pid is not None:
        # A bot that starts has not written its heartbeat yet, and bot.pid just now.
        seen = filter(None, (heartbeat(paths), _written_at(paths.bot_pid)))
        return running(pid, presence, max(seen, default=now), installed_version(), now)
    return stopped(presence, heartbeat(paths), paths.bot_pid, now)


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
        yield warned(NAME, other, _RESTART)
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
