"""The bot as a service of this machine, kept by systemd or launchd."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ollim_bot.domain.text import PROGRAM
from ollim_bot.environment import program_path, search_path
from ollim_bot.errors import OllimError, SupervisorFailed, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.settings import Settings
from ollim_bot.store.heartbeat import last_sign_of_life
from ollim_bot.upkeep.doctor import DoctorFinding, Level
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.launchd import Launchd
from ollim_bot.upkeep.supervision import (
    DATA_DIR,
    STOP_SECONDS,
    InstalledService,
    ServiceDefinition,
    SupervisorPrograms,
    SupervisorStatus,
    run_to_end,
)
from ollim_bot.upkeep.systemd import Systemd

_LOOK = 0.1
_BETWEEN_QUESTIONS = 0.3


Supervisor = Systemd | Launchd


def find_supervisor(environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor of this machine, found by the search path of `environ`."""
    programs = SupervisorPrograms(environ)
    if programs.path("systemctl"):
        return Systemd(environ)
    return Launchd(environ) if programs.path("launchctl") else None


def service_of(paths: DataPaths, environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor that has a service installed for the bot of this data directory."""
    supervisor = find_supervisor(environ)
    installed = supervisor.installed() if supervisor else None
    if installed is None or installed.definition is None:
        return None
    is_same = os.path.realpath(installed.definition.data_dir) == os.path.realpath(paths.root)
    return supervisor if is_same else None


def wait_for_heartbeat(
    paths: DataPaths,
    since: datetime,
    seconds: float,
    has_given_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Whether a running bot writes a heartbeat later than `since`, within so many seconds.

    That of a bot that stands by for another machine counts too. Ends sooner if `has_given_up`,
    which may be slow to answer.
    """
    asked = begun = time.monotonic()
    while True:
        beat = last_sign_of_life(paths)
        if beat is not None and beat > since and running_pid(paths.bot_pid) is not None:
            return True
        now = time.monotonic()
        if now - begun >= seconds:
            return False
        if now - asked >= _BETWEEN_QUESTIONS:
            if has_given_up():
                return False
            asked = time.monotonic()
        time.sleep(_LOOK)


SERVICE = "service"
PROOF_SECONDS = 60.0
_MODEL = "model"
_OTHER_MODEL = (
    "Put the key that your shell has into the `.env` of the data directory, or run "
    "`ollim-bot auth login`."
)
_RUNS_AGAIN = "Everything is put back, and the service that was there before runs again."
_DOES_NOT_START = (
    "Its files are put back, but the service that was there before does not start: "
    "`ollim-bot service logs`."
)
_WAS_STOPPED = (
    "Everything is put back, but the bot that ran before was stopped: start it again with "
    "`ollim-bot`."
)
_LAST_LINES = 12
_MOST_RESTARTS = 3
_DOCTOR_SECONDS = 90.0
# Four heartbeats have not come.
_STANDING_STILL = timedelta(minutes=2)

_USUAL_FOLDERS = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/private/tmp", "/private/var/folders")
_CACHES = ("/.cache/", "/Library/Caches/", "/pipx/.cache/")
# What every program of a logged-in user has.
_BARE = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "XDG_RUNTIME_DIR")
# What changes how programs work, and is no setting of the bot.
_CARRIED = (
    *("CLAUDE_CONFIG_DIR", "LANG", "LC_ALL", "TZ"),
    *("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"),
)
_NOT_IN_A_FILE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def installed_command(called: str, executable: str, cwd: str) -> tuple[str, ...]:
    """The command that starts this program from any folder.

    `called` is its own file, `executable` the Python that runs it.
    """
    beside = os.path.join(os.path.dirname(executable), PROGRAM)
    for each in (os.path.normpath(os.path.join(cwd, called)), beside):
        if os.path.basename(each) == PROGRAM and os.access(each, os.X_OK):
            return (each,)
    return (executable, "-P", "-m", "ollim_bot")


