"""Sends, edits and reads messages of the owner's channel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import aiohttp
import discord
from discord.http import handle_message_parameters

from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable, WriteFailed
from ollim_bot.plain_files import open_file
from ollim_bot.ports import OpenAttachment
from ollim_bot.surfaces.discord.errors import OUT_OF_REACH, reading, writing
from ollim_bot.surfaces.discord.messages import OutgoingMessage, ReceivedMessage, RemoteFile
from ollim_bot.surfaces.discord.rate_limits import EditAllowance
from ollim_bot.surfaces.discord.translation import embed_of, seen, view_of

T = TypeVar("T")

_CHUNK = 256 * 1024
_OK = 200
_GONE_CODES = frozenset({403, 404, 410})
_GONE = "`{name}` is not at Discord any more."
_TOO_LARGE = "`{name}` is too large."


_MOST_AT_ONCE = 100
_NO_FILE = "`{name}` cannot be read any more."
_NO_MENTIONS = discord.AllowedMentions.none()


async def download(file: RemoteFile, target: Path, most: int) -> None:
    """As `DmChannel.fetch`. Raises `WriteFailed` if the disk refuses the content."""
    try:
        async with _answer(file) as answer:
            await _keep(answer, file, target, most)
    except BaseException:  # also on cancellation: a partial file must not remain
        await asyncio.to_thread(target.unlink, missing_ok=True)
        raise


@asynccontextmanager
async def _answer(file: RemoteFile) -> AsyncIterator[aiohttp.ClientResponse]:
    """Use a session of its own, so that the bot's token is not sent to the file host."""
    async with reading(), aiohttp.ClientSession() as session, session.get(file.url) as answer:
        if answer.status in _GONE_CODES:
            raise DeliveryFailed(_GONE.format(name=file.name))
        if answer.status != _OK:
            raise Unreachable(OUT_OF_REACH)
        yield answer


async def _keep(answer: aiohttp.ClientResponse, file: RemoteFile, target: Path, most: int) -> None:
    size = 0
    with await _on_disk(target, lambda: _created(target)) as kept:
        async for chunk in answer.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > most:
                raise DeliveryFailed(_TOO_LARGE.format(name=file.name))
            await _on_disk(target, partial(kept.write, chunk))


def _created(target: Path) -> BinaryIO:
    """Replace a file that a crash left behind; only the owner of the process may read it."""
    target.unlink(missing_ok=True)
    return open(open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


async def _on_disk(target: Path, step: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(step)
    except OSError as error:
        raise WriteFailed(target, f"could not be written: {error.strerror}.") from error


@dataclass(frozen=True, slots=True)
class LoggedInClient:
    """A logged-in client, and the ids of the direct messages, the owner and the bot.

    `newest` is the last message from before the login; 0 if there was none.
    """

    client: discord.Client
    dm: int
    owner: int
    us: int
    newest: int = 0

    @property
    def channel(self) -> discord.PartialMessageable:
        return self.client.get_partial_messageable(self.dm, type=discord.ChannelType.private)

    def message(self, ref: str) -> discord.PartialMessage:
        return self.channel.get_partial_message(int(ref))


class DirectMessages:
    """A `DmChannel`. `session` gives the current connection, None while there is none.

    `opened` opens a file that goes with a message.
    """

    def __init__(
        self,
        session: Callable[[], LoggedInClient | None],
        allowance: EditAllowance,
        opened: OpenAttachment,
    ) -> None:
        self._current = session
        self._allowance = allowance
        self._opened = opened

    async def send(self, outgoing: OutgoingMessage, nonce: str) -> str:
        session = self._session()
        uncertain_calls = self._allowance.uncertain_calls
        with ExitStack() as stack:
            files = await self._files(outgoing.files, stack)
            try:
                async with writing():
                    message = await session.channel.send(
                        outgoing.text or None,
                        embeds=_embeds(outgoing),
                        files=files,
                        nonce=nonce,
                        allowed_mentions=_NO_MENTIONS,
                        suppress_embeds=not outgoing.has_previews,
                        view=_view(outgoing),  # type: ignore[arg-type]  # None is its default
                    )
            except (DeliveryFailed, Unreachable) as error:
                if self._allowance.uncertain_calls == uncertain_calls:
                    raise
                # discord.py has tried it before, with an unknown outcome.
                raise DeliveryUncertain(str(error)) from error
        return str(message.id)

    async def edit(self, ref: str, outgoing: OutgoingMessage) -> None:
        session = self._session()
        # `PartialMessage.edit` cannot change flags.
        request = handle_message_parameters(
            content=outgoing.text or None,
            embeds=_embeds(outgoing),
            view=_view(outgoing),
            flags=discord.MessageFlags(suppress_embeds=not outgoing.has_previews),
            allowed_mentions=_NO_MENTIONS,
        )
        async with writing():
            with request as params:
                await session.client.http.edit_message(session.dm, int(ref), params=params)

    async def delete(self, ref: str) -> None:
        session = self._session()
        async with writing():
            try:
                await session.message(ref).delete()
            except discord.NotFound:
                return

    async def mark(self, ref: str, emoji: str) -> None:
        session = self._session()
        async with writing():
            await session.message(ref).add_reaction(emoji)

    async def unmark(self, ref: str, emoji: str) -> None:
        session = self._session()
        async with writing():
            await session.message(ref).remove_reaction(emoji, discord.Object(session.us))

    async def show_typing(self) -> None:
        session = self._session()
        async with writing():
            await session.channel.typing()

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        session = self._session()
        async with reading():
            history = session.channel.history(limit=min(limit, _MOST_AT_ONCE))
            found = [_seen(session, each) async for each in history]
        return [each for each in reversed(found) if each is not None]

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        session = self._session()
        async with reading():
            since = discord.Object(int(ref))
            history = session.channel.history(after=since, limit=None, oldest_first=True)
            found = [_seen(session, each) async for each in history]
        return [each for each in found if each is not None]

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        await download(file, target, most)

    def pause_before_edit(self) -> float:
        return self._allowance.pause()

    def _session(self) -> LoggedInClient:
        session = self._current()
        if session is None:
            raise Unreachable(OUT_OF_REACH)
        return session

    async def _files(
        self, attachments: Sequence[Attachment], stack: ExitStack
    ) -> list[discord.File]:
        files = []
        for each in attachments:
            try:
                file = await asyncio.to_thread(self._opened, each)
                stack.callback(file.close)
                files.append(discord.File(file, each.name))  # type: ignore[arg-type]  # any will do
            except (OSError, ValueError) as error:
                raise DeliveryFailed(_NO_FILE.format(name=each.name)) from error
        return files


def _embeds(outgoing: OutgoingMessage) -> list[discord.Embed]:
    return [embed_of(outgoing.card, outgoing.card_footer)] if outgoing.card else []


def _view(outgoing: OutgoingMessage) -> discord.ui.View | None:
    return view_of(outgoing.card.buttons) if outgoing.card else None


def _seen(session: LoggedInClient, message: discord.Message) -> ReceivedMessage | None:
    return seen(message, session.owner, session.us)
