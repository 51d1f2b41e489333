"""Which session sent which message, so that a reply can go on from there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ollim_bot.domain.sessions import SessionId

_DAY = 86400
LIVE_FOR = 7 * _DAY
REMEMBERED_FOR = LIVE_FOR + 30 * _DAY


@dataclass(frozen=True, slots=True)
class ForkMessage:
    message_id: int
    fork_session_id: SessionId
    parent_session_id: SessionId | None
    ts: float


class ForkLife(StrEnum):
    LIVE = "live"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ForkLookup:
    """`record` is None exactly when the message is unknown."""

    life: ForkLife
    record: ForkMessage | None = None


def lookup_fork_session(records: Iterable[ForkMessage], message_id: int, now: float) -> ForkLookup:
    """What is known of a message; of several records of one message the last counts."""
    found = {record.message_id: record for record in records}.get(message_id)
    if found is None or now - found.ts >= REMEMBERED_FOR:
        return ForkLookup(ForkLife.UNKNOWN)
    life = ForkLife.LIVE if now - found.ts < LIVE_FOR else ForkLife.EXPIRED
    return ForkLookup(life, found)


def with_fork_message(
    records: Iterable[ForkMessage], sent: ForkMessage, now: float
) -> tuple[ForkMessage, ...]:
    """With `sent` recorded, in place of an earlier record of its message, and old ones gone."""
    kept = (
        record
        for record in records
        if now - record.ts < REMEMBERED_FOR and record.message_id != sent.message_id
    )
    return (*kept, sent)
