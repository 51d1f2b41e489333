"""The prompts behind the buttons that the agent has made."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ollim_bot.domain.cards import LIVE_FOR


@dataclass(frozen=True, slots=True)
class ButtonPrompt:
    """A prompt that a click sends. `key` is 8 hexadecimal characters, `ts` is in unix seconds.

    `untrusted` are the untrusted sources that the turn had read when it stored the prompt.
    """

    key: str
    prompt: str
    ts: float
    untrusted: tuple[str, ...] = ()

    def is_live(self, now: float) -> bool:
        return now - self.ts < LIVE_FOR


@dataclass(frozen=True, slots=True)
class ButtonPrompts:
    waiting: tuple[ButtonPrompt, ...] = ()

    def pruned(self, now: float) -> ButtonPrompts:
        return ButtonPrompts(tuple(inquiry for inquiry in self.waiting if inquiry.is_live(now)))

    def stored(self, inquiry: ButtonPrompt) -> ButtonPrompts:
        others = self.without({inquiry.key})
        return ButtonPrompts((*others.waiting, inquiry)).pruned(inquiry.ts)

    def without(self, keys: Set[str]) -> ButtonPrompts:
        return ButtonPrompts(tuple(inquiry for inquiry in self.waiting if inquiry.key not in keys))

    def taken(self, key: str, now: float) -> tuple[ButtonPrompts, ButtonPrompt | None]:
        """The prompts without that one, and the prompt unless it was taken or has expired."""
        live = self.pruned(now)
        found = next((inquiry for inquiry in live.waiting if inquiry.key == key), None)
        return live.without({key}), found
