"""The gateway client: logs in, keeps the connection alive, and reports the owner's actions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from ollim_bot.kernel.base.errors import OllimError, Unreachable
from ollim_bot.surfaces.discord.direct_messages import LoggedInClient
from ollim_bot.surfaces.discord.errors import (
    DISCORD_ERRORS,
    LONGEST_CALL,
    NO_INTENTS,
    NO_OWNER,
    NO_TOKEN,
    OUT_OF_REACH,
    NotAdmitted,
    not_in_team,
    writing,
)
from ollim_bot.surfaces.discord.rendering import ReceivedMessage
from ollim_bot.surfaces.discord.translation import seen

NOT_AUTHORIZED = "You are not authorized to use this bot."
ELSEWHERE = "I answer in our direct messages only."
_LONGEST_CLOSE = 5.0
_NO_TOKEN_CODE = 4004
_NO_INTENTS_CODE = 4014
_logger = logging.getLogger(__name__)


async def use_api_url(api_url: str | None) -> None:
    """Let discord.py use another REST base address, and the gateway that this address names.

    Does nothing if `api_url` is None. Raises `Unreachable` if the address does not answer; it may
    then be called again.
    """
    if api_url is None:
        return
    base = api_url.rstrip("/")
    no_answer = f"{base} (`DISCORD_API_URL`) does not answer as Discord does. Is it right?"
    try:
        async with (
            asyncio.timeout(20),
            aiohttp.ClientSession() as session,
            session.get(f"{base}/gateway") as answer,
        ):
            said = await answer.json(content_type=None) if answer.status == 200 else None
        url = yarl.URL(said["url"]) if isinstance(said, dict) else yarl.URL()
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(no_answer) from error
    if url.scheme not in ("ws", "wss"):
        raise Unreachable(no_answer)
    DiscordWebSocket.DEFAULT_GATEWAY = url
    Route.BASE = base


class Listener(Protocol):
    """Receives what the owner does in the direct messages with the bot, in the order of the events.

    A method that waits runs in a task of its own.
    """

    async def ready(self, session: LoggedInClient, *, is_first: bool) -> None:
        """A connection was made, or Discord began a new session: earlier events may be missing.

        Called before all other events. `is_first` is True once for each connection.
        """

    def disconnected(self) -> None:
        """The socket is closed. Events that follow happened before `resumed` or `ready`."""

    def resumed(self) -> None:
        """The lost connection is back, and all events in between have been passed on."""

    def message(self, message: ReceivedMessage, /) -> None: ...

    def edited(self, ref: str, text: str) -> None:
        """The owner edited a message."""

    def deleted(self, ref: str) -> None:
        """A message was deleted. Discord does not say who wrote it."""

    async def reaction(self, ref: str, emoji: str) -> None:
        """The owner added a reaction to a message."""

    async def interaction(self, interaction: discord.Interaction) -> None: ...


class GatewayClient(discord.Client):
    """Passes on only events of the owner, and none before `session` is set, after the login."""

    def __init__(
        self, listener: Listener, trace: aiohttp.TraceConfig, longest_silence: float
    ) -> None:
        _hush_library()
        intents = discord.Intents.none()
        intents.dm_messages = True
        intents.dm_reactions = True
        super().__init__(
            intents=intents,
            http_trace=trace,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.05,
            max_ratelimit_timeout=30.0,
            heartbeat_timeout=longest_silence,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self.session: LoggedInClient | None = None
        self.has_begun = False
        self._listener = listener

    async def on_connect(self) -> None:
        """discord.py calls this before any message, unlike `on_ready`."""
        if self.session is not None:
            is_first, self.has_begun = not self.has_begun, True
            await self._listener.ready(self.session, is_first=is_first)

    async def on_disconnect(self) -> None:
        self._listener.disconnected()

    async def on_resumed(self) -> None:
        self._listener.resumed()

    async def on_message(self, message: discord.Message) -> None:
        found = self._owners(message)
        if found is not None:
            self._listener.message(found)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Pass on edits that the owner made.

        Discord reports the preview of a link as an edit too. A forwarded message cannot be edited.
        """
        found = self._owners(event.message)
        if found is not None and found.is_edited and found.forwarded is None:
            self._listener.edited(found.ref, found.text)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        if self._is_ours(event.channel_id):
            self._listener.deleted(str(event.message_id))

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        if self._is_ours(event.channel_id) and self._is_owner(event.user_id):
            await self._listener.reaction(str(event.message_id), str(event.emoji))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        is_owner = self._is_owner(interaction.user.id)
        if is_owner and self._is_ours(interaction.channel_id):
            await self._listener.interaction(interaction)
        # Refuse a command with a sentence. Clicks of other people are ignored.
        elif interaction.type is discord.InteractionType.application_command:
            try:
                async with writing():
                    sentence = ELSEWHERE if is_owner else NOT_AUTHORIZED
                    await interaction.response.send_message(sentence, ephemeral=True)
            except OllimError as error:
                _logger.info("A refusal did not arrive: %s", error)

    def _owners(self, message: discord.Message) -> ReceivedMessage | None:
        if self.session is None or not self._is_ours(message.channel.id):
            return None
        found = seen(message, self.session.owner, self.session.us)
        return found if found is not None and found.is_owners else None

    def _is_ours(self, channel_id: int | None) -> bool:
        return self.session is not None and channel_id == self.session.dm

    def _is_owner(self, user_id: int) -> bool:
        return self.session is not None and user_id == self.session.owner


