"""Views of the page that are read from the store in one step: money and settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from ollim_bot.domain.changes import Changer
from ollim_bot.domain.costs import Amount, CostReport, month_start
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.phone import PHONE_ACTIONS, PhoneView
from ollim_bot.domain.phrases.durations import parse_duration
from ollim_bot.domain.runtime_config import CONFIG_KEYS
from ollim_bot.domain.setting_view import PresentState, SettingGroup, SettingsView, setting_groups
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.cost_reports import costs_since
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store, Watches, changes_of
from ollim_bot.store.transaction import Transaction

# What a new minute changes in the costs is small: the pace of the month.
_COSTS_KEPT = timedelta(minutes=1)
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


class _KeptCosts(NamedTuple):
    """The report of that moment, and what it was made of."""

    report: CostReport
    made_of: tuple[object, ...]
    at: datetime


def money_view(store: Store, clock: Clock) -> StoreView[CostReport]:
    """What the model costs since the first of the month, or for so long as `since` says."""

    kept: _KeptCosts | None = None

    def question(asked: Mapping[str, str], tx: Transaction) -> CostReport:
        nonlocal kept
        now = clock.now()
        since = month_start(now)
        with suppress(WrongInput, OverflowError):
            ago = now.astimezone(UTC) - parse_duration(asked.get("since", ""))
            day = ago.astimezone(now.tzinfo)
            since = day.replace(hour=0, minute=0, second=0, microsecond=0)
        made_of = (since, now.date(), tx.usage.newest_place(), tx.config.get().daily_cost_cap)
        is_kept = kept is not None and kept.made_of == made_of
        if kept is None or not is_kept or not timedelta() <= elapsed(kept.at, now) < _COSTS_KEPT:
            kept = _KeptCosts(costs_since(tx, since, now), made_of, now)
        return kept.report

    return StoreView(store, question, ("usage", "config"))


# Sets a key to a value, or to its default for None, and says what has changed.
ChangeSetting = Callable[[Changer, str, str | None], Awaitable[str]]


class PhoneSettings(Protocol):
    """The owner's phone among the settings. `news` are published at each step of a pairing."""

    news: Watches

    async def run(self) -> None:
        """Carry out the attempts that are begun on the page, until cancelled."""

    async def look(self, asked: Mapping[str, str], /) -> PhoneView: ...

    async def act(self, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Do one of `PHONE_ACTIONS`."""


class SettingPage:
    """An `ActingView`. The actions are `set` (`key`, `value`), `default` (`key`), the phone's."""

    def __init__(
        self, store: Store, clock: Clock, change: ChangeSetting, phone: PhoneSettings | None = None
    ) -> None:
        self._phone = phone
        self._store = store
        self._clock = clock
        self._change = change

    async def look(self, asked: Mapping[str, str]) -> SettingsView:
        phone = await self._phone.look(asked) if self._phone else None
        return SettingsView(await self._store.read(self._read), phone)

    def changes(self) -> AsyncIterator[None]:
        news = self._phone.news if self._phone else None
        return changes_of(self._store, "config", "quiet", "zone", "channels", "push", also=news)

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if self._phone is not None and action in PHONE_ACTIONS:
            return await self._phone.act(action, fields)
        key, value = fields.get("key", ""), fields.get("value", "")
        if key not in CONFIG_KEYS or action not in ("set", "default"):
            return ViewAnswer("There is no such setting.", is_error=True)
        try:
            told = await self._change(Changer.PAGE, key, value if action == "set" else None)
        except WrongInput as wrong:
            return ViewAnswer(str(wrong), is_error=True, field="value")
        return ViewAnswer(told)

    async def preview(self, _: str, _fields: Mapping[str, str]) -> Preview:
        return Preview()

    def _read(self, tx: Transaction) -> list[SettingGroup]:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = Amount.of(tx.usage.since(midnight))
        at = PresentState(now, quiet_settings(tx, now.tzinfo), spent)
        return setting_groups(tx.config.get(), at)
