"""The health of the installation on the page: the doctor's lines, kept until the next look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from ollim_bot.domain.health import HealthLine, HealthReport, WayOut
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.ports import Clock
from ollim_bot.settings import channel_label
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.upkeep.doctor import DoctorFinding, Repair


class Examiner(Protocol):
    """The doctor of the running bot. Both methods block."""

    def examine(self) -> Sequence[DoctorFinding]: ...

    def mend(self, findings: Sequence[DoctorFinding], /) -> Sequence[Repair]: ...


class HealthPage:
    """An `ActingView`. The actions are `look` and `fix` (`name` of a part).

    An examination runs while `changes` is followed; the first look asks for the first one.
    """

    def __init__(
        self, store: Store, clock: Clock, channels: Sequence[str], doctor: Examiner
    ) -> None:
        self._store = store
        self._clock = clock
        self._channels = channels
        self._doctor = doctor
        self._found: Sequence[DoctorFinding] = ()
        self._looked: datetime | None = None
        self._is_wanted = asyncio.Event()

    async def look(self, _: Mapping[str, str]) -> HealthReport:
        if self._looked is None:
            self._is_wanted.set()
        ways, pending = await self._store.read(self._read)
        return HealthReport(
            self._clock.now(),
            [
                HealthLine(each.level, each.name, each.detail, each.next, each.mend is not None)
                for each in self._found
            ],
            self._looked,
            self._is_wanted.is_set(),
            ways,
            pending,
        )

    async def changes(self) -> AsyncIterator[None]:
        while True:
            await self._is_wanted.wait()
            yield
            self._found = await asyncio.to_thread(self._doctor.examine)
            self._looked = self._clock.now()
            self._is_wanted.clear()
            yield

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == "look":
            self._is_wanted.set()
            return ViewAnswer("Looking.")
        chosen = [each for each in self._found if each.name == fields.get("name") and each.mend]
        if action != "fix" or not chosen:
            return ViewAnswer("There is nothing to mend there. Look again.", is_error=True)
        repairs = await asyncio.to_thread(self._doctor.mend, chosen)
        self._is_wanted.set()
        told = " ".join(f"{each.name}: {each.what}." for each in repairs)
        return ViewAnswer(told or "There was nothing left to mend.")

    async def preview(self, _: str, _fields: Mapping[str, str]) -> Preview:
        return Preview()

    def _read(self, tx: Transaction) -> tuple[list[WayOut], int]:
        ways = [
            WayOut(
                channel_label(name),
                tx.deliveries.newest_confirmed(name),
                tx.deliveries.count_open(name),
            )
            for name in self._channels
            if tx.channels.is_joined(name)
        ]
        return ways, len(tx.updates.get().entries)
