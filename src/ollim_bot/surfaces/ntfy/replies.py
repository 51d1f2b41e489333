"""Follows the topic of the replies, and presses the buttons that were pressed on the phone.

Anyone who knows the topic can write there. So a line is looked at for one thing: a nonce that a
button carries. Any other text does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from threading import Thread

from ollim_bot.domain.push import Pairing
from ollim_bot.errors import StorageError, Unreachable
from ollim_bot.ports import ChatService, Clock
from ollim_bot.settings import PHONE
from ollim_bot.store.push_buttons import PushButton
from ollim_bot.store.steps import leave_notice, new_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.surfaces.ntfy.client import MESSAGE, Event, Following, NtfyClient, TooMany
from ollim_bot.surfaces.ntfy.requests import Requests

NONCE_BYTES = 12
MOST_LINES, PERIOD = 60, 60.0
_NONCE = re.compile(r"[A-Za-z0-9_-]{16}")
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
        self._reader: LineReader | None = None
        self._trouble = ""

    def is_unbroken_since(self, moment: float) -> bool:
        """Whether one stream has lasted since before that moment of the steady clock.

        The server has not been restarted then, and has forgotten nothing.
        """
        return self._reader is not None and self._reader.is_unbroken_since(moment)

    async def run(self, service: ChatService) -> None:
        """Follow the replies until cancelled, and come back after each break."""
        failures = 0
        while True:
            try:
                await self._requests.turn()
                async with aclosing(self._batches()) as batches:
                    async for events in batches:
                        failures = 0
                        if self._trouble and service.status.trouble in ("", self._trouble):
                            await service.trouble("")
                        self._trouble = ""
                        await self._take(service, events)
            except TooMany as refused:
                await self._requests.fall_silent(refused)
            except Unreachable as broken:
                _logger.info("The replies of the phone cannot be read: %s", broken)
                failures += 1
                if failures == _SHOWN_AFTER:
                    self._trouble = f"Your phone gets nothing now: {broken!s}"
                    await service.trouble(self._trouble)
            await self._clock.sleep(min(60.0, 2.0 ** min(failures, 6)))

    async def _batches(self) -> AsyncGenerator[Sequence[Event], None]:
        state = await self._store.read(lambda tx: tx.push.get())
        since = state.last_reply or str(int(self._pairing.paired_at.timestamp()))
        following = self._client.follow(self._pairing.reply_topic, since)
        reader = self._reader = LineReader(following, self._clock.monotonic)
        try:
            async for events in reader.batches():
                yield events
        finally:
            self._reader = None
            await reader.close()

    async def _take(self, service: ChatService, events: Sequence[Event]) -> None:
        """Press what was pressed, and note how far the topic was read."""
        wrong, last = 0, ""
        for event in events:
            button = await self._button(event.text)
            last = event.id
            if button is None:
                wrong += 1
                continue
            is_done = await self._pressed(service, button)
            await self._note(last, wrong if is_done else wrong + 1, event.text, is_done=is_done)
            wrong = 0
        if wrong or (self._reader is not None and self._reader.dropped):
            await self._note(last, wrong)

    async def _button(self, text: str) -> PushButton | None:
        if not _NONCE.fullmatch(text):
            return None
        return await self._store.read(lambda tx: tx.push_buttons.find(text))

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

    async def _note(self, last: str, wrong: int, nonce: str = "", *, is_done: bool = False) -> None:
        now = self._clock.now()
        dropped = 0 if self._reader is None else self._reader.take_dropped()
        notice = new_notice(_FLOOD, key=f"push-flood {self._pairing.identity}")

        def step(tx: Transaction) -> None:
            if nonce:
                tx.push_buttons.use(nonce)
            tx.push.change(
                lambda state: state.having_read(
                    last, wrong=wrong, dropped=dropped, pressed=now if is_done else None
                )
            )
            if dropped:
                leave_notice(tx, notice, now)

        await self._store.transact(step)


class LineReader:
    """Reads a stream in a thread of its own, at most so many messages in a period.

    `dropped` counts those beyond that, and the lines that were too long.
    """

    def __init__(self, following: Following, monotonic: Callable[[], float]) -> None:
        self._following = following
        self._monotonic = monotonic
        self._taken: deque[float] = deque()
        self._dropped = 0
        self._noted = 0
        # Whether the loop was told of those that were dropped since it has noted some.
        self._is_told = False
        self._connected_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        self._thread = Thread(target=self._read, name="push-replies", daemon=True)

    @property
    def dropped(self) -> int:
        """Those that were not noted yet."""
        return self._dropped + self._following.dropped - self._noted

    def take_dropped(self) -> int:
        # First, so that one that is dropped meanwhile is told.
        self._is_told = False
        found = self.dropped
        self._noted += found
        return found

    def is_unbroken_since(self, moment: float) -> bool:
        connected = self._connected_at
        return connected is not None and connected <= moment and self._following.is_alive()

    async def batches(self) -> AsyncIterator[Sequence[Event]]:
        """The messages as they come; an empty batch says that it is connected, or of dropped ones.

        Raises `Unreachable` when the stream breaks.
        """
        self._thread.start()
        while True:
            found = [await self._arrived.get()]
            while not self._arrived.empty():
                found.append(self._arrived.get_nowait())
            broken = [each for each in found if isinstance(each, Exception)]
            if not broken or len(found) > 1:
                yield [each for each in found if isinstance(each, Event)]
            for each in broken:
                raise each

    async def close(self) -> None:
        self._following.close()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    def _read(self) -> None:
        try:
            for event in self._following.events():
                if self._connected_at is None:
                    self._connected_at = self._monotonic()
                    self._hand_over(None)
                if event.kind == MESSAGE:
                    self._receive(event)
                # A sign of life comes soon after the last line that was too long.
                if self.dropped and not self._is_told:
                    self._is_told = True
                    self._hand_over(None)
            self._hand_over(Unreachable("its server has ended the connection."))
        except Unreachable as broken:
            self._hand_over(broken)
        except Exception:  # the thread must not end without a word
            _logger.exception("The replies of the phone could not be read")
            self._hand_over(Unreachable("its answers cannot be read."))

    def _receive(self, event: Event) -> None:
        now = self._monotonic()
        while self._taken and now - self._taken[0] >= PERIOD:
            self._taken.popleft()
        if len(self._taken) < MOST_LINES:
            self._taken.append(now)
            self._hand_over(event)
        else:
            self._dropped += 1

    def _hand_over(self, item: Event | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, item)
