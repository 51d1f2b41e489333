"""The bot as a service of this machine, kept by systemd or launchd."""

from __future__ import annotations

import hashlib
import json
import os
import plistlib
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple
from xml.parsers.expat import ExpatError

from ollim_bot.kernel.base.environment import SESSION, child_environment, program_path, search_path
from ollim_bot.kernel.base.errors import OllimError, SupervisorFailed, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import PROGRAM
from ollim_bot.kernel.store.files import SHARED, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.store.heartbeat import last_sign_of_life
from ollim_bot.kernel.upkeep.findings import DoctorFinding, Level

SERVICE = "service"
DATA_DIR = "OLLIM_DATA_DIR"
UNIT = "ollim-bot.service"
SENTINEL = "ollim-bot-sentinel.service"
TIMER = "ollim-bot-sentinel.timer"
LABEL = "local.ollim-bot"
SENTINEL_LABEL = "local.ollim-bot.sentinel"
# A stop may take as long as the bot has to end its work, and a little more.
STOP_SECONDS = 60
PROOF_SECONDS = 60.0
_PATIENCE = STOP_SECONDS + 30.0
_DOCTOR_SECONDS = 90.0
_LOOK = 0.2
_LAST_LINES = 12
_MOST_RESTARTS = 3
# Four heartbeats have not come.
_STANDING_STILL = timedelta(minutes=2)
_MODEL = "model"
_OTHER_MODEL = (
    "Put the key that your shell has into the `.env` of the data directory, or run "
    "`ollim-bot auth login`."
)
_LOG_IN = (
    "systemd runs services only for users who are logged in: log in as this user, not by su or "
    "sudo, and do it again."
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
_USUAL_FOLDERS = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
# What every program of a logged-in user has.
_BARE = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "XDG_RUNTIME_DIR")
# What changes how programs work, and is no setting of the bot.
_CARRIED = (
    *("CLAUDE_CONFIG_DIR", "LANG", "LC_ALL", "TZ"),
    *("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"),
)
_NOT_IN_A_FILE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_MARK = re.compile(r"^.*ollim-bot service install: ([0-9a-f]{16})\b.*\n", re.MULTILINE)
_PLAIN_WORD = re.compile(r"[\w/.:=@+,%-]+", re.ASCII)
# systemd takes no program with such a name, wherever quotes stand; a shell does.
_NO_PROGRAM = re.compile(r"""["'\\]""")
_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')
_UNITS = {
    UNIT: """\
[Unit]
Description=ollim-bot, your assistant
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={bot}
{place}
Restart=on-failure
RestartPreventExitStatus=2
SuccessExitStatus=75
RestartForceExitStatus=75
RestartSec=5
KillMode=mixed
TimeoutStopSec={stop}
SyslogIdentifier=ollim-bot

[Install]
WantedBy=default.target
""",
    SENTINEL: """\
[Unit]
Description=Deliver what must not be missed if ollim-bot is dead

[Service]
Type=oneshot
ExecStart={sentinel}
{place}
TimeoutStartSec=420
SyslogIdentifier=ollim-bot-sentinel
""",
    TIMER: """\
[Unit]
Description=Look every 5 minutes whether ollim-bot lives

[Timer]
OnCalendar=*:0/5
AccuracySec=10s

[Install]
WantedBy=timers.target
""",
}
# launchd has no pauses that grow, and starts a program again after any failure.
_AGENTS: Mapping[str, Mapping[str, object]] = {
    LABEL: {
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 15,
        "ExitTimeOut": STOP_SECONDS,
    },
    SENTINEL_LABEL: {"StartInterval": 300},
}


