"""One message on its way to a service: how far it has come, and what is certain about it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.outgoing import Failure, Sending, Sent, Tried
from ollim_bot.ports import Clock

# Discord compares a nonce with those of "the past few minutes". A repeat that begins within two of
# them arrives within three, since no call is waited for longer than one.
_REMEMBERED = 120.0

# How wrong our clock may have been, or be now, without a message being overlooked.
_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Instant:
    """By both clocks: one does not go on while a laptop sleeps, the other may be set."""

    wall: datetime
    steady: float

    @classmethod
    def of(cls, clock: Clock) -> Instant:
        return cls(clock.now(), clock.monotonic())

    def is_recent(self, clock: Clock) -> bool:
        wall = (clock.now() - self.wall).total_seconds()
        return 0 <= wall < _REMEMBERED and clock.monotonic() - self.steady < _REMEMBERED


@dataclass(slots=True)
class Passage:
    """`refs` are the ids of the parts that have arrived. The part after them is the next one.

    `tried_at` is when it stands in the outbox that the next part may be on its way. `is_in_doubt`
    is whether it may have arrived; `first_try` is the earliest try that may have brought it there,
    None if that was in an earlier life. `readings` is how often the service could not tell.
    """

    sending: Sending
    parts: Sequence[ChatMessage]
    end: asyncio.Future[Sent | Failure]
    refs: tuple[str, ...] = ()
    tried_at: datetime | None = None
    is_in_doubt: bool = False
    first_try: Instant | None = None
    readings: int = 0

    @classmethod
    def of(cls, sending: Sending, parts: Sequence[ChatMessage], last: Tried | None) -> Passage:
        end: asyncio.Future[Sent | Failure] = asyncio.get_running_loop().create_future()
        if last is None:
            return cls(sending, parts, end)
        return cls(sending, parts, end, last.refs, last.at, is_in_doubt=True)

    @property
    def id(self) -> MessageId:
        return self.sending.message.id

    @property
    def last_try(self) -> Tried | None:
        """For another passage of the same message, which then asks first what has arrived."""
        if not self.refs and not self.is_in_doubt:
            return None
        return Tried(self.sending.at, self.id, self.refs[: len(self.parts) - 1])

    @property
    def is_whole(self) -> bool:
        return len(self.refs) >= len(self.parts)

    @property
    def part(self) -> ChatMessage:
        return self.parts[len(self.refs)]

    @property
    def nonce(self) -> str:
        """Always the same for the same part, so that even a try that arrives late is known."""
        name = f"{self.id} {len(self.refs)}"
        return hashlib.blake2s(name.encode(), digest_size=12).hexdigest()

    def earliest(self, clock: Clock) -> datetime:
        """When the next part may have been sent, at the earliest."""
        now = clock.now()
        return min(self.tried_at or now, now) - _SKEW

    def must_be_looked_for(self, clock: Clock) -> bool:
        """Whether handing it over again might double it."""
        is_known = self.first_try is not None and self.first_try.is_recent(clock)
        return self.is_in_doubt and not is_known

    def surely_absent(self) -> None:
        self.tried_at, self.is_in_doubt, self.first_try, self.readings = None, False, None, 0

    def arrived(self, ref: str) -> None:
        self.surely_absent()
        self.refs = (*self.refs, ref)
