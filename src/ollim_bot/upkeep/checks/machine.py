"""Checks of the machine and the program."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, duration_in_words
from ollim_bot.domain.provider import (
    LoginStatus,
    Provider,
    ProviderMemory,
    choose_provider,
    names_provider,
)
from ollim_bot.engine.launcher import VARIABLES, cli_path
from ollim_bot.engine.login import login_status
from ollim_bot.environment import (
    child_environment,
    chosen_zone,
    open_file_warning,
    read_env_file,
    system_zone,
)
from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.settings import ModelChoice, Settings
from ollim_bot.upkeep.checks.folder import close_file
from ollim_bot.upkeep.checks.jobs import heartbeat
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.env_file import env_text
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.shared_rows import reading

CLOCK = "clock"
_SET = "Set the clock right, for example with `timedatectl`; until then nothing comes on time."
# A clock before this moment is wrong: the program is newer.
_IMPOSSIBLE = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE = timedelta(minutes=2)


def check_clock(given: DoctorInput) -> Iterator[DoctorFinding]:
    now = given.local_now
    return clock(now, str(given.data.zone), heartbeat(given.data.paths))


def clock(now: datetime, zone: str, last_seen: datetime | None) -> Iterator[DoctorFinding]:
    """`now` is in the owner's zone; `last_seen` is when the bot last recorded the time."""
    if now < _IMPOSSIBLE:
        yield failed(CLOCK, f"it shows {now:%Y-%m-%d}, which cannot be", _SET)
    elif last_seen is not None and last_seen > now + _TOLERANCE:
        ahead = duration_in_words(last_seen.astimezone(UTC) - now.astimezone(UTC))
        yield warned(CLOCK, f"it shows {ahead} less than when the bot last looked", _SET)
    else:
        day = f"{WEEKDAYS[now.weekday()]} {now.day} {MONTHS[now.month - 1]} {now.year}"
        yield passed(CLOCK, f"{day} {now:%H:%M}, {zone}")


ZONE = "time zone"
_ZONE_SETTING = "OLLIM_TIMEZONE"


