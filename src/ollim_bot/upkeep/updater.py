"""Updates the program: the new version beside the old one, a backup, a first start, a switch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ollim_bot.domain.presence import Version, changes_between
from ollim_bot.environment import DATABASE_URL
from ollim_bot.errors import AlreadyRunning, OllimError, SupervisorFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import remake_links
from ollim_bot.store.kept_state import is_written, keep_state
from ollim_bot.upkeep.backup import write_backup
from ollim_bot.upkeep.doctor import Level
from ollim_bot.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    confirm_update,
    exchange,
    maintenance,
    note_update,
    read_update,
    return_to_old,
    settle_update,
    write_update,
)
from ollim_bot.upkeep.instance import running_pid, single_instance
from ollim_bot.upkeep.other_bots import why_not_alone
from ollim_bot.upkeep.releases import (
    InstalledProgram,
    Release,
    ReleaseSource,
    UpdateFailed,
    last_words,
    version_in,
)
from ollim_bot.upkeep.service import examined_by, service_of, wait_for_heartbeat
from ollim_bot.upkeep.shared_rows import rows_on_server

HEARTBEAT_LIMIT = 60.0

_TRIAL = "--trial"
_LOOK = 0.1
# The bot ends its running work first; one that waits for an idle moment may take long.
_STOP_LIMIT = 60.0
_IDLE_LIMIT = 45 * 60.0
_LONGEST_MIGRATION = 60 * 60.0
# What the doctor of a version without data looks for elsewhere says nothing of that version.
_OFF = ("DISCORD_TOKEN", "DISCORD_OWNER_ID", "WEBHOOK_PORT", "WEBHOOK_SECRET", DATABASE_URL)
_STANDBY_FIRST = (
    "{name} stands by with {version}, and is updated first: run `ollim-bot update` there, then "
    "`ollim-bot standby hand-over`, and then `ollim-bot update` here."
)
_DETACHED = '"$@" </dev/null >/dev/null 2>&1 &'


class NothingNewer(UpdateFailed):
    pass


@dataclass(frozen=True, slots=True)
class Available:
    """A newer version; `changes` is the changelog between the two, and may be empty.

    `obstacle` says why it cannot be installed now, and what to do; it is empty otherwise.
    """

    release: Release
    changes: str
    obstacle: str = ""


@dataclass(slots=True)
class Updater:
    """Updates one installation and its data directory. `say` tells what is being done.

    The new version has `limit` seconds for its first start, and then for its heartbeat.
    """

    paths: DataPaths
    installation: InstalledProgram
    source: ReleaseSource
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    say: Callable[[str], None]
    limit: float = HEARTBEAT_LIMIT

    @property
    def _settings(self) -> Mapping[str, str]:
        """The environment of every version, for this data directory."""
        return {**self.environ, "OLLIM_DATA_DIR": str(self.paths.root)}

    def check(self) -> Available:
        """Look for a newer version that can be installed. Raises `UpdateFailed`."""
        present = self.installation.version
        release = self.source.newest()
        if release is None or release.version <= present:
            raise NothingNewer(f"Version {present} is the newest one.")
        self.source.refuse(release)
        changes = changes_between(release.changelog, present, release.version)
        environment = self.installation.environment
        obstacle = why_not_alone(environment, self.paths, self._settings)
        return Available(release, changes, obstacle or self._why_not_first(release.version))

    def _why_not_first(self, new: Version) -> str:
        """Why a machine that stands by is updated before this one; empty if none is."""
        try:
            with rows_on_server(self._settings, self.paths, self.now) as server:
                waiting = [] if server is None else server.waiting_for_this()
        except OllimError:
            return ""
        for name, version in waiting:
            known = Version.of(version)
            if known is not None and known < new:
                return _STANDBY_FIRST.format(name=name, version=version)
        return ""

    def run(self, *, when_idle: bool = False) -> UpdateRecord:
        """Update, and wait for the outcome. Raises `OllimError` if no update has begun.

        `when_idle` is for updates that the owner has not asked for: a running bot chooses the
        moment to end its work, a version that did not start is not tried again, and where there is
        nothing to install, the record stays that of the last update.
        """
        with maintenance(self.paths, MaintenanceKind.UPDATE, self.now()):
            present = str(self.installation.version)
            environment, beside = self.installation.environment, self.installation.beside
            record = UpdateRecord(
                present, present, str(environment), str(beside), self.now(), when_idle=when_idle
            )
            try:
                # Finish or undo what an earlier update left, unless a running bot has done so.
                if running_pid(self.paths.bot_pid) is None and self.paths.update.exists():
                    with single_instance(self.paths.bot_pid):
                        settle_update(self.paths, present)
                        confirm_update(self.paths)
                self.source.finish(self.installation.version)
                available, last = self.check(), read_update(self.paths)
                release, new = available.release, str(available.release.version)
                if when_idle and last and (last.phase, last.new) == (Phase.RETURNED, new):
                    again = "did not start before; `ollim-bot update` tries it again"
                    raise NothingNewer(f"Version {new} {again}.")
                record = write_update(self.paths, replace(record, new=new, trust=release.trust))
                if available.obstacle:
                    raise UpdateFailed(available.obstacle)
                self._install(release)
                record = self._at_rest(record)
            except (OllimError, KeyboardInterrupt) as ended:
                shutil.rmtree(beside, ignore_errors=True)
                if not when_idle or record.new != record.old:
                    reason = str(ended) or "it was interrupted"
                    note_update(self.paths, replace(record, phase=Phase.FAILED, reason=reason))
                raise
            record = self._gone_on(self._switched(record))
            if record.phase is Phase.DONE:
                try:
                    self.source.finish(release.version)
                except OllimError as refused:
                    self.say(str(refused))
                # They lead to the folder that a checkout runs from; a start does it too.
                with suppress(OllimError):
                    remake_links(self.paths)
            shutil.rmtree(beside, ignore_errors=True)
            return record

    def _install(self, release: Release) -> None:
        """Put the version beside the present one, and look at it there, without any data."""
        beside, version = self.installation.beside, release.version
        self.say(f"Installing {version} beside {self.installation.version} …")
        try:
            self.source.build(release, beside)
        except OSError as refused:
            reason = f"{refused.filename or beside}: {refused.strerror}"
            raise UpdateFailed(f"The new version could not be installed: {reason}.") from refused
        if version_in(beside) != version:
            raise UpdateFailed(f"What is published as {version} says that it is another version.")
        python = beside / "bin" / "python"
        if reason := self._why_not_run(python, "version"):
            raise UpdateFailed(f"It does not start: {reason}.")
        failing = self._failures(python)
        known = self._failures(self.installation.python) if failing else {}
        for name, detail in failing.items():
            if name not in known:
                raise UpdateFailed(f"Its doctor fails: {name}: {detail}")

    def _failures(self, python: Path) -> Mapping[str, str]:
        """What the doctor of a version fails without any data, by the names of its checks."""
        with tempfile.TemporaryDirectory() as folder:
            environ = {name: text for name, text in self._settings.items() if name not in _OFF}
            environ["OLLIM_DATA_DIR"] = f"{folder}/none"
            try:
                findings = examined_by(bot_command(python), environ, Path(folder))
            except SupervisorFailed as refused:
                raise UpdateFailed(str(refused)) from refused
        return {each.name: each.detail for each in findings if each.level is Level.FAIL}

    def _at_rest(self, record: UpdateRecord) -> UpdateRecord:
        """Have a running bot end its work, and keep the data as they are then.

        The bot waits afterwards to go on as the version in place.
        """
        if (bot := running_pid(self.paths.bot_pid)) is not None:
            record = write_update(self.paths, replace(record, phase=Phase.READY, bot=bot))
            if not record.when_idle:
                os.kill(bot, signal.SIGTERM)
        deadline = time.monotonic() + (_IDLE_LIMIT if record.when_idle else _STOP_LIMIT)
        while bot is not None and running_pid(self.paths.bot_pid) == bot:
            if time.monotonic() > deadline:
                raise UpdateFailed("The bot did not come to rest, so it was left alone.")
            time.sleep(_LOOK)
        with single_instance(self.paths.bot_pid):
            self.say("Backing up …")
            report = write_backup(self.paths, self._settings, self.now)
            if not report.is_complete:
                raise UpdateFailed(
                    f"The backup {report.path} lacks what could not be read, so nothing was "
                    "changed. `ollim-bot backup` says what it is."
                )
            keep_state(self.paths)
            return write_update(self.paths, replace(record, phase=Phase.TRIAL))

    def _switched(self, record: UpdateRecord) -> UpdateRecord:
        """Start the new version on the data, without serving, and put it in place if it does.

        A power cut before the last step leaves the old version in place, whose start puts the state
        back.
        """
        self.say(f"Starting {record.new} on your data …")
        beside = Path(record.beside)
        reason = self._why_not_run(beside / "bin" / "python", _TRIAL)
        try:
            with single_instance(self.paths.bot_pid):
                if not reason:
                    try:
                        exchange(Path(record.environment), beside)
                    except OSError as refused:
                        reason = f"{record.environment} cannot be exchanged: {refused.strerror}"
                if reason:
                    return return_to_old(self.paths, replace(record, reason=reason))
                return note_update(self.paths, replace(record, phase=Phase.SWITCHED))
        except AlreadyRunning:  # somebody has started the old version, which has put the state back
            return read_update(self.paths) or record

    def _why_not_run(self, python: Path, word: str) -> str:
        """Run a version with this word; why it does not end well, or nothing."""
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    bot_command(python, word),
                    env=self._settings,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as refused:
                return f"{python}: {refused.strerror}"
            code, ends_at = None, time.monotonic() + self.limit
            never_after = ends_at + _LONGEST_MIGRATION
            try:
                while code is None and time.monotonic() < min(ends_at, never_after):
                    with suppress(subprocess.TimeoutExpired):
                        code = process.wait(min(1.0, self.limit / 4))
                    # A migration in progress is a sign of life.
                    if code is None and word == _TRIAL and is_written(self.paths):
                        ends_at = time.monotonic() + self.limit
            finally:
                # Also what it has started itself.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            said = output.read().decode(errors="replace")
        if code is None:
            return f"it gave no sign of life within {self.limit:g} s"
        return last_words(said) if code else ""

    def _gone_on(self, record: UpdateRecord) -> UpdateRecord:
        """The outcome. A bot that ran before goes on now, and writes its heartbeat as it starts."""
        since = self.now()
        deadline = time.monotonic() + self.limit
        while record.bot is not None and running_pid(self.paths.bot_pid) is None:
            try:
                os.kill(record.bot, 0)
            except ProcessLookupError:  # it has ended instead
                self._start_bot()
                break
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK)
        if record.phase is not Phase.SWITCHED:
            return record
        if record.bot is None or wait_for_heartbeat(self.paths, since, self.limit):
            return confirm_update(self.paths) or record
        if (supervisor := service_of(self.paths, self._settings)) is not None:
            supervisor.stop()
        if (bot := running_pid(self.paths.bot_pid)) is not None:
            with suppress(ProcessLookupError):
                os.kill(bot, signal.SIGKILL)
        with single_instance(self.paths.bot_pid):
            record = read_update(self.paths) or record
            if record.phase is not Phase.DONE:  # it may have come at the last moment
                reason = f"its heartbeat did not come within {self.limit:g} s"
                exchange(Path(record.environment), Path(record.beside))
                record = return_to_old(self.paths, replace(record, reason=reason))
        self._start_bot()
        return record

    def _start_bot(self) -> None:
        """Start the version in place, by its supervisor or else in the background."""
        if running_pid(self.paths.bot_pid) is not None:
            return
        if (supervisor := service_of(self.paths, self._settings)) is not None:
            supervisor.start()
            return
        subprocess.run(
            ("/bin/sh", "-c", _DETACHED, "sh", *bot_command(self.installation.python)),
            env=self._settings,
            start_new_session=True,
            check=True,
        )
        self.say("The bot runs in the background now.")


def bot_command(python: Path, *words: str) -> Sequence[str]:
    return (str(python), "-P", "-m", "ollim_bot", *words)
