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

from ollim_bot.chat import OpenAttachment
from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import NotSent, Unreachable, Unsure, WriteFailed
from ollim_bot.plain_files import open_file
from ollim_bot.surfaces.discord.forms import embed_of, seen, view_of
from ollim_bot.surfaces.discord.messages import OutgoingMessage, ReceivedMessage, RemoteFile
from ollim_bot.surfaces.discord.rate_limits import EditAllowance
from ollim_bot.surfaces.discord.refusals import OUT_OF_REACH, reading, writing

T = TypeVar("T")

_CHUNK = 256 * 1024
_OK = 200
_GONE_CODES = frozenset({403, 404, 410})
_GONE = "`{name}` is not at Discord any more."
_TOO_LARGE = "`{name}` is too large."


async def download(file: RemoteFile, target: Path, most: int) -> None:
    """As `DmChannel.fetch` says. Raises `WriteFailed` where the disk does not take it."""
    try:
        async with _answer(file) as answer:
            await _keep(answer, file, target, most)
    except BaseException:  # cancelled too: half a file must not be taken for one
        await asyncio.to_thread(target.unlink, missing_ok=True)
        raise


@asynccontextmanager
async def _answer(file: RemoteFile) -> AsyncIterator[aiohttp.ClientResponse]:
    """In a session of its own, so that nothing of the bot's goes to where files are kept."""
    async with reading(), aiohttp.ClientSession() as session, session.get(file.url) as answer:
        if answer.status in _GONE_CODES:
            raise NotSent(_GONE.format(name=file.name))
        if answer.status != _OK:
            raise Unreachable(OUT_OF_REACH)
        yield answer


async def _keep(answer: aiohttp.ClientResponse, file: RemoteFile, target: Path, most: int) -> None:
    size = 0
    with await _on_disk(target, lambda: _created(target)) as kept:
        async for chunk in answer.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > most:
                raise NotSent(_TOO_LARGE.format(name=file.name))
            await _on_disk(target, partial(kept.write, chunk))


def _created(target: Path) -> BinaryIO:
    """In place of one that a crash left behind, and for nobody else to read."""
    target.unlink(missing_ok=True)
    return open(open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


async def _on_disk(target: Path, step: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(step)
    except OSError as error:
        raise WriteFailed(target, f"could not be written: {error.strerror}.") from error


_MOST_AT_ONCE = 100
_NO_FILE = "`{name}` cannot be read any more."
_NOBODY = discord.AllowedMentions.none()


@dataclass(frozen=True, slots=True)
class LoggedInClient:
    """A client that is logged in, and the ids of the direct messages, of the owner and of the bot.

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
    """A `DmChannel`. `wire` gives the connection to use now, None while there is none.

    `opened` opens a file that should go with a message.
    """

    def __init__(
        self,
        wire: Callable[[], LoggedInClient | None],
        allowance: EditAllowance,
        opened: OpenAttachment,
    ) -> None:
        self._current = wire
        self._allowance = allowance
        self._opened = opened

    async def send(self, letter: OutgoingMessage, nonce: str) -> str:
        wire = self._wire()
        doubts = self._allowance.doubts
        with ExitStack() as stack:
            files = await self._files(letter.files, stack)
            try:
                async with writing():
                    message = await wire.channel.send(
                        letter.text or None,
                        embeds=_embeds(letter),
                        files=files,
                        nonce=nonce,
                        allowed_mentions=_NOBODY,
                        view=_view(letter),  # type: ignore[arg-type]  # None is its default
                    )
            except (NotSent, Unreachable) as error:
                if self._allowance.doubts == doubts:
                    raise
                # discord.py has tried it before, and what came of that is not known.
                raise Unsure(str(error)) from error
        return str(message.id)

    async def edit(self, ref: str, letter: OutgoingMessage) -> None:
        wire = self._wire()
        async with writing():
            await wire.message(ref).edit(
                content=letter.text or None,
                embeds=_embeds(letter),
                view=_view(letter),
                allowed_mentions=_NOBODY,
            )

    async def delete(self, ref: str) -> None:
        wire = self._wire()
        async with writing():
            try:
                await wire.message(ref).delete()
            except discord.NotFound:
                return

    async def mark(self, ref: str, emoji: str) -> None:
        wire = self._wire()
        async with writing():
            await wire.message(ref).add_reaction(emoji)

    async def unmark(self, ref: str, emoji: str) -> None:
        wire = self._wire()
        async with writing():
            await wire.message(ref).remove_reaction(emoji, discord.Object(wire.us))

    async def show_typing(self) -> None:
        wire = self._wire()
        async with writing():
            await wire.channel.typing()

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        wire = self._wire()
        async with reading():
            history = wire.channel.history(limit=min(limit, _MOST_AT_ONCE))
            found = [_seen(wire, each) async for each in history]
        return [each for each in reversed(found) if each is not None]

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        wire = self._wire()
        async with reading():
            since = discord.Object(int(ref))
            history = wire.channel.history(after=since, limit=None, oldest_first=True)
            found = [_seen(wire, each) async for each in history]
        return [each for each in found if each is not None]

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        await download(file, target, most)

    def pause_before_edit(self) -> float:
        return self._allowance.pause()

    def _wire(self) -> LoggedInClient:
        wire = self._current()
        if wire is None:
            raise Unreachable(OUT_OF_REACH)
        return wire

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
                raise NotSent(_NO_FILE.format(name=each.name)) from error
        return files


def _embeds(letter: OutgoingMessage) -> list[discord.Embed]:
    return [embed_of(letter.card, letter.card_footer)] if letter.card else []


def _view(letter: OutgoingMessage) -> discord.ui.View | None:
    return view_of(letter.card.buttons) if letter.card else None


def _seen(wire: LoggedInClient, message: discord.Message) -> ReceivedMessage | None:
    return seen(message, wire.owner, wire.us)
