"""What happens on Discord, handed to those whom it concerns."""

from __future__ import annotations

import asyncio

import discord

from ollim_bot.chat import Reception
from ollim_bot.surfaces.discord.channel import Seen
from ollim_bot.surfaces.discord.input.catch_up import CatchUp
from ollim_bot.surfaces.discord.input.inbound import Inbound
from ollim_bot.surfaces.discord.interactions.asides import Say
from ollim_bot.surfaces.discord.interactions.door import Interactions
from ollim_bot.surfaces.discord.interactions.reactions import Reactions
from ollim_bot.surfaces.discord.start_up import StartUp
from ollim_bot.surfaces.discord.wire.dm import Wire

_MEANWHILE = "The page goes on; what is said meanwhile will arrive there later."


class Service:
    """A `Listener` that lives as long as the surface runs, through many connections."""

    def __init__(
        self,
        reception: Reception,
        inbound: Inbound,
        catch_up: CatchUp,
        start_up: StartUp,
        *,
        is_connected: asyncio.Event,
        say: Say,
    ) -> None:
        self._reception = reception
        self._inbound = inbound
        self._catch_up = catch_up
        self._start_up = start_up
        self._reactions = Reactions(reception, say)
        self._interactions = Interactions(reception, say)
        self._is_connected = is_connected

    async def run(self) -> None:
        """Until cancelled."""
        await self._start_up.prepare()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._inbound.run())
            group.create_task(self._catch_up.run())

    async def lost(self, reason: str, *, is_again: bool) -> None:
        """The connection is gone, or could not be had. A first failure is not worth a word."""
        self._catch_up.lost()
        if is_again:
            await self._reception.trouble(f"{reason} {_MEANWHILE}")

    async def ready(self, wire: Wire, *, is_first: bool) -> None:
        if is_first:
            await self._start_up.mark_beginning(wire.newest)
        self._catch_up.ready()
        self._is_connected.set()
        if is_first:
            self._start_up.begin(wire)
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
        await self._reactions.added(ref, emoji)

    async def interaction(self, interaction: discord.Interaction) -> None:
        await self._interactions.arrived(interaction)