class DiscordConnection:
    """One connection, to be run once. It serves nothing before the owner is known.

    `owner_id` names the owner if the application belongs to a team. After the longest silence, in
    seconds, discord.py makes the socket anew.
    """

    def __init__(
        self,
        token: str,
        owner_id: int | None,
        listener: Listener,
        trace: aiohttp.TraceConfig,
        longest_silence: float = 60.0,
    ) -> None:
        self._token = token
        self._owner_id = owner_id
        self._client = GatewayClient(listener, trace, longest_silence)

    @property
    def session(self) -> LoggedInClient | None:
        """The logged-in client; None before the login and after the end."""
        return None if self._client.is_closed() else self._client.session

    async def run(self) -> None:
        """Serve until cancelled or closed.

        Raises `NotAdmitted` if the owner must change a setting first, and `Unreachable` if the
        connection cannot be made or is lost, so that a new one may succeed.
        """
        try:
            self._client.session = await _log_in(self._client, self._token, self._owner_id)
            # Its own reconnection would pause for up to 17 minutes.
            await self._client.connect(reconnect=False)
        except DISCORD_ERRORS as error:
            code = error.code if isinstance(error, discord.ConnectionClosed) else None
            if code == _NO_TOKEN_CODE:
                raise NotAdmitted(NO_TOKEN) from error
            if code == _NO_INTENTS_CODE or isinstance(error, discord.PrivilegedIntentsRequired):
                raise NotAdmitted(NO_INTENTS) from error
            reason = OUT_OF_REACH if code is None else "Discord closed the connection."
            raise Unreachable(reason) from error
        finally:
            await self.close()

    async def show_status(self, words: str) -> None:
        """Show the words below the name of the bot; a client that is not connected yet begins so.

        Everyone who shares a server with the bot can read them.
        """
        activity = discord.CustomActivity(words) if words else None
        self._client.activity = activity
        if self._client.has_begun and self._client.ws.open:
            with suppress(TimeoutError, *DISCORD_ERRORS):
                async with asyncio.timeout(_LONGEST_CLOSE):
                    await self._client.change_presence(activity=activity)

    async def reconnect(self) -> None:
        """Close the socket. discord.py resumes with a new one, and no event is missed."""
        socket = self._client.ws
        if self._client.has_begun and socket.open:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_CLOSE):
                    await socket.close()

    async def close(self) -> None:
        """Close the client within seconds, even if Discord does not answer."""
        try:
            async with asyncio.timeout(_LONGEST_CLOSE):
                await self._client.close()
        except TimeoutError:
            await self._client.http.close()


def _hush_library() -> None:
    """What the owner should know of Discord is logged here, in other words than discord.py's."""
    is_for_debugging = _logger.isEnabledFor(logging.DEBUG)
    logging.getLogger("discord").setLevel(logging.DEBUG if is_for_debugging else logging.ERROR)


@asynccontextmanager
async def logged_in(
    token: str, owner_id: int | None, trace: aiohttp.TraceConfig
) -> AsyncIterator[LoggedInClient]:
    """A client without a connection: it sends and reads messages, and is told of nothing."""
    _hush_library()
    client = discord.Client(
        intents=discord.Intents.none(), http_trace=trace, max_ratelimit_timeout=30.0
    )
    try:
        yield await _log_in(client, token, owner_id, reads=False)
    finally:
        await client.close()


async def _log_in(
    client: discord.Client, token: str, owner_id: int | None, *, reads: bool = True
) -> LoggedInClient:
    try:
        async with asyncio.timeout(LONGEST_CALL):
            await client.login(token)
            owner = _owner_of(client, owner_id)
            channel = await client.create_dm(discord.Object(owner))
            newest = [each.id async for each in channel.history(limit=1)] if reads else []
    except DISCORD_ERRORS as error:
        is_refused = isinstance(error, discord.HTTPException) and error.status == 401
        if is_refused or isinstance(error, discord.LoginFailure):
            raise NotAdmitted(NO_TOKEN) from error
        raise Unreachable(OUT_OF_REACH) from error
    except (KeyError, TypeError) as error:
        # discord.py fails like this on an answer of a captive portal or proxy.
        raise Unreachable(OUT_OF_REACH) from error
    assert client.user is not None
    return LoggedInClient(client, channel.id, owner, client.user.id, *newest)


def _owner_of(client: discord.Client, owner_id: int | None) -> int:
    application = client.application
    assert application is not None
    if application.team is None:
        return application.owner.id
    if owner_id is None:
        raise NotAdmitted(NO_OWNER)
    if owner_id not in {each.id for each in application.team.members}:
        raise not_in_team(owner_id)
    return owner_id
