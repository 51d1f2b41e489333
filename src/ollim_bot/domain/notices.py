"""What the program has told the owner once, and what waits to be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

MOST_TOLD = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` names what must not be told again."""

    id: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """`told` has what was told, by key, and when, the newest as the last; `untold` waits."""

    told: Mapping[str, datetime] = field(default_factory=dict)
    last_told_at: datetime | None = None
    untold: tuple[Notice, ...] = ()

    def knows(self, key: str) -> bool:
        return key in self.told or any(each.key == key for each in self.untold)

    def with_new(self, notice: Notice) -> NoticeRecord:
        return replace(self, untold=(*self.untold, notice))

    def having_told(self, notices: Sequence[Notice], now: datetime) -> NoticeRecord:
        """Only the newest keys stay, by the order of telling, since a clock may go back."""
        keys = [each.key for each in notices]
        told = {key: when for key, when in self.told.items() if key not in keys}
        kept = [*told.items(), *((key, now) for key in keys)][-MOST_TOLD:]
        ids = {each.id for each in notices}
        untold = tuple(each for each in self.untold if each.id not in ids)
        return NoticeRecord(dict(kept), now, untold)

    def without(self, key: str) -> NoticeRecord:
        """So that it is told when it comes again."""
        return replace(self, told={name: at for name, at in self.told.items() if name != key})

    def keys(self, start: str) -> list[str]:
        """The keys that begin so, of all that was told or waits."""
        known = (*self.told, *(each.key for each in self.untold))
        return [key for key in known if key.startswith(start)]
