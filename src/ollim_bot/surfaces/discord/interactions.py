"""Slash commands, their menu, buttons and reactions of the owner."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import discord
from discord import InteractionType
from discord.app_commands import Choice
from discord.ui import Modal, TextInput

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    OllimError,
    Unreachable,
    WrongInput,
)
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.commands import LINK, CommandSpec
from ollim_bot.kernel.values.ports import ChatService
from ollim_bot.kernel.values.taint import GO_ON
from ollim_bot.surfaces.discord.errors import writing
from ollim_bot.surfaces.discord.rendering import NAME
from ollim_bot.surfaces.discord.split import shortened, split_notice

# Sends the owner a sentence that is not recorded in the message log.
SendNotice = Callable[[str], Awaitable[None]]

FAILED = "The bot could not do that. Its log says why."

_ALREADY_ACKNOWLEDGED = 40060

UNKNOWN = "This button is from a message that I no longer know."
# Discord itself waits three seconds.
COMPLETION_SECONDS = 2.0
# How long to look for the question of a button, and how long Discord keeps a form.
_QUESTION_SECONDS = 1.0
_FORM_SECONDS = 900.0
_LONGEST_QUESTION = 45
_LONGEST_ANSWER = 200
_MOST_CHOICES = 25
_LONGEST_CHOICE = 100
_ACTION = "approve"
_GO_ON = f"act:{GO_ON}:"
# The last word in the data of the button that the emoji stands for.
_ANSWERS: Mapping[str, str] = {"✅": "once", "🔓": "always", "❌": "no"}
# Variation selectors, which Discord may add to an emoji.
_VARIATIONS = "\ufe0e\ufe0f"

_logger = logging.getLogger(__name__)


async def acknowledge(interaction: discord.Interaction, *, thinking: bool = False) -> bool:
    """Acknowledge the interaction, for which Discord allows three seconds.

    False if Discord shows the owner that the bot did not answer: the action must then not be
    carried out. An unknown outcome counts as acknowledged.
    """
    try:
        async with writing():
            await interaction.response.defer(ephemeral=thinking, thinking=thinking)
    except (DeliveryFailed, Unreachable) as error:
        # An earlier try may have arrived although its answer was an error.
        cause = error.__cause__
        if getattr(cause, "code", None) != _ALREADY_ACKNOWLEDGED:
            _logger.warning("An interaction came too late to be acknowledged: %s", error)
            return False
    except DeliveryUncertain as error:
        _logger.info("An acknowledgement may be lost: %s", error)
    return True


class InteractionRouter:
    """Answers each interaction of the owner: commands, clicks, forms, and reactions to approvals.

    Only the owner sees the answers. `fallback` sends what Discord no longer accepts as an answer,
    such as one after more than 15 minutes. Argument values that take longer than
    `completion_seconds` seconds are not proposed.
    """

    def __init__(
        self,
        reception: ChatService,
        fallback: SendNotice,
        *,
        completion_seconds: float = COMPLETION_SECONDS,
    ) -> None:
        self._reception = reception
        self._fallback = fallback
        self._completion_seconds = completion_seconds

    async def arrived(self, interaction: discord.Interaction) -> None:
        """Answer one interaction; returns when it is answered, which may take as long as a turn."""
        if interaction.type is InteractionType.application_command:
            await self._command(interaction)
        elif interaction.type is InteractionType.autocomplete:
            await self._complete(interaction)
        elif interaction.type is InteractionType.component:
            button = await self._asking(interaction)
            if button is not None:
                await _open_form(interaction, button)
            elif await acknowledge(interaction):
                await self._add(interaction, split_notice(await self._answer(interaction, "")))
        elif interaction.type is InteractionType.modal_submit and await acknowledge(interaction):
            words = " ".join(_words_in(_data(interaction)))
            await self._add(interaction, split_notice(await self._answer(interaction, words)))

    async def _command(self, interaction: discord.Interaction) -> None:
        if not await acknowledge(interaction, thinking=True):
            return
        call = _call(interaction)
        try:
            specs = (spec for spec in self._reception.commands if spec.name == call.name)
            line = next((line_of(spec, call.given) for spec in specs), f"/{call.name}")
            text = (await self._reception.command(NAME, line)).text
        except OllimError as error:
            text = str(error)
        except Exception:  # otherwise Discord would show the bot as thinking for ever
            _logger.exception("The command /%s failed", call.name)
            text = FAILED
        # Its links to messages lead to them in this conversation.
        place = f"https://discord.com/channels/@me/{interaction.channel_id}/"
        await self._end_thinking(interaction, text.replace(f"]({LINK}", f"]({place}"))

    async def _end_thinking(self, interaction: discord.Interaction, text: str) -> None:
        """Replace the `thinking` notice with the text; remove the notice if the text is empty."""
        first, *others = split_notice(text) or ("",)
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

    async def _add(self, interaction: discord.Interaction, pieces: Sequence[str]) -> None:
        """Add the pieces below the message that was clicked, or below the answer so far."""
        for number, piece in enumerate(pieces):
            try:
                async with writing():
                    await interaction.followup.send(piece, ephemeral=True)
            except OllimError as error:
                _logger.info("An answer did not arrive: %s", error)
                await self._give_back(pieces[number:])
                return

    async def _give_back(self, pieces: Sequence[str]) -> None:
        if text := "\n".join(pieces):
            await self._fallback(text)

    async def _complete(self, interaction: discord.Interaction) -> None:
        """Propose values for the argument that is being typed."""
        call, values = _call(interaction), list[str]()
        typed = call.given.get(call.focused, "")
        try:
            async with asyncio.timeout(self._completion_seconds):
                found = await self._reception.completions(call.name, call.focused, typed)
            values = [each for each in found if 0 < len(each) <= _LONGEST_CHOICE][:_MOST_CHOICES]
        except (OllimError, TimeoutError) as error:
            _logger.info("No proposals for /%s: %s", call.name, error)
        choices = [Choice(name=each, value=each) for each in values]
        try:
            async with writing():
                await interaction.response.autocomplete(choices)
        except OllimError as error:
            _logger.debug("Proposals came too late: %s", error)

    async def _asking(self, interaction: discord.Interaction) -> Button | None:
        """The clicked button if it asks; a slow disk must not delay the acknowledgement."""
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                message = await self._reception.by_ref(NAME, _ref(interaction))
        except (OllimError, TimeoutError):
            return None
        buttons = message.card.buttons if message and message.card else ()
        custom_id = _data(interaction).get("custom_id")
        return next((one for one in buttons if one.asks and one.custom_id == custom_id), None)

    async def _answer(self, interaction: discord.Interaction, words: str) -> str:
        custom_id = _data(interaction).get("custom_id", "")
        try:
            message = await self._reception.by_ref(NAME, _ref(interaction))
            has_card = message is not None and message.card is not None
            if custom_id.startswith(_GO_ON) and not has_card:
                # The button of a running answer, which is not in the log.
                return (await self._reception.go_on(custom_id.removeprefix(_GO_ON))).text
            if message is None:
                return UNKNOWN
            answer = await self._reception.click(NAME, message.id, custom_id, words)
            return "" if answer.is_shown else answer.text
        except OllimError as error:
            return str(error)
        except Exception:  # the owner must get an answer to every click
            _logger.exception("A click on %s failed", custom_id)
            return FAILED

    async def reacted(self, ref: str, emoji: str) -> None:
        """Click the button of an approval card that the emoji stands for, if there is one."""
        word = _ANSWERS.get(emoji.strip(_VARIATIONS))
        if word is None:
            return
        try:
            message = await self._reception.by_ref(NAME, ref)
            buttons = message.card.buttons if message and message.card else ()
            open_ = (one for one in buttons if one.action == _ACTION and not one.is_used)
            button = next((one for one in open_ if one.data.endswith(f":{word}")), None)
            if message is None or button is None:
                return
            answer = await self._reception.click(NAME, message.id, button.custom_id)
        except OllimError as error:
            _logger.warning("A reaction could not be taken: %s", error)
            await self._fallback(str(error))
        else:
            if answer.text:
                await self._fallback(answer.text)


async def _open_form(interaction: discord.Interaction, button: Button) -> None:
    # The label of the button without its dots.
    form = Modal(title=button.label.rstrip("…"), timeout=_FORM_SECONDS, custom_id=button.custom_id)
    label = shortened(button.asks, _LONGEST_QUESTION)
    form.add_item(TextInput(label=label, max_length=_LONGEST_ANSWER))
    try:
        async with writing():
            await interaction.response.send_modal(form)
    except OllimError as error:
        _logger.warning("A question could not be asked: %s", error)


def _ref(interaction: discord.Interaction) -> str:
    return "" if interaction.message is None else str(interaction.message.id)


def _data(interaction: discord.Interaction) -> dict[str, Any]:
    return cast("dict[str, Any]", interaction.data or {})


def _words_in(part: Mapping[str, Any]) -> Iterator[str]:
    """The words of all fields of a form."""
    if part.get("value"):
        yield str(part["value"])
    for each in part.get("components", ()):
        yield from _words_in(each)
    if "component" in part:
        yield from _words_in(part["component"])


@dataclass(frozen=True, slots=True)
class _Call:
    """A command as Discord sent it. `focused` is the argument that is being typed."""

    name: str
    given: Mapping[str, str]
    focused: str


def line_of(spec: CommandSpec, given: Mapping[str, str]) -> str:
    """Write the arguments as a typed line that is parsed back to the same arguments.

    Raises `WrongInput` if there is no such line.
    """
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
    data = _data(interaction)
    options = data.get("options", [])
    given = {each["name"]: str(each.get("value", "")) for each in options}
    focused = next((each["name"] for each in options if each.get("focused")), "")
    return _Call(data.get("name", ""), given, focused)


_SLASH_COMMAND = 1
_STRING = 3
_BOT_DM = 1
_LONGEST_ABOUT = 100
# Arguments with proposals although the command lists no choices: their values change.
_ALSO_COMPLETED = frozenset({("resume", "id")})


def payload(specs: Sequence[CommandSpec]) -> list[dict[str, Any]]:
    """The menu in Discord's form. Discord proposes argument values; the core checks them."""
    return [
        {
            "type": _SLASH_COMMAND,
            "name": spec.name,
            "description": shortened(spec.about, _LONGEST_ABOUT),
            "options": [
                {
                    "type": _STRING,
                    "name": one.name,
                    "description": shortened(one.about, _LONGEST_ABOUT),
                    "required": one.is_required,
                    "autocomplete": bool(one.choices) or (spec.name, one.name) in _ALSO_COMPLETED,
                }
                # Discord demands the required ones first.
                for one in sorted(spec.arguments, key=lambda each: not each.is_required)
            ],
            "contexts": [_BOT_DM],
        }
        for spec in specs
    ]


def fingerprint(menu: Sequence[Mapping[str, Any]], application: int) -> str:
    """A hash of the menu and its application."""
    text = json.dumps([application, *menu], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


async def sync(
    client: discord.Client,
    specs: Sequence[CommandSpec],
    clock: Clock,
    remembered: str | None,
    remember: Callable[[str], None],
) -> None:
    """Upload the menu unless its fingerprint equals the one that is `remembered`.

    The client must be logged in. Retries until Discord accepts the menu or the client is closed; a
    refusal ends the call.
    """
    application = client.application_id
    assert application is not None, "the client is not logged in"
    menu = payload(specs)
    mark = fingerprint(menu, application)
    if mark == remembered:
        return
    async for _ in Backoff(clock, 60.0, 3600.0):
        if client.is_closed():
            return
        try:
            async with writing():
                await client.http.bulk_upsert_global_commands(application, menu)
        except DeliveryFailed as error:
            _logger.error("Discord refused the slash commands: %s", error)
            return
        except (Unreachable, DeliveryUncertain) as error:
            _logger.warning("The slash commands are not at Discord yet: %s", error)
        else:
            remember(mark)
            return
