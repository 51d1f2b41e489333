"""Messages in the forms that discord.py gives and takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import discord
from discord.ui import Button as Pressable
from discord.ui import DynamicItem, Item, View

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.surfaces.discord.channel import RemoteFile, Seen
from ollim_bot.surfaces.discord.words.small_text import without_small

_COLORS: Mapping[Color, discord.Color] = {
    Color.BLUE: discord.Color.blue(),
    Color.GREEN: discord.Color.green(),
    Color.RED: discord.Color.red(),
    Color.YELLOW: discord.Color.yellow(),
    Color.PURPLE: discord.Color.purple(),
}
_STYLES: Mapping[ButtonStyle, discord.ButtonStyle] = {
    ButtonStyle.PRIMARY: discord.ButtonStyle.primary,
    ButtonStyle.SECONDARY: discord.ButtonStyle.secondary,
    ButtonStyle.SUCCESS: discord.ButtonStyle.success,
    ButtonStyle.DANGER: discord.ButtonStyle.danger,
}


def embed_of(card: Card, footer: str) -> discord.Embed:
    embed = discord.Embed(
        title=card.title, description=card.description or None, color=_COLORS[card.color]
    )
    for each in card.fields:
        embed.add_field(name=each.name, value=each.value, inline=each.inline)
    if footer:
        embed.set_footer(text=footer)
    return embed


class _StatelessButton(
    DynamicItem[Pressable[View]], template=r"act:(?P<action>[a-z_]+):(?P<data>.*)"
):
    """A button that discord.py keeps no memory of, so that it works after a restart too.

    It does nothing itself: every click also arrives as an interaction.
    """

    @classmethod
    async def from_custom_id(
        cls, _: discord.Interaction, item: Item[Any], __: re.Match[str], /
    ) -> _StatelessButton:
        return cls(cast("Pressable[View]", item))


def view_of(buttons: Sequence[Button]) -> View | None:
    """The buttons of a card that fits, five in a row; None if it has none."""
    if not buttons:
        return None
    view = View(timeout=None)
    for each in buttons:
        button: Pressable[View] = Pressable(
            label=each.label,
            style=_STYLES[each.style],
            custom_id=each.custom_id,
            disabled=each.is_used,
        )
        view.add_item(_StatelessButton(button))
    return view


def seen(message: discord.Message, owner_id: int, our_id: int) -> Seen | None:
    """None for what nobody wrote, such as the note that a message was pinned."""
    if message.is_system():
        return None
    reply_to, quote = _replied(message)
    return Seen(
        ref=str(message.id),
        at=message.created_at,
        is_owners=message.author.id == owner_id and message.webhook_id is None,
        is_ours=message.author.id == our_id,
        text=words_of(message),
        nonce=str(message.nonce or ""),
        is_edited=message.edited_at is not None,
        # The preview of a link is an embed too, of another type.
        has_card=any(each.type == "rich" for each in message.embeds),
        has_buttons=_has_buttons(message),
        marks=frozenset(str(each.emoji) for each in message.reactions if each.me),
        files=_files(message),
        reply_to=reply_to,
        quote=quote,
    )


def words_of(message: discord.Message) -> str:
    """Those of what was forwarded or of the first embed, where it has none of its own."""
    if message.content:
        return message.content
    for forwarded in message.message_snapshots:
        if forwarded.content:
            return forwarded.content
    return _embed_words(message.embeds[0]) if message.embeds else ""


def _embed_words(embed: discord.Embed) -> str:
    """As `Card.text` has them."""
    lines = [embed.title, embed.description]
    lines += [f"{each.name}: {each.value}" for each in embed.fields]
    return "\n".join(line for line in lines if line)


def _replied(message: discord.Message) -> tuple[str | None, str]:
    reference = message.reference
    if reference is None or reference.type is not discord.MessageReferenceType.reply:
        return None, ""
    found = reference.resolved
    words = without_small(words_of(found)) if isinstance(found, discord.Message) else ""
    return None if reference.message_id is None else str(reference.message_id), words


def _has_buttons(message: discord.Message) -> bool:
    rows = (row for row in message.components if isinstance(row, discord.ActionRow))
    buttons = (each for row in rows for each in row.children if isinstance(each, discord.Button))
    return any(not each.disabled for each in buttons)


def _files(message: discord.Message) -> tuple[RemoteFile, ...]:
    forwarded = [file for each in message.message_snapshots for file in each.attachments]
    return tuple(
        RemoteFile(file.filename, file.size, file.url)
        for file in [*message.attachments, *forwarded]
    )
