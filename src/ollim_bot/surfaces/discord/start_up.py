"""What is done when Discord has been reached: the command menu, and what a crash left behind."""

from __future__ import annotations

import logging

import discord

from ollim_bot.chat import Reception
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.interactions.command_menu import sync
from ollim_bot.surfaces.discord.turns.orphans import Orphans
from ollim_bot.surfaces.discord.wire.dm import Wire

_logger = logging.getLogger(__name__)


class StartUp:
    """Nobody waits for any of it but `prepare` and `mark_beginning`; none of them fails."""

    def __init__(
        self,
        reception: Reception,
        facts: DiscordFacts,
        orphans: Orphans,
        errands: Errands,
        clock: Clock,
    ) -> None:
        self._reception = reception
        self._facts = facts
        self._orphans = orphans
        self._errands = errands
        self._clock = clock
        self._left_behind: tuple[str, ...] = ()
        self._has_closed = False

    async def prepare(self) -> None:
        """Before any draft is sent: those that are noted down now are from before the start."""
        try:
            self._left_behind = await self._facts.drafts()
        except StorageError:
            _logger.warning("What was being shown before could not be read", exc_info=True)

    async def mark_beginning(self, newest: int) -> None:
        """At the very first start: what is said from now on is to be answered, come what may."""
        try:
            if await self._facts.last_seen() is None:
                self._facts.saw(str(newest))
                await self._facts.flush()
        except StorageError:
            _logger.warning("What was seen before could not be read", exc_info=True)

    def begin(self, wire: Wire) -> None:
        self._errands.send_off(self._put_up_menu(wire.client))
        # Once: drafts that are found at a later connection belong to turns that run now.
        if not self._has_closed:
            self._has_closed = True
            self._errands.send_off(self._orphans.close(self._left_behind, wire.newest))

    async def _put_up_menu(self, client: discord.Client) -> None:
        try:
            remembered = await self._facts.commands_hash()
        except StorageError:  # then it is put up again, which hurts nobody
            remembered = None
        facts, commands = self._facts, self._reception.commands
        await sync(client, commands, self._clock, remembered, facts.keep_commands_hash)
