"""Examines an installation, whether its bot runs or not. A capability declares its checks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import chain

from ollim_bot.kernel.base.logs import RedactingFilter
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.upkeep.findings import (
    Check,
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

# Each declares its own `CHECKS`.
MODULES = (
    *("features.doctor.data_checks", "features.doctor.machine_checks", "surfaces.discord.account"),
    *("features.calendars.feeds", "features.google.login", "features.install.checks"),
    *("features.jobs.checks", "features.keeping.backup", "features.phone.pairing"),
    *("features.sentinel.checks", "features.skills.skill_packages", "features.tasks.checks"),
    *("features.tool_servers.tool_servers", "features.webhooks.checks"),
)


@cache
def checks() -> Sequence[Check]:
    """All that the doctor looks at, in the order of its report."""
    declared = (import_module(f"ollim_bot.{name}").CHECKS for name in MODULES)
    return sorted(chain.from_iterable(declared), key=lambda check: check.place)


def examine(
    given: DoctorInput, without: Callable[[Check], bool] = lambda _: False
) -> list[DoctorFinding]:
    """What the checks found, but for those that `without` is true of."""
    wanted = [check for check in checks() if not without(check)]
    return examined(wanted, given, _LIMIT, _redacted(given.settings))


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
        return shortened(await asyncio.to_thread(examined, checks(), given, limit, redacted))

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
