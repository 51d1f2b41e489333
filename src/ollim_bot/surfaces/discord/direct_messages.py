"""Sends, edits and reads messages of the owner's channel."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import discord
from discord.http import handle_message_parameters

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    StorageError,
    Unreachable,
    WriteFailed,
)
from ollim_bot.kernel.base.plain_files import open_file
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.ports import ChatService, OpenAttachment
from ollim_bot.surfaces.discord.background_tasks import FIRST_PAUSE
from ollim_bot.surfaces.discord.errors import OUT_OF_REACH, EditAllowance, reading, writing
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.rendering import (
    NAME,
    WHOLE,
    DmChannel,
    OutgoingMessage,
    ReceivedMessage,
    RemoteFile,
)
from ollim_bot.surfaces.discord.status_line import EYES, PendingReaction
from ollim_bot.surfaces.discord.translation import DiscordFacts, embed_of, seen, view_of

T = TypeVar("T")


_NO_MENTIONS = discord.AllowedMentions.none()


async def download(file: RemoteFile, target: Path, most: int) -> None:
    """As `DmChannel.fetch`. Raises `WriteFailed` if the disk refuses the content."""
    try:
        async with _answer(file) as answer:
            size, flags = 0, os.O_WRONLY | os.O_CREAT | os.O_EXCL
            # Replace a file that a crash left behind; only the owner of the process may read it.
            await _on_disk(target, lambda: target.unlink(missing_ok=True))
            with await _on_disk(
                target, lambda: open(open_file(target, flags, 0o600), "wb")
            ) as kept:
                async for chunk in answer.content.iter_chunked(256 * 1024):
                    size += len(chunk)
                    if size > most:
                        raise DeliveryFailed(f"`{file.name}` is too large.")
                    await _on_disk(target, partial(kept.write, chunk))
    except BaseException:  # also on cancellation: a partial file must not remain
        await asyncio.to_thread(target.unlink, missing_ok=True)
        raise


@asynccontextmanager
async def _answer(file: RemoteFile) -> AsyncIterator[aiohttp.ClientResponse]:
    """Use a session of its own, so that the bot's token is not sent to the file host."""
    async with reading(), aiohttp.ClientSession() as session, session.get(file.url) as answer:
        if answer.status in (403, 404, 410):
            raise DeliveryFailed(f"`{file.name}` is not at Discord any more.")
        if answer.status != 200:
            raise Unreachable(OUT_OF_REACH)
        yield answer


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
            files = await self._files(outgoing, stack)
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
        if _view(outgoing) is not None and not message.components:
            # An earlier process has sent it bare, and Discord returned it for the same nonce.
            try:
                await self.edit(str(message.id), outgoing)
            except (DeliveryFailed, Unreachable) as failed:
                raise DeliveryUncertain(str(failed)) from failed
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
            history = session.channel.history(limit=min(limit, 100))
            found = [seen(each, session.owner, session.us) async for each in history]
        return [each for each in reversed(found) if each is not None]

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        session = self._session()
        async with reading():
            since = discord.Object(int(ref))
            history = session.channel.history(after=since, limit=None, oldest_first=True)
            found = [seen(each, session.owner, session.us) async for each in history]
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

    async def _files(self, outgoing: OutgoingMessage, stack: ExitStack) -> list[discord.File]:
        files = []
        for each in outgoing.files:
            if each == WHOLE:
                content = BytesIO(outgoing.whole.encode(errors="replace"))
                files.append(discord.File(content, each.name))
                continue
            try:
                file = await asyncio.to_thread(self._opened, each)
                stack.callback(file.close)
                files.append(discord.File(file, each.name))  # type: ignore[arg-type]  # any will do
            except (OSError, ValueError) as error:
                raise DeliveryFailed(f"`{each.name}` cannot be read any more.") from error
        return files


def _embeds(outgoing: OutgoingMessage) -> list[discord.Embed]:
    return [embed_of(outgoing.card, outgoing.card_footer)] if outgoing.card else []


def _view(outgoing: OutgoingMessage) -> discord.ui.View | None:
    return view_of(outgoing.card.buttons if outgoing.card else outgoing.buttons)


# Discord announces no message later than this, and a missing message of this age is deleted.
_SURELY = timedelta(seconds=30)
_AMENDED = 100

_logger = logging.getLogger(__name__)


