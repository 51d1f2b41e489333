"""`/doctor`, `/version` and `/restart`: about the program itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ollim_bot import __version__
from ollim_bot.conversation import texts


class ProgramCommands:
    """`doctor` looks the whole installation over; `restart` has the whole bot begin anew."""

    def __init__(self, doctor: Callable[[], Awaitable[str]], restart: Callable[[], None]) -> None:
        self._doctor = doctor
        self._restart = restart

    async def doctor(self, _: Mapping[str, str]) -> str:
        return await self._doctor()

    async def version(self, _: Mapping[str, str]) -> str:
        return f"ollim-bot {__version__}"

    async def restart(self, _: Mapping[str, str]) -> str:
        self._restart()
        return texts.RESTARTING
