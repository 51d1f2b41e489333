"""The notices that were told to the owner, and those that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

MOST_TOLD = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` identifies what must not be told again."""

    id: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """`told` has the moment of each told key, newest last; `untold` are the notices that wait."""

    told: Mapping[str, datetime] = field(default_factory=dict)
    last_told_at: datetime | None = None
    untold: tuple[Notice, ...] = ()

    def knows(self, key: str) -> bool:
        return key in self.told or any(each.key == key for each in self.untold)

    def with_new(self, notice: Notice) -> NoticeRecord:
        return replace(self, untold=(*self.untold, notice))

    def having_told(self, notices: Sequence[Notice], now: datetime) -> NoticeRecord:
        """Record told notices.

        The newest keys stay, in the order of telling: a clock may go back.
        """
        keys = [each.key for each in notices]
        told = {key: when for key, when in self.told.items() if key not in keys}
        kept = [*told.items(), *((key, now) for key in keys)][-MOST_TOLD:]
        ids = {each.id for each in notices}
        untold = tuple(each for each in self.untold if each.id not in ids)
        return NoticeRecord(dict(kept), now, untold)

    def without(self, key: str) -> NoticeRecord:
        """Forget the key, so that it is told when it comes again."""
        return replace(self, told={name: at for name, at in self.told.items() if name != key})

    def keys(self, start: str) -> list[str]:
        """The keys with this beginning, among those told and those that wait."""
        known = (*self.told, *(each.key for each in self.untold))
        return [key for key in known if key.startswith(start)]
