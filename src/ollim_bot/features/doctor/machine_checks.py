"""Checks of the machine and the program."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ollim_bot.features.doctor.data_checks import open_to_others
from ollim_bot.kernel.base.environment import (
    child_environment,
    chosen_zone,
    open_file_warning,
    read_env_file,
    system_zone,
)
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, duration_in_words
from ollim_bot.kernel.base.settings import ModelChoice, Settings
from ollim_bot.kernel.engine.launcher import VARIABLES, cli_path, login_status
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.upkeep.env_file import env_text
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    failed,
    off,
    passed,
    warned,
)
from ollim_bot.kernel.upkeep.shared_rows import reading
from ollim_bot.kernel.values.provider import (
    LoginStatus,
    Provider,
    ProviderMemory,
    choose_provider,
    names_provider,
)

# A clock before this moment is wrong: the program is newer.
_IMPOSSIBLE = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE = timedelta(minutes=2)


def check_clock(given: DoctorInput) -> Iterator[DoctorFinding]:
    now, last_seen = given.local_now, HeartbeatFile(given.data.paths).read()
    if now < _IMPOSSIBLE:
        yield failed(f"it shows {now:%Y-%m-%d}, which cannot be")
    elif last_seen is not None and last_seen > now + _TOLERANCE:
        ahead = duration_in_words(last_seen.astimezone(UTC) - now.astimezone(UTC))
        yield warned(f"it shows {ahead} less than when the bot last looked")
    else:
        day = f"{WEEKDAYS[now.weekday()]} {now.day} {MONTHS[now.month - 1]} {now.year}"
        yield passed(f"{day} {now:%H:%M}, {given.data.zone}")


def check_time_zone(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, zone, machine = given.data.paths, str(given.data.zone), system_zone(given.environ)
    used = given.read(lambda tx: tx.zone.get().name)
    if used and used != zone and running_pid(paths.bot_pid) is not None:
        detail = f"the bot plans in {used}, but this terminal reads {zone}"
        command = f"`ollim-bot config set timezone {zone}`"
        yield warned(detail, f"Run {command}, or restart the bot.")
        return
    own: Mapping[str, str] = {}
    with suppress(OllimError):  # a `.env` that cannot be read, which another check says
        own = read_env_file(env_text(paths)).values
    if chosen_zone(paths) is not None:
        source = "set with `config`"
    elif zone != str(machine) or "OLLIM_TIMEZONE" in {*given.environ, *own}:
        source = "from the settings"
    else:
        source = "this machine's; `ollim-bot setup timezone` sets yours"
    others = "" if machine is None or str(machine) == zone else f"; this machine is on {machine}"
    yield passed(f"{zone}, {source}{others}")


_KB, _MB, _GB = 1000, 1000**2, 1000**3
_LITTLE, _TOO_LITTLE = 500 * _MB, 50 * _MB
_LONGEST_WAIT = 2.0
_WHERE = "`du -xh / | sort -h | tail` shows where it went."


def check_disk_space(given: DoctorInput) -> Iterator[DoctorFinding]:
    root = given.data.paths.root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    yield disk_space(shutil.disk_usage(there).free)


def disk_space(free: int) -> DoctorFinding:
    """`free` is the room in bytes on the disk of the data directory."""
    left = f"{_size(free)} left"
    if free < _TOO_LITTLE:
        return failed(left, f"Make room, or nothing can be written soon; {_WHERE}")
    if free < _LITTLE:
        return warned(left, f"Make room before it runs out; {_WHERE}")
    return passed(left)


def check_memory(given: DoctorInput) -> Iterator[DoctorFinding]:
    pid = running_pid(given.data.paths.bot_pid)
    yield off("the bot is not running") if pid is None else memory(pid, memory_of(pid))


def memory(pid: int, used: int | None) -> DoctorFinding:
    """The memory of the running bot; `used` is None if it is unknown."""
    if used is None:
        return passed(f"the bot runs as process {pid}")
    detail = f"the bot (process {pid}) uses {_size(used)}"
    if used > _GB:
        return warned(detail, "`/restart` lets the bot begin anew; nothing is lost.")
    return passed(detail)


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
            shown = f"{count / unit:.3g}" if count < 1000 * unit else str(count // unit)
            return f"{shown} {name}"
    return f"{count // _KB} kB"


_OFFLINE = "offline model, which is built in; `ollim-bot setup model` replaces it"
_PROGRAM_SECONDS = 15.0


def check_claude_program(given: DoctorInput) -> Iterator[DoctorFinding]:
    yield claude_program(cli_path(), given.environ)


def claude_program(cli: Path | None, environment: Mapping[str, str]) -> DoctorFinding:
    if cli is None:
        return failed("it is missing")
    try:
        return passed(version_of(cli, environment))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or "it gave no answer"
        return failed(f"{cli} cannot be run: {reason}")


def version_of(cli: Path, environment: Mapping[str, str]) -> str:
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


def check_model(given: DoctorInput) -> Iterator[DoctorFinding]:
    provider = provider_of(given)
    if provider.problem:
        yield failed(provider.name, provider.problem)
    else:
        yield passed(_OFFLINE if provider.is_offline else provider.name)


def provider_of(given: DoctorInput) -> Provider:
    """The provider in use or, if no bot runs in this process, the one it would use."""
    if given.provider is not None:
        return given.provider

    def login(environment: Mapping[str, str]) -> LoginStatus:
        return asyncio.run(login_status(environment))

    return provider_after_start(given.valid_settings, given.environ, login)[0]


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
    with reading(environ, settings.paths, datetime.now(settings.zone)) as ask:
        remembered = ask(lambda tx: tx.provider.get()) or ProviderMemory()
    provider = choose_provider(
        anthropic,
        wants_offline=wants_offline,
        is_logged_in=status is not None and status.is_logged_in,
        last_used=remembered.last_used,
    )
    return provider, status


def check_environment(given: DoctorInput) -> Iterator[DoctorFinding]:
    """Problems keep the bot from starting. All are sentences with the place and what is right."""
    if given.settings is None:
        yield from map(failed, given.problems)
        return
    env_file, warnings = given.settings.paths.env_file, given.settings.warnings
    for warning in warnings:
        if warning == open_file_warning(env_file):
            yield from open_to_others(env_file, f"{env_file}: others can read it")
        else:
            yield warned(warning)
    for sentence in given.settings.overruled:
        yield warned(sentence, "Keep the one that you want, and run `ollim-bot doctor` again.")
    if not warnings and not given.settings.overruled:
        yield passed("all settings are right")


_MEND_SETTING = "Set it right there and run `ollim-bot doctor` again."
_SET_CLOCK = (
    "Set the clock right, for example with `timedatectl`; until then nothing comes on time."
)
_REINSTALL = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."

CHECKS = (
    Check("environment", check_environment, _MEND_SETTING, is_owners=True, place=10),
    Check("clock", check_clock, _SET_CLOCK, place=80),
    Check("time zone", check_time_zone, place=90),
    Check("Claude program", check_claude_program, _REINSTALL, place=220),
    Check("model", check_model, is_owners=True, place=230),
    Check("disk space", check_disk_space, is_of_machine=True, place=320),
    Check("memory", check_memory, is_of_machine=True, place=330),
)
