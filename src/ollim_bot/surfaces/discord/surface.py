"""Discord as a surface of the conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import discord

from ollim_bot.chat import MessagePart, OpenAttachment, Reception, Status, TurnStart
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import AgentEvent
from ollim_bot.errors import NotSent, StorageError, Unreachable, Unsure
from ollim_bot.ports import Clock, Store
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.catch_up import CatchUp
from ollim_bot.surfaces.discord.client import DiscordConnection, point_at
from ollim_bot.surfaces.discord.command_menu import sync
from ollim_bot.surfaces.discord.delivery import DiscordDelivery
from ollim_bot.surfaces.discord.direct_messages import DirectMessages, LoggedInClient
from ollim_bot.surfaces.discord.draft_renderer import Presenter
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.interactions import InteractionRouter, Reactions, Say
from ollim_bot.surfaces.discord.messages import NAME, OutgoingMessage, ReceivedMessage, ref_of
from ollim_bot.surfaces.discord.pending_reaction import PendingReaction
from ollim_bot.surfaces.discord.rate_limits import EditAllowance
from ollim_bot.surfaces.discord.rendering import small
from ollim_bot.surfaces.discord.split import split
from ollim_bot.surfaces.discord.stale_drafts import StaleDrafts

_logger = logging.getLogger(__name__)


class StartUp:
    """Nobody waits for any of it but `prepare` and `mark_beginning`; none of them fails."""

    def __init__(
        self,
        reception: Reception,
        facts: DiscordFacts,
        orphans: StaleDrafts,
        errands: BackgroundTasks,
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

    def begin(self, wire: LoggedInClient) -> None:
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
        connected: Callable[[LoggedInClient], None],
        say: Say,
    ) -> None:
        self._reception = reception
        self._inbound = inbound
        self._catch_up = catch_up
        self._start_up = start_up
        self._reactions = Reactions(reception, say)
        self._interactions = InteractionRouter(reception, say)
        self._connected = connected

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

    async def ready(self, wire: LoggedInClient, *, is_first: bool) -> None:
        if is_first:
            await self._start_up.mark_beginning(wire.newest)
        self._catch_up.ready()
        self._connected(wire)
        if is_first:
            self._start_up.begin(wire)
        await self._reception.trouble("")

    async def disconnected(self) -> None:
        self._catch_up.lost()

    async def resumed(self) -> None:
        self._catch_up.ready()

    async def message(self, message: ReceivedMessage) -> None:
        self._inbound.message(message)

    async def edited(self, ref: str, text: str) -> None:
        self._inbound.edited(ref, text)

    async def deleted(self, ref: str) -> None:
        self._inbound.deleted(ref)

    async def reaction(self, ref: str, emoji: str) -> None:
        await self._reactions.added(ref, emoji)

    async def interaction(self, interaction: discord.Interaction) -> None:
        await self._interactions.arrived(interaction)


SHUTTING_DOWN = small("shutting down")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LONGEST_GOODBYE = 2.0


@dataclass(frozen=True, slots=True)
class Account:
    """`owner_id` is needed only if the application belongs to a team; `api_url` only if Discord is
    not at its usual address."""

    token: Secret
    owner_id: int | None = None
    api_url: str | None = None


class DiscordSurface:
    """A `Channel`. `folder` is its own, for files that are on their way in."""

    name = NAME

    def __init__(
        self,
        account: Account,
        memory: Store[Mapping[str, object]],
        opened: OpenAttachment,
        folder: Path,
        clock: Clock,
    ) -> None:
        self._account = account
        self._folder = folder
        self._clock = clock
        self._allowance = EditAllowance(clock.monotonic)
        self._channel = DirectMessages(self._wire, self._allowance, opened)
        self._errands = BackgroundTasks(clock)
        self._facts = DiscordFacts(memory)
        self._drafts = Drafts(self._channel, clock, self._errands, self._facts)
        self._delivery = DiscordDelivery(self._channel, self._drafts, clock)
        self._eyes = PendingReaction(self._channel, clock)
        self._presenter = Presenter(
            self._channel, self._drafts, clock, self._errands, lambda: self._is_in_fork
        )
        self._is_in_fork = False
        self._connection: DiscordConnection | None = None
        self._account_id = ""
        self._is_connected = asyncio.Event()

    async def connected(self) -> str:
        await self._is_connected.wait()
        return self._account_id

    async def run(self, reception: Reception) -> None:
        """Raises `NotAdmitted` if somebody has to change something before Discord lets it in."""
        self._errands.open()
        service = self._service(reception)
        work = [self._facts.run(), self._eyes.run(), service.run(), self._connect(service)]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except asyncio.CancelledError:
            await self._say_goodbye()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._errands.close(), return_exceptions=True)
            await self._facts.flush()

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        try:
            await self._presenter.present(start, events)
        finally:
            refs = (ref_of(each) for each in start.inputs)
            self._eyes.close(ref for ref in refs if ref is not None)

    async def changed(self, status: Status) -> None:
        self._is_in_fork = status.fork is not None
        if not status.is_busy:
            self._eyes.close_all()

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return self._delivery.parts(message)

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        return await self._delivery.take_drafts(message, parts)

    async def deliver(self, part: MessagePart) -> str:
        return await self._delivery.deliver(part)

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        return await self._delivery.find(part, since, others)

    async def edit(self, ref: str, content: ChatMessage) -> None:
        await self._delivery.edit(ref, content)

    def discard(self, refs: Sequence[str]) -> None:
        self._delivery.discard(refs)

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        self._delivery.ended(message, refs)

    def _note_connection(self, wire: LoggedInClient) -> None:
        self._account_id = str(wire.dm)
        self._is_connected.set()

    def _service(self, reception: Reception) -> Service:
        channel, facts, clock = self._channel, self._facts, self._clock
        inbound = Inbound(channel, reception, self._eyes, facts, clock, self._folder)
        catch_up = CatchUp(
            channel,
            reception,
            inbound,
            self._eyes,
            facts,
            clock,
            reconnect=self._reconnect,
        )

        async def is_in_log(ref: str) -> bool:
            return await reception.by_ref(NAME, ref) is not None

        orphans = StaleDrafts(
            channel, self._errands, facts, lambda: reception.caught_up(NAME), is_in_log
        )
        start_up = StartUp(reception, facts, orphans, self._errands, clock)
        return Service(
            reception,
            inbound,
            catch_up,
            start_up,
            connected=self._note_connection,
            say=self._say,
        )

    def _wire(self) -> LoggedInClient | None:
        return None if self._connection is None else self._connection.wire

    async def _connect(self, service: Service) -> None:
        """One connection after the other, with growing pauses while none can be had."""
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.monotonic()
            try:
                await point_at(self._account.api_url)
                self._connection = DiscordConnection(
                    self._account.token.reveal(),
                    self._account.owner_id,
                    service,
                    self._clock,
                    self._allowance.trace(),
                )
                await self._connection.run()
            except Unreachable as lost:
                _logger.warning("%s", lost)
                await service.lost(str(lost), is_again=pause > _FIRST_PAUSE)
            finally:
                self._connection = None
            if self._clock.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _reconnect(self) -> None:
        if self._connection is not None:
            await self._connection.reconnect()

    async def _say(self, text: str) -> None:
        for piece in split(text):
            await self._attempt(OutgoingMessage(piece))

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(_LONGEST_GOODBYE):
                await self._attempt(OutgoingMessage(SHUTTING_DOWN))
        except TimeoutError:
            _logger.info("Discord could not be told that the bot stops")

    async def _attempt(self, letter: OutgoingMessage) -> None:
        try:
            await self._channel.send(letter, uuid4().hex[:24])
        except (NotSent, Unreachable, Unsure) as lost:
            _logger.info("Something could not be said on Discord: %s", lost)