def service_definition(
    command: tuple[str, ...], paths: DataPaths, environ: Mapping[str, str]
) -> ServiceDefinition:
    """What the service runs: no keys, and all paths absolute.

    Raises `WrongInput` for a path that a supervisor cannot be told.
    """
    carried = {name: environ.get(name, "") for name in _CARRIED}
    environment = {name: value for name, value in carried.items() if value and "@" not in value}
    # The folders of the search path that exist, with those where git usually is.
    folders = [
        folder
        for folder in search_path(environ.get("PATH", "")).split(os.pathsep)
        if os.path.isdir(folder)
    ]
    path = os.pathsep.join(dict.fromkeys(folders))
    if program_path("git", path) is None:
        path = os.pathsep.join(dict.fromkeys((*folders, *_USUAL_FOLDERS)))
    environment |= {DATA_DIR: str(paths.root), "PATH": path}
    data_dir = str(paths.root)
    if wrong := [text for text in (*command, *environment.values()) if _NOT_IN_A_FILE.search(text)]:
        raise WrongInput(f"{wrong[0]!r} cannot be written into the file of a service.")
    if data_dir != data_dir.strip() or data_dir.endswith("\\"):
        raise WrongInput(f"{data_dir!r} ends in a way that no service can be told.")
    return ServiceDefinition(command, paths.root, environment)


def is_temporary(program: Path) -> bool:
    """Whether the program is in a place that is emptied from time to time."""
    text = str(program)
    places = (*_TEMPORARY, tempfile.gettempdir())
    in_place = any(text.startswith(f"{place}/") for place in places)
    return in_place or any(cache in text for cache in _CACHES)


def unseen_settings(
    definition: ServiceDefinition, environ: Mapping[str, str], cwd: Path
) -> dict[str, tuple[str, str]]:
    """The settings that hold for this call and not for the service: the value, and its place."""
    here = Settings.values(environ, cwd=cwd)
    there = Settings.values(bare_environment(definition, environ), cwd=definition.data_dir)
    return {
        name: found
        for name, found in here.items()
        if name != DATA_DIR and there.get(name, ("", ""))[0] != found[0]
    }


