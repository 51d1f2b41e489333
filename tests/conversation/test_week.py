"""The week is rehearsed once for all looks, and again after a change of what it is made of."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest
from tests.conversation.scene import Scene, scene, scripted
from tests.conversation.test_today import STRETCH
from tests.patience import patience

from ollim_bot.conversation.jobs.week import WeekPanel, WeekRehearser
from ollim_bot.domain.rehearsal.week import RehearsedWeek
from ollim_bot.errors import WrongInput


class CountedRehearsals:
    def __init__(self, at: Scene) -> None:
        self.count = 0
        self._rehearser = WeekRehearser(
            at.stores.state, at.stores.repositories, frozenset, at.clock
        )

    async def rehearse(self) -> RehearsedWeek:
        self.count += 1
        return await self._rehearser.rehearse()


async def test_the_week_is_kept_until_something_changes_or_time_passes() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(STRETCH)
        rehearsals = CountedRehearsals(at)
        panel = WeekPanel(at.stores.state, rehearsals.rehearse, tuple, at.clock)
        async with aclosing(panel.changes()) as changes:
            changed = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            first, second = await asyncio.gather(panel.look({}), panel.look({}))
            assert first is second
            assert rehearsals.count == 1

            hour = first.days[0].hours[0].key
            assert [each.key for each in (await panel.look({"hour": hour})).only] == [hour]
            for wrong in ("tomorrow", "2020-01-01T00"):
                with pytest.raises(WrongInput):
                    await panel.look({"hour": wrong})
            assert rehearsals.count == 1

            await at.stores.state.transact(
                lambda tx: tx.config.change(lambda it: it.with_value("quiet_hours", "22:00-07:00"))
            )
            await asyncio.wait_for(changed, patience())
            assert (await panel.look({})).quiet
            assert rehearsals.count == 2

            await at.clock.advance(timedelta(minutes=10).total_seconds())
            assert (await panel.look({})).now == at.clock.now()
            assert rehearsals.count == 3
