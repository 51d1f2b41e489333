"""The doctor's visit: all checks of an installation, whether its bot runs or not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import datetime

from ollim_bot.app.data_checks import DataChecks
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.provider import Provider, choose_provider, names_provider
from ollim_bot.engine.launcher import cli_path
from ollim_bot.engine.login import login_status
from ollim_bot.logs import RedactingFilter
from ollim_bot.settings import ModelChoice, Settings
from ollim_bot.store.codecs.records import MemoryCodec
from ollim_bot.store.state_inspection import stored
from ollim_bot.upkeep.checks.machine import claude_program, environment, model, version_in
from ollim_bot.upkeep.checks.network import ask, discord_account, page
from ollim_bot.upkeep.doctor import Check, DoctorInput, Finding, examined, shortened
from ollim_bot.upkeep.instance import running_pid

_PATIENCE = 30.0
# In a chat nobody waits for longer than three seconds, and the answer has to be brought there too.
_PATIENCE_IN_CHAT = 2.5


def examine(patient: DoctorInput) -> list[Finding]:
    """Nothing has to run for it."""
    settings = patient.settings

    def provider() -> Provider:
        assert settings is not None
        return _provider(settings, patient.environ)

    return examined(_checks(patient, provider), _PATIENCE, _hiding(settings))


async def examine_in_chat(
    settings: Settings, provider: Provider, now: datetime, patience: float = _PATIENCE_IN_CHAT
) -> str:
    """The running bot, of which it is known who answers."""
    patient = DoctorInput(settings, settings, (), os.environ, now)
    checks = _checks(patient, lambda: provider)
    return shortened(await asyncio.to_thread(examined, checks, patience, _hiding(settings)))


def _checks(patient: DoctorInput, provider: Callable[[], Provider]) -> list[Check]:
    settings, place = patient.settings, patient.place
    warnings = () if settings is None else settings.warnings
    data = None if place is None else DataChecks(place, patient.now.astimezone(place.zone))
    version = version_in(patient.environ)
    return [
        Check("environment", lambda: environment(patient.problems, warnings)),
        *(data.checks() if data else ()),
        Check("Claude program", lambda: claude_program(cli_path(), version)),
        *(() if settings is None else _checks_of_services(settings, provider)),
        *(data.checks_of_machine() if data else ()),
    ]


def _checks_of_services(settings: Settings, provider: Callable[[], Provider]) -> list[Check]:
    token, address = settings.discord_token, settings.discord_api_url

    def its_page() -> list[Finding]:
        is_running = running_pid(settings.paths.bot_pid) is not None
        has_discord = token is not None
        return [*page(settings.web_port, ask, is_running=is_running, has_discord=has_discord)]

    return [
        Check("model", lambda: model(provider())),
        Check("Discord", lambda: discord_account(token, settings.discord_owner_id, address, ask)),
        Check("page", its_page),
    ]


def _provider(settings: Settings, environ: Mapping[str, str]) -> Provider:
    """Who would answer after a start."""
    anthropic = settings.engine_environment()
    wants_offline = settings.model is ModelChoice.OFFLINE
    is_logged_in = False
    if not wants_offline and not names_provider(anthropic):
        is_logged_in = asyncio.run(login_status({**environ, **anthropic})).is_logged_in
    facts = Facts(stored(settings.paths.memory, MemoryCodec()))
    return choose_provider(
        anthropic,
        wants_offline=wants_offline,
        is_logged_in=is_logged_in,
        last_used=facts.last_used,
    )


def _hiding(settings: Settings | None) -> Callable[[str], str]:
    return RedactingFilter(() if settings is None else settings.secrets()).redacted
