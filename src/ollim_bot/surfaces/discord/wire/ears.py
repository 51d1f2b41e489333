"""Hears all that discord.py tells, and passes on what the owner does in the direct messages."""

from __future__ import annotations

import logging
from typing import Protocol

import aiohttp
import discord

from ollim_bot.errors import OllimError
from ollim_bot.surfaces.discord.channel import Seen
from ollim_bot.surfaces.discord.wire.dm import Wire
from ollim_bot.surfaces.discord.wire.forms import seen
from ollim_bot.surfaces.discord.wire.refusals import writing

NOT_AUTHORIZED = "You are not authorized to use this bot."
ELSEWHERE = "I answer in our direct messages only."

# What discord.py warns of whenever a client is made, though nothing of that is needed here.
_NO_NEWS = ("Guilds intent seems", "PyNaCl is not installed", "davey is not installed")
_READY_PAUSE = 0.05
_LONGEST_WAIT_IN_LINE = 30.0

_logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Is told what the owner does in the direct messages with the bot, and nothing else.

    Each call is a task of its own. They begin in the order in which things happened, so what has to
    keep that order must take its place before it waits for anything.
    """

    async def ready(self, wire: Wire, *, is_first: bool) -> None:
        """A connection was made, or Discord begins anew: what happened before has to be read.

        Comes before all else. `is_first` is for the first time of each connection.
        """

    async def disconnected(self) -> None:
        """The socket is gone. What is told next is of the time before `resumed` or `ready`."""

    async def resumed(self) -> None:
        """The connection was lost for a while, and all that happened meanwhile has been told."""

    async def message(self, message: Seen) -> None: ...

    async def edited(self, ref: str, text: str) -> None:
        """A message of the owner's."""

    async def deleted(self, ref: str) -> None:
        """A message, whoever wrote it: Discord does not say."""

    async def reaction(self, ref: str, emoji: str) -> None:
        """The owner has put it below a message."""

    async def interaction(self, interaction: discord.Interaction) -> None: ...


class Ears(discord.Client):
    """The client. `wire` has to be set after the login; until then, nothing is passed on."""

    def __init__(self, listener: Listener, trace: aiohttp.TraceConfig) -> None:
        for name in ("discord.client", "discord.state"):
            logging.getLogger(name).addFilter(_is_news)
        intents = discord.Intents.none()
        intents.dm_messages = True
        intents.dm_reactions = True
        super().__init__(
            intents=intents,
            http_trace=trace,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=_READY_PAUSE,
            max_ratelimit_timeout=_LONGEST_WAIT_IN_LINE,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self.wire: Wire | None = None
        self.has_begun = False
        self._listener = listener

    async def on_connect(self) -> None:
        """Told by discord.py before any message, unlike `on_ready`."""
        if self.wire is not None:
            is_first, self.has_begun = not self.has_begun, True
            await self._listener.ready(self.wire, is_first=is_first)

    async def on_disconnect(self) -> None:
        await self._listener.disconnected()

    async def on_resumed(self) -> None:
        await self._listener.resumed()

    async def on_message(self, message: discord.Message) -> None:
        found = self._owners(message)
        if found is not None:
            await self._listener.message(found)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Discord tells of the preview of a link in the same way: nobody has edited that.

        What was forwarded cannot be edited, and nobody's words become another's by an edit.
        """
        found = self._owners(event.message)
        if found is not None and found.is_edited and found.forwarded is None:
            await self._listener.edited(found.ref, found.text)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        if self._is_ours(event.channel_id):
            await self._listener.deleted(str(event.message_id))

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        if self._is_ours(event.channel_id) and self._is_owner(event.user_id):
            await self._listener.reaction(str(event.message_id), str(event.emoji))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if not self._is_owner(interaction.user.id):
            await _decline(interaction, NOT_AUTHORIZED)
        elif not self._is_ours(interaction.channel_id):
            await _decline(interaction, ELSEWHERE)
        else:
            await self._listener.interaction(interaction)

    def _owners(self, message: discord.Message) -> Seen | None:
        if self.wire is None or not self._is_ours(message.channel.id):
            return None
        found = seen(message, self.wire.owner, self.wire.us)
        return found if found is not None and found.is_owners else None

    def _is_ours(self, channel_id: int | None) -> bool:
        return self.wire is not None and channel_id == self.wire.dm

    def _is_owner(self, user_id: int) -> bool:
        return self.wire is not None and user_id == self.wire.owner


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_NO_NEWS)


async def _decline(interaction: discord.Interaction, sentence: str) -> None:
    """Only a command is answered: a button of somebody else's does nothing at all."""
    if interaction.type is not discord.InteractionType.application_command:
        return
    try:
        async with writing():
            await interaction.response.send_message(sentence, ephemeral=True)
    except OllimError as error:
        _logger.info("A refusal did not arrive: %s", error)
