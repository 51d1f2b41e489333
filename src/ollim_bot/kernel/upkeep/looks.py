"""What checks of several capabilities look at: the jobs, and the model in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from ollim_bot.kernel.base.settings import ModelChoice, Settings
from ollim_bot.kernel.engine.launcher import login_status
from ollim_bot.kernel.store.answer_plan_rows import with_known_plan
from ollim_bot.kernel.store.files import FileLock, OsDisk, ReadOnlyJournal
from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import JobFormat
from ollim_bot.kernel.store.questions import reading
from ollim_bot.kernel.store.steps import holder_of_id
from ollim_bot.kernel.upkeep.findings import DoctorInput
from ollim_bot.kernel.values.jobs import J, RepositoryReport
from ollim_bot.kernel.values.provider import (
    LoginStatus,
    Provider,
    ProviderMemory,
    choose_provider,
    names_provider,
)


def job_report(given: DoctorInput, form: JobFormat[J]) -> RepositoryReport[J]:
    """All jobs of a kind, without any change on disk."""
    paths = given.data.paths
    folder = paths.jobs(form.kind)
    with given.reading() as ask:
        repository = MarkdownRepository(
            JobFileIndex(folder, form, OsDisk()),
            FileLock(paths.lock_of(folder)),
            journal=ReadOnlyJournal(),
            choose_holder=lambda rivals: ask(lambda tx: holder_of_id(tx, rivals)) or 0,
            plan=lambda job: ask(lambda tx: with_known_plan(tx, job)) or job,
        )
        return repository.report()


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
