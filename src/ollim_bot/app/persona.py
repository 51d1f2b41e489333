"""What a session of the agent is to be like now: the profile, the settings, the names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ollim_bot.domain.facts import Facts
from ollim_bot.domain.shared_files import Names
from ollim_bot.ports import SessionSpec
from ollim_bot.prompts.system import build_system_prompt, read_manual
from ollim_bot.settings import Settings
from ollim_bot.store.data_directory import TEXTS
from ollim_bot.store.profile_files import ProfileFiles
from ollim_bot.stores import Stores
from ollim_bot.tools.registry import TOOL_LINES


class Persona:
    """Asked before each turn. `tell` is given a sentence for each file that cannot be used."""

    def __init__(
        self, settings: Settings, stores: Stores, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._tell = tell
        self._files = ProfileFiles(settings.paths)
        self._manual = read_manual(TOOL_LINES)

    async def spec(self) -> SessionSpec:
        spec, problems = await asyncio.to_thread(self._read)
        for problem in problems:
            await self._tell(problem)
        return spec

    def _read(self) -> tuple[SessionSpec, tuple[str, ...]]:
        profile, problems = self._files.read()
        config = self._stores.config.read()
        facts = Facts(self._stores.memory.read())
        names = Names(
            user=facts.user_name or self._settings.user_name,
            bot=facts.bot_name or self._settings.bot_name,
        )
        prompt = build_system_prompt(profile, names, str(self._settings.zone), self._manual)
        spec = SessionSpec(
            prompt,
            self._settings.paths.root,
            model=config.model_main,
            thinking=config.thinking_main,
            readable=(TEXTS,),
        )
        return spec, problems
