"""Whoever typed a command: their environment, their folder and their clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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
        """Where the agent called from: `conversation`, or the id of the run; None for a person.

        A program below the running bot counts as called by the agent, whatever its environment
        says: the owner's own commands are not started by the bot.
        """
        named = self._environ.get(CALLED_BY)
        if named:
            return named
        return CONVERSATION if self._is_below_the_bot() else None

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

    def _is_below_the_bot(self) -> bool:
        from ollim_bot.upkeep.instance import running_pid

        bot = running_pid(self.place().paths.bot_pid)
        return bot is not None and bot in _ancestors()

    def _folder(self) -> Path:
        from pathlib import Path

        return self._cwd or Path.cwd()


def _ancestors() -> Iterator[int]:
    """The processes above this one, nearest first; none where the system does not tell."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as status:
                # The name of the program stands in parentheses, and may have any in it.
                pid = int(status.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