def check_time_zone(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, chosen = given.data.paths, chosen_zone(given.data.paths)
    planned = given.read(lambda tx: tx.zone.get().name) or ""
    used = planned if running_pid(paths.bot_pid) is not None else ""
    zone, machine = str(given.data.zone), system_zone(given.environ)
    if chosen is not None:
        source = "set with `config`"
    elif zone != str(machine) or _ZONE_SETTING in {*given.environ, *_own_settings(paths)}:
        source = "from the settings"
    else:
        source = "this machine's; `ollim-bot setup timezone` sets yours"
    return time_zone(zone, used, machine, source)


def _own_settings(paths: DataPaths) -> Mapping[str, str]:
    """The `.env` of the data directory; nothing if it cannot be read, which another check says."""
    try:
        return read_env_file(env_text(paths)).values
    except OllimError:
        return {}


def time_zone(zone: str, used: str, machine: tzinfo | None, source: str) -> Iterator[DoctorFinding]:
    """`zone` is the owner's; `used` the one in which the running bot plans, empty if none runs.

    `source` says who set it.
    """
    if used and used != zone:
        detail = f"the bot plans in {used}, but this terminal reads {zone}"
        command = f"`ollim-bot config set timezone {zone}`"
        yield warned(ZONE, detail, f"Run {command}, or restart the bot.")
        return
    others = "" if machine is None or str(machine) == zone else f"; this machine is on {machine}"
    yield passed(ZONE, f"{zone}, {source}{others}")


DISK = "disk space"
MEMORY = "memory"
_KB, _MB, _GB = 1000, 1000**2, 1000**3
_LITTLE, _TOO_LITTLE = 500 * _MB, 50 * _MB
_MUCH_MEMORY = _GB
_LONGEST_WAIT = 2.0
_WHERE = "`du -xh / | sort -h | tail` shows where it went."


def check_disk_space(given: DoctorInput) -> Iterator[DoctorFinding]:
    root = given.data.paths.root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    return disk_space(shutil.disk_usage(there).free)


def disk_space(free: int) -> Iterator[DoctorFinding]:
    """`free` is the room in bytes on the disk of the data directory."""
    left = f"{_size(free)} left"
    if free < _TOO_LITTLE:
        yield failed(DISK, left, f"Make room, or nothing can be written soon; {_WHERE}")
    elif free < _LITTLE:
        yield warned(DISK, left, f"Make room before it runs out; {_WHERE}")
    else:
        yield passed(DISK, left)


def check_memory(given: DoctorInput) -> Iterator[DoctorFinding]:
    pid = running_pid(given.data.paths.bot_pid)
    return memory(pid, None if pid is None else memory_of(pid))


def memory(pid: int | None, used: int | None) -> Iterator[DoctorFinding]:
    """The memory of the running bot; `used` is None if it is unknown."""
    if pid is None:
        yield off(MEMORY, "the bot is not running")
    elif used is None:
        yield passed(MEMORY, f"the bot runs as process {pid}")
    elif used > _MUCH_MEMORY:
        step = "`/restart` lets the bot begin anew; nothing is lost."
        yield warned(MEMORY, f"the bot (process {pid}) uses {_size(used)}", step)
    else:
        yield passed(MEMORY, f"the bot (process {pid}) uses {_size(used)}")


def memory_of(pid: int) -> int | None:
    """How many bytes a process has in memory; None if it is unknown."""
    try:
        kilobytes = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(kilobytes[1]) * 1024 if kilobytes else None
    except OSError:
        command = ("/bin/ps", "-o", "rss=", "-p", str(pid))
        try:
            ran = subprocess.run(
                command, env={}, capture_output=True, timeout=_LONGEST_WAIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = ran.stdout.strip()
        return int(text) * 1024 if text.isdigit() else None


def _size(count: int) -> str:
    for unit, name in ((_GB, "GB"), (_MB, "MB")):
        if count >= unit:
            return (
                f"{count / unit:.3g} {name}" if count < 1000 * unit else f"{count // unit} {name}"
            )
    return f"{count // _KB} kB"


PROGRAM = "Claude program"
MODEL = "model"
_INSTALL = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."
_OFFLINE = "offline model, which is built in; `ollim-bot setup model` replaces it"
_PROGRAM_SECONDS = 15.0

Version = Callable[[Path], str]


def check_claude_program(given: DoctorInput) -> Iterator[DoctorFinding]:
    return claude_program(cli_path(), version_in(given.environ))


def claude_program(cli: Path | None, version: Version) -> Iterator[DoctorFinding]:
    if cli is None:
        yield failed(PROGRAM, "it is missing", _INSTALL)
        return
    try:
        yield passed(PROGRAM, version(cli))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or "it gave no answer"
        yield failed(PROGRAM, f"{cli} cannot be run: {reason}", _INSTALL)


def version_in(environment: Mapping[str, str]) -> Version:
    def version(cli: Path) -> str:
        """The version that the program prints; raises `OSError` or `SubprocessError`."""
        ran = subprocess.run(
            (cli, "--version"),
            cwd="/",
            env=child_environment(environment, *VARIABLES),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROGRAM_SECONDS,
            check=True,
        )
        return ran.stdout.decode("utf-8", "replace").strip()

    return version


def check_model(given: DoctorInput) -> Iterator[DoctorFinding]:
    return model(provider_of(given))


def provider_of(given: DoctorInput) -> Provider:
    """The provider in use or, if no bot runs in this process, the one it would use."""
    if given.provider is not None:
        return given.provider
    return provider_after_start(given.valid_settings, given.environ, _login)[0]


def _login(environment: Mapping[str, str]) -> LoginStatus:
    return asyncio.run(login_status(environment))


def provider_after_start(
    settings: Settings,
    environ: Mapping[str, str],
    login: Callable[[Mapping[str, str]], LoginStatus],
) -> tuple[Provider, LoginStatus | None]:
    """The provider that a bot with these settings uses, and the login if it was asked for."""
    anthropic = settings.engine_environment()
    wants_offline = settings.model is ModelChoice.OFFLINE
    status = None
    if not wants_offline and not names_provider(anthropic):
        status = login({**environ, **anthropic})
    now = datetime.now(settings.zone)
    with reading(environ, settings.paths, now) as ask:
        memory = ask(lambda tx: tx.provider.get()) or ProviderMemory()
    provider = choose_provider(
        anthropic,
        wants_offline=wants_offline,
        is_logged_in=status is not None and status.is_logged_in,
        last_used=memory.last_used,
    )
    return provider, status


def model(provider: Provider) -> Iterator[DoctorFinding]:
    if provider.problem:
        yield failed(MODEL, provider.name, provider.problem)
    else:
        yield passed(MODEL, _OFFLINE if provider.is_offline else provider.name)


SETTINGS = "environment"
_MEND = "Set it right there and run `ollim-bot doctor` again."
_KEEP_ONE = "Keep the one that you want, and run `ollim-bot doctor` again."


def check_environment(given: DoctorInput) -> Iterator[DoctorFinding]:
    settings = given.settings
    if settings is None:
        return environment(given.problems, ())
    env_file = settings.paths.env_file
    return environment((), settings.warnings, settings.overruled, env_file)


def environment(
    problems: Sequence[str],
    warnings: Sequence[str],
    overruled: Sequence[str] = (),
    env_file: Path | None = None,
) -> Iterator[DoctorFinding]:
    """`problems` keep the bot from starting. All are sentences with the place and what is right.

    `env_file` is the `.env` of the data directory.
    """
    for problem in problems:
        yield failed(SETTINGS, problem, _MEND)
    for warning in warnings:
        if env_file is not None and warning == open_file_warning(env_file):
            step = f"Run `chmod 600 {env_file}`."
            words = f"{env_file}: others can read it"
            yield warned(SETTINGS, words, step, partial(close_file, env_file))
        else:
            yield warned(SETTINGS, warning, _MEND)
    for sentence in overruled:
        yield warned(SETTINGS, sentence, _KEEP_ONE)
    if not problems and not warnings and not overruled:
        yield passed(SETTINGS, "all settings are right")
