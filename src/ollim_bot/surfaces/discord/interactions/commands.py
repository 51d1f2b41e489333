"""Slash commands that the owner gives on Discord, and the values that it proposes for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import discord
from discord.app_commands import Choice

from ollim_bot.chat import Reception
from ollim_bot.domain.commands import CommandAnswer, CommandSpec
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.surfaces.discord.channel import NAME
from ollim_bot.surfaces.discord.interactions.asides import (
    FAILED,
    Asides,
    Say,
    acknowledged,
)
from ollim_bot.surfaces.discord.wire.refusals import writing

# Discord itself waits for three seconds.
PATIENCE = 2.0

_MOST_CHOICES = 25
_LONGEST_CHOICE = 100

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """A command as it came. `focused` is the argument that is being typed."""

    name: str
    given: Mapping[str, str]
    focused: str


class CommandInteractions:
    """Each call returns when all is said, which for a command may take as long as a turn."""

    def __init__(self, reception: Reception, fallback: Say, patience: float) -> None:
        self._reception = reception
        self._asides = Asides(fallback)
        self._patience = patience

    async def answer(self, interaction: discord.Interaction) -> None:
        if await acknowledged(interaction, thinking=True):
            answer = await self._done(_call(interaction))
            await self._asides.answer(interaction, answer.text)

    async def complete(self, interaction: discord.Interaction) -> None:
        """Propose values for the argument that is being typed."""
        values = await self._values(_call(interaction))
        choices = [Choice(name=each, value=each) for each in values]
        try:
            async with writing():
                await interaction.response.autocomplete(choices)
        except OllimError as error:
            _logger.debug("Proposals came too late: %s", error)

    async def _done(self, call: _Call) -> CommandAnswer:
        try:
            return await self._reception.command(NAME, self._line(call))
        except OllimError as error:
            return CommandAnswer(str(error), is_error=True)
        except Exception:  # else the owner would see the bot think for ever
            _logger.exception("The command /%s failed", call.name)
            return CommandAnswer(FAILED, is_error=True)

    def _line(self, call: _Call) -> str:
        for spec in self._reception.commands:
            if spec.name == call.name:
                return line_of(spec, call.given)
        return f"/{call.name}"

    async def _values(self, call: _Call) -> Sequence[str]:
        typed = call.given.get(call.focused, "")
        try:
            async with asyncio.timeout(self._patience):
                values = await self._reception.completions(call.name, call.focused, typed)
        except (OllimError, TimeoutError) as error:
            _logger.info("No proposals for /%s: %s", call.name, error)
            return []
        return [each for each in values if 0 < len(each) <= _LONGEST_CHOICE][:_MOST_CHOICES]


def line_of(spec: CommandSpec, given: Mapping[str, str]) -> str:
    """The typed line that is read as just these arguments; raises `WrongInput` if none is."""
    said: list[str] = []
    missing = ""
    for argument in spec.arguments:
        value = given.get(argument.name, "").strip()
        if not value:
            missing = missing or argument.name
        elif missing:
            raise WrongInput(f"`{argument.name}` needs `{missing}` too. Right: `{spec.usage}`.")
        elif len(value.split()) > 1 and not argument.takes_rest:
            raise WrongInput(f"`{argument.name}` is a single word. Right: `{spec.usage}`.")
        else:
            said.append(value)
    return " ".join([f"/{spec.name}", *said])


def _call(interaction: discord.Interaction) -> _Call:
    data = cast("dict[str, Any]", interaction.data or {})
    options = data.get("options", [])
    given = {each["name"]: str(each.get("value", "")) for each in options}
    focused = next((each["name"] for each in options if each.get("focused")), "")
    return _Call(data.get("name", ""), given, focused)
