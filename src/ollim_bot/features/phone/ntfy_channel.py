"""The phone as a channel: it rings with what asks something, and shows when it is answered."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ollim_bot.features.phone.ntfy_client import (
    LIMITS,
    MESSAGE,
    LinkButton,
    NtfyClient,
    Push,
    ReplyButton,
)
from ollim_bot.features.phone.pairing import account_for
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.features.phone.replies import (
    NONCE_BYTES,
    PhoneReplies,
    Requests,
    is_room,
    is_silent,
    next_day,
)
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import (
    BadSettings,
    DeliveryFailed,
    DeliveryUncertain,
    StorageError,
    Unreachable,
)
from ollim_bot.kernel.base.http_exchange import HttpLimits
from ollim_bot.kernel.base.moments import clock_time, describe
from ollim_bot.kernel.base.settings import PHONE, NtfyAccount, Secret
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, one_line, shown_literally, visible
from ollim_bot.kernel.store.delivery_rows import part_nonce
from ollim_bot.kernel.store.steps import leave_notice, new_notice
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.channels import PushChannel
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import OF_DIGEST
from ollim_bot.kernel.values.due_items import DONE, SNOOZE, TAKEN
from ollim_bot.kernel.values.ports import ChatService, MessagePart
from ollim_bot.kernel.values.push import KEPT_FOR_MUST, PER_DAY, Pairing, is_announced, is_pushed
from ollim_bot.kernel.values.runtime_config import PushContent, PushWhat
from ollim_bot.kernel.values.surface_state import PushState, day_of

# In bytes, as JSON writes it. The server takes as many, and turns what is longer into a file.
LONGEST_TEXT = 4096
_CUT = "…"
# Line ends, and what joins letters and emoji.
_KEPT = "\n\u200c\u200d"
_LABELS = {DONE: "Done", TAKEN: "Taken"}
_WAITS = {"10m": "10 min", "1h": "1 h"}
# Without a sound: what is shown again, or no longer asks.
_SILENT, _USUAL, _LOUD = 2, 3, 4
_LATE = timedelta(seconds=60)
_WRITTEN = "late · written "

_OTHER = "There is something for you."


class Wording(NamedTuple):
    """What a push says, before it has buttons."""

    title: str
    text: str
    priority: int
    tags: tuple[str, ...]


def wording(
    message: ChatMessage,
    content: PushContent,
    name: str,
    now: datetime,
    *,
    is_repeated: bool = False,
) -> Wording:
    """The words of a push; `name` is the bot's. One that `is_repeated` makes no sound.

    It begins with when it was written, if that is more than a minute ago.
    """
    title, text = _words(message, content)
    text = text or name
    if now - message.at > _LATE:
        text = f"{_WRITTEN}{describe(message.at, now)}\n{text}"
    priority = _LOUD if message.must else _USUAL
    return Wording(
        one_line(shown_literally(title or name), 120),
        cut(visible(shown_literally(text), besides=_KEPT)) or _OTHER,
        _SILENT if is_repeated else priority,
        () if message.untrusted is None else ("warning",),
    )


def phone_buttons(message: ChatMessage) -> Sequence[tuple[str, Button]]:
    """The buttons that the phone has, with their labels there: at most three.

    What asks for more than that has none there.
    """
    if message.card is None or is_announced(message):
        return ()
    usable = [each for each in message.card.buttons if not (each.is_used or each.line or each.asks)]
    settling = [(_LABELS[each.action], each) for each in usable if each.action in _LABELS]
    waits = {each.data.rpartition(":")[2]: each for each in usable if each.action == SNOOZE}
    snoozing = [(label, waits[wait]) for wait, label in _WAITS.items() if wait in waits]
    return [*settling[:1], *snoozing] if settling else []


def leads_to_page(message: ChatMessage) -> bool:
    """Whether it is to be answered on the page."""
    return is_digest(message) or is_announced(message)


def is_digest(message: ChatMessage) -> bool:
    return message.id.startswith(OF_DIGEST)


def is_over(message: ChatMessage) -> bool:
    """Whether a card asks for nothing any more."""
    card = message.card
    return card is not None and not phone_buttons(message) and not is_announced(message)


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, shortened at a character so that it has at most so many bytes in JSON."""
    if _size(text) <= longest:
        return text
    left = longest - _size(_CUT)
    for place, letter in enumerate(text):
        left -= _size(letter)
        if left < 0:
            return text[:place].rstrip() + _CUT
    return text


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def _words(message: ChatMessage, content: PushContent) -> tuple[str, str]:
    """Title and text; the bot's name stands for an empty one."""
    if content is PushContent.FULL:
        return _whole_words(message)
    if message.untrusted is not None:
        return "", f"{_sort(message)} {FROM_UNTRUSTED}"
    title = message.card.title if message.card else message.job
    if title and content is PushContent.TITLE and not is_digest(message):
        return title, ""
    return "", _sort(message)


def _whole_words(message: ChatMessage) -> tuple[str, str]:
    title, words = message.job, message.text
    if (card := message.card) is not None:
        words = words or card.text
        if not is_digest(message):
            title, words = card.title, card.text.removeprefix(card.title)
    return title, "\n\n".join(filter(None, (words.strip(), message.footer.strip())))


