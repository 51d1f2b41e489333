"""Follows the topic of the replies, and presses the buttons that were pressed on the phone.

Anyone who knows the topic can write there. So a line is looked at for one thing: a nonce that a
button carries. Any other text does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from threading import Thread
from typing import NamedTuple, TypeVar

from ollim_bot.features.phone.ntfy_client import MESSAGE, Event, NtfyClient, TooMany
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError, Unreachable
from ollim_bot.kernel.base.settings import PHONE
from ollim_bot.kernel.store.delivery_rows import PushButton
from ollim_bot.kernel.store.steps import leave_notice, new_notice
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.ports import ChatService
from ollim_bot.kernel.values.push import KEPT_FOR_MUST, PER_DAY, Pairing
from ollim_bot.kernel.values.surface_state import PushState

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

_logger = logging.getLogger(__name__)


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