def bare_environment(definition: ServiceDefinition, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that the service has."""
    bare = {name: environ[name] for name in _BARE if name in environ}
    return {**bare, **definition.environment}


def examined_by(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> list[DoctorFinding]:
    """What the doctor of this command says in this environment. Raises `SupervisorFailed`."""
    try:
        ran = run_to_end((*command, "doctor", "--json"), environment, _DOCTOR_SECONDS, folder)
        return [
            DoctorFinding(Level(row["level"]), row["name"], row["detail"], row["next"])
            for row in json.loads(ran.stdout)["findings"]
        ]
    except OSError as refused:
        reason = refused.strerror or str(refused)
    except subprocess.TimeoutExpired:
        reason = f"it was not done within {_DOCTOR_SECONDS:g} s"
    except (ValueError, KeyError, TypeError):
        last_line = next(reversed(ran.stderr.split("\n")[:-1]), "").strip(" .")
        reason = last_line or f"exit {ran.returncode}"
    raise SupervisorFailed(f"`{' '.join(command)} doctor` does not work: {reason}.")


def worse_inside(
    definition: ServiceDefinition, environ: Mapping[str, str], cwd: Path
) -> list[DoctorFinding]:
    """What fails in the environment of the service and not in this one, and another model.

    What fails in both does not keep the bot from living. Raises `SupervisorFailed`.
    """
    bare = bare_environment(definition, environ)
    with ThreadPoolExecutor(max_workers=2) as pool:
        asked = pool.submit(examined_by, definition.command, environ, cwd)
        inside = examined_by(definition.command, bare, definition.data_dir)
        outside = asked.result()
    failing = {finding.name for finding in outside if finding.level is Level.FAIL}
    worse = [
        finding
        for finding in inside
        # The service is what is about to be mended.
        if finding.level is Level.FAIL and finding.name not in {*failing, SERVICE}
    ]
    here, there = (
        next((finding.detail for finding in findings if finding.name == _MODEL), "unknown")
        for findings in (outside, inside)
    )
    if here != there and not any(finding.name == _MODEL for finding in worse):
        other = f"here it is {here}, there it would be {there}"
        worse.append(DoctorFinding(Level.FAIL, _MODEL, other, _OTHER_MODEL))
    return worse


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """What the supervisor says of the bot, and what the heartbeat says. `pid` is the bot's."""

    installed: InstalledService | None
    status: SupervisorStatus | None
    pid: int | None
    heartbeat: datetime | None
    now: datetime

    @property
    def age(self) -> timedelta | None:
        return None if self.heartbeat is None else self.now - self.heartbeat

    @property
    def is_beating(self) -> bool:
        return self.pid is not None and self.age is not None and self.age < _STANDING_STILL

    @property
    def runs_outside(self) -> bool:
        """Whether the bot runs, and not as the service."""
        supervised = self.status.pid if self.status else None
        return self.pid is not None and self.pid != supervised

    @property
    def is_alive(self) -> bool:
        is_running = self.status is not None and self.status.is_running
        return is_running and self.is_beating and not self.runs_outside


def service_health(supervisor: Supervisor, paths: DataPaths, now: datetime) -> ServiceHealth:
    """The health of the service with its own data directory; with `paths` if there is none.

    Raises `SupervisorFailed` if the supervisor does not answer.
    """
    installed = supervisor.installed()
    status = supervisor.status() if installed else None
    if installed and installed.definition:
        paths = DataPaths(installed.definition.data_dir)
    heartbeat = last_sign_of_life(paths)
    return ServiceHealth(installed, status, running_pid(paths.bot_pid), heartbeat, now)


class ServiceNotStarted(OllimError):
    """The bot did not come to life as a service, and everything is as it was before."""


class ServiceInstalled(NamedTuple):
    """`kept` are edited files; `left_to_do` is a command for lingering, or empty."""

    kept: Sequence[Path]
    left_to_do: str


def install_with_proof(
    supervisor: Supervisor,
    definition: ServiceDefinition,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    seconds: float = PROOF_SECONDS,
) -> ServiceInstalled:
    """Install, start, and wait so many seconds for the heartbeat. `now` is this machine's time.

    Raises `ServiceNotStarted` after everything is put back, also when it is interrupted.
    """
    paths = DataPaths(definition.data_dir)
    status, earlier = supervisor.status(), supervisor.contents()
    supervised = status.pid if status.is_running else None
    running = running_pid(paths.bot_pid)
    outside = None if running == supervised else running
    try:
        if supervised is not None:
            supervisor.stop()
        if outside is not None:
            _end_bot(paths, outside)
        kept = supervisor.install(definition)
        _start_and_prove(supervisor, paths, now(), seconds)
        supervisor.start_sentinel()
        left_to_do = supervisor.outlive_logout()
    except BaseException as error:  # also if interrupted: half a service must not remain
        lines: list[str] = []
        with suppress(SupervisorFailed):
            lines = [f"  {line}" for line in supervisor.last_lines(_LAST_LINES)]
        supervisor.put_back(earlier)
        with suppress(SupervisorFailed):
            if supervised is not None:
                supervisor.start()
            if earlier:
                supervisor.start_sentinel()
        if not isinstance(error, OllimError):
            raise
        after = "Everything is put back."
        if supervised is not None:
            after = _RUNS_AGAIN if supervisor.status().is_running else _DOES_NOT_START
        elif outside is not None and running_pid(paths.bot_pid) is None:
            after = _WAS_STOPPED
        told = [str(error), after, *(["Its last lines:", *lines] if lines else [])]
        raise ServiceNotStarted("\n".join(told)) from error
    return ServiceInstalled(kept, left_to_do)


def _start_and_prove(
    supervisor: Supervisor, paths: DataPaths, since: datetime, seconds: float
) -> None:
    def has_given_up() -> bool:
        status = supervisor.status()
        return status.has_given_up or status.restarts >= _MOST_RESTARTS

    supervisor.start()
    if not wait_for_heartbeat(paths, since, seconds, has_given_up):
        reason = f"No heartbeat of the bot came within {seconds:g} s"
        if has_given_up():
            reason = "The bot ended before its first heartbeat"
        words = supervisor.status().words
        raise SupervisorFailed(f"{reason}; {supervisor.name} says: {words}.")
    running = running_pid(paths.bot_pid)
    if supervisor.status().pid != running:
        raise SupervisorFailed(f"Another process ({running}) runs the bot already.")


def _end_bot(paths: DataPaths, pid: int) -> None:
    """Stop a bot that is no service; returns when it has ended."""
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise SupervisorFailed(f"Process {pid} cannot be stopped: {reason}.") from None
    deadline = time.monotonic() + STOP_SECONDS
    while running_pid(paths.bot_pid) == pid:
        if time.monotonic() > deadline:
            raise SupervisorFailed(f"Process {pid} has not ended within {STOP_SECONDS} s.")
        time.sleep(_LOOK)
