"""Updates the program: the new version beside the old one, a backup, a switch, a heartbeat."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from ollim_bot import __version__
from ollim_bot.features.install.releases import (
    InstalledProgram,
    NotUpdatable,
    Release,
    ReleaseSource,
    UpdateFailed,
    find_installation,
    newest_known,
    run_program,
    version_in,
)
from ollim_bot.features.install.service import examined_by, service_of, wait_for_heartbeat
from ollim_bot.features.keeping.backup import write_backup
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.environment import DATABASE_URL, own_command, program_path, python_places
from ollim_bot.kernel.base.errors import OllimError, SupervisorFailed
from ollim_bot.kernel.base.instance import running_pid, single_instance
from ollim_bot.kernel.base.orphans import passing_on
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.processes import parent_of
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.store.data_directory import remake_links
from ollim_bot.kernel.store.questions import rows_on_server
from ollim_bot.kernel.store.snapshot import is_written, keep_state
from ollim_bot.kernel.upkeep.findings import Level
from ollim_bot.kernel.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    confirm_update,
    exchange,
    maintenance,
    maintenance_in_progress,
    note_update,
    read_update,
    resume_update,
    write_update,
)
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.presence import Version, changes_between

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


@dataclass(slots=True)
class Updater:
    """Updates one installation and its data directory. `say` tells what is being done.

    The new version has `limit` seconds for its heartbeat.
    """

    paths: DataPaths
    installation: InstalledProgram
    source: ReleaseSource
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    say: Callable[[str], None]
    limit: float = 60.0

    @property
    def _settings(self) -> Mapping[str, str]:
        """The environment of every version, for this data directory."""
        return {**self.environ, "OLLIM_DATA_DIR": str(self.paths.root)}

    def check(self) -> Release:
        """A newer version, with the changelog since the present one. Raises `UpdateFailed`."""
        present = self.installation.version
        release = self.source.newest()
        if release is None or release.version <= present:
            raise NothingNewer(f"Version {present} is the newest one.")
        self.source.refuse(release)
        changes = changes_between(release.changelog, present, release.version)
        obstacle = self._why_not_first(release.version)
        return replace(release, changelog=changes, obstacle=obstacle)

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
        environment, beside = self.installation.environment, self.installation.beside
        present, now = str(self.installation.version), self.now()
        places = str(environment), str(beside)
        record = UpdateRecord(present, present, *places, now, when_idle=when_idle)
        with maintenance(self.paths, MaintenanceKind.UPDATE, now), ExitStack() as instance:
            try:
                release = self._found(when_idle=when_idle)
                record = replace(record, new=str(release.version), trust=release.trust)
                write_update(self.paths, record)
                if release.obstacle:
                    raise UpdateFailed(release.obstacle)
                self._install(release)
                record = self._at_rest(record)
                instance.enter_context(single_instance(self.paths.bot_pid))
                self._back_up()
                record = write_update(self.paths, replace(record, phase=Phase.KEPT))
            except (OllimError, KeyboardInterrupt) as ended:
                shutil.rmtree(beside, ignore_errors=True)
                if not when_idle or record.new != record.old:
                    reason = str(ended) or "it was interrupted"
                    note_update(self.paths, replace(record, phase=Phase.FAILED, reason=reason))
                raise
            self.say(f"Starting {record.new} on your data …")
            try:
                exchange(environment, beside)
            except OSError as refused:
                reason = f"{environment} cannot be exchanged: {refused.strerror}"
                record = self._returned(record, reason)
            else:
                record = note_update(self.paths, replace(record, phase=Phase.SWITCHED))
                instance.close()
                record = self._outcome(record)
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

    def _found(self, *, when_idle: bool) -> Release:
        """What can be installed, once what an earlier update left is finished or undone."""
        present = self.installation.version
        # A running bot has done so when it started.
        if running_pid(self.paths.bot_pid) is None and self.paths.update.exists():
            with single_instance(self.paths.bot_pid):
                resume_update(self.paths, str(present))
                confirm_update(self.paths)
        self.source.finish(present)
        release, last = self.check(), read_update(self.paths)
        new = str(release.version)
        if when_idle and last and (last.phase, last.new) == (Phase.RETURNED, new):
            again = "did not start before; `ollim-bot update` tries it again"
            raise NothingNewer(f"Version {new} {again}.")
        return release

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
        run_program(bot_command(python, "version"), self.environ, self.limit, "It does not start")
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
        """Have a running bot end its work; it waits then to go on as the version in place."""
        if (bot := running_pid(self.paths.bot_pid)) is None:
            return record
        record = write_update(self.paths, replace(record, phase=Phase.READY, bot=bot))
        if not record.when_idle:
            os.kill(bot, signal.SIGTERM)
        deadline = time.monotonic() + (_IDLE_LIMIT if record.when_idle else _STOP_LIMIT)
        while running_pid(self.paths.bot_pid) == bot:
            if time.monotonic() > deadline:
                raise UpdateFailed("The bot did not come to rest, so it was left alone.")
            time.sleep(_LOOK)
        return record

    def _back_up(self) -> None:
        """Keep the data as they are now: in a backup, and for a return to the old version."""
        self.say("Backing up …")
        report = write_backup(self.paths, self._settings, self.now)
        if not report.is_complete:
            raise UpdateFailed(
                f"The backup {report.path} lacks what could not be read, so nothing was changed. "
                "`ollim-bot backup` says what it is."
            )
        keep_state(self.paths)

    def _outcome(self, record: UpdateRecord) -> UpdateRecord:
        """Let the new version start, which is in place; if it does not, the old one goes on."""
        reason = self._why_no_heartbeat(record.bot)
        if not reason:
            return confirm_update(self.paths) or record
        # A bot that has noted its reason waits to go on as the old version; any other is ended.
        is_lost = record.bot is not None and not (read_update(self.paths) or record).reason
        if is_lost:
            # End a bot without a heartbeat, and let its supervisor start it no more.
            if (supervisor := service_of(self.paths, self._settings)) is not None:
                supervisor.stop()
            if (bot := running_pid(self.paths.bot_pid)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(bot, signal.SIGKILL)
        with single_instance(self.paths.bot_pid):
            last = read_update(self.paths) or record
            if last.phase is Phase.DONE:  # it has come at the last moment
                return last
            exchange(Path(record.environment), Path(record.beside))
            returned = self._returned(last, reason)
        if is_lost:
            self._start_bot()
        return returned

    def _returned(self, record: UpdateRecord, reason: str) -> UpdateRecord:
        """Put the state back for the old version, which is in place. No bot runs."""
        note_update(self.paths, replace(record, reason=reason))
        resume_update(self.paths, record.old)
        return read_update(self.paths) or record

    def _why_no_heartbeat(self, bot: int | None) -> str:
        """Wait until the version in place lives: the bot that has ended its work goes on as it.

        Where no bot ran, it opens and loads everything on trial, and ends. A migration in progress
        is a sign of life.
        """
        since, ends_at = self.now(), time.monotonic() + self.limit
        never_after = ends_at + _LONGEST_MIGRATION
        command = bot_command(self.installation.python, "--trial")
        with nullcontext() if bot else running(command, self._settings) as trial:
            while time.monotonic() < min(ends_at, never_after):
                code = trial.poll() if trial else None
                if code == 0 or wait_for_heartbeat(self.paths, since, 0.0):
                    return ""
                if (record := read_update(self.paths)) and record.reason:
                    return record.reason
                if code is not None:
                    return f"it ended at once with exit code {code}"
                if bot and running_pid(self.paths.bot_pid) is None and not parent_of(bot):
                    bot = os.getpid()  # it has ended instead
                    self._start_bot()
                time.sleep(_LOOK)
                if is_written(self.paths):
                    ends_at = time.monotonic() + self.limit
        return f"its heartbeat did not come within {self.limit:g} s"

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


@contextmanager
def running(
    command: Sequence[str], environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends here, with all that it has started itself."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environ, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def bot_command(python: Path, *words: str) -> Sequence[str]:
    return (str(python), "-P", "-m", "ollim_bot", *words)


BEGUN = "Looking for a newer version. I say here what comes of it."
_GOES_ON = "An update is going on already. I say here what comes of it."
_NOT_BEGUN = "The update did not begin. Run `ollim-bot update` in a terminal to see why."

# The pause lets the shell end first: the updater must not be a child of the bot, since the bot
# ends before it, and since commands below the bot count as the agent's.
_DETACHED_LATER = '(sleep 1; exec "$@") </dev/null >/dev/null 2>&1 &'
# Else systemd would end the updater together with the service.
_IN_A_SCOPE = (
    "(sleep 1; in_scope='systemd-run --user --scope --quiet --collect'; "
    '$in_scope true && exec $in_scope "$@"; exec "$@") </dev/null >/dev/null 2>&1 &'
)
_BETWEEN_LOOKS = 1.0
_TIME_TO_BEGIN = timedelta(seconds=30)
# An older outcome is no news.
_NEWS = timedelta(days=1)


async def newer_version() -> str | None:
    """A newer version that is known without asking the network."""

    def look() -> str | None:
        try:
            installation = find_installation()
        except NotUpdatable:
            return None
        newest = newest_known(installation, os.environ)
        return str(newest) if newest is not None and newest > installation.version else None

    return await asyncio.to_thread(look)


StartDetached = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(slots=True)
class BotUpdates:
    """`start` starts a program that outlives the bot; `restart` ends the bot, to start again."""

    paths: DataPaths
    clock: Clock
    tell: Callable[..., Awaitable[object]]
    is_idle: Callable[[], bool]
    restart: Callable[[], None]
    start: StartDetached
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _is_daily: bool = False
    _last: UpdateRecord | None = None

    async def begin(self) -> str:
        """Begin an update, for the owner, at once."""
        try:
            return BEGUN if await self._begin("update") else _GOES_ON
        except OllimError as refused:
            return str(refused)

    async def begin_daily(self) -> None:
        """Begin an update that goes on when the bot is idle, and tells only what matters.

        Raises `OllimError` if it cannot begin.
        """
        await self._begin("update", "--when-idle")

    async def _begin(self, *words: str) -> bool:
        is_running, self._last = await self._look()
        if is_running:
            return False
        await self.start(words)
        self._is_daily = len(words) > 1
        self._wanted.set()
        return True

    async def run(self, started: Callable[[], Awaitable[None]]) -> None:
        """Tell how the last update went once the bot has `started`; then follow those begun."""
        await started()
        _, record = await self._look()
        is_news = record is not None and self.clock.now() - record.began_at < _NEWS
        if record is not None and is_news and record.phase is not Phase.FAILED:
            await self._tell_of(record)
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._follow()

    async def _follow(self) -> None:
        """Tell what comes of the update that was begun, and end for it once the bot is idle."""
        begins_by = self.clock.now() + _TIME_TO_BEGIN
        is_running, record = await self._look()
        while is_running or (record == self._last and self.clock.now() < begins_by):
            if record and record.asks(os.getpid()) and record.when_idle and self.is_idle():
                self.restart()
            await self.clock.sleep(_BETWEEN_LOOKS)
            is_running, record = await self._look()
        if record != self._last:
            await self._tell_of(record, is_daily=self._is_daily)
        elif not self._is_daily:
            await self.tell(_NOT_BEGUN, key=f"{_NOT_BEGUN} {self.clock.now().isoformat()}")

    async def _look(self) -> tuple[bool, UpdateRecord | None]:
        """Whether an update or a restore goes on, and how far the last update has come."""
        # In this order: what ends has written its record before.
        running = await asyncio.to_thread(maintenance_in_progress, self.paths)
        return running is not None, await asyncio.to_thread(read_update, self.paths)

    async def _tell_of(self, record: UpdateRecord | None, *, is_daily: bool = False) -> None:
        if record is not None and record.phase.is_over:
            # The same failure each morning is told once.
            name = f"{record.new}: {record.reason}" if is_daily else record.began_at.isoformat()
            # At once, like what concerns a reminder: the bot was away for it.
            await self.tell(str(record), key=f"update {name}", for_reminder=True)


@dataclass(frozen=True, slots=True)
class ProgramCommands:
    """`restart_bot` and `update_bot` are for the whole bot; `newer_version` is a known one."""

    restart_bot: Callable[[], None]
    update_bot: Callable[[], Awaitable[str]]
    newer_version: Callable[[], Awaitable[str | None]]

    @slash_command(250, "update", "Put a newer version in place, after a backup, if it works")
    async def update(self, _: CommandCall) -> str:
        return await self.update_bot()

    @slash_command(240, "version", "Which version this is")
    async def version(self, _: CommandCall) -> str:
        present, newer = f"ollim-bot {__version__}", await self.newer_version()
        return f"{present}. {newer} is there; `/update` puts it in place." if newer else present

    @slash_command(260, "restart", "Stop the bot and start it again")
    async def restart(self, _: CommandCall) -> str:
        self.restart_bot()
        return texts.RESTARTING


async def start_updater(paths: DataPaths, environ: Mapping[str, str], words: Sequence[str]) -> None:
    """Start a command of the version in use, for this data directory, that outlives the bot.

    Raises `OllimError` if this installation cannot be updated.
    """
    await asyncio.to_thread(find_installation)
    path = environ.get("PATH", "")
    is_service = "INVOCATION_ID" in environ and program_path("systemd-run", path)
    script = _IN_A_SCOPE if is_service else _DETACHED_LATER
    places = python_places(environ, os.getcwd())
    try:
        with passing_on():
            shell = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", script, "sh", *own_command(), *words),
                env={**environ, **places, "OLLIM_DATA_DIR": str(paths.root)},
                start_new_session=True,
            )
            await shell.wait()
    except OSError as refused:
        raise OllimError(f"The updater cannot be started: {refused.strerror}.") from refused
