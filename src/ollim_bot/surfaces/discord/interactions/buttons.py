"""Buttons of cards on Discord: how they stand there, and what a click does."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import discord
from discord.ui import Button as Pressable
from discord.ui import DynamicItem, Item, View

from ollim_bot.chat import Reception
from ollim_bot.domain.cards import Button, ButtonStyle
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.discord.channel import NAME
from ollim_bot.surfaces.discord.interactions.asides import (
    FAILED,
    Asides,
    Asked,
    Fallback,
    acknowledged,
)

UNKNOWN = "This button is from a message that I no longer know."

_MOST_BUTTONS = 25
_LONGEST_LABEL = 80
_STYLES: Mapping[ButtonStyle, discord.ButtonStyle] = {
    ButtonStyle.PRIMARY: discord.ButtonStyle.primary,
    ButtonStyle.SECONDARY: discord.ButtonStyle.secondary,
    ButtonStyle.SUCCESS: discord.ButtonStyle.success,
    ButtonStyle.DANGER: discord.ButtonStyle.danger,
}

_logger = logging.getLogger(__name__)


class _Act(DynamicItem[Pressable[View]], template=r"act:(?P<action>[a-z_]+):(?P<data>.*)"):
    """Of a kind that discord.py keeps nothing for. It does nothing itself: a click comes as an
    interaction too, whatever was sent before the last start."""

    @classmethod
    async def from_custom_id(cls, _: Asked, item: Item[Any], __: re.Match[str], /) -> _Act:
        return cls(cast("Pressable[View]", item))


def view_of(buttons: Sequence[Button]) -> View | None:
    """As many as Discord takes, five in a row; None if there are none."""
    if not buttons:
        return None
    view = View(timeout=None)
    for each in buttons[:_MOST_BUTTONS]:
        view.add_item(_Act(_pressable(each)))
    return view


class ButtonInteractions:
    def __init__(self, reception: Reception, owner: int, fallback: Fallback) -> None:
        self._reception = reception
        self._owner = owner
        self._asides = Asides(fallback)

    async def clicked(self, asked: Asked) -> None:
        if await acknowledged(asked) and asked.user.id == self._owner:
            await self._asides.add(asked, await self._answer(asked))

    async def _answer(self, asked: Asked) -> str:
        ref = "" if asked.message is None else str(asked.message.id)
        custom_id = cast("dict[str, Any]", asked.data or {}).get("custom_id", "")
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


def _pressable(button: Button) -> Pressable[View]:
    label = button.label
    return Pressable(
        label=label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…",
        style=_STYLES[button.style],
        custom_id=button.custom_id,
        disabled=button.is_used,
    )
