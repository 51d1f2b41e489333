"""Chooses the model provider, and opens the engine for it."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from ollim_bot.kernel.base.clock import Clock, zone_of
from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.settings import ModelChoice, Settings
from ollim_bot.kernel.engine.engine import Answered, ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables, launcher, login_mark, login_status
from ollim_bot.kernel.store.steps import change_provider
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.ports import AgentEngine
from ollim_bot.kernel.values.provider import (
    OFFLINE,
    LoginStatus,
    ModelAccess,
    Provider,
    ProviderMemory,
    choose_provider,
    names_provider,
)
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.offline.server import MessagesServer

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderEngine:
    """`login` names the login in use; the text changes with each renewal, and may be empty.

    `load` loads what the first session needs.
    """

    provider: Provider
    engine: AgentEngine
    login: Callable[[], Awaitable[str]]
    load: Callable[[], object] = tuple


@asynccontextmanager
async def open_provider_engine(
    settings: Settings, store: Store, clock: Clock, engine: AgentEngine | None, program: str
) -> AsyncIterator[ProviderEngine]:
    """Choose the provider and open its engine. A given `engine` counts as the built-in model.

    `program` is how the owner calls the program in a terminal.
    """
    if engine is not None:
        yield ProviderEngine(OFFLINE, engine, _no_login)
        return
    provider = await _provider(settings, store)
    # An unchanged provider is not written, so that the bot can start on a read-only disk.
    if (await store.read(lambda tx: tx.provider.get())).current != provider.kind:
        await store.transact(lambda tx: change_provider(tx, provider.kind))
    if not provider.is_offline:
        first = _FirstAnswer(store)
        claude = _claude(settings, clock, settings.engine_environment(), provider, first)
        login = _login if provider.access is ModelAccess.LOGIN else _a_key
        yield ProviderEngine(provider, claude, login, partial(_load, claude))
        return
    async with MessagesServer(OfflineModel(program)) as server:
        claude = _claude(settings, clock, _offline_environment(server.url), provider)
        yield ProviderEngine(provider, claude, _no_login, partial(_load, claude))


async def engine_on_standby(
    settings: Settings, store: Store, clock: Clock, engine: AgentEngine | None
) -> ProviderEngine:
    """The provider as this machine would choose it; no session is opened while it stands by."""
    if engine is not None:
        return ProviderEngine(OFFLINE, engine, _no_login)
    provider = await _provider(settings, store)
    claude = _claude(settings, clock, settings.engine_environment(), provider)
    return ProviderEngine(provider, claude, _no_login)


class _FirstAnswer:
    """Records the first answer of a provider: the built-in model never replaces it afterwards."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_noted = False

    async def __call__(self) -> None:
        if self._is_noted:
            return
        noting = self._store.transact(lambda tx: tx.provider.change(ProviderMemory.answered))
        noted = await unless_refused("It could not be noted who has answered", noting)
        self._is_noted = noted is not None


async def _provider(settings: Settings, store: Store) -> Provider:
    anthropic = settings.engine_environment()
    wants_offline = settings.model is ModelChoice.OFFLINE
    login = LoginStatus(is_logged_in=False)
    if not wants_offline and not names_provider(anthropic):
        login = await _or_warn(login_status(os.environ), login)
    memory = await store.read(lambda tx: tx.provider.get())
    return choose_provider(
        anthropic,
        wants_offline=wants_offline,
        is_logged_in=login.is_logged_in,
        last_used=memory.last_used,
        is_subscription=login.is_subscription,
    )


async def _or_warn(asked: Awaitable[T], otherwise: T) -> T:
    try:
        return await asked
    except EngineError as error:
        _logger.warning("%s", error)
        return otherwise


async def _login() -> str:
    """Empty if the login status cannot be read; the first turn then reports the failure."""
    return await _or_warn(login_mark(os.environ), "")


async def _no_login() -> str:
    return ""


async def _a_key() -> str:
    """A key is read at the start only, so that its mark never changes."""
    return "key"


def _load(engine: ClaudeEngine) -> None:
    """Load what stays, as at the start: no collection needs to look through it."""
    gc.disable()
    try:
        engine.load()
    finally:
        gc.freeze()
        gc.enable()


def _offline_environment(url: str) -> dict[str, str]:
    nothing = {"ANTHROPIC_AUTH_TOKEN": "", "CLAUDE_CODE_OAUTH_TOKEN": "", "ANTHROPIC_MODEL": ""}
    return {**nothing, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "offline"}


def _claude(
    settings: Settings,
    clock: Clock,
    anthropic: Mapping[str, str],
    provider: Provider,
    answered: Answered | None = None,
) -> ClaudeEngine:
    """The engine; the agent's commands get the bot's data directory and time zone."""
    ours = {"OLLIM_DATA_DIR": str(settings.paths.root), "OLLIM_TIMEZONE": str(settings.zone)}
    environment = engine_variables({**anthropic, **ours}, os.environ, Path(sys.executable).parent)
    folder = settings.paths.state / "engine"
    cli = launcher(folder)
    return ClaudeEngine(
        environment,
        folder,
        cli=cli,
        provider=provider,
        answered=answered,
        zone=lambda: str(zone_of(clock)),
    )
