"""The door for what the owner does on Discord other than writing: commands and clicks."""

from __future__ import annotations

from discord import InteractionType

from ollim_bot.chat import Reception
from ollim_bot.surfaces.discord.interactions.asides import Asked, Fallback
from ollim_bot.surfaces.discord.interactions.buttons import ButtonInteractions
from ollim_bot.surfaces.discord.interactions.commands import PATIENCE, CommandInteractions


class Interactions:
    """`fallback` brings an answer to the owner that Discord does not take any more; values that
    take longer than `patience` are not proposed."""

    def __init__(
        self, reception: Reception, owner: int, fallback: Fallback, *, patience: float = PATIENCE
    ) -> None:
        self._commands = CommandInteractions(reception, owner, fallback, patience)
        self._buttons = ButtonInteractions(reception, owner, fallback)

    async def arrived(self, asked: Asked) -> None:
        """Returns when it is answered, which may take as long as a turn; `on_interaction`."""
        if asked.type is InteractionType.application_command:
            await self._commands.answer(asked)
        elif asked.type is InteractionType.autocomplete:
            await self._commands.complete(asked)
        elif asked.type is InteractionType.component:
            await self._buttons.clicked(asked)
