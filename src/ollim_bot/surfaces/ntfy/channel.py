"""The phone as a channel: it rings with what asks something, and shows when it is answered."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from ollim_bot.channels import PushChannel
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.moments import clock_time
from ollim_bot.domain.push import Pairing, is_pushed
from ollim_bot.domain.runtime_config import PushContent, PushWhat
from ollim_bot.domain.surface_state import PushState, day_of
from ollim_bot.errors import (
    BadSettings,
    DeliveryFailed,
    DeliveryUncertain,
    StorageError,
    Unreachable,
)
from ollim_bot.http_exchange import HttpLimits
from ollim_bot.ports import ChatService, Clock, MessagePart
from ollim_bot.settings import PHONE, NtfyAccount, Secret
from ollim_bot.store.deliveries import part_nonce
from ollim_bot.store.push_file import PushFile
from ollim_bot.store.steps import leave_notice, new_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.surfaces.ntfy.allowance import (
    A_DAY,
    RESERVE,
    is_reserve_begun,
    is_room,
    is_silent,
    next_day,
)
from ollim_bot.surfaces.ntfy.client import (
    LIMITS,
    MESSAGE,
    LinkButton,
    NtfyClient,
    Push,
    ReplyButton,
)
from ollim_bot.surfaces.ntfy.pairing import account_for
from ollim_bot.surfaces.ntfy.rendering import (
    is_digest,
    is_over,
    leads_to_page,
    phone_buttons,
    wording,
)
from ollim_bot.surfaces.ntfy.replies import NONCE_BYTES, PhoneReplies
from ollim_bot.surfaces.ntfy.requests import Requests

_REF = re.compile(r"[A-Za-z0-9]{12}")
_REMEMBERED = 500
# The clock of this machine may be wrong by as much.
_SKEW = timedelta(hours=1)

_NOT_PAIRED = "No phone is paired."
_DAY_IS_OVER = "The server of the phone takes no more today."
_RESERVED = "The rest of what the phone takes today is kept for what must come."
_FORGOTTEN = "The server of the phone keeps nothing that old, or has forgotten it."
_RESERVE_BEGUN = (
    "Your phone got {number} messages today, and its server takes {most} a day. Until {until} only "
    "what must come goes there; everything is on the page."
)

_logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServedPhone:
    """A pairing, and who speaks with its server."""

    pairing: Pairing
    client: NtfyClient
    replies: PhoneReplies
    reply_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class FirstTry:
    """When a push was first tried that may have arrived, by two clocks."""

    wall: datetime
    steady: float


@dataclass(frozen=True, slots=True)
class Offer:
    """What was committed before a push is sent: that it counts, and what its buttons post.

    `is_room` is false if the day has no room for it, `is_paired` if another phone is paired now.
    """

    state: PushState
    content: PushContent
    is_room: bool = True
    nonces: dict[str, str] | None = None
    is_paired: bool = True


class NtfyChannel(PushChannel):
    """It exists always, and is joined while a phone is paired.

    A pairing of another process is noticed by its commit: the file and the account are then read
    anew. `page` is an address of the page that a phone can open; empty if there is none.
    """

    name = PHONE

    def __init__(
        self,
        store: Store,
        file: PushFile,
        account: Callable[[], NtfyAccount],
        clock: Clock,
        *,
        page: str = "",
        bot: str = "ollim-bot",
        limits: HttpLimits = LIMITS,
    ) -> None:
        self._store = store
        self._file = file
        self._account = account
        self._clock = clock
        self._page = page
        self._limits = limits
        self._requests = Requests(store, clock)
        self._phone: ServedPhone | None = None
        self._is_paired = asyncio.Event()
        self._what, self._content = PushWhat.ASKS, PushContent.NONE
        self._bot = bot
        self._keeps_buttons = True
        self._arrived: OrderedDict[str, str] = OrderedDict()
        self._doubtful: OrderedDict[str, FirstTry] = OrderedDict()
        self._counted: OrderedDict[str, str] = OrderedDict()
        self._cleared: OrderedDict[str, None] = OrderedDict()

    def is_set_up(self) -> bool:
        """An unreadable file is not taken for none."""
        try:
            return self._file.read() is not None
        except StorageError:
            return True

    async def connected(self) -> str:
        while self._phone is None:
            await self._is_paired.wait()
        return self._phone.pairing.identity

    @asynccontextmanager
    async def sending(self, *, keeps_rows: bool) -> AsyncIterator[None]:
        """Deliver and look up without `run`, for a program that ends then.

        What a button posts must be known to the bot: unless this store `keeps_rows`, messages come
        without buttons.
        """
        self._keeps_buttons = keeps_rows
        pairing = await asyncio.to_thread(self._file.read)
        if pairing is None:
            raise Unreachable(_NOT_PAIRED)
        await self._paired_with(pairing)
        yield
        self._forget()

    async def run(self, service: ChatService) -> None:
        self._bot = service.status.bot_name or self._bot
        with self._store.changes("channels") as changed:
            while True:
                changed.clear()
                pairing = await asyncio.to_thread(self._file.read)
                if pairing is None:
                    self._forget()
                    await changed.wait()
                    continue
                phone = await self._paired_with(pairing)
                await self._serve(phone, service, changed)

    async def _serve(
        self, phone: ServedPhone, service: ChatService, changed: asyncio.Event
    ) -> None:
        """Take replies and follow the settings as long as this pairing holds."""
        tasks = [
            asyncio.create_task(phone.replies.run(service)),
            asyncio.create_task(self._follow_settings()),
            asyncio.create_task(self._until_other(phone.pairing, changed)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_other(self, pairing: Pairing, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            if await asyncio.to_thread(self._file.read) != pairing:
                changed.set()
                return

    async def _follow_settings(self) -> None:
        with self._store.changes("config", "push") as changed:
            while True:
                changed.clear()
                await self._read_settings()
                await changed.wait()

    async def _read_settings(self) -> None:
        config, self._requests.state = await self._store.read(
            lambda tx: (tx.config.get(), tx.push.get())
        )
        self._what, self._content = PushWhat(config.push_what), PushContent(config.push_content)

    async def _paired_with(self, pairing: Pairing) -> ServedPhone:
        if self._phone is not None and self._phone.pairing == pairing:
            return self._phone
        self._forget()
        account = account_for(pairing.server, await asyncio.to_thread(self._read_account))
        client = NtfyClient(pairing.server, account.token, limits=self._limits)
        replies = PhoneReplies(self._store, pairing, client, self._requests, self._clock)

        def step(tx: Transaction) -> None:
            known = tx.push.get()
            if known.identity != pairing.identity:
                tx.push.put(known.of_pairing(pairing.identity))
                tx.push_buttons.withdraw_all()

        await self._store.transact(step)
        await self._read_settings()
        self._phone = ServedPhone(pairing, client, replies, account.reply_token)
        self._is_paired.set()
        return self._phone

    def _read_account(self) -> NtfyAccount:
        try:
            return self._account()
        except BadSettings as wrong:
            _logger.warning("The account of the phone cannot be used: %s", wrong)
            return NtfyAccount()

    def _forget(self) -> None:
        """Keep nothing of a pairing that has ended."""
        self._phone = None
        self._is_paired.clear()
        for known in (self._arrived, self._doubtful, self._counted, self._cleared):
            known.clear()

    def concerns(self, message: ChatMessage) -> bool:
        """Without a pairing all may concern it: one may just have been made."""
        if message.author is Author.OWNER:
            return False
        if self._phone is None:
            return True
        has_room = is_room(self._requests.state, self._clock.now(), must=message.must)
        return is_pushed(message, self._what) and (message.must or has_room)

    async def deliver(self, part: MessagePart) -> str:
        phone, message, nonce = self._required(), part.content, part.nonce
        if nonce in self._arrived:
            return self._arrived[nonce]
        if (tried := self._doubtful.get(nonce)) is not None:
            others = await self._store.read(
                lambda tx: set(tx.deliveries.known_refs(self.name, _REMEMBERED))
            )
            found = await self.find(part, tried.wall - _SKEW, others)
            if found is not None:
                return found
        # Without a disk no button could be known again: it comes without.
        offer = Offer(self._requests.state, self._content)
        if self._keeps_buttons:
            with suppress(StorageError):
                offer = await self._offered(message, nonce)
        if not offer.is_room:
            raise Unreachable(_DAY_IS_OVER) if message.must else DeliveryFailed(_RESERVED)
        _note(self._doubtful, nonce, FirstTry(self._clock.now(), self._clock.monotonic()))
        push = self._push(phone, message, nonce, offer)
        try:
            ref = await self._requests.call(lambda: phone.client.publish(push))
        except (Unreachable, DeliveryFailed):
            self._doubtful.pop(nonce, None)
            raise
        return self._found(nonce, ref)

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        """Look among what the server keeps of the topic.

        That it is not there is certain only if the server still has what is older.
        """
        phone, nonce = self._required(), part.nonce
        if nonce in self._arrived:
            return self._arrived[nonce]
        topic = phone.pairing.topic
        events = await self._requests.call(lambda: phone.client.read(topic))
        for each in events:
            if each.kind == MESSAGE and each.sequence == nonce:
                # It is bare if it was sent while nothing could be kept.
                if part.content.card is not None and not each.has_buttons:
                    await self.edit(each.id, part.content)
                return self._found(nonce, each.id)
        # On a server before 2.16 nothing can be found.
        is_too_old = any(each.id in others and not each.sequence for each in events)
        # Whether the server surely still has all that it got since then: it has something older.
        is_older = any(each.id in others or each.at <= since for each in events)
        if not is_older and (tried := self._doubtful.get(nonce)) is not None:
            is_older = phone.replies.is_unbroken_since(tried.steady)
        if is_too_old or not is_older:
            raise DeliveryFailed(_FORGOTTEN)
        self._doubtful.pop(nonce, None)
        return None

    async def edit(self, ref: str, content: ChatMessage) -> None:
        """Replace it without a sound, or clear it once it is answered.

        A digest stays as it came. Nothing is edited with what the day keeps for what must come.
        """
        phone = self._required()
        if not _REF.fullmatch(ref):
            raise DeliveryFailed("That message was never on the phone.")
        if is_digest(content) or (is_over(content) and ref in self._cleared):
            return
        sequence = part_nonce(content.id, 0)
        if is_over(content):
            await self._clear(phone, ref, content, sequence)
            return
        self._cleared.pop(ref, None)
        name = f"edit {ref} {hash((content.text, content.card))}"
        offer = await self._offered(content, name, is_edit=True)
        if offer.is_room:
            push = self._push(phone, content, sequence, offer, is_repeated=True)
            # A repeat would show it twice on a phone that replaces nothing.
            with suppress(DeliveryUncertain):
                await self._requests.call(lambda: phone.client.publish(push))
        self._counted.pop(name, None)

    async def _clear(
        self, phone: ServedPhone, ref: str, message: ChatMessage, sequence: str
    ) -> None:
        await self._store.transact(lambda tx: tx.push_buttons.withdraw(message.id))
        offer = await self._offered(message, f"clear {ref}", is_edit=True)
        if offer.is_room:
            topic = phone.pairing.topic
            await self._requests.call(lambda: phone.client.clear(topic, sequence))
        _note(self._cleared, ref, None)

    async def _offered(self, message: ChatMessage, name: str, *, is_edit: bool = False) -> Offer:
        """Count what is about to be sent, once for each name and day, and offer its buttons.

        Raises `Unreachable` while the server wants a pause, and once another phone is paired.
        """
        now, identity = self._clock.now(), self._required().pairing.identity
        day = day_of(now)
        is_counted = self._counted.get(name) == day
        chosen = [each.custom_id for _, each in phone_buttons(message)]
        nonces = [secrets.token_urlsafe(NONCE_BYTES) for _ in chosen]
        must = message.must and not is_edit
        until = clock_time(next_day(now).astimezone(now.tzinfo))
        sentence = _RESERVE_BEGUN.format(number=A_DAY - RESERVE, most=A_DAY, until=until)
        notice = new_notice(sentence, key=f"push-reserve {day}")

        def step(tx: Transaction) -> Offer:
            state = tx.push.get()
            content = PushContent(tx.config.get().push_content)
            if not _is_joined(tx, identity):
                return Offer(state, content, is_paired=False)
            has_room = is_counted or is_room(state, now, must=must)
            if is_silent(state, now) or not has_room:
                return Offer(state, content, has_room)
            if not is_counted:
                state = tx.push.change(lambda known: known.counting(now))
                if is_reserve_begun(state, now):
                    leave_notice(tx, notice, now)
            offered = tx.push_buttons.offer(message.id, chosen, nonces, now)
            return Offer(state, content, has_room, dict(offered))

        offer = await self._store.transact(step)
        self._requests.state = offer.state
        if not offer.is_paired:
            raise Unreachable(_NOT_PAIRED)
        if is_silent(offer.state, now):
            raise Unreachable("The server of the phone wants a pause.")
        if offer.is_room:
            _note(self._counted, name, day)
        return offer

    def _push(
        self,
        phone: ServedPhone,
        message: ChatMessage,
        sequence: str,
        offer: Offer,
        *,
        is_repeated: bool = False,
    ) -> Push:
        now = self._clock.now()
        words = wording(message, offer.content, self._bot, now=now, is_repeated=is_repeated)
        nonces, pairing = offer.nonces or {}, phone.pairing
        buttons: list[ReplyButton | LinkButton] = [
            ReplyButton(label, pairing.reply_topic, nonces[each.custom_id], phone.reply_token)
            for label, each in phone_buttons(message)
            if each.custom_id in nonces
        ]
        if self._page and leads_to_page(message):
            buttons.append(LinkButton("Open", self._page))
        return Push(pairing.topic, sequence, *words, buttons=tuple(buttons))

    def _required(self) -> ServedPhone:
        if self._phone is None:
            raise Unreachable(_NOT_PAIRED)
        return self._phone

    def _found(self, nonce: str, ref: str) -> str:
        self._doubtful.pop(nonce, None)
        _note(self._arrived, nonce, ref)
        return ref


def _is_joined(tx: Transaction, identity: str) -> bool:
    """Whether this pairing holds: the commit of another one may not be noticed yet."""
    known = [each.identity for each in tx.channels.all() if each.name == PHONE]
    return known in ([""], [identity])


def _note(known: OrderedDict[str, T], name: str, value: T) -> None:
    """Remember the newest ones."""
    known[name] = value
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
