"""Discord as a surface: the owner's direct messages, from the login to the last word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from ollim_bot.chat import OpenAttachment, Reception, Status, TurnStart
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import NotSent, Unreachable, Unsure
from ollim_bot.ports import Clock, Store
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.channel import NAME, Letter, ref_of
from ollim_bot.surfaces.discord.delivery.courier import DiscordCourier
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.input.catch_up import CatchUp
from ollim_bot.surfaces.discord.input.eyes import Eyes
from ollim_bot.surfaces.discord.input.inbound import Inbound
from ollim_bot.surfaces.discord.service import Service
from ollim_bot.surfaces.discord.start_up import StartUp
from ollim_bot.surfaces.discord.turns.drafts import Drafts
from ollim_bot.surfaces.discord.turns.orphans import Orphans
from ollim_bot.surfaces.discord.turns.presenter import Presenter
from ollim_bot.surfaces.discord.wire.allowance import Allowance
from ollim_bot.surfaces.discord.wire.client import Connection
from ollim_bot.surfaces.discord.wire.dm import DirectMessages, Wire
from ollim_bot.surfaces.discord.wire.endpoint import point_at
from ollim_bot.surfaces.discord.words.small_text import small
from ollim_bot.surfaces.discord.words.split import split

SHUTTING_DOWN = small("shutting down")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LONGEST_GOODBYE = 2.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """`owner_id` is needed only if the application belongs to a team; `api_url` only if Discord is
    not at its usual address."""

    token: Secret
    owner_id: int | None = None
    api_url: str | None = None


class DiscordSurface:
    """A `RemoteSurface`. `folder` is its own, for files that are on their way in."""

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
        self._allowance = Allowance(clock.monotonic)
        self._channel = DirectMessages(self._wire, self._allowance, opened)
        self._errands = Errands(clock)
        self._facts = DiscordFacts(memory)
        self._drafts = Drafts(self._channel, clock, self._errands, self._facts)
        self._courier = DiscordCourier(self._channel, self._drafts, self._errands, clock)
        self._eyes = Eyes(self._channel, clock)
        self._presenter = Presenter(
            self._channel, self._drafts, clock, self._errands, lambda: self._is_in_fork
        )
        self._is_in_fork = False
        self._connection: Connection | None = None
        self._is_connected = asyncio.Event()

    async def connected(self) -> None:
        await self._is_connected.wait()

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

    async def post(self, message: ChatMessage) -> None:
        if ref_of(InputId(message.id)) is not None:
            return
        if NAME in message.refs:
            self._courier.changed(message)

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
        return self._courier.parts(message)

    async def deliver(self, part: ChatMessage, nonce: str) -> str:
        return await self._courier.deliver(part, nonce)

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
        return await self._courier.find(part, nonce, since, others)

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
            changed=self._courier.changed,
        )

        async def is_in_log(ref: str) -> bool:
            return self._courier.knows(ref) or await reception.by_ref(NAME, ref) is not None

        orphans = Orphans(channel, self._errands, facts, self._courier, is_in_log)
        start_up = StartUp(reception, facts, orphans, self._errands, clock)
        return Service(
            reception,
            inbound,
            catch_up,
            start_up,
            is_connected=self._is_connected,
            say=self._say,
        )

    def _wire(self) -> Wire | None:
        return None if self._connection is None else self._connection.wire

    async def _connect(self, service: Service) -> None:
        """One connection after the other, with growing pauses while none can be had."""
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.monotonic()
            try:
                await point_at(self._account.api_url)
                self._connection = Connection(
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
            await self._attempt(Letter(piece))

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(_LONGEST_GOODBYE):
                await self._attempt(Letter(SHUTTING_DOWN))
        except TimeoutError:
            _logger.info("Discord could not be told that the bot stops")

    async def _attempt(self, letter: Letter) -> None:
        try:
            await self._channel.send(letter, uuid4().hex[:24])
        except (NotSent, Unreachable, Unsure) as lost:
            _logger.info("Something could not be said on Discord: %s", lost)
