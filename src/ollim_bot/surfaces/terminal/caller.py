"""The process that calls a command: its environment, folder, clock, and whether it is the agent's.

Imports nothing slow: every command begins here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from ollim_bot.kernel.base.environment import Location
    from ollim_bot.kernel.base.settings import GoogleAddresses, Settings


class Caller:
    """The environment of a command; parts that are not given are those of this process.

    Each part is looked up only when it is needed. `warnings` are sentences about the place of the
    data, once that is known.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._cwd = cwd
        self._clock = clock
        self.warnings: tuple[str, ...] = ()

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def agent(self) -> str | None:
        """Where the agent called from: `conversation`, or the id of the run; None for a person.

        A process below the running bot counts as called by the agent, with any environment: the
        bot does not start the owner's own commands.
        """
        named = self._environ.get(CALLED_BY)
        if named:
            return named
        return CONVERSATION if self._is_below_the_bot() else None

    def engine_environment(self) -> dict[str, str]:
        """The environment with the configured model provider. Raises `BadSettings`."""
        return {**self._environ, **self.settings().engine_environment()}

    def place(self) -> Location:
        """Raises `BadSettings` if the data directory is unclear."""
        from ollim_bot.kernel.base.environment import locate

        place = locate(self._environ, self._folder())
        self.warnings = place.warnings
        return place

    def default_zone(self) -> ZoneInfo:
        """The time zone that counts while the configuration names none. Raises `BadSettings`."""
        from ollim_bot.kernel.base.environment import locate

        return locate(self._environ, self._folder(), is_by_settings=True).zone

    def settings(self) -> Settings:
        """Raises `BadSettings` with all problems at once."""
        from ollim_bot.kernel.base.settings import Settings

        return Settings.from_env(self._environ, cwd=self._folder())

    def google_addresses(self) -> GoogleAddresses:
        """Raises `BadSettings` if one of them is wrong."""
        from ollim_bot.kernel.base.settings import google_addresses

        return google_addresses(self._environ, cwd=self._folder())

    def now(self) -> datetime:
        from datetime import UTC, datetime

        return self._clock() if self._clock else datetime.now(UTC)

    def path(self, typed: str) -> Path:
        """The path that the person typed, relative to the folder of the call."""
        return self._folder() / typed

    def shown(self, path: Path) -> str:
        """The path as the person would type it, from `~` if that is shorter."""
        home = self._environ.get("HOME", "").rstrip("/")
        text = str(path)
        return f"~{text.removeprefix(home)}" if home and text.startswith(f"{home}/") else text

    def _is_below_the_bot(self) -> bool:
        from ollim_bot.kernel.base.environment import data_directory
        from ollim_bot.kernel.base.instance import running_pid

        # A wrong setting is the command's to refuse, together with all the others, or to mend.
        paths = data_directory(self._environ, self._folder())
        bot = None if paths is None else running_pid(paths.bot_pid)
        if bot is None:
            return False
        from ollim_bot.kernel.base.processes import line_of

        return bot in line_of(os.getppid())

    def _folder(self) -> Path:
        from pathlib import Path

        return self._cwd or Path.cwd()
