"""The owner's direct messages through discord.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import discord

from ollim_bot.chat import OpenAttachment
from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import NotSent, Unreachable, Unsure
from ollim_bot.surfaces.discord.channel import Letter, RemoteFile, Seen
from ollim_bot.surfaces.discord.wire.allowance import Allowance
from ollim_bot.surfaces.discord.wire.downloads import download
from ollim_bot.surfaces.discord.wire.forms import embed_of, seen, view_of
from ollim_bot.surfaces.discord.wire.refusals import OUT_OF_REACH, reading, writing

_MOST_AT_ONCE = 100
_NO_FILE = "`{name}` cannot be read any more."
_NOBODY = discord.AllowedMentions.none()


@dataclass(frozen=True, slots=True)
class Wire:
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
    """A `Channel`. `wire` gives the connection to use now, None while there is none.

    `opened` opens a file that should go with a message.
    """

    def __init__(
        self, wire: Callable[[], Wire | None], allowance: Allowance, opened: OpenAttachment
    ) -> None:
        self._current = wire
        self._allowance = allowance
        self._opened = opened

    async def send(self, letter: Letter, nonce: str) -> str:
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

    async def edit(self, ref: str, letter: Letter) -> None:
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

    async def newest(self, limit: int) -> Sequence[Seen]:
        wire = self._wire()
        async with reading():
            history = wire.channel.history(limit=min(limit, _MOST_AT_ONCE))
            found = [_seen(wire, each) async for each in history]
        return [each for each in reversed(found) if each is not None]

    async def after(self, ref: str) -> Sequence[Seen]:
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

    def _wire(self) -> Wire:
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


def _embeds(letter: Letter) -> list[discord.Embed]:
    return [embed_of(letter.card, letter.card_footer)] if letter.card else []


def _view(letter: Letter) -> discord.ui.View | None:
    return view_of(letter.card.buttons) if letter.card else None


def _seen(wire: Wire, message: discord.Message) -> Seen | None:
    return seen(message, wire.owner, wire.us)
