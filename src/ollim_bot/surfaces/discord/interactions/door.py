"""Where the owner's commands and clicks come in, and who answers each kind."""

from __future__ import annotations

import discord
from discord import InteractionType

from ollim_bot.chat import Reception
from ollim_bot.surfaces.discord.interactions.asides import Say
from ollim_bot.surfaces.discord.interactions.buttons import ButtonInteractions
from ollim_bot.surfaces.discord.interactions.commands import PATIENCE, CommandInteractions


class Interactions:
    """`fallback` sends the owner, as a message, an answer that Discord no longer takes as one.

    Values for an argument that take longer than `patience` seconds are not proposed.
    """

    def __init__(self, reception: Reception, fallback: Say, *, patience: float = PATIENCE) -> None:
        self._commands = CommandInteractions(reception, fallback, patience)
        self._buttons = ButtonInteractions(reception, fallback)

    async def arrived(self, interaction: discord.Interaction) -> None:
        """One of the owner's. Returns when it is answered, which may take as long as a turn."""
        if interaction.type is InteractionType.application_command:
            await self._commands.answer(interaction)
        elif interaction.type is InteractionType.autocomplete:
            await self._commands.complete(interaction)
        elif interaction.type is InteractionType.component:
            await self._buttons.clicked(interaction)
