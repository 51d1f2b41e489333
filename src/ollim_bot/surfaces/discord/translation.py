"""Translates between Discord's objects and our values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, cast

import discord
from discord.ui import Button as Pressable
from discord.ui import DynamicItem, Item, View

from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.store.steps import leave_notice, new_notice
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.surface_state import DiscordState
from ollim_bot.surfaces.discord.rendering import (
    Forwarded,
    ReceivedMessage,
    RemoteFile,
    without_small,
)

_COLORS: Mapping[Color, discord.Color] = {
    Color.BLUE: discord.Color.blue(),
    Color.GREEN: discord.Color.green(),
    Color.RED: discord.Color.red(),
    Color.YELLOW: discord.Color.yellow(),
    Color.PURPLE: discord.Color.purple(),
}
_MOST_ROWS = 5
_STYLES: Mapping[ButtonStyle, discord.ButtonStyle] = {
    ButtonStyle.PRIMARY: discord.ButtonStyle.primary,
    ButtonStyle.SECONDARY: discord.ButtonStyle.secondary,
    ButtonStyle.SUCCESS: discord.ButtonStyle.success,
    ButtonStyle.DANGER: discord.ButtonStyle.danger,
}
# The kinds that a person types; Discord or an application makes all others.
_TYPED = (discord.MessageType.default, discord.MessageType.reply)


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
    """A button without state in discord.py, so that it works after a restart.

    It does nothing itself: every click also arrives as an interaction.
    """

    @classmethod
    async def from_custom_id(
        cls, _: discord.Interaction, item: Item[Any], __: re.Match[str], /
    ) -> _StatelessButton:
        return cls(cast("Pressable[View]", item))


def view_of(buttons: Sequence[Button]) -> View | None:
    """The buttons of a card; None if it has none.

    Each line of the card has a row, if Discord has enough rows; else there are five in a row.
    """
    if not buttons:
        return None
    view = View(timeout=None)
    lines = list(dict.fromkeys(each.line for each in buttons))
    are_rows = 1 < len(lines) <= _MOST_ROWS
    for each in buttons:
        button: Pressable[View] = Pressable(
            label=each.label,
            style=_STYLES[each.style],
            custom_id=each.custom_id,
            disabled=each.is_used,
            row=lines.index(each.line) if are_rows else None,
        )
        view.add_item(_StatelessButton(button))
    return view


def seen(message: discord.Message, owner_id: int, our_id: int) -> ReceivedMessage | None:
    """Read a message; None for system messages, such as the note that a message was pinned."""
    if message.is_system():
        return None
    is_ours = message.author.id == our_id
    reply_to, quote, quote_forwarded = _replied(message)
    copies = [file for each in message.message_snapshots for file in each.attachments]
    files = [*message.attachments, *copies]
    return ReceivedMessage(
        ref=str(message.id),
        at=message.created_at,
        is_owners=message.author.id == owner_id and _is_typed(message),
        is_ours=is_ours,
        # People send no embeds: those of their messages are previews with words of others.
        text=_words_of(message) if is_ours or _is_forward(message) else message.content,
        nonce=str(message.nonce or ""),
        is_edited=message.edited_at is not None,
        # The preview of a link is an embed of another type.
        has_card=any(each.type == "rich" for each in message.embeds),
        has_buttons=any(
            isinstance(each, discord.Button) and not each.disabled
            for row in message.components
            if isinstance(row, discord.ActionRow)
            for each in row.children
        ),
        marks=frozenset(str(each.emoji) for each in message.reactions if each.me),
        files=tuple(RemoteFile(file.filename, file.size, file.url) for file in files),
        reply_to=reply_to,
        quote=quote,
        forwarded=_forwarded(message),
        quote_forwarded=quote_forwarded,
    )


def _is_typed(message: discord.Message) -> bool:
    """Whether its author sent it by hand, forwarded or not."""
    by_program = message.webhook_id or message.application_id or message.interaction_metadata
    return message.type in _TYPED and not by_program


def _is_forward(message: discord.Message) -> bool:
    reference, flags = message.reference, message.flags
    is_plain = reference is None or reference.type is discord.MessageReferenceType.reply
    is_copy = flags.forwarded or flags.is_crossposted
    return bool(message.message_snapshots) or is_copy or not is_plain


def _forwarded(message: discord.Message) -> Forwarded | None:
    if not _is_forward(message):
        return None
    at = next((each.created_at for each in message.message_snapshots), None)
    reference, place = message.reference, "another conversation"
    if reference is not None and reference.channel_id == message.channel.id:
        place = "this conversation"
    elif reference is not None and reference.guild_id is not None:
        place = "a server"
    return Forwarded(place, at)


def _words_of(message: discord.Message) -> str:
    """All words of a forward; of another message its text, or the words of its first embed."""
    if _is_forward(message):
        words = [*_all_words(message)]
        words += [word for each in message.message_snapshots for word in _all_words(each)]
        return "\n\n".join(filter(None, words))
    if message.content:
        return message.content
    return _embed_words(message.embeds[0]) if message.embeds else ""


def _all_words(part: discord.Message | discord.MessageSnapshot) -> Iterator[str]:
    yield part.content
    yield from (shortened(_embed_words(each), 500) for each in part.embeds)


def _embed_words(embed: discord.Embed) -> str:
    """The words in the form of `Card.text`."""
    lines = [embed.title, embed.description]
    lines += [f"{each.name}: {each.value}" for each in embed.fields]
    return "\n".join(line for line in lines if line)


def _replied(message: discord.Message) -> tuple[str | None, str, Forwarded | None]:
    """The id of the message that it replies to, its words, and whether it was forwarded."""
    reference = message.reference
    if reference is None or _is_forward(message):
        return None, "", None
    ref = None if reference.message_id is None else str(reference.message_id)
    found = reference.resolved
    if not isinstance(found, discord.Message):
        return ref, "", None
    return ref, without_small(_words_of(found)), _forwarded(found)


_Change = Callable[[DiscordState], DiscordState]


class DiscordFacts:
    """Changes return at once; `run` writes them to disk, all pending ones together.

    Reading gives the newest value, written or not, and raises `StorageError`. A crash may lose the
    last changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # One change per key, so that changes do not pile up while the disk refuses writes.
        self._unwritten: dict[str, _Change] = {}
        self._newest = "0"
        self._is_wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    async def last_seen(self) -> str | None:
        return (await self._now()).last_seen

    def saw(self, ref: str) -> None:
        """Note that this message, and all before it, need not be read again."""
        newest = self._newest = max(self._newest, ref, key=int)
        self._note("seen", lambda state: state.seen(newest))

    async def passed_over(self, missed: Sequence[ReceivedMessage]) -> Set[str]:
        """The ids of the messages that the bot may have answered before it lost its newest state.

        They are told in one notice, once, and count as seen. Raises `StorageError`.
        """
        until = (await self._now()).told_until
        if until is None:
            return frozenset()
        old = [seen for seen in missed if int(seen.ref) <= int(until)]
        notice = new_notice(said_since(old), key=f"said until {until}", for_reminder=True)

        def step(tx: Transaction) -> None:
            if old:
                leave_notice(tx, notice, tx.now)
            tx.discord.change(lambda state: state.having_told())

        await self._store.transact(step)
        return {seen.ref for seen in old}

    async def commands_hash(self) -> str | None:
        return (await self._now()).commands

    def keep_commands_hash(self, mark: str) -> None:
        self._note("commands", lambda state: state.with_commands(mark))

    async def drafts(self) -> tuple[str, ...]:
        return (await self._now()).drafts

    def add_draft(self, ref: str) -> None:
        self._note(f"draft {ref}", lambda state: state.with_draft(ref))

    def remove_draft(self, ref: str) -> None:
        self._note(f"draft {ref}", lambda state: state.without_draft(ref))

    async def run(self) -> None:
        """Run until cancelled. A failed write is repeated with the next change."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self.flush()

    async def flush(self) -> bool:
        """Write the changes; True if all of them are on disk."""
        async with self._one_at_a_time:
            changes = dict(self._unwritten)
            if not changes:
                return True
            step = partial(_changed, changes=tuple(changes.values()))
            keeping = self._store.transact(lambda tx: tx.discord.change(step))
            if not await unless_refused("What is known of Discord could not be kept", keeping):
                return False
            for about, change in changes.items():
                if self._unwritten.get(about) is change:
                    del self._unwritten[about]
            return True

    async def _now(self) -> DiscordState:
        state = await self._store.read(lambda tx: tx.discord.get())
        return _changed(state, tuple(self._unwritten.values()))

    def _note(self, about: str, change: _Change) -> None:
        self._unwritten.pop(about, None)
        self._unwritten[about] = change
        self._is_wanted.set()


def said_since(messages: Sequence[ReceivedMessage]) -> str:
    shown = [f"“{_words(seen)}”" for seen in messages[-10:]]
    if more := len(messages) - len(shown):
        shown.insert(0, f"{more} more")
    listed = "; ".join(shown)
    return (
        f"Since this copy you wrote on Discord: {listed}. None of it is answered again. Ask again "
        "for what is still wanted."
    )


def _words(seen: ReceivedMessage) -> str:
    """The owner's words. Words of others are not quoted: the agent reads this outside a fence."""
    if seen.forwarded is not None:
        return "a forwarded message"
    line = " ".join(seen.text.split()) or ", ".join(file.name for file in seen.files)
    return shortened(line, 80)


def _changed(state: DiscordState, changes: tuple[_Change, ...]) -> DiscordState:
    for change in changes:
        state = change(state)
    return state
