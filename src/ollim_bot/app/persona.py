"""The specification of the agent's sessions, from the profile, the settings and the names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ollim_bot.kernel.base.clock import Clock, zone_of
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.prompts.turn_prompts import build_system_prompt, read_manual
from ollim_bot.kernel.store.data_directory import TEXTS
from ollim_bot.kernel.store.owner_files import ProfileFiles, SubagentFiles
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.tools.registry import TOOL_LINES
from ollim_bot.kernel.values.ports import OfferedSkill, SessionSpec
from ollim_bot.kernel.values.shared_files import Names
from ollim_bot.kernel.values.skills import SkillSet


@dataclass(eq=False)
class Persona:
    """Reads the specification before each turn; `tell` gets one sentence per unusable file.

    `skills` gives all skills as they are now.
    """

    settings: Settings
    store: Store
    clock: Clock
    subagents: SubagentFiles
    skills: Callable[[], SkillSet]
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self._files = ProfileFiles(self.settings.paths)
        self._manual = read_manual(TOOL_LINES)

    async def spec(self) -> SessionSpec:
        spec, problems = await asyncio.to_thread(self._read)
        for problem in problems:
            self.tell(problem)
        return spec

    def check(self) -> None:
        """Tell what is wrong with the profile and the subagents. Callable from any thread."""
        _, problems = self._files.read()
        for problem in (*problems, *self.subagents.read().problems):
            self.tell(problem)

    def _read(self) -> tuple[SessionSpec, tuple[str, ...]]:
        profile, problems = self._files.read()
        subagents = self.subagents.read()
        config, given = self.store.query(lambda tx: (tx.config.get(), tx.names.get()))
        names = Names(
            user=given.user or self.settings.user_name, bot=given.bot or self.settings.bot_name
        )
        prompt = build_system_prompt(profile, names, str(zone_of(self.clock)), self._manual)
        spec = SessionSpec(
            prompt,
            self.settings.paths.root,
            model=config.model_main,
            thinking=config.thinking_main,
            readable=(TEXTS,),
            subagents=subagents,
            skills=tuple(
                OfferedSkill(skill.name, skill.version) for skill in self.skills().loaded.values()
            ),
        )
        return spec, (*problems, *subagents.problems)
