"""The phone as a channel: it rings with what asks something, and its buttons answer.

Anyone who knows the topic of the replies can write there. So a line is looked at for one thing: a
nonce that a button carries. Any other text does nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from threading import Thread
from typing import NamedTuple, TypeVar

from ollim_bot.features.phone.ntfy_client import (
    LIMITS,
    MESSAGE,
    Event,
    LinkButton,
    NtfyClient,
    Push,
    ReplyButton,
    TooMany,
)
from ollim_bot.features.phone.pairing import account_for
from ollim_bot.features.phone.push_file import PushFile
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
from ollim_bot.kernel.store.delivery_rows import PushButton, part_nonce
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

_logger = logging.getLogger(__name__)

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


R = TypeVar("R")

# Requests at once, then one per so many seconds.
BURST, REFILL = 60, 5.0
# Of a request: the clock of the server does not go exactly as ours.
_SPARE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
# A request that would wait for longer is made later.
_LONGEST_WAIT = 30.0
_LATER = "The server of the phone takes no more requests for now."


class Bucket(NamedTuple):
    """The requests that the server still takes at a moment of a steady clock."""

    left: float
    at: float

    def taken(self, now: float) -> tuple[Bucket, float]:
        """The bucket after one more request, and the seconds until that is surely taken."""
        at = max(now, self.at)
        left = min(float(BURST), self.left + (at - self.at) / REFILL)
        return Bucket(left - 1, at), max(0.0, (1 + _SPARE - left) * REFILL)


def is_room(state: PushState, now: datetime, *, must: bool) -> bool:
    """Whether the day has room for one more message: the last ones are for what must come."""
    return state.sent_on(now) < (PER_DAY if must else PER_DAY - KEPT_FOR_MUST)


def is_silent(state: PushState, now: datetime) -> bool:
    """Whether the server has asked for a pause that is not over."""
    return state.quiet_until is not None and now < state.quiet_until


def next_day(now: datetime) -> datetime:
    """The moment at which the server counts from 0 again."""
    day = now.astimezone(UTC).date() + timedelta(days=1)
    return datetime.combine(day, time(), UTC)


def pause_after(refusals: int, asked: float | None) -> timedelta:
    """How long to send nothing: as asked, or longer with each refusal in a row."""
    own = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(refusals, 10))
    return timedelta(seconds=own if asked is None else max(1.0, asked))


class Requests:
    """`state` is the stored one as it was last seen."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.state = PushState()
        self._store = store
        self._clock = clock
        self._bucket = Bucket(BURST, clock.monotonic())
        self._refusals = 0

    async def call(self, work: Callable[[], R]) -> R:
        """The result of a request, after a wait of seconds if need be.

        Raises `Unreachable` without a request while the server wants none.
        """
        await self.turn()
        try:
            result = await asyncio.to_thread(work)
        except TooMany as refused:
            await self.fall_silent(refused)
            raise
        self._refusals = 0
        return result

    async def turn(self) -> None:
        """Return when one more request may be made."""
        bucket, wait = self._bucket.taken(self._clock.monotonic())
        if is_silent(self.state, self._clock.now()) or wait > _LONGEST_WAIT:
            raise Unreachable(_LATER)
        self._bucket = bucket
        if wait:
            await self._clock.sleep(wait)

    async def fall_silent(self, refused: TooMany) -> None:
        """Keep the pause that the server wants, also across a restart."""
        now = self._clock.now()
        until = now + pause_after(self._refusals, refused.wait)
        if refused.is_of_day and refused.wait is None:
            until = next_day(now)
        self._refusals += 1
        self.state = await self._store.transact(
            lambda tx: tx.push.change(lambda state: state.silent_until(until))
        )


NONCE_BYTES = 12
MOST_LINES, PERIOD = 60, 60.0
# So many tries in a row fail before the owner is shown that the server is away.
_SHOWN_AFTER = 4
_FLOOD = (
    "The topic that the buttons of your phone write to gets far more than they write. Presses may "
    "get lost. `ollim-bot push setup --new` changes the topics."
)