def _sort(message: ChatMessage) -> str:
    """What came, without a word of it."""
    if is_digest(message):
        return "Messages waited while it was quiet."
    if is_announced(message):
        return "I need an answer from you."
    return "A reminder waits for you." if message.card and message.occurrence else _OTHER


_REF = re.compile(r"[A-Za-z0-9]{12}")
_REMEMBERED = 500
# The clock of this machine may be wrong by as much.
_SKEW = timedelta(hours=1)

_NOT_PAIRED = "No phone is paired."
_DAY_IS_OVER = "The server of the phone takes no more today."
_RESERVED = "The rest of what the phone takes today is kept for what must come."
_FORGOTTEN = "The server of the phone keeps nothing that old, or has forgotten it."
_PAUSED = "The server of the phone wants a pause."
_RESERVE_BEGUN = (
    "Your phone got {number} messages today, and its server takes {most} a day. Until {until} only "
    "what must come goes there; everything is on the page."
)

_logger = logging.getLogger(__name__)


class ServedPhone(NamedTuple):
    """A pairing, and who speaks with its server."""

    pairing: Pairing
    client: NtfyClient
    replies: PhoneReplies
    reply_token: Secret | None


@dataclass(slots=True)
class Sending:
    """What this process knows of a push, or of the changes of one.

    It is counted on `day`. If it may have arrived, `tried` is when it was first tried, by two
    clocks. `ref` is the server's id of what has arrived, and set for a card that was cleared.
    """

    day: str = ""
    tried: tuple[datetime, float] | None = None
    ref: str = ""


