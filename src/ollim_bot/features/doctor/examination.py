"""Examines an installation, whether its bot runs or not. A new check is a row beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.features.doctor import data_checks as data
from ollim_bot.features.doctor import job_checks as jobs
from ollim_bot.features.doctor import machine_checks as machine
from ollim_bot.features.doctor import network_checks as network
from ollim_bot.features.doctor import service_checks as service
from ollim_bot.kernel.base.logs import RedactingFilter
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.upkeep.findings import (
    DoctorFinding,
    DoctorInput,
    Repair,
    examined,
    repaired,
    shortened,
)
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.provider import Provider

_LIMIT = 30.0
# A slash command has to answer within three seconds, and the answer takes a moment to arrive.
_LIMIT_IN_CHAT = 2.5


CHECKS = sorted(
    (*data.CHECKS, *jobs.CHECKS, *machine.CHECKS, *network.CHECKS, *service.CHECKS),
    key=lambda check: check.place,
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


@dataclass(frozen=True, slots=True)
class DoctorCommand:
    examine: Callable[[], Awaitable[str]]

    @slash_command(230, "doctor", "Whether everything is as it should be, and what to do if not")
    async def doctor(self, _: CommandCall) -> str:
        return await self.examine()
