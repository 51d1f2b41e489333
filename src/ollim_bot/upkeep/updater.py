"""Updates the program: a backup, the new version beside the old one, a check, the hand-over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ollim_bot.domain.presence import Version, changes_between
from ollim_bot.environment import DATABASE_URL
from ollim_bot.errors import AlreadyRunning, OllimError, StorageError, SupervisorFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import remake_links
from ollim_bot.upkeep.backup import write_backup
from ollim_bot.upkeep.doctor import Level
from ollim_bot.upkeep.hand_over import (
    HEARTBEAT_LIMIT,
    MaintenanceKind,
    Phase,
    UpdateRecord,
    bot_command,
    confirm_update,
    exchange,
    hand_over,
    maintenance,
    read_update,
    settle_update,
    try_start,
    update_lock,
    write_update,
)
from ollim_bot.upkeep.installation import examined_by, service_of, wait_for_heartbeat
from ollim_bot.upkeep.instance import running_pid, single_instance
from ollim_bot.upkeep.other_bots import why_not_alone
from ollim_bot.upkeep.releases import (
    InstalledProgram,
    Release,
    ReleaseSource,
    UpdateFailed,
    installed_record,
    version_of,
)
from ollim_bot.upkeep.restore import restore_into
from ollim_bot.upkeep.shared_rows import rows_on_server

_LOOK = 0.1
# The bot ends its running work first; one that waits for an idle moment may take long.
_STOP_LIMIT = 60.0
_IDLE_LIMIT = 45 * 60.0
_KILL_AFTER = 25.0
# The page, webhooks and Discord are off while a copy of the data is looked at, which is a file.
_OFF = (
    *("DISCORD_TOKEN", "DISCORD_OWNER_ID", "DISCORD_API_URL", "WEBHOOK_PORT", "WEBHOOK_SECRET"),
    DATABASE_URL,
)


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


@dataclass(frozen=True, slots=True)
class StartLimits:
    """The seconds that a version has for its trial, and for its first heartbeat."""

    trial: float = HEARTBEAT_LIMIT
    heartbeat: float = HEARTBEAT_LIMIT


_LIMITS = StartLimits()


class Updater:
    """Updates one installation and its data directory. `say` tells what is being done."""

    def __init__(
        self,
        paths: DataPaths,
        installation: InstalledProgram,
        source: ReleaseSource,
        environ: Mapping[str, str],
        now: Callable[[], datetime],
        say: Callable[[str], None],
        *,
        limits: StartLimits = _LIMITS,
    ) -> None:
        self._paths = paths
        self._installation = installation
        self._source = source
        self._environ = {**environ, "OLLIM_DATA_DIR": str(paths.root)}
        self._now = now
        self._say = say
        self._limits = limits

    def check(self) -> Available:
        """Look for a newer version that can be installed. Raises `UpdateFailed`."""
        present = self._installation.version
        release = self._source.newest()
        if release is None or release.version <= present:
            raise NothingNewer(f"Version {present} is the newest one.")
        self._source.refuse(release)
        changes = changes_between(release.changelog, present, release.version)
        environment = self._installation.environment
        obstacle = why_not_alone(environment, self._paths, self._environ)
        return Available(release, changes, obstacle or self._why_not_first(release.version))

    def _why_not_first(self, new: Version) -> str:
        """Why a machine that stands by is updated before this one; empty if none is."""
        try:
            with rows_on_server(self._environ, self._paths, self._now) as server:
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
        moment of the hand-over, a version that did not start is not tried again, and where there is
        nothing to install, the record stays that of the last update.
        """
        with maintenance(self._paths, MaintenanceKind.UPDATE, self._now()):
            record = self._record(self._installation.version)
            try:
                # Finish or undo what an earlier update left, unless a running bot has done so.
                if running_pid(self._paths.bot_pid) is None and self._paths.update.exists():
                    with single_instance(self._paths.bot_pid):
                        settle_update(self._paths, str(self._installation.version), self._now())
                        confirm_update(self._paths)
                self._source.finish(self._installation.version)
                available = self.check()
                if when_idle:
                    self._refuse_again(available.release)
                release = available.release
                record = replace(self._record(release.version), trust=release.trust)
                record = write_update(self._paths, record)
                if available.obstacle:
                    raise UpdateFailed(available.obstacle)
                self._prepare(release)
            except OllimError as refused:
                if not when_idle or record.new != record.old:
                    self._failed(record, str(refused))
                raise
            except KeyboardInterrupt:
                self._failed(record, "it was interrupted")
                raise
            return self._handed_over(replace(record, when_idle=when_idle))

    def _refuse_again(self, release: Release) -> None:
        last, new = read_update(self._paths), str(release.version)
        if last is not None and last.phase is Phase.RETURNED and last.new == new:
            raise NothingNewer(
                f"Version {new} did not start before; `ollim-bot update` tries it again."
            )

    def _record(self, new: Version) -> UpdateRecord:
        return UpdateRecord(
            old=str(self._installation.version),
            new=str(new),
            environment=str(self._installation.environment),
            beside=str(self._installation.beside),
            began_at=self._now(),
        )

    def _failed(self, record: UpdateRecord, reason: str) -> UpdateRecord:
        shutil.rmtree(record.beside, ignore_errors=True)
        record = replace(record, phase=Phase.FAILED, reason=reason)
        try:
            return write_update(self._paths, record)
        except StorageError:  # a full disk: the caller tells the reason all the same
            return record

    def _prepare(self, release: Release) -> None:
        beside = self._installation.beside
        self._say("Backing up …")
        report = write_backup(self._paths, self._environ, self._now)
        if not report.is_complete:
            raise UpdateFailed(
                f"The backup {report.path} lacks what could not be read, so nothing was changed. "
                "`ollim-bot backup` says what it is."
            )
        self._say(f"Installing {release.version} beside {self._installation.version} …")
        try:
            self._source.build(release, beside)
        except OSError as refused:
            reason = f"{refused.filename or beside}: {refused.strerror}"
            raise UpdateFailed(f"The new version could not be installed: {reason}.") from refused
        found = installed_record(beside)
        if found is None or version_of(found) != release.version:
            raise UpdateFailed(
                f"What is published as {release.version} says that it is another version."
            )
        self._say(f"Trying {release.version} on a copy of your data …")
        self._check_on_copy(report.path)

    def _check_on_copy(self, backup: Path) -> None:
        root = self._paths.root
        with tempfile.TemporaryDirectory(prefix=f".{root.name}-update-", dir=root.parent) as folder:
            copy = Path(folder) / "data"
            restore_into(backup, copy)
            environ = {name: text for name, text in self._environ.items() if name not in _OFF}
            environ |= {"OLLIM_DATA_DIR": str(copy), "OLLIM_WEB_PORT": "0"}
            known = self._failures(self._installation.python, environ, copy)
            python = self._installation.beside / "bin" / "python"
            if reason := try_start(python, environ, self._limits.trial, copy):
                raise UpdateFailed(f"It does not start on a copy of your data: {reason}.")
            for name, detail in self._failures(python, environ, copy).items():
                if name not in known:
                    raise UpdateFailed(f"Its doctor fails on a copy of your data: {name}: {detail}")

    def _failures(self, python: Path, environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
        """What the doctor of a version fails, by the names of its checks."""
        try:
            findings = examined_by(bot_command(python), environ, cwd)
        except SupervisorFailed as refused:
            raise UpdateFailed(str(refused)) from refused
        return {each.name: each.detail for each in findings if each.level is Level.FAIL}

    def _handed_over(self, record: UpdateRecord) -> UpdateRecord:
        bot = running_pid(self._paths.bot_pid)
        self._say(f"Handing over to {record.new} …")
        if bot is None:
            record = hand_over(self._paths, record, self._environ, self._now, self._limits.trial)
        else:
            record = self._asked(bot, record)
        if record.phase is Phase.SWITCHED and bot is not None:
            since = record.switched_at or record.began_at
            if not wait_for_heartbeat(self._paths, since, self._limits.heartbeat):
                return self._returned(record)
        return self._finished(record)

    def _asked(self, bot: int, record: UpdateRecord) -> UpdateRecord:
        """Ask the running bot to hand over; returns when that is decided."""
        record = write_update(self._paths, replace(record, phase=Phase.READY, bot=bot))
        if not record.when_idle:
            os.kill(bot, signal.SIGTERM)
        deadline = time.monotonic() + (_IDLE_LIMIT if record.when_idle else _STOP_LIMIT)
        while True:
            found = read_update(self._paths) or record
            if found.phase not in (Phase.READY, Phase.TRIAL):
                return found
            if not _is_alive(bot):
                return self._left_alone(found)
            if found.phase is Phase.READY and time.monotonic() > deadline:
                return self._failed(record, "the bot did not come to rest, so it was left alone")
            time.sleep(_LOOK)

    def _left_alone(self, record: UpdateRecord) -> UpdateRecord:
        """The bot has ended without a decision: decide here, and start what is in place."""
        if record.phase is Phase.READY:
            record = hand_over(self._paths, record, self._environ, self._now, self._limits.trial)
        else:
            try:
                with single_instance(self._paths.bot_pid):
                    settle_update(self._paths, record.old, self._now())
            except AlreadyRunning:  # its supervisor has started it, and the start has settled it
                pass
            record = read_update(self._paths) or record
        self._start_bot()
        return record

    def _returned(self, record: UpdateRecord) -> UpdateRecord:
        """Put the old version in place again, after the new one was in use without a heartbeat."""
        reason = f"its heartbeat did not come within {self._limits.heartbeat:g} s"
        with update_lock(self._paths):
            found = read_update(self._paths)
            if found is not None and found.phase is Phase.DONE:  # it came at the last moment
                return self._finished(found)
            record = write_update(
                self._paths, replace(record, phase=Phase.RETURNING, reason=reason)
            )
        exchange(Path(record.environment), Path(record.beside))
        if (bot := running_pid(self._paths.bot_pid)) is not None:
            os.kill(bot, signal.SIGTERM)
            deadline = time.monotonic() + _KILL_AFTER
            while _is_alive(bot) and time.monotonic() < deadline:
                time.sleep(_LOOK)
            if _is_alive(bot):
                os.kill(bot, signal.SIGKILL)
        began = self._now()
        self._start_bot()
        if not wait_for_heartbeat(self._paths, began, self._limits.heartbeat):
            self._say("The old version is in place again. Start it with `ollim-bot`.")
        return self._finished(read_update(self._paths) or record)

    def _start_bot(self) -> None:
        """Start the version in place, by its supervisor or else in the background."""
        if running_pid(self._paths.bot_pid) is not None:
            return
        supervisor = service_of(self._paths, self._environ)
        if supervisor is not None:
            supervisor.restart()
            return
        subprocess.run(
            ("/bin/sh", "-c", _DETACHED, "sh", *bot_command(self._installation.python)),
            env=self._environ,
            start_new_session=True,
            check=True,
        )
        self._say("The bot runs in the background now.")

    def _finished(self, record: UpdateRecord) -> UpdateRecord:
        """Remove the version that is not in use, and bring the checkout up to the one that is."""
        if record.phase is Phase.SWITCHED:
            record = confirm_update(self._paths) or record
        if record.phase is Phase.DONE and (new := Version.of(record.new)):
            try:
                self._source.finish(new)
            except OllimError as refused:
                self._say(str(refused))
            # A checkout runs from another folder again, to which they lead; a start does it too.
            with suppress(OllimError):
                remake_links(self._paths)
        shutil.rmtree(record.beside, ignore_errors=True)
        return record


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # It may have ended, and its parent has not asked for its exit code yet.
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[:1] != ["Z"]