class Offer(NamedTuple):
    """What was committed before a push is sent: what its buttons post; None if there is no room."""

    content: PushContent
    nonces: Mapping[str, str] | None


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
        self._bot = bot
        self._limits = limits
        self._requests = Requests(store, clock)
        self._phone: ServedPhone | None = None
        self._is_paired = asyncio.Event()
        self._what, self._content = PushWhat.ASKS, PushContent.NONE
        self._keeps_buttons = True
        self._known: OrderedDict[str, Sending] = OrderedDict()

    def is_set_up(self) -> bool:
        """An unreadable file is not taken for none."""
        with suppress(StorageError):
            return self._file.read() is not None
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
        if await self._refreshed() is None:
            raise Unreachable(_NOT_PAIRED)
        yield
        self._forget()

    async def run(self, service: ChatService) -> None:
        """Follow the pairing and the settings, and take the replies of the phone that is paired."""
        self._bot = service.status.bot_name or self._bot
        with self._store.changes("channels", "config", "push") as changed:
            while True:
                changed.clear()
                phone = await self._refreshed()
                if phone is None:
                    await changed.wait()
                    continue
                replies = asyncio.create_task(phone.replies.run(service))
                replies.add_done_callback(lambda _: changed.set())
                try:
                    while self._phone is phone:
                        await changed.wait()
                        changed.clear()
                        if replies.done():
                            replies.result()
                        await self._refreshed()
                finally:
                    replies.cancel()
                    await asyncio.gather(replies, return_exceptions=True)

    async def _refreshed(self) -> ServedPhone | None:
        """The phone that is paired now, with the settings as they are now."""
        pairing = await asyncio.to_thread(self._file.read)
        if pairing is None or self._phone is None or self._phone.pairing != pairing:
            self._forget()
        if pairing is None:
            return None
        phone = self._phone or await self._taken_up(pairing)
        config, self._requests.state = await self._store.read(
            lambda tx: (tx.config.get(), tx.push.get())
        )
        self._what, self._content = PushWhat(config.push_what), PushContent(config.push_content)
        self._phone = phone
        self._is_paired.set()
        return phone

    async def _taken_up(self, pairing: Pairing) -> ServedPhone:
        try:
            given = await asyncio.to_thread(self._account)
        except BadSettings as wrong:
            _logger.warning("The account of the phone cannot be used: %s", wrong)
            given = NtfyAccount()
        account = account_for(pairing.server, given)

        def step(tx: Transaction) -> None:
            known = tx.push.get()
            if known.identity != pairing.identity:
                tx.push.put(known.of_pairing(pairing.identity))
                tx.push_buttons.withdraw_all()

        await self._store.transact(step)
        client = NtfyClient(pairing.server, account.token, limits=self._limits)
        replies = PhoneReplies(self._store, pairing, client, self._requests, self._clock)
        return ServedPhone(pairing, client, replies, account.reply_token)

    def _forget(self) -> None:
        """Keep nothing of a pairing that has ended."""
        self._phone = None
        self._is_paired.clear()
        self._known.clear()

    def concerns(self, message: ChatMessage) -> bool:
        """Without a pairing all may concern it: one may just have been made."""
        if message.author is Author.OWNER:
            return False
        if self._phone is None:
            return True
        has_room = is_room(self._requests.state, self._clock.now(), must=message.must)
        return is_pushed(message, self._what) and (message.must or has_room)

    async def deliver(self, part: MessagePart) -> str:
        phone, message = self._required(), part.content
        known = self._sending(part.nonce)
        if known.ref:
            return known.ref
        if known.tried is not None:
            others = await self._store.read(
                lambda tx: set(tx.deliveries.known_refs(self.name, _REMEMBERED))
            )
            if (found := await self.find(part, known.tried[0] - _SKEW, others)) is not None:
                return found
        # Without a disk no button could be known again: it comes without.
        offer = Offer(self._content, {})
        if self._keeps_buttons:
            with suppress(StorageError):
                offer = await self._offered(message, known)
        if offer.nonces is None:
            raise Unreachable(_DAY_IS_OVER) if message.must else DeliveryFailed(_RESERVED)
        known.tried = self._clock.now(), self._clock.monotonic()
        push = self._push(phone, message, part.nonce, offer)
        try:
            known.ref = await self._requests.call(lambda: phone.client.publish(push))
        except (Unreachable, DeliveryFailed):
            known.tried = None
            raise
        return known.ref

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        """Look among what the server keeps of the topic.

        That it is not there is certain only if the server still has what is older.
        """
        phone, nonce = self._required(), part.nonce
        known = self._sending(nonce)
        if known.ref:
            return known.ref
        topic = phone.pairing.topic
        events = await self._requests.call(lambda: phone.client.read(topic))
        for each in events:
            if each.kind == MESSAGE and each.sequence == nonce:
                # It is bare if it was sent while nothing could be kept.
                if part.content.card is not None and not each.has_buttons:
                    await self.edit(each.id, part.content)
                known.ref = each.id
                return each.id
        # The server surely still has all that it got since then, if it has something older.
        is_kept = any(each.id in others or each.at <= since for each in events)
        if not is_kept and known.tried is not None:
            is_kept = phone.replies.is_unbroken_since(known.tried[1])
        # A server before 2.16 keeps no sequences, so that nothing can be found.
        if not is_kept or any(each.id in others and not each.sequence for each in events):
            raise DeliveryFailed(_FORGOTTEN)
        known.tried = None
        return None

    async def edit(self, ref: str, content: ChatMessage) -> None:
        """Replace it without a sound, or clear it once it is answered.

        A digest stays as it came. Nothing is edited with what the day keeps for what must come.
        """
        phone = self._required()
        if not _REF.fullmatch(ref):
            raise DeliveryFailed("That message was never on the phone.")
        if is_digest(content):
            return
        known, sequence = self._sending(f"edit {ref}"), part_nonce(content.id, 0)
        is_answered = is_over(content)
        if is_answered:
            if known.ref:
                return
            await self._store.transact(lambda tx: tx.push_buttons.withdraw(content.id))
        offer = await self._offered(content, known, is_edit=True)
        if offer.nonces is not None:
            push = self._push(phone, content, sequence, offer, is_repeated=True)
            topic, client = phone.pairing.topic, phone.client
            if is_answered:
                await self._requests.call(lambda: client.clear(topic, sequence))
            else:
                # A repeat would show it twice on a phone that replaces nothing.
                with suppress(DeliveryUncertain):
                    await self._requests.call(lambda: client.publish(push))
        known.day, known.ref = "", ref if is_answered else ""

    async def _offered(
        self, message: ChatMessage, known: Sending, *, is_edit: bool = False
    ) -> Offer:
        """Count what is about to be sent, once for each day, and offer its buttons.

        Raises `Unreachable` while the server wants a pause, and once another phone is paired.
        """
        now, identity = self._clock.now(), self._required().pairing.identity
        day, must = day_of(now), message.must and not is_edit
        chosen = [each.custom_id for _, each in phone_buttons(message)]
        nonces = [secrets.token_urlsafe(NONCE_BYTES) for _ in chosen]
        until = clock_time(next_day(now).astimezone(now.tzinfo))
        sentence = _RESERVE_BEGUN.format(number=PER_DAY - KEPT_FOR_MUST, most=PER_DAY, until=until)
        notice = new_notice(sentence, key=f"push-reserve {day}")

        def step(tx: Transaction) -> tuple[PushState, Offer]:
            # The commit of another pairing may not be noticed yet.
            joined = [each.identity for each in tx.channels.all() if each.name == PHONE]
            if joined not in ([""], [identity]):
                raise Unreachable(_NOT_PAIRED)
            state, content = tx.push.get(), PushContent(tx.config.get().push_content)
            if is_silent(state, now):
                raise Unreachable(_PAUSED)
            if known.day != day:
                if not is_room(state, now, must=must):
                    return state, Offer(content, None)
                state = tx.push.change(lambda before: before.counting(now))
                if not is_room(state, now, must=False):
                    leave_notice(tx, notice, now)
            return state, Offer(content, tx.push_buttons.offer(message.id, chosen, nonces, now))

        self._requests.state, offer = await self._store.transact(step)
        if offer.nonces is not None:
            known.day = day
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
        words = wording(message, offer.content, self._bot, now, is_repeated=is_repeated)
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

    def _sending(self, name: str) -> Sending:
        """What is known under a name; the newest ones are remembered."""
        known = self._known.setdefault(name, Sending())
        self._known.move_to_end(name)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known
