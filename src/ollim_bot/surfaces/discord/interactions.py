"""Slash commands, buttons and reactions of the owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import discord
from discord import InteractionType
from discord.app_commands import Choice

from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer, CommandSpec
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable, WrongInput
from ollim_bot.ports import ChatService
from ollim_bot.surfaces.discord.messages import NAME
from ollim_bot.surfaces.discord.refusals import writing
from ollim_bot.surfaces.discord.split import split

# Sends the owner a sentence that is kept in no log.
Say = Callable[[str], Awaitable[None]]

FAILED = "The bot could not do that. Its log says why."

_ALREADY_ACKNOWLEDGED = 40060

_logger = logging.getLogger(__name__)


async def acknowledged(interaction: discord.Interaction, *, thinking: bool = False) -> bool:
    """Tell Discord that it has arrived, for which there are three seconds.

    False where Discord tells the person that the bot did not answer: then nothing may be done
    behind their back. Where that cannot be known, it counts as acknowledged.
    """
    try:
        async with writing():
            await interaction.response.defer(ephemeral=thinking, thinking=thinking)
    except (DeliveryFailed, Unreachable) as error:
        if not _is_repeated(error):
            _logger.warning("An interaction came too late to be acknowledged: %s", error)
            return False
    except DeliveryUncertain as error:
        _logger.info("An acknowledgement may be lost: %s", error)
    return True


class EphemeralReplies:
    """`fallback` takes what Discord does not, such as an answer that took over 15 minutes."""

    def __init__(self, fallback: Say) -> None:
        self._fallback = fallback

    async def answer(self, interaction: discord.Interaction, text: str) -> None:
        """In the place where the bot is shown as thinking; without a text, that goes away."""
        first, *others = split(text) or ("",)
        try:
            async with writing():
                if first:
                    await interaction.edit_original_response(content=first)
                else:
                    await interaction.delete_original_response()
        except OllimError as error:
            _logger.info("An answer found nobody waiting for it: %s", error)
            await self._give_back([first, *others])
        else:
            await self._add(interaction, others)

    async def add(self, interaction: discord.Interaction, text: str) -> None:
        """Below the message that was clicked."""
        await self._add(interaction, split(text))

    async def _add(self, interaction: discord.Interaction, pieces: Sequence[str]) -> None:
        for number, piece in enumerate(pieces):
            try:
                async with writing():
                    await interaction.followup.send(piece, ephemeral=True)
            except OllimError as error:
                _logger.info("An answer did not arrive: %s", error)
                await self._give_back(pieces[number:])
                return

    async def _give_back(self, pieces: Sequence[str]) -> None:
        text = "\n".join(pieces)
        if text:
            await self._fallback(text)


def _is_repeated(error: OllimError) -> bool:
    """Whether an earlier try has arrived after all, whose answer was an error."""
    cause = error.__cause__
    return isinstance(cause, discord.HTTPException) and cause.code == _ALREADY_ACKNOWLEDGED


UNKNOWN = "This button is from a message that I no longer know."


class ButtonInteractions:
    def __init__(self, reception: ChatService, fallback: Say) -> None:
        self._reception = reception
        self._asides = EphemeralReplies(fallback)

    async def clicked(self, interaction: discord.Interaction) -> None:
        if await acknowledged(interaction):
            await self._asides.add(interaction, await self._answer(interaction))

    async def _answer(self, interaction: discord.Interaction) -> str:
        ref = "" if interaction.message is None else str(interaction.message.id)
        custom_id = cast("dict[str, Any]", interaction.data or {}).get("custom_id", "")
        try:
            message = await self._reception.by_ref(NAME, ref)
            if message is None:
                return UNKNOWN
            return (await self._reception.click(NAME, message.id, custom_id)).text
        except OllimError as error:
            return str(error)
        except Exception:  # whoever has clicked hears of it, whatever it is
            _logger.exception("A click on %s failed", custom_id)
            return FAILED


# Discord itself waits for three seconds.
PATIENCE = 2.0

_MOST_CHOICES = 25
_LONGEST_CHOICE = 100


@dataclass(frozen=True, slots=True)
class _Call:
    """A command as it came. `focused` is the argument that is being typed."""

    name: str
    given: Mapping[str, str]
    focused: str


class CommandInteractions:
    """Each call returns when all is said, which for a command may take as long as a turn."""

    def __init__(self, reception: ChatService, fallback: Say, patience: float) -> None:
        self._reception = reception
        self._asides = EphemeralReplies(fallback)
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


class InteractionRouter:
    """`fallback` sends the owner, as a message, an answer that Discord no longer takes as one.

    Values for an argument that take longer than `patience` seconds are not proposed.
    """

    def __init__(
        self, reception: ChatService, fallback: Say, *, patience: float = PATIENCE
    ) -> None:
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


_ACTION = "approve"
# The word with which the data of the button ends that says the same.
_ANSWERS: Mapping[str, str] = {"✅": "once", "🔓": "always", "❌": "no"}
# An emoji may come with a mark that asks for its coloured form.
_VARIATIONS = "\ufe0e\ufe0f"


class Reactions:
    """`say` tells the owner what came of an answer, where that is worth a word."""

    def __init__(self, reception: ChatService, say: Say) -> None:
        self._reception = reception
        self._say = say

    async def added(self, ref: str, emoji: str) -> None:
        """The button that says the same is clicked; where there is none, nothing happens."""
        word = _ANSWERS.get(emoji.strip(_VARIATIONS))
        if word is None:
            return
        try:
            message = await self._reception.by_ref(NAME, ref)
            button = _saying(word, message)
            if message is None or button is None:
                return
            answer = await self._reception.click(NAME, message.id, button.custom_id)
        except OllimError as error:
            _logger.warning("A reaction could not be taken: %s", error)
            await self._say(str(error))
        else:
            if answer.text:
                await self._say(answer.text)


def _saying(word: str, message: ChatMessage | None) -> Button | None:
    buttons = message.card.buttons if message and message.card else ()
    for each in buttons:
        if each.action == _ACTION and not each.is_used and each.data.endswith(f":{word}"):
            return each
    return None