class MessageCatchUp:
    """Reads the channel back in rounds: after each connection, and every two minutes.

    Inbound messages are held back until the first round is done, and again whenever the connection
    is lost. `reconnect` is called when Discord no longer announces messages.
    """

    def __init__(
        self,
        channel: DmChannel,
        reception: ChatService,
        inbound: Inbound,
        pending_reaction: PendingReaction,
        facts: DiscordFacts,
        clock: Clock,
        *,
        reconnect: Callable[[], Awaitable[None]],
    ) -> None:
        self._channel = channel
        self._reception = reception
        self._inbound = inbound
        self._pending_reaction = pending_reaction
        self._facts = facts
        self._clock = clock
        self._reconnect = reconnect
        # Everything up to this message was read back since the start.
        self._read_to: str | None = None
        self._is_deaf = False
        self._is_repaired = False
        self._is_connected = False
        self._is_ready = asyncio.Event()
        inbound.arrivals.hold()

    def lost(self) -> None:
        """Hold inbound messages: earlier ones may be missed while the connection is lost."""
        self._is_connected = False
        self._inbound.arrivals.hold()

    def ready(self) -> None:
        """Start a round for a new or resumed connection, in place of one that still runs."""
        self._inbound.arrivals.hold()
        self._is_connected = True
        self._is_deaf = False
        self._is_ready.set()

    async def run(self) -> None:
        """Run until cancelled: a round after each `ready`, and one at each interval."""
        await self._is_ready.wait()
        while True:
            is_poll = not self._is_ready.is_set()
            self._is_ready.clear()
            await self._unless_ready(self._round(is_poll=is_poll))
            await self._unless_ready(self._clock.sleep(120.0))

    async def _unless_ready(self, step: Coroutine[Any, Any, None]) -> None:
        doing = asyncio.ensure_future(step)
        newer = asyncio.ensure_future(self._is_ready.wait())
        try:
            await asyncio.wait({doing, newer}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
        finally:
            doing.cancel()
            newer.cancel()
            await asyncio.gather(doing, newer, return_exceptions=True)

    async def _round(self, *, is_poll: bool) -> None:
        is_brought = False
        async for _ in Backoff(self._clock, FIRST_PAUSE, 60.0):
            try:
                if not is_brought:
                    self._inbound.arrivals.hold()
                    await self._bring(is_poll=is_poll)
                    is_brought = True
                await self._amend()
                await self._repair()
                return
            except (Unreachable, StorageError) as silent:
                _logger.info("Discord cannot be read back now: %s", silent)
            if is_poll and not is_brought:
                self._go_on()

    async def _bring(self, *, is_poll: bool) -> None:
        start = self._read_to or await self._facts.last_seen()
        if start is None:
            # On the very first start, all earlier messages count as seen.
            newest = await self._channel.newest(1)
            start = newest[-1].ref if newest else "0"
            self._facts.saw(start)
            found: Sequence[ReceivedMessage] = ()
        else:
            found = await self._channel.after(start)
        logged = await self._reception.by_refs(NAME, 500)
        missed = [seen for seen in found if seen.is_owners and seen.ref not in logged]
        passed = await self._facts.passed_over(missed)
        missed = [seen for seen in missed if seen.ref not in passed]
        knows, now = self._inbound.arrivals.knows, self._clock.now()
        is_deaf = any(not knows(seen.ref) and now - seen.at > _SURELY for seen in missed)
        self._go_on(missed)
        self._read_to = found[-1].ref if found else start
        if is_poll and is_deaf and self._is_connected and not self._is_deaf:
            self._is_deaf = True
            _logger.warning("Discord brings no messages any more; the connection is made anew")
            await self._reconnect()

    def _go_on(self, missed: Sequence[ReceivedMessage] = ()) -> None:
        self._inbound.arrivals.release(missed)
        if not self._is_connected:
            self._inbound.arrivals.hold()

    async def _amend(self) -> None:
        """Apply missed edits and deletions of messages that still wait."""
        if not self._reception.status.is_busy:
            return
        # The log first: its messages were on Discord before Discord is asked.
        logged = await self._reception.by_refs(NAME, _AMENDED)
        newest = await self._channel.newest(_AMENDED)
        there = {seen.ref: seen for seen in newest}
        for ref, message in logged.items():
            seen = there.get(ref)
            if message.author is not Author.OWNER:
                continue
            if seen is None and self._is_gone(ref, message, newest):
                self._inbound.deleted(ref)
            elif seen is not None and _was_edited(seen, message):
                self._inbound.edited(ref, seen.text)

    def _is_gone(self, ref: str, message: ChatMessage, newest: Sequence[ReceivedMessage]) -> bool:
        is_in_reach = bool(newest) and int(ref) > int(newest[0].ref)
        return is_in_reach and self._clock.now() - message.at > _SURELY

    async def _repair(self) -> None:
        """Once: remove the reactions that the bot could not remove before it stopped."""
        if self._is_repaired:
            return
        newest = await self._channel.newest(50)
        self._pending_reaction.adopt(
            seen.ref for seen in newest if seen.is_owners and EYES in seen.marks
        )
        if not self._reception.status.is_busy:
            self._pending_reaction.close_all()
        self._is_repaired = True


def _was_edited(seen: ReceivedMessage, message: ChatMessage) -> bool:
    """Whether the owner has edited the message since; a forwarded message cannot be edited."""
    return seen.is_edited and seen.forwarded is None and seen.text != message.text