@dataclass(frozen=True, slots=True)
class ServiceDefinition:
    """What a supervisor runs. `environment` is all that the service has beyond a bare login.

    `data_dir` is the folder in which the command starts.
    """

    command: tuple[str, ...]
    data_dir: Path
    environment: Mapping[str, str]

    @property
    def program(self) -> Path:
        return Path(self.command[0])

    def inside(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment that the service has."""
        bare = {name: environ[name] for name in _BARE if name in environ}
        return {**bare, **self.environment}


@dataclass(frozen=True, slots=True)
class InstalledService:
    """`definition` is None if the file cannot be understood.

    `is_ours` if `service install` wrote the file; `is_edited` if it has another content
    than that.
    """

    file: Path
    definition: ServiceDefinition | None
    is_ours: bool
    is_edited: bool


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """What the supervisor says of the bot. `words` are its own.

    `lingers` says whether the service outlives the log-out; None if that is unknown.
    """

    words: str
    is_running: bool = False
    is_enabled: bool = False
    pid: int | None = None
    has_given_up: bool = False
    restarts: int = 0
    lingers: bool | None = None


# The bytes of each file, and the target of each link.
Contents = Mapping[Path, bytes | str]


def _quoted(word: str) -> str:
    """The word as systemd reads it back in a command line or in `Environment=`."""
    doubled = word.replace("%", "%%")
    if _PLAIN_WORD.fullmatch(word):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _command_line(words: Sequence[str]) -> str:
    if _NO_PROGRAM.search(words[0]):
        words = (*_SHELL, *words)
    # The colon keeps systemd from replacing variables in the words.
    prefix = ":" if any("$" in word for word in words) else ""
    return " ".join(map(_quoted, (prefix + words[0], *words[1:])))


def unit_files(definition: ServiceDefinition, _: Path) -> dict[str, str]:
    # systemd takes the folder whole, so that quotes would be a part of it.
    place = [f"WorkingDirectory={str(definition.data_dir).replace('%', '%%')}"]
    for name, value in sorted(definition.environment.items()):
        place.append(f"Environment={_quoted(f'{name}={value}')}")
    given = {
        "bot": _command_line(definition.command),
        "sentinel": _command_line((*definition.command, "sentinel")),
        "place": "\n".join(place),
        "stop": STOP_SECONDS,
    }
    return {name: _marked(text.format(**given), "# {}") for name, text in _UNITS.items()}


def definition_in_unit(text: str) -> ServiceDefinition:
    def values(key: str) -> list[str]:
        return re.findall(rf"^{key}=(.*\S.*)$", text, re.MULTILINE)

    def words(key: str) -> list[list[str]]:
        return [shlex.split(value.replace("%%", "%")) for value in values(key)]

    ((first, *rest),), (folder,) = words("ExecStart"), values("WorkingDirectory")
    command = (first.removeprefix(":"), *rest)
    if command[: len(_SHELL)] == _SHELL:
        command = command[len(_SHELL) :]
    environment = dict(pair.split("=", 1) for pairs in words("Environment") for pair in pairs)
    return ServiceDefinition(command, Path(folder.replace("%%", "%")), environment)


def unit_status(told: str, _: Path) -> SupervisorStatus:
    values = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    numbers = {name: int(value) for name, value in values.items() if value.isdecimal()}
    active = values.get("ActiveState", "unknown")
    return SupervisorStatus(
        words=f"{active} ({values.get('SubState', 'unknown')})",
        is_running=active == "active",
        is_enabled=values.get("UnitFileState") == "enabled",
        pid=numbers.get("MainPID") or None,
        has_given_up=active == "failed",
        restarts=numbers.get("NRestarts", 0),
    )


def agent_files(definition: ServiceDefinition, log: Path) -> dict[str, str]:
    found = {}
    for label, more in _AGENTS.items():
        agent = {
            "Label": label,
            "ProgramArguments": [*definition.command, *["sentinel"] * (label != LABEL)],
            **more,
            "WorkingDirectory": str(definition.data_dir),
            "EnvironmentVariables": dict(definition.environment),
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
        }
        text = plistlib.dumps(agent).decode()
        found[f"{label}.plist"] = _marked(text, "<!-- {} -->", text.index("<plist"))
    return found


def definition_in_agent(text: str) -> ServiceDefinition:
    agent = plistlib.loads(text.encode())
    environment = {str(name): str(value) for name, value in agent["EnvironmentVariables"].items()}
    command = tuple(map(str, agent["ProgramArguments"]))
    return ServiceDefinition(command, Path(agent["WorkingDirectory"]), environment)


def agent_status(told: str, file: Path) -> SupervisorStatus:
    if not told:
        return SupervisorStatus("not loaded", is_enabled=file.exists())
    state = re.search(r"^\tstate = (.+)$", told, re.MULTILINE)
    numbers = dict(re.findall(r"^\t(pid|runs) = (\d+)$", told, re.MULTILINE))
    return SupervisorStatus(
        words=state[1] if state else "loaded",
        is_running="pid" in numbers,
        is_enabled=True,
        pid=int(numbers["pid"]) if "pid" in numbers else None,
        restarts=max(0, int(numbers.get("runs", 0)) - 1),
    )


class SupervisorKind(NamedTuple):
    """What one supervisor has in place of another: its files, and how it is told.

    `names` are those of its files: the first starts the bot, the last its sentinel. Commands stand
    between `;`, and one with `-` before it may fail. `is_up` is found in what `show` says until
    the job has ended.
    """

    name: str
    folder: str
    names: tuple[str, ...]
    texts: Callable[[ServiceDefinition, Path], dict[str, str]]
    definition_in: Callable[[str], ServiceDefinition]
    status: Callable[[str, Path], SupervisorStatus]
    show: str
    is_up: str
    start: str
    stop: str
    enable: str
    forget: str
    logs: str
    log_file: str = ""
    lingers: str = ""
    linger: str = ""


_SYSTEMCTL = "systemctl --user"
_PROPERTIES = "ActiveState,SubState,MainPID,UnitFileState,NRestarts,LastTriggerUSec"
SYSTEMD = SupervisorKind(
    name="systemd",
    folder=".config/systemd/user",
    names=(UNIT, SENTINEL, TIMER),
    texts=unit_files,
    definition_in=definition_in_unit,
    status=unit_status,
    show=f"{_SYSTEMCTL} show {{job}} --property={_PROPERTIES} --timestamp=unix",
    is_up="ActiveState=(?!inactive|failed)",
    # A unit that has failed too often would not be started otherwise.
    start=f"-{_SYSTEMCTL} reset-failed {{job}};{_SYSTEMCTL} start {{job}}",
    stop=f"-{_SYSTEMCTL} stop {{job}}",
    enable=f"{_SYSTEMCTL} daemon-reload;{_SYSTEMCTL} enable {{job}}",
    forget=f"{_SYSTEMCTL} daemon-reload;-{_SYSTEMCTL} reset-failed {{job}}",
    logs=f"journalctl --user --unit={UNIT} --output=cat --no-pager --quiet --lines={{lines}}",
    lingers="-loginctl show-user {uid} --property=Linger",
    linger="loginctl --no-ask-password enable-linger {uid}",
)
LAUNCHD = SupervisorKind(
    name="launchd",
    folder="Library/LaunchAgents",
    names=tuple(f"{label}.plist" for label in _AGENTS),
    texts=agent_files,
    definition_in=definition_in_agent,
    status=agent_status,
    show="-launchctl print gui/{uid}/{job}",
    is_up="state = ",
    start="launchctl bootstrap gui/{uid} {file}",
    # A signal alone would not do: a bot that has just begun dies of it, and launchd takes that for
    # a failure and starts it again.
    stop="-launchctl bootout gui/{uid}/{job}",
    enable="-launchctl enable gui/{uid}/{job}",
    forget="",
    logs="tail -n {lines} {log}",
    log_file="Library/Logs/ollim-bot.log",
)


class Supervisor:
    """Keeps two jobs, the bot and its sentinel, by files in `folder`.

    What talks to it raises `SupervisorFailed` if it refuses or does not answer.
    """

    def __init__(self, kind: SupervisorKind, environ: Mapping[str, str]) -> None:
        self._kind, self.name = kind, kind.name
        self._environ = child_environment(environ, *SESSION, "PAGER", "LESS", "SYSTEMD_*")
        # Programs that no login started lack the variable that leads to the supervisor.
        usual = f"/run/user/{os.getuid()}"
        if not environ.get("XDG_RUNTIME_DIR") and os.path.isdir(usual):
            self._environ["XDG_RUNTIME_DIR"] = usual
        home = Path(environ.get("HOME", "/"))
        self.folder = home / kind.folder
        self._log = home / kind.log_file
        self.paths = [self.folder / name for name in kind.names]
        # Where the definition of the service is, or would be.
        self.file = self.paths[0]
        self.jobs = [_job_of(self.file), _job_of(self.paths[-1])]

    def files(self, definition: ServiceDefinition) -> dict[Path, str]:
        texts = self._kind.texts(definition, self._log)
        return {self.folder / name: text for name, text in texts.items()}

    def installed(self) -> InstalledService | None:
        """The service that is installed, read from its file; starts no program."""
        text = text_of(self.file)
        if text is None:
            return None
        definition = None
        with suppress(ExpatError, ValueError, KeyError, TypeError, AttributeError):
            definition = self._kind.definition_in(text)
        return InstalledService(self.file, definition, is_ours(text), not is_unchanged(text))

    def status(self) -> SupervisorStatus:
        status = self._kind.status(self.show(), self.file)
        return replace(status, lingers=self._lingers())

    def show(self, job: str = "") -> str:
        """What the supervisor says of the job; empty if launchd does not know it."""
        return self._tell(self._kind.show, job)

    def start(self, job: str = "") -> None:
        """Start the bot (or the other job) anew, by the file that is there now."""
        self.stop(job)
        self._tell(self._kind.start, job)

    def stop(self, job: str = "") -> None:
        """Returns when it has ended. What is enabled starts again with the machine."""

        def is_over() -> bool:
            return not re.search(self._kind.is_up, self.show(job))

        self._tell(self._kind.stop, job)
        if not _wait_until(is_over, STOP_SECONDS):
            raise SupervisorFailed(f"The bot has not ended within {STOP_SECONDS} s.")

    def install(self, definition: ServiceDefinition) -> list[Path]:
        """Stop, write the files and enable the jobs; gives where edited files are kept."""
        files = self.files(definition)
        for job in self.jobs:
            self.stop(job)
        kept = _set_aside_edited(files)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._kind.log_file:
            self._log.parent.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_atomically(OsDisk(), path, text.encode(), SHARED)
        for job in self.jobs:
            self._tell(self._kind.enable, job)
        return kept

    def uninstall(self) -> list[Path]:
        """Stop, and remove what `service install` wrote; gives where edited files are kept."""
        present = [path for path in self.paths if is_ours(text_of(path) or "")]
        if not present:
            return []
        for path in present:
            self.stop(_job_of(path))
        # Also the links of the same names, which start it with the machine.
        found = [other for path in present for other in self.folder.rglob(path.name)]
        kept = _set_aside_edited(present)
        for path in found:
            path.unlink(missing_ok=True)
        self._tell(self._kind.forget)
        return kept

    def contents(self) -> Contents:
        """All files of the service, with the copies beside them and the links that enable them."""
        found = [path for path in self.folder.rglob(f"{self.file.stem}*") if not path.is_dir()]
        return {
            path: os.readlink(path) if path.is_symlink() else read_file(path, SizeLimit.SETTINGS)
            for path in found
        }

    def put_back(self, earlier: Contents) -> None:
        """Stop, and make the files as they were, as far as the supervisor obeys."""
        with suppress(SupervisorFailed):
            for job in self.jobs:
                self.stop(job)
        for path in self.contents():
            remove_durably(OsDisk(), path)
        for path, content in earlier.items():
            if isinstance(content, str):
                os.symlink(content, path)
            else:
                write_atomically(OsDisk(), path, content, SHARED)
        with suppress(SupervisorFailed):
            self._tell(self._kind.forget)

    def outlive_logout(self) -> str:
        """Let the service go on after the log-out; gives the command that a person has to run.

        An agent of launchd ends with the login of its user; there is no way around that.
        """
        if self._kind.linger and not self._lingers():
            try:
                self._tell(self._kind.linger)
            except SupervisorFailed:
                return "sudo loginctl enable-linger $USER"
        return ""

    def logs(self, lines: int, *, follow: bool = False) -> None:
        """Show the log in this terminal, until its end or an interruption."""
        command = self._command(self._kind.logs, lines=lines)
        subprocess.run([*command, *["-f"] * follow], env=self._environ, check=False)

    def last_lines(self, lines: int) -> list[str]:
        return self._tell(self._kind.logs, lines=lines).splitlines()[-lines:]

    def _lingers(self) -> bool | None:
        if not self._kind.lingers:
            return None
        try:
            # loginctl knows only users who are logged in or linger.
            return self._tell(self._kind.lingers).strip() == "Linger=yes"
        except SupervisorFailed:
            return None

    def _tell(self, commands: str, job: str = "", lines: int = 0) -> str:
        """What the last of the commands says; empty if it fails and may."""
        told = ""
        for line in filter(None, commands.split(";")):
            command = self._command(line.removeprefix("-"), job, lines)
            name = os.path.basename(command[0])
            try:
                ran = run_to_end(command, self._environ, _PATIENCE)
            except subprocess.TimeoutExpired:
                raise SupervisorFailed(f"`{name}` was not done within {_PATIENCE:g} s.") from None
            except OSError as refused:
                raise SupervisorFailed(f"`{name}` cannot be run: {refused.strerror}.") from None
            told = "" if ran.returncode else ran.stdout
            if ran.returncode and not line.startswith("-"):
                reason = " ".join((ran.stderr or ran.stdout).split()) or f"exit {ran.returncode}"
                hint = f" {_LOG_IN}" * bool(re.search(r"(?i)\bbus\b|XDG_RUNTIME_DIR", reason))
                call = " ".join((name, *command[1:]))
                raise SupervisorFailed(f"`{call}` failed: {reason.rstrip('.')}.{hint}")
        return told

    def _command(self, line: str, job: str = "", lines: int = 0) -> list[str]:
        job = job or self.jobs[0]
        file = self.folder / f"{job}.plist"
        given = {"job": job, "file": file, "log": self._log, "uid": os.getuid(), "lines": lines}
        name, *words = (word.format(**given) for word in line.split())
        if (found := program_path(name, self._environ.get("PATH", ""))) is None:
            raise SupervisorFailed(f"There is no `{name}` on this machine.")
        return [found, *words]


def _job_of(path: Path) -> str:
    return path.name.removesuffix(".plist")


def find_supervisor(environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor of this machine, found by the search path of `environ`."""
    path = environ.get("PATH", "")
    programs = {"systemctl": SYSTEMD, "launchctl": LAUNCHD}
    kinds = (kind for program, kind in programs.items() if program_path(program, path))
    return next((Supervisor(kind, environ) for kind in kinds), None)


def service_of(paths: DataPaths, environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor that has a service installed for the bot of this data directory."""
    supervisor = find_supervisor(environ)
    installed = supervisor.installed() if supervisor else None
    if installed is None or installed.definition is None:
        return None
    is_same = os.path.realpath(installed.definition.data_dir) == os.path.realpath(paths.root)
    return supervisor if is_same else None


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str], limit: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, and keep what it says.

    Raises `OSError` or `subprocess.TimeoutExpired`.
    """
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=limit,
        check=False,
    )


def is_ours(text: str) -> bool:
    """Whether `service install` wrote the text, perhaps changed since."""
    return _MARK.search(text) is not None


def is_unchanged(text: str) -> bool:
    """Whether `service install` wrote exactly this text."""
    found = _MARK.search(text)
    return found is not None and found[1] == _sum(_MARK.sub("", text, count=1))


def text_of(path: Path) -> str | None:
    """The text of a file; empty if it is no readable text file, None if there is nothing."""
    try:
        return read_file(path, SizeLimit.SETTINGS).decode()
    except FileNotFoundError:
        return "" if path.is_symlink() else None
    except (OSError, ValueError):
        return ""


def _marked(text: str, comment: str, at: int = 0) -> str:
    """The text with a comment in that place, which shows later whether it was edited."""
    mark = comment.format(f"Written by ollim-bot service install: {_sum(text)}")
    return f"{text[:at]}{mark}\n{text[at:]}"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _set_aside_edited(paths: Iterable[Path]) -> list[Path]:
    """Rename the files that are not as `service install` wrote them; gives their new paths."""
    kept = []
    for path in paths:
        text = text_of(path)
        if text is not None and not is_unchanged(text):
            numbered = (path.with_name(f"{path.name}.bak{number}") for number in count(2))
            names = chain([path.with_name(f"{path.name}.bak")], numbered)
            kept.append(path.rename(next(name for name in names if not os.path.lexists(name))))
    return kept


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition comes to hold within so many seconds."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    return holds


def wait_for_heartbeat(
    paths: DataPaths,
    since: datetime,
    seconds: float,
    has_given_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Whether a running bot writes a heartbeat later than `since`, within so many seconds.

    That of a bot that stands by for another machine counts too. Ends sooner if `has_given_up`.
    """

    def is_beating() -> bool:
        beat = last_sign_of_life(paths)
        return beat is not None and beat > since and running_pid(paths.bot_pid) is not None

    return _wait_until(lambda: is_beating() or has_given_up(), seconds) and is_beating()


def installed_command(called: str, executable: str, cwd: str) -> tuple[str, ...]:
    """The command that starts this program from any folder.

    `called` is its own file, `executable` the Python that runs it.
    """
    beside = os.path.join(os.path.dirname(executable), PROGRAM)
    for program in (os.path.normpath(os.path.join(cwd, called)), beside):
        if os.path.basename(program) == PROGRAM and os.access(program, os.X_OK):
            return (program,)
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
    folders = [*filter(os.path.isdir, search_path(environ.get("PATH", "")).split(os.pathsep))]
    if program_path("git", os.pathsep.join(folders)) is None:
        folders += _USUAL_FOLDERS
    data_dir = str(paths.root)
    environment |= {DATA_DIR: data_dir, "PATH": os.pathsep.join(dict.fromkeys(folders))}
    if wrong := [text for text in (*command, *environment.values()) if _NOT_IN_A_FILE.search(text)]:
        raise WrongInput(f"{wrong[0]!r} cannot be written into the file of a service.")
    if re.search(r"^\s|[\s\\]$", data_dir):
        raise WrongInput(f"{data_dir!r} ends in a way that no service can be told.")
    return ServiceDefinition(command, paths.root, environment)


def unseen_settings(
    definition: ServiceDefinition, environ: Mapping[str, str], cwd: Path
) -> dict[str, tuple[str, str]]:
    """The settings that hold for this call and not for the service: the value, and its place."""
    here = Settings.values(environ, cwd=cwd)
    there = Settings.values(definition.inside(environ), cwd=definition.data_dir)
    return {
        name: found
        for name, found in here.items()
        if name != DATA_DIR and there.get(name, ("", ""))[0] != found[0]
    }


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
    environments = ((environ, cwd), (definition.inside(environ), definition.data_dir))
    outside, inside = (
        {row.name: row for row in examined_by(definition.command, *environment)}
        for environment in environments
    )
    failing = {name for name, row in outside.items() if row.level is Level.FAIL}
    worse = [
        row
        for name, row in inside.items()
        # The service is what is about to be mended.
        if row.level is Level.FAIL and name not in {*failing, SERVICE}
    ]
    unknown = DoctorFinding(Level.OFF, _MODEL, "unknown")
    here, there = (rows.get(_MODEL, unknown).detail for rows in (outside, inside))
    if here != there and _MODEL not in {row.name for row in worse}:
        other = f"here it is {here}, there it would be {there}"
        worse.append(DoctorFinding(Level.FAIL, _MODEL, other, _OTHER_MODEL))
    return worse


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """What the supervisor says of the bot, and what the heartbeat says. `pid` is the bot's."""

    installed: InstalledService | None
    status: SupervisorStatus
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
        return self.pid is not None and self.pid != self.status.pid

    @property
    def is_alive(self) -> bool:
        return self.status.is_running and self.is_beating and not self.runs_outside


def service_health(supervisor: Supervisor, paths: DataPaths, now: datetime) -> ServiceHealth:
    """The health of the service with its own data directory; with `paths` if there is none.

    Raises `SupervisorFailed` if the supervisor does not answer.
    """
    installed = supervisor.installed()
    status = supervisor.status() if installed else SupervisorStatus("not installed")
    if installed and installed.definition:
        paths = DataPaths(installed.definition.data_dir)
    heartbeat = last_sign_of_life(paths)
    return ServiceHealth(installed, status, running_pid(paths.bot_pid), heartbeat, now)


def bot_outside(paths: DataPaths, status: SupervisorStatus) -> int | None:
    """The process of a bot that runs, and not as the service."""
    pid = running_pid(paths.bot_pid)
    return None if pid == status.pid else pid


class ServiceNotStarted(OllimError):
    """The bot did not come to life as a service, and everything is as it was before."""


def install_with_proof(
    supervisor: Supervisor,
    definition: ServiceDefinition,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    seconds: float = PROOF_SECONDS,
) -> tuple[list[Path], str]:
    """Install, start, and wait so many seconds for the heartbeat. `now` is this machine's time.

    Gives where edited files are kept, and the command that is left to do for lingering, or "".
    Raises `ServiceNotStarted` after everything is put back, also when it is interrupted.
    """
    paths = DataPaths(definition.data_dir)
    status, earlier = supervisor.status(), supervisor.contents()
    outside = bot_outside(paths, status)
    try:
        if outside is not None:
            _end_bot(paths, outside)
        kept = supervisor.install(definition)
        _start_and_prove(supervisor, paths, now(), seconds)
        supervisor.start(supervisor.jobs[1])
        return kept, supervisor.outlive_logout()
    except BaseException as error:  # also if interrupted: half a service must not remain
        lines: list[str] = []
        with suppress(SupervisorFailed):
            lines = [f"  {line}" for line in supervisor.last_lines(_LAST_LINES)]
        supervisor.put_back(earlier)
        with suppress(SupervisorFailed):
            if status.is_running:
                supervisor.start()
            if earlier:
                supervisor.start(supervisor.jobs[1])
        if not isinstance(error, OllimError):
            raise
        after = "Everything is put back."
        if status.is_running:
            after = _RUNS_AGAIN if supervisor.status().is_running else _DOES_NOT_START
        elif outside is not None and running_pid(paths.bot_pid) is None:
            after = _WAS_STOPPED
        told = [str(error), after, *(["Its last lines:", *lines] if lines else [])]
        raise ServiceNotStarted("\n".join(told)) from error


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
    if not _wait_until(lambda: running_pid(paths.bot_pid) != pid, STOP_SECONDS):
        raise SupervisorFailed(f"Process {pid} has not ended within {STOP_SECONDS} s.")
