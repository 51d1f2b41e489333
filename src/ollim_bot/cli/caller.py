"""Whoever typed a command: their environment, their folder and their clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ollim_bot.domain.agent_caller import CALLED_BY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from ollim_bot.environment.place import Place
    from ollim_bot.settings import Settings


class Caller:
    """What is not given is that of this process. Nothing is looked up before it is needed."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._cwd = cwd
        self._clock = clock

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def agent(self) -> str | None:
        """Where the agent called from: `conversation`, or the id of the run; None for a person."""
        return self._environ.get(CALLED_BY) or None

    def engine_environment(self) -> dict[str, str]:
        """Theirs, with the model provider that they set. Raises `BadSettings`."""
        return {**self._environ, **self.settings().engine_environment()}

    def place(self) -> Place:
        """Raises `BadSettings` if it cannot be told where the data lives."""
        from ollim_bot.environment.place import locate

        return locate(self._environ, self._folder())

    def settings(self) -> Settings:
        """Raises `BadSettings` with all problems at once."""
        from ollim_bot.settings import Settings

        return Settings.from_env(self._environ, cwd=self._folder())

    def now(self) -> datetime:
        from datetime import UTC, datetime

        return self._clock() if self._clock else datetime.now(UTC)

    def shown(self, path: Path) -> str:
        """A path as this person would type it, from `~` on where that is shorter."""
        home = self._environ.get("HOME", "").rstrip("/")
        text = str(path)
        return f"~{text.removeprefix(home)}" if home and text.startswith(f"{home}/") else text

    def _folder(self) -> Path:
        from pathlib import Path

        return self._cwd or Path.cwd()
