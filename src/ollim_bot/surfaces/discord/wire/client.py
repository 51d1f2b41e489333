"""One connection to Discord: from the login until it is lost."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress

import aiohttp
import discord

from ollim_bot.errors import Unreachable
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.wire.dm import Wire
from ollim_bot.surfaces.discord.wire.ears import Ears, Listener
from ollim_bot.surfaces.discord.wire.refusals import (
    LONGEST_CALL,
    NO_INTENTS,
    NO_OWNER,
    NO_TOKEN,
    OUT_OF_REACH,
    TROUBLES,
    NotAdmitted,
    not_in_team,
)

WATCH_PAUSE = 60.0

_MOST_STRIKES = 3
_LONGEST_CLOSE = 5.0
_UNAUTHORIZED = 401
_NO_TOKEN_CODE = 4004
_NO_INTENTS_CODE = 4014
_CLOSED = "Discord closed the connection."
_SILENT = "Discord does not answer on its connection any more."

_log = logging.getLogger(__name__)


class Connection:
    """To be run once. Until the owner is known, nobody is served.

    `owner_id` says who that is if the application belongs to a team.
    """

    def __init__(
        self,
        token: str,
        owner_id: int | None,
        listener: Listener,
        clock: Clock,
        trace: aiohttp.TraceConfig,
    ) -> None:
        self._token = token
        self._owner_id = owner_id
        self._clock = clock
        self._client = Ears(listener, trace)

    @property
    def wire(self) -> Wire | None:
        """What can be talked through; None before the login and after the end."""
        return None if self._client.is_closed() else self._client.wire

    async def run(self) -> None:
        """Serve until cancelled or closed.

        Raises `NotAdmitted` if somebody has to change something first, and `Unreachable` if it
        cannot be had now or is lost, so that another one is worth a try.
        """
        try:
            self._client.wire = await self._logged_in()
            await self._serve()
        finally:
            await self.close()

    async def reconnect(self) -> None:
        """Take the socket down; discord.py goes on with a new one, and nothing is missed."""
        socket = self._client.ws
        if self._client.has_begun and socket.open:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_CLOSE):
                    await socket.close()

    async def close(self) -> None:
        """Ends within seconds, whatever Discord does."""
        try:
            async with asyncio.timeout(_LONGEST_CLOSE):
                await self._client.close()
        except TimeoutError:
            await self._client.http.close()

    async def _logged_in(self) -> Wire:
        try:
            async with asyncio.timeout(LONGEST_CALL):
                await self._client.login(self._token)
                owner = self._owner()
                channel = await self._client.create_dm(discord.Object(owner))
                newest = [each.id async for each in channel.history(limit=1)]
        except TROUBLES as error:
            raise _not_logged_in(error) from error
        except (KeyError, TypeError) as error:
            # What discord.py makes of an answer that is not Discord's, of some gate on the way.
            raise Unreachable(OUT_OF_REACH) from error
        assert self._client.user is not None
        return Wire(self._client, channel.id, owner, self._client.user.id, *newest)

    def _owner(self) -> int:
        application = self._client.application
        assert application is not None
        if application.team is None:
            return application.owner.id
        if self._owner_id is None:
            raise NotAdmitted(NO_OWNER)
        if self._owner_id not in {each.id for each in application.team.members}:
            raise not_in_team(self._owner_id)
        return self._owner_id

    async def _serve(self) -> None:
        serving = [asyncio.create_task(self._listen()), asyncio.create_task(self._watch())]
        try:
            done, _ = await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in serving:
                each.cancel()
            await asyncio.wait(serving)

    async def _listen(self) -> None:
        """discord.py resumes a socket that is lost. If it gets none, this ends.

        It could go on trying by itself, but with pauses of up to 17 minutes.
        """
        try:
            await self._client.connect(reconnect=False)
        except TROUBLES as error:
            raise _not_connected(error) from error

    async def _watch(self) -> None:
        """discord.py notices when nothing comes at all, but not when heartbeats go unanswered.

        Each answer to one gives another latency, so the same one twice means that none has come.
        """
        strikes, before = 0, math.nan
        while True:
            await self._clock.sleep(WATCH_PAUSE)
            latency = self._client.latency
            is_alive = math.isfinite(latency) and latency != before
            strikes = 0 if is_alive else strikes + 1
            before = latency
            if strikes >= _MOST_STRIKES:
                raise Unreachable(_SILENT)
            if strikes:
                _log.warning("Discord did not answer on its connection; a new one is made.")
                await self.reconnect()


def _not_logged_in(error: BaseException) -> Exception:
    is_refused = isinstance(error, discord.HTTPException) and error.status == _UNAUTHORIZED
    if is_refused or isinstance(error, discord.LoginFailure):
        return NotAdmitted(NO_TOKEN)
    return Unreachable(OUT_OF_REACH)


def _not_connected(error: BaseException) -> Exception:
    code = error.code if isinstance(error, discord.ConnectionClosed) else None
    if code == _NO_TOKEN_CODE:
        return NotAdmitted(NO_TOKEN)
    if code == _NO_INTENTS_CODE or isinstance(error, discord.PrivilegedIntentsRequired):
        return NotAdmitted(NO_INTENTS)
    return Unreachable(OUT_OF_REACH if code is None else _CLOSED)
