"""Examines an installation, whether its bot runs or not. A new check is one row of the list."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.provider import Provider
from ollim_bot.logs import RedactingFilter
from ollim_bot.settings import Settings
from ollim_bot.store.standby import load_standby
from ollim_bot.upkeep.checks import data, jobs, machine, network, service
from ollim_bot.upkeep.doctor import (
    Check,
    DoctorFinding,
    DoctorInput,
    Repair,
    examined,
    off,
    repaired,
    shortened,
)

_LIMIT = 30.0
# A slash command has to answer within three seconds, and the answer takes a moment to arrive.
_LIMIT_IN_CHAT = 2.5


def _check_standby(given: DoctorInput) -> Iterable[DoctorFinding]:
    if given.valid_settings.database_url is None:
        return [off("not set up: your data are in a file on this machine")]
    findings: Iterable[DoctorFinding] = load_standby("checks").check_standby(given)
    return findings


def _of_jobs(kind: JobKind) -> Check:
    # Webhooks have more to check than their files.
    look = jobs.check_webhooks if kind is JobKind.WEBHOOK else partial(jobs.check_jobs, kind)
    step = f"Mend the file; `ollim-bot {kind} list` shows whether it is right."
    return Check(kind.plural, look, step, is_of_machine=kind is JobKind.WEBHOOK)


_MEND_FILE = "Mend the file; `ollim-bot doctor` shows whether it is right."
_MEND_SETTING = "Set it right there and run `ollim-bot doctor` again."
_MEND_POLICY = "Mend tool-policy.yaml; `ollim-bot doctor` shows whether it is right."
_MEND_SKILL = "Mend the file; `ollim-bot skill list` shows whether the agent sees the skill."
_MEND_SERVERS = "Mend mcp.json; `ollim-bot mcp list` shows whether it is right."
_LOOK_AT_TASKS = "`ollim-bot tasks list` shows whether it is right."
_SHOW_RUN = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."
_REFRESH = "Run `ollim-bot cal refresh`: it says what is wrong."
_MAKE_BACKUP = "Run `ollim-bot backup`; it says what is wrong."
_SET_CLOCK = (
    "Set the clock right, for example with `timedatectl`; until then nothing comes on time."
)
_REINSTALL = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."
_PAIR_SERVER = "Run `ollim-bot push setup` with the server that you want."
_CONNECT_AGAIN = "Run `ollim-bot google login`, or `ollim-bot google logout` to leave it out."
_OTHER_PORT = "Stop that one, or set OLLIM_WEB_PORT to another port and run `ollim-bot` again."
_INSTALL = "Run `ollim-bot service install`."
_START = "Run `ollim-bot`; what was due is told then."

CHECKS = (
    Check("environment", machine.check_environment, _MEND_SETTING, is_owners=True),
    Check("bot", service.check_bot, _START, is_of_machine=True),
    Check("update", service.check_update, is_of_machine=True),
    Check("data directory", lambda given: data.data_directory(given.data.paths)),
    Check("leftovers", lambda given: data.leftovers(given.data.paths, given.local_now)),
    Check("files", lambda given: data.received_files(given.data.paths)),
    Check("git", lambda given: data.git_history(given.data.paths.root)),
    Check("clock", machine.check_clock, _SET_CLOCK),
    Check("time zone", machine.check_time_zone),
    *map(_of_jobs, JobKind),
    Check("ledger", jobs.check_ledger, _SHOW_RUN),
    Check("tasks", data.check_tasks, _LOOK_AT_TASKS),
    Check("tool policy", lambda given: data.tool_policy(given.data.paths), _MEND_POLICY),
    Check("subagents", data.check_subagents, _MEND_FILE),
    Check("skills", jobs.check_skills, _MEND_SKILL),
    Check("tool servers", data.check_tool_servers, _MEND_SERVERS),
    Check("calendars", data.check_calendars, _REFRESH),
    Check("database", data.check_database),
    Check("copies", data.check_copies, is_of_machine=True),
    Check("standby", _check_standby),
    Check("state files", data.check_state_files),
    Check("Claude program", machine.check_claude_program, _REINSTALL),
    Check("model", machine.check_model, is_owners=True),
    Check("Discord", network.check_discord, is_owners=True, is_of_machine=True),
    Check("phone", network.check_phone, _PAIR_SERVER, is_owners=True),
    Check("Google", network.check_google, _CONNECT_AGAIN),
    Check("page", network.check_page, _OTHER_PORT, is_of_machine=True),
    Check("reach", network.check_reach),
    Check("service", service.check_service, _INSTALL, is_of_machine=True),
    Check("sentinel", service.check_sentinel, _INSTALL, is_of_machine=True),
    Check("backup", data.check_backup, _MAKE_BACKUP, is_of_machine=True),
    Check("disk space", machine.check_disk_space, is_of_machine=True),
    Check("memory", machine.check_memory, is_of_machine=True),
)
# What these look at, the environment of the agent does not have.
OWNERS = tuple(check.name for check in CHECKS if check.is_owners)
# What belongs to a running bot and to the machine, and not to the data.
NOT_OF_A_COPY = tuple(check.name for check in CHECKS if check.is_of_machine)


def examine(given: DoctorInput, without: Collection[str] = ()) -> list[DoctorFinding]:
    """What the checks found, but for those whose names are in `without`."""
    checks = [check for check in CHECKS if check.name not in without]
    return examined(checks, given, _LIMIT, _redacted(given.settings))


def mend(given: DoctorInput, findings: Iterable[DoctorFinding]) -> list[Repair]:
    """Repair what is safe to repair, also beside a running bot."""
    return repaired(findings, _redacted(given.settings))


class BotDoctor:
    """Examines the installation of the running bot."""

    def __init__(self, settings: Settings, provider: Provider, now: Callable[[], datetime]) -> None:
        self._settings = settings
        self._provider = provider
        self._now = now

    def examine(self) -> list[DoctorFinding]:
        return examine(self._given())

    async def examine_in_chat(self, limit: float = _LIMIT_IN_CHAT) -> str:
        """What is wrong, in a few lines."""
        given, redacted = self._given(), _redacted(self._settings)
        return shortened(await asyncio.to_thread(examined, CHECKS, given, limit, redacted))

    def mend(self, findings: Iterable[DoctorFinding]) -> list[Repair]:
        return mend(self._given(), findings)

    def _given(self) -> DoctorInput:
        settings, now = self._settings, self._now()
        return DoctorInput(settings, settings, (), os.environ, now, self._provider)


def _redacted(settings: Settings | None) -> Callable[[str], str]:
    return RedactingFilter(() if settings is None else settings.secrets()).redacted
