"""Prompts stored behind buttons, each to be taken once."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

LIVE_FOR = 7 * 86400


@dataclass(frozen=True, slots=True)
class Inquiry:
    """`key` is 8 hexadecimal characters, `ts` unix seconds.

    `untrusted` are the sources of what the turn had read that has stored it.
    """

    key: str
    prompt: str
    ts: float
    untrusted: tuple[str, ...] = ()

    def is_live(self, now: float) -> bool:
        return now - self.ts < LIVE_FOR


@dataclass(frozen=True, slots=True)
class Inquiries:
    waiting: tuple[Inquiry, ...] = ()

    def pruned(self, now: float) -> Inquiries:
        return Inquiries(tuple(inquiry for inquiry in self.waiting if inquiry.is_live(now)))

    def stored(self, inquiry: Inquiry) -> Inquiries:
        others = self.without({inquiry.key})
        return Inquiries((*others.waiting, inquiry)).pruned(inquiry.ts)

    def without(self, keys: Set[str]) -> Inquiries:
        return Inquiries(tuple(inquiry for inquiry in self.waiting if inquiry.key not in keys))

    def taken(self, key: str, now: float) -> tuple[Inquiries, Inquiry | None]:
        """Without the inquiry, and the inquiry itself unless it was taken before or expired."""
        live = self.pruned(now)
        found = next((inquiry for inquiry in live.waiting if inquiry.key == key), None)
        return live.without({key}), found
