"""What a person sees of a careful session, with the button that ends it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.cards import Button, ButtonStyle
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.moments import describe
from ollim_bot.domain.text import shortened

GO_ON = "go_on"
_LONGEST_SOURCE = 80


@dataclass(frozen=True, slots=True)
class CarefulTime:
    """Since when the conversation is careful, and why, in words; `key` is for `go_on`."""

    words: str
    key: str

    @property
    def button(self) -> Button:
        return Button("Go on, it is all right", GO_ON, self.key, ButtonStyle.PRIMARY)


@dataclass(frozen=True, slots=True)
class CarefulSession:
    """A session that has read these, the oldest first, since the owner last wrote in it.

    `key` is another one after each further source.
    """

    session: SessionId | None
    sources: tuple[str, ...]
    since: datetime

    @property
    def key(self) -> str:
        what = repr((self.session, self.sources, self.since.timestamp()))
        return hashlib.sha256(what.encode()).hexdigest()[:16]

    @property
    def named(self) -> list[str]:
        """The sources as a person reads them, on one line each."""
        return [shortened(" ".join(each.split()), _LONGEST_SOURCE) for each in self.sources]

    def since_when(self, now: datetime) -> str:
        """`careful since 14:02`, with the day if it is not today."""
        return f"careful since {describe(self.since, now).removeprefix('today ')}"

    def shown(self, now: datetime) -> CarefulTime:
        """`careful since 14:02: web page example.org and 2 more`."""
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return CarefulTime(f"{self.since_when(now)}: {self.named[0]}{more}", self.key)
