"""Checks of the machine, the program, the bot that runs and its page."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ollim_bot
from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
from ollim_bot.kernel.base.environment import (
    child_environment,
    chosen_zone,
    open_file_warning,
    read_env_file,
    system_zone,
)
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.http_exchange import Ask, ask, why_not_free
from ollim_bot.kernel.base.instance import removed_if_free, running_pid
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, describe, duration_in_words
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.engine.launcher import VARIABLES, cli_path
from ollim_bot.kernel.store.backend import SharedBackend
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.kernel.upkeep.env_file import env_text
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    NotApplicable,
    failed,
    off,
    open_to_others,
    passed,
    warned,
)
from ollim_bot.kernel.upkeep.looks import provider_of
from ollim_bot.kernel.values.presence import Presence
from ollim_bot.kernel.values.runtime_config import RuntimeConfig

# A clock before this moment is wrong: the program is newer.
_IMPOSSIBLE = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE = timedelta(minutes=2)


def check_clock(given: DoctorInput) -> Found:
    now, last_seen = given.local_now, HeartbeatFile(given.data.paths).read()
    if now < _IMPOSSIBLE:
        yield failed(f"it shows {now:%Y-%m-%d}, which cannot be")
    elif last_seen is not None and last_seen > now + _TOLERANCE:
        ahead = duration_in_words(last_seen.astimezone(UTC) - now.astimezone(UTC))
        yield warned(f"it shows {ahead} less than when the bot last looked")
    else:
        day = f"{WEEKDAYS[now.weekday()]} {now.day} {MONTHS[now.month - 1]} {now.year}"
        yield passed(f"{day} {now:%H:%M}, {given.data.zone}")


def check_time_zone(given: DoctorInput) -> Found:
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


def check_disk_space(given: DoctorInput) -> Found:
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


def check_memory(given: DoctorInput) -> Found:
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


def check_claude_program(given: DoctorInput) -> Found:
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


def check_model(given: DoctorInput) -> Found:
    provider = provider_of(given)
    if provider.problem:
        yield failed(provider.name, provider.problem)
    else:
        yield passed(_OFFLINE if provider.is_offline else provider.name)


def check_environment(given: DoctorInput) -> Found:
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


# It is written every 30 seconds, and a busy machine may be late.
_STANDS_STILL = timedelta(minutes=5)
_RECENTLY = timedelta(days=1)
_RESTART_BOT = "`/restart` in the chat, or stop it and run `ollim-bot`; nothing is lost."
_START = "Run `ollim-bot`; what was due is told then."


def check_bot(given: DoctorInput) -> Found:
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
) -> Found:
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


def stopped(presence: Presence, last_seen: datetime | None, pid_file: Path, now: datetime) -> Found:
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


_OURS = "ollim-bot"
_STANDING_STILL = 120.0
_NO_HOSTS = frozenset({"0.0.0.0", "http", "https"})
_TURN_ON = "Set OLLIM_WEB_PORT to a port, such as 8421, and start the bot again: `ollim-bot`."
_LOOK = "Look into the log of the bot, then stop it and run `ollim-bot` again."
_NO_NAMES = "Take OLLIM_WEB_HOSTS out of the settings and run `ollim-bot doctor` again."
_NAMES = "Put the names there by which a browser asks for the page, and run `ollim-bot` again."
_OTHER_PORT = "Stop that one, or set OLLIM_WEB_PORT to another port and run `ollim-bot` again."


def check_page(given: DoctorInput) -> Found:
    settings = given.valid_settings
    yield from page(
        settings.web_port,
        ask,
        is_running=running_pid(settings.paths.bot_pid) is not None,
        has_discord=settings.discord_token is not None,
    )
    yield from hosts(settings.web_hosts, settings.web_port)


def page(
    port: int | None,
    ask: Ask,
    *,
    is_running: bool,
    has_discord: bool,
    refusal: Callable[[int], str] | None = None,
) -> Found:
    """`is_running` is about the bot of this data directory; `refusal` is `why_not_free`."""
    if port is None:
        nowhere = "the page is off, and so is Discord: nobody can talk to the bot"
        is_off = off("switched off by OLLIM_WEB_PORT=0")
        yield is_off if has_discord else failed(nowhere, _TURN_ON)
        return
    other = f"another program has port {port}"
    try:
        answer = ask(f"http://127.0.0.1:{port}/healthz", {})
    except OSError as silent:
        is_late = is_running and isinstance(silent, TimeoutError)
        if not is_late and not isinstance(silent, ConnectionRefusedError):
            yield failed(other)
        elif is_running:
            yield failed(f"the bot runs, but nothing answers at port {port}", _LOOK)
        elif reason := (refusal or why_not_free)(port):
            yield failed(f"port {port} cannot be used: {reason}", _TURN_ON)
        else:
            yield passed(f"port {port} is free")
        return
    if answer.server != _OURS or not isinstance(answer.said, dict):
        yield failed(other)
        return
    age = answer.said.get("heartbeat_age")
    if not is_running:
        yield failed(f"another ollim-bot has port {port}")
    elif isinstance(age, int | float) and age > _STANDING_STILL:
        since = duration_in_words(timedelta(seconds=age))
        yield warned(f"it answers, but the schedule stands still since {since}", _RESTART_BOT)
    else:
        yield passed(f"the bot answers at port {port}")


def hosts(names: Sequence[str], port: int | None) -> Found:
    """What is wrong with `OLLIM_WEB_HOSTS`."""
    if names and port is None:
        yield warned("OLLIM_WEB_HOSTS has no effect, since the page is off", _NO_NAMES)
    for name in names:
        if name in _NO_HOSTS:
            yield warned(f"OLLIM_WEB_HOSTS: {name} is no name of a machine", _NAMES)


def check_reach(given: DoctorInput) -> Found:
    """What tells the owner of a reminder while the page is closed."""
    if given.is_agents:
        raise NotApplicable
    config = given.read(lambda tx: tx.config.get()) or RuntimeConfig()
    if given.valid_settings.discord_token is not None:
        yield passed("what comes is sent to Discord")
    elif given.data.paths.push.exists():
        yield passed("what comes is sent to your phone")
    elif DesktopNotifier(given.environ).can_show(config.desktop_notifications):
        yield passed("what comes is shown on the desktop")
    else:
        yield off("nothing reaches you but the page: what comes is seen when you look there")


_MEND_SETTING = "Set it right there and run `ollim-bot doctor` again."
_SET_CLOCK = (
    "Set the clock right, for example with `timedatectl`; until then nothing comes on time."
)
_REINSTALL = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."

CHECKS = (
    Check("environment", check_environment, _MEND_SETTING, is_owners=True, place=10),
    Check("bot", check_bot, _START, is_of_machine=True, place=20),
    Check("clock", check_clock, _SET_CLOCK, place=80),
    Check("time zone", check_time_zone, place=90),
    Check("Claude program", check_claude_program, _REINSTALL, place=220),
    Check("model", check_model, is_owners=True, place=230),
    Check("page", check_page, _OTHER_PORT, is_of_machine=True, place=270),
    Check("reach", check_reach, place=280),
    Check("disk space", check_disk_space, is_of_machine=True, place=320),
    Check("memory", check_memory, is_of_machine=True, place=330),
)
