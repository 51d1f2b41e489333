"""Delivers messages to Discord."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import discord

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.ports import (
    ChatService,
    MessagePart,
    OpenAttachment,
    Status,
    TurnStart,
)
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks, RecentValues
from ollim_bot.surfaces.discord.client import DiscordConnection, logged_in, use_api_url
from ollim_bot.surfaces.discord.direct_messages import (
    DirectMessages,
    LoggedInClient,
    MessageCatchUp,
)
from ollim_bot.surfaces.discord.drafts import DiscordPresenter, Drafts, StaleDrafts
from ollim_bot.surfaces.discord.errors import EditAllowance
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.interactions import InteractionRouter, SendNotice, sync
from ollim_bot.surfaces.discord.rendering import (
    NAME,
    DmChannel,
    HistoryHidden,
    OutgoingMessage,
    ReceivedMessage,
    dated,
    found_among,
    outgoing_of,
    parts_of,
    ref_of,
    small,
)
from ollim_bot.surfaces.discord.split import split_notice
from ollim_bot.surfaces.discord.status_line import PendingReaction
from ollim_bot.surfaces.discord.translation import DiscordFacts

_LOOK_BACK = 100
_DISCORD_EPOCH = 1_420_070_400_000


class DiscordDelivery:
    """The delivering half of a `Channel`.

    An edit that would change nothing is not sent, as far as it is known what a message shows.
    """

    def __init__(self, channel: DmChannel, drafts: Drafts, clock: Clock) -> None:
        self._channel = channel
        self._drafts = drafts
        self._clock = clock
        self._shown: RecentValues[OutgoingMessage] = RecentValues()
        self.discard, self.ended = drafts.remove, drafts.ended

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return parts_of(message)

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        drafts = await self._drafts.take_over(message, [*map(outgoing_of, parts)])
        refs = []
        for draft in drafts:
            assert draft.ref is not None
            refs.append(draft.ref)
            if draft.shown is not None:
                self._shown.put(draft.ref, draft.shown)
        return refs

    async def deliver(self, part: MessagePart) -> str:
        self._drafts.begin(part.content.id)
        outgoing = outgoing_of(part.content)
        if part.index == 0:
            outgoing = dated(outgoing, part.content.at, self._clock.now())
        ref = await self._channel.send(outgoing, part.nonce)
        self._shown.put(ref, replace(outgoing, whole=""))
        return ref

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        self._drafts.begin(part.content.id)
        outgoing = outgoing_of(part.content)
        ours = [each for each in reversed(await self._seen(since)) if each.is_ours]
        drafts = (each.ref for each in ours if self._drafts.is_draft(each.ref))
        found = found_among(ours, outgoing, part.nonce, {*others, *drafts})
        if found is not None and outgoing.card is not None:
            # Another process may have sent it bare, while nothing could be kept.
            with suppress(DeliveryFailed):
                await self.edit(found, part.content)
        return found

    async def edit(self, ref: str, content: ChatMessage) -> None:
        outgoing = outgoing_of(content)
        if self._shown.get(ref) == outgoing:
            return
        self._shown.pop(ref, None)
        await self._channel.edit(ref, outgoing)
        self._shown.put(ref, outgoing)

    async def _seen(self, since: datetime) -> Sequence[ReceivedMessage]:
        """All messages since then, and the newest in any case, oldest first."""
        try:
            newest = await self._channel.newest(_LOOK_BACK)
            if len(newest) < _LOOK_BACK or newest[0].at < since:
                return newest
            # The id that a message of that moment would have.
            ref = max(0, int(since.timestamp() * 1000) - _DISCORD_EPOCH) << 22
            return [*await self._channel.after(str(ref)), *newest]
        except HistoryHidden as hidden:
            raise DeliveryUncertain(str(hidden)) from hidden


_PAGE_GOES_ON = "The page goes on; what is said meanwhile will arrive there later."
SHUTTING_DOWN = small("shutting down")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

_logger = logging.getLogger(__name__)


class DiscordListener:
    """A `Listener` that lives as long as the surface runs, through many connections.

    At the start it puts up the command menu, and closes the drafts that a crash left behind.
    """

    def __init__(
        self,
        reception: ChatService,
        inbound: Inbound,
        catch_up: MessageCatchUp,
        facts: DiscordFacts,
        stale_drafts: StaleDrafts,
        background: BackgroundTasks,
        clock: Clock,
        *,
        connected: Callable[[LoggedInClient], None],
        say: SendNotice,
    ) -> None:
        self._reception = reception
        self._inbound = inbound
        self._catch_up = catch_up
        self._facts = facts
        self._stale_drafts = stale_drafts
        self._background = background
        self._clock = clock
        self._connected = connected
        self.message, self.edited, self.deleted = inbound.message, inbound.edited, inbound.deleted
        self.disconnected, self.resumed = catch_up.lost, catch_up.ready
        router = InteractionRouter(reception, say)
        self.reaction, self.interaction = router.reacted, router.arrived
        self._left_behind: tuple[str, ...] = ()
        self._has_closed = False

    async def run(self) -> None:
        """Run until cancelled."""
        # Before the first draft of this start is sent.
        reading = self._facts.drafts()
        drafts = await unless_refused("What was being shown before could not be read", reading)
        self._left_behind = drafts or ()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._inbound.run())
            group.create_task(self._catch_up.run())

    async def lost(self, reason: str, *, is_again: bool) -> None:
        """Note that the connection is lost. The owner is told only if that `is_again` the case."""
        self._catch_up.lost()
        if is_again:
            await self._reception.trouble(f"{reason} {_PAGE_GOES_ON}")

    async def ready(self, session: LoggedInClient, *, is_first: bool) -> None:
        if is_first:
            marking = self._mark_beginning(session.newest)
            await unless_refused("What was seen before could not be read", marking)
        self._catch_up.ready()
        self._connected(session)
        if is_first:
            self._background.start(self._put_up_menu(session.client))
            # Drafts that are recorded at a later connection belong to turns that run now.
            if not self._has_closed:
                self._has_closed = True
                self._background.start(self._stale_drafts.close(self._left_behind, session.newest))
        await self._reception.trouble("")

    async def _mark_beginning(self, newest: int) -> None:
        """On the very first start, count every message up to `newest` as seen."""
        if await self._facts.last_seen() is None:
            self._facts.saw(str(newest))
            await self._facts.flush()

    async def _put_up_menu(self, client: discord.Client) -> None:
        # Uploading the same menu again does no harm.
        reading = self._facts.commands_hash()
        remembered = await unless_refused("What the menu was cannot be read", reading)
        facts, commands = self._facts, self._reception.commands
        await sync(client, commands, self._clock, remembered, facts.keep_commands_hash)


@dataclass(frozen=True, slots=True)
class Account:
    """How the bot signs in.

    `owner_id` is needed only if the application belongs to a team; `api_url` only if Discord is not
    at its usual address.
    """

    token: Secret
    owner_id: int | None = None
    api_url: str | None = None


class DiscordSurface:
    """A `Channel`. `folder` is its own, for files that are being downloaded.

    Nothing is sent, drawn or edited unless this process may act, which is asked right before.
    """

    name = NAME

    def __init__(
        self, account: Account, store: Store, opened: OpenAttachment, folder: Path, clock: Clock
    ) -> None:
        self._may_act = store.sharing.may_act
        self._account = account
        self._folder = folder
        self._clock = clock
        self._allowance = EditAllowance(clock.monotonic)
        self._channel = DirectMessages(self._session, self._allowance, opened)
        self._background = BackgroundTasks(clock)
        self._facts = DiscordFacts(store)
        self._drafts = Drafts(self._channel, clock, self._background, self._facts)
        delivery = DiscordDelivery(self._channel, self._drafts, clock)
        self.parts, self.take_drafts = delivery.parts, delivery.take_drafts
        self.deliver, self.find, self.edit = delivery.deliver, delivery.find, delivery.edit
        self.discard, self.ended = delivery.discard, delivery.ended
        self._pending_reaction = PendingReaction(self._channel, clock)
        self._presenter = DiscordPresenter(
            self._channel,
            self._drafts,
            clock,
            self._background,
            lambda: self._is_in_fork,
            lambda: self._careful,
        )
        self._is_in_fork = False
        self._careful: CarefulTime | None = None
        self._shown_model = ""
        self._connection: DiscordConnection | None = None
        self._sender: LoggedInClient | None = None
        self._account_id = ""
        self._is_connected = asyncio.Event()

    async def connected(self) -> str:
        await self._is_connected.wait()
        return self._account_id

    @asynccontextmanager
    async def sending(self, *, keeps_rows: bool) -> AsyncIterator[None]:  # noqa: ARG002
        """Deliver and look up without `run`, for a program that ends then.

        Raises `Unreachable` or `NotAdmitted`.
        """
        given = self._account
        await use_api_url(given.api_url)
        trace = self._allowance.trace()
        async with logged_in(given.token.reveal(), given.owner_id, trace) as self._sender:
            yield
        self._sender = None

    async def run(self, reception: ChatService) -> None:
        """Run until cancelled.

        Raises `NotAdmitted` if the owner must change a setting before Discord accepts the bot.
        """
        self._background.open()
        service, facts, eyes = self._service(reception), self._facts, self._pending_reaction
        work = (facts.run(), eyes.run(), service.run(), self._connect(service))
        tasks = [*map(asyncio.create_task, work)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except asyncio.CancelledError:
            try:
                async with asyncio.timeout(2.0):
                    await self._attempt(OutgoingMessage(SHUTTING_DOWN))
            except TimeoutError:
                _logger.info("Discord could not be told that the bot stops")
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._background.close(), return_exceptions=True)
            await self._facts.flush()

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        try:
            await self._presenter.present(start, events)
        finally:
            refs = (ref_of(each) for each in start.inputs)
            self._pending_reaction.close(ref for ref in refs if ref is not None)

    async def changed(self, status: Status) -> None:
        self._is_in_fork, self._careful = status.fork is not None, status.careful
        # Others may read it too, so it is without the address of a server.
        words = "" if status.model == "default" else status.model
        if status.is_offline:
            words = status.provider
        if words != self._shown_model:
            self._shown_model = words
            if self._connection is not None:
                await self._connection.show_status(words)
        if not status.is_busy:
            self._pending_reaction.close_all()

    def concerns(self, message: ChatMessage) -> bool:  # noqa: ARG002
        return True

    def _service(self, reception: ChatService) -> DiscordListener:
        def note_connection(session: LoggedInClient) -> None:
            self._account_id = str(session.dm)
            self._is_connected.set()

        async def reconnect() -> None:
            if self._connection is not None:
                await self._connection.reconnect()

        async def look_up_in_log(ref: str) -> bool:
            return await reception.by_ref(NAME, ref) is not None

        channel, facts, clock = self._channel, self._facts, self._clock
        inbound = Inbound(channel, reception, self._pending_reaction, facts, clock, self._folder)
        catch_up = MessageCatchUp(
            channel, reception, inbound, self._pending_reaction, facts, clock, reconnect=reconnect
        )
        stale_drafts = StaleDrafts(
            channel, self._background, facts, lambda: reception.caught_up(NAME), look_up_in_log
        )
        return DiscordListener(
            reception,
            inbound,
            catch_up,
            facts,
            stale_drafts,
            self._background,
            clock,
            connected=note_connection,
            say=self._say,
        )

    def _session(self) -> LoggedInClient | None:
        if not self._may_act():
            return None
        return self._sender if self._connection is None else self._connection.session

    async def _connect(self, service: DiscordListener) -> None:
        """Open one connection after another, with growing pauses while none succeeds."""
        async for failures in Backoff(self._clock, _FIRST_PAUSE, _LONGEST_PAUSE):
            try:
                await use_api_url(self._account.api_url)
                self._connection = DiscordConnection(
                    self._account.token.reveal(),
                    self._account.owner_id,
                    service,
                    self._allowance.trace(),
                )
                await self._connection.show_status(self._shown_model)
                await self._connection.run()
            except Unreachable as lost:
                _logger.warning("%s", lost)
                await service.lost(str(lost), is_again=failures > 0)
            finally:
                self._connection = None

    async def _say(self, text: str) -> None:
        for piece in split_notice(text):
            await self._attempt(OutgoingMessage(piece))

    async def _attempt(self, outgoing: OutgoingMessage) -> None:
        try:
            await self._channel.send(outgoing, uuid4().hex[:24])
        except (DeliveryFailed, Unreachable, DeliveryUncertain) as lost:
            _logger.info("Something could not be said on Discord: %s", lost)
