"""Views of the page that are read from the store in one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from ollim_bot.domain.costs import CostReport, month_start
from ollim_bot.domain.phrases.durations import parse_duration
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.cost_reports import costs_since
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.transaction import Transaction

Shown = TypeVar("Shown")
# What a view shows of one state of the store, for the words of the address.
Question = Callable[[Mapping[str, str], Transaction], Shown]


class StoreView(Generic[Shown]):
    """A `View` made of these records and tables."""

    def __init__(self, store: Store, question: Question[Shown], made_of: Iterable[str]) -> None:
        self._store = store
        self._question = question
        self._made_of = tuple(made_of)

    async def look(self, asked: Mapping[str, str]) -> Shown:
        return await self._store.read(partial(self._question, asked))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *self._made_of)


def money_view(store: Store, clock: Clock) -> StoreView[CostReport]:
    """What the model costs since the first of the month, or for so long as `since` says."""

    def question(asked: Mapping[str, str], tx: Transaction) -> CostReport:
        now = clock.now()
        return costs_since(tx, _since(asked.get("since", ""), now), now)

    return StoreView(store, question, ("usage", "config"))


def _since(words: str, now: datetime) -> datetime:
    try:
        moment = (now.astimezone(UTC) - parse_duration(words)).astimezone(now.tzinfo)
    except (WrongInput, OverflowError):
        return month_start(now)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