class PhoneReplies:
    """The buttons of one pairing."""

    def __init__(
        self, store: Store, pairing: Pairing, client: NtfyClient, requests: Requests, clock: Clock
    ) -> None:
        self._store = store
        self._pairing = pairing
        self._client = client
        self._requests = requests
        self._clock = clock
        self._reader: TopicReader | None = None
        self._failures = 0
        self._trouble = ""

    def is_unbroken_since(self, moment: float) -> bool:
        """Whether one stream has lasted since before that moment of the steady clock.

        The server has not been restarted then, and has forgotten nothing.
        """
        return self._reader is not None and self._reader.is_unbroken_since(moment)

    async def run(self, service: ChatService) -> None:
        """Follow the replies until cancelled, and come back after each break."""
        while True:
            try:
                await self._requests.turn()
                await self._follow(service)
            except TooMany as refused:
                await self._requests.fall_silent(refused)
            except Unreachable as broken:
                _logger.info("The replies of the phone cannot be read: %s", broken)
                self._failures += 1
                if self._failures == _SHOWN_AFTER:
                    self._trouble = f"Your phone gets nothing now: {broken!s}"
                    await service.trouble(self._trouble)
            await self._clock.sleep(min(60.0, 2.0 ** min(self._failures, 6)))

    async def _follow(self, service: ChatService) -> None:
        """Take what comes until the stream breaks, which raises `Unreachable`."""
        state = await self._store.read(lambda tx: tx.push.get())
        since = state.last_reply or str(int(self._pairing.paired_at.timestamp()))
        topic = self._pairing.reply_topic
        reader = self._reader = TopicReader(self._client, topic, since, self._clock)
        try:
            while True:
                event = await reader.next()
                self._failures = 0
                if self._trouble and service.status.trouble in ("", self._trouble):
                    await service.trouble("")
                self._trouble = ""
                await self._take(service, event, reader)
        finally:
            self._reader = None
            await reader.close()

    async def _take(self, service: ChatService, event: Event | None, reader: TopicReader) -> None:
        """Press what was pressed, and note how far the topic was read and what was dropped."""
        text = event.text if event is not None else ""
        button = await self._store.read(lambda tx: tx.push_buttons.find(text))
        is_done = button is not None and await self._pressed(service, button)
        dropped = reader.take_dropped()
        if event is None and not dropped:
            return
        now = self._clock.now()
        notice = new_notice(_FLOOD, key=f"push-flood {self._pairing.identity}")

        def step(tx: Transaction) -> None:
            if button is not None:
                tx.push_buttons.use(text)
            tx.push.change(
                lambda state: state.having_read(
                    event.id if event is not None else "",
                    wrong=int(event is not None and not is_done),
                    dropped=dropped,
                    pressed=now if is_done else None,
                )
            )
            if dropped:
                leave_notice(tx, notice, now)

        await self._store.transact(step)

    async def _pressed(self, service: ChatService, button: PushButton) -> bool:
        """Whether the press did something."""
        while True:
            try:
                answer = await service.click(PHONE, button.message, button.custom_id)
            except StorageError:
                _logger.warning("A press on the phone waits for the disk", exc_info=True)
                await self._store.until_writable()
                await self._clock.sleep(1.0)
                continue
            except Exception:  # one press that fails must not keep back the others
                _logger.exception("A press on the phone failed in an unforeseen way")
                return False
            return not answer.is_error


class TopicReader:
    """Reads a topic in a thread of its own; what is more than a period may have is dropped."""

    def __init__(self, client: NtfyClient, topic: str, since: str, clock: Clock) -> None:
        self._stream = client.stream()
        self._events = client.follow(self._stream, topic, since)
        self._clock = clock
        self._connected_at: float | None = None
        self._taken: deque[float] = deque(maxlen=MOST_LINES)
        self._too_many, self._noted = 0, 0
        # Whether the loop was told of those that were dropped since it has noted some.
        self._is_told = False
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        self._thread = Thread(target=self._read, name="push-replies", daemon=True)
        self._thread.start()

    async def next(self) -> Event | None:
        """The next message; None says that it is connected, or that some were dropped.

        Raises `Unreachable` when the stream breaks.
        """
        item = await self._arrived.get()
        if isinstance(item, Exception):
            raise item
        return item

    def take_dropped(self) -> int:
        """How many were dropped since the last call: too many, or too long."""
        # First, so that one that is dropped meanwhile is told.
        self._is_told = False
        total = self._too_many + self._stream.dropped
        found, self._noted = total - self._noted, total
        return found

    def is_unbroken_since(self, moment: float) -> bool:
        connected = self._connected_at
        return connected is not None and connected <= moment and self._stream.is_alive()

    async def close(self) -> None:
        self._stream.close()
        await asyncio.to_thread(self._thread.join, 5.0)

    def _read(self) -> None:
        try:
            for event in self._events:
                self._receive(event, self._clock.monotonic())
            self._hand_over(Unreachable("its server has ended the connection."))
        except Unreachable as broken:
            self._hand_over(broken)
        except Exception:  # the thread must not end without a word
            _logger.exception("The replies of the phone could not be read")
            self._hand_over(Unreachable("its answers cannot be read."))

    def _receive(self, event: Event, now: float) -> None:
        if self._connected_at is None:
            self._connected_at = now
            self._hand_over(None)
        if event.kind == MESSAGE:
            if len(self._taken) == MOST_LINES and now - self._taken[0] < PERIOD:
                self._too_many += 1
            else:
                self._taken.append(now)
                self._hand_over(event)
        # A sign of life comes soon after the last line that was too long.
        if self._too_many + self._stream.dropped > self._noted and not self._is_told:
            self._is_told = True
            self._hand_over(None)

    def _hand_over(self, item: Event | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, item)
