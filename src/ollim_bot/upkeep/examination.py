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
from ollim_bot.upkeep.checks import data, folder, jobs, machine, network, service, webhooks
from ollim_bot.upkeep.checks import service as bot
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

# The kinds of job with more to check than their files.
_OF_KIND = {JobKind.WEBHOOK: webhooks.check_webhooks}


def _check_standby(given: DoctorInput) -> Iterable[DoctorFinding]:
    if given.valid_settings.database_url is None:
        return [off("standby", "not set up: your data are in a file on this machine")]
    findings: Iterable[DoctorFinding] = load_standby("checks").check_standby(given)
    return findings


CHECKS: tuple[tuple[str, Callable[[DoctorInput], Iterable[DoctorFinding]]], ...] = (
    ("environment", machine.check_environment),
    ("bot", bot.check_bot),
    ("update", bot.check_update),
    ("data directory", folder.check_data_directory),
    ("leftovers", folder.check_leftovers),
    ("files", folder.check_files),
    ("git", data.check_git),
    ("clock", machine.check_clock),
    ("time zone", machine.check_time_zone),
    *((kind.plural, _OF_KIND.get(kind, partial(jobs.check_jobs, kind))) for kind in JobKind),
    ("ledger", jobs.check_ledger),
    ("tasks", data.check_tasks),
    ("tool policy", data.check_tool_policy),
    ("subagents", data.check_subagents),
    ("skills", jobs.check_skills),
    ("tool servers", data.check_tool_servers),
    ("calendars", data.check_calendars),
    ("database", data.check_database),
    ("copies", data.check_copies),
    ("standby", _check_standby),
    ("state files", data.check_state_files),
    ("Claude program", machine.check_claude_program),
    ("model", machine.check_model),
    ("Discord", network.check_discord),
    ("phone", network.check_phone),
    ("Google", network.check_google),
    ("page", network.check_page),
    ("reach", network.check_reach),
    ("service", service.check_service),
    ("sentinel", service.check_sentinel),
    ("backup", data.check_backup),
    ("disk space", machine.check_disk_space),
    ("memory", machine.check_memory),
)


# What these look at, the environment of the agent does not have.
OWNERS = ("environment", "model", "Discord", "phone")


def checks_of(given: DoctorInput) -> list[Check]:
    return [Check(name, partial(look, given)) for name, look in CHECKS]


def examine(given: DoctorInput, without: Collection[str] = ()) -> list[DoctorFinding]:
    """What the checks found, but for those whose names are in `without`."""
    checks = [check for check in checks_of(given) if check.name not in without]
    return examined(checks, _LIMIT, _redacted(given.settings))


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

    def mend(self, findings: Iterable[DoctorFinding]) -> list[Repair]:
        return mend(self._given(), findings)

    def _given(self) -> DoctorInput:
        settings, now = self._settings, self._now()
        return DoctorInput(settings, settings, (), os.environ, now, self._provider)


async def examine_in_chat(
    settings: Settings, provider: Provider, now: datetime, limit: float = _LIMIT_IN_CHAT
) -> str:
    """What is wrong with the installation of the running bot, in a few lines."""
    given = DoctorInput(settings, settings, (), os.environ, now, provider)
    checks, redacted = checks_of(given), _redacted(settings)
    return shortened(await asyncio.to_thread(examined, checks, limit, redacted))


def _redacted(settings: Settings | None) -> Callable[[str], str]:
    return RedactingFilter(() if settings is None else settings.secrets()).redacted
