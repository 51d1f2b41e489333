"""The week on the page is made once for all looks, and again after a change of what it shows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from tests.conversation.scene import scene, scripted
from tests.conversation.test_today import STRETCH
from tests.patience import patience
from tests.web.weeks import calendar

from ollim_bot.conversation.jobs.week import AFTER_CHANGE, WeekPanel, WeekPlans
from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.errors import NotFound, WrongInput


async def test_the_week_is_kept_until_something_changes() -> None:
    calendars: list[CalendarCopy] = []
    async with scene(scripted()) as at:
        at.stores.routines.add(STRETCH)
        plans = WeekPlans(at.stores.state, at.stores.repositories, frozenset, at.clock)
        panel = WeekPanel(at.stores.state, plans.week, lambda: tuple(calendars), at.clock)
        async with aclosing(panel.changes()) as changes:
            changed = asyncio.ensure_future(anext(changes))
            first, second = await asyncio.gather(panel.look({}), panel.look({}))
            assert first is second

            hour = first.days[0].hours[0].key
            assert [each.key for each in (await panel.look({"hour": hour})).only] == [hour]
            for hour, refusal in (("tomorrow", WrongInput), ("2020-01-01T00", NotFound)):
                with pytest.raises(refusal):
                    await panel.look({"hour": hour})

            calendars.append(calendar(first.now))
            third = await panel.look({})
            assert third is not first
            assert third.rehearsal is first.rehearsal

            await at.stores.state.transact(
                lambda tx: tx.config.change(lambda it: it.with_value("quiet_hours", "22:00-07:00"))
            )
            await at.clock.advance(AFTER_CHANGE.total_seconds())
            await asyncio.wait_for(changed, patience())
            assert (await panel.look({})).quiet
