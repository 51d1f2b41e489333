"""What happens on Discord, handed to those whom it concerns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import discord

from ollim_bot.chat import Reception
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.channel import NAME, Channel, Seen
from ollim_bot.surfaces.discord.delivery.courier import DiscordCourier
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.input.catch_up import CatchUp
from ollim_bot.surfaces.discord.input.eyes import Eyes
from ollim_bot.surfaces.discord.input.inbound import Inbound
from ollim_bot.surfaces.discord.interactions.command_menu import sync
from ollim_bot.surfaces.discord.interactions.door import Interactions
from ollim_bot.surfaces.discord.interactions.reactions import Reactions
from ollim_bot.surfaces.discord.turns.orphans import Orphans
from ollim_bot.surfaces.discord.wire.dm import Wire

_MEANWHILE = "The page goes on; what is said meanwhile will arrive there later."

_logger = logging.getLogger(__name__)


class Service:
    """A `Listener`, for as long as the surface runs, whatever becomes of its connections.

    `say` brings a sentence to the owner that is in no log.
    """

    def __init__(
        self,
        channel: Channel,
        reception: Reception,
        courier: DiscordCourier,
        eyes: Eyes,
        facts: DiscordFacts,
        errands: Errands,
        clock: Clock,
        folder: Path,
        *,
        is_connected: asyncio.Event,
        reconnect: Callable[[], Awaitable[None]],
        say: Callable[[str], Awaitable[None]],
    ) -> None:
        self._channel = channel
        self._reception = reception
        self._courier = courier
        self._facts = facts
        self._errands = errands
        self._clock = clock
        self._is_connected = is_connected
        self._say = say
        self._inbound = Inbound(channel, reception, eyes, facts, clock, folder)
        self._catch_up = CatchUp(
            channel,
            reception,
            self._inbound,
            eyes,
            facts,
            clock,
            reconnect=reconnect,
            changed=self._changed,
        )
        self._reactions = Reactions(reception, say)
        self._interactions: Interactions | None = None
        self._has_menu = False
        self._orphans = Orphans(channel, errands, facts, courier, self._is_in_log)
        self._left_behind: tuple[str, ...] = ()
        self._has_closed = False

    async def run(self) -> None:
        """Until cancelled."""
        try:
            self._left_behind = await self._facts.drafts()
        except StorageError:
            _logger.warning("What was being shown before could not be read", exc_info=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._inbound.run())
            group.create_task(self._catch_up.run())

    async def lost(self, reason: str, *, is_again: bool) -> None:
        """The connection is gone, or could not be had. Only the first of many is worth no word."""
        self._catch_up.lost()
        if is_again:
            await self._reception.trouble(f"{reason} {_MEANWHILE}")

    async def ready(self, wire: Wire, *, is_first: bool) -> None:
        if is_first:
            await self._mark_beginning(wire.newest)
        self._catch_up.ready()
        self._is_connected.set()
        if is_first:
            self._interactions = Interactions(self._reception, wire.owner, self._say)
            self._errands.send_off(self._put_up_menu(wire.client))
            self._close_orphans(wire.newest)
        await self._reception.trouble("")

    async def disconnected(self) -> None:
        self._catch_up.lost()

    async def resumed(self) -> None:
        self._catch_up.ready()

    async def message(self, message: Seen) -> None:
        self._inbound.message(message)

    async def edited(self, ref: str, text: str) -> None:
        self._inbound.edited(ref, text)

    async def deleted(self, ref: str) -> None:
        self._inbound.deleted(ref)

    async def reaction(self, ref: str, emoji: str) -> None:
        await self._reactions.added(ref, emoji, is_owner=True)

    async def interaction(self, interaction: discord.Interaction) -> None:
        if self._interactions is not None:
            await self._interactions.arrived(interaction)

    async def _changed(self, message: ChatMessage) -> None:
        self._courier.changed(message)

    async def _put_up_menu(self, client: discord.Client) -> None:
        if self._has_menu:
            return
        try:
            remembered = await self._facts.commands_hash()
        except StorageError:  # then it is put up again, which hurts nobody
            remembered = None
        facts, commands = self._facts, self._reception.commands
        await sync(client, commands, self._clock, remembered, facts.keep_commands_hash)
        self._has_menu = True

    async def _mark_beginning(self, newest: int) -> None:
        """At the first start of all: what is said from now on is ours to answer, come what may."""
        try:
            if await self._facts.last_seen() is None:
                self._facts.saw(str(newest))
                await self._facts.flush()
        except StorageError:
            _logger.warning("What was seen before could not be read", exc_info=True)

    def _close_orphans(self, newest: int) -> None:
        """Once: what stands there of a later connection is of this life."""
        if not self._has_closed:
            self._has_closed = True
            self._errands.send_off(self._orphans.close(self._left_behind, newest))

    async def _is_in_log(self, ref: str) -> bool:
        return self._courier.knows(ref) or await self._reception.by_ref(NAME, ref) is not None
