"""The week on the page is made once for all looks, and again after a change of what it shows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.clock import A_FRACTION, ManualClock
from tests.features.today.test_today import STRETCH
from tests.features.week.rehearsal_jobs import routine
from tests.kernel.conversation.scene import NOW, scene, scripted
from tests.patience import patience
from tests.stores import memory_stores
from tests.surfaces.web.weeks import calendar

from ollim_bot.features.week.week_view import AFTER_CHANGE, WeekPanel, WeekPlans
from ollim_bot.kernel.base.errors import NotFound, WrongInput
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.cron import Cron


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


async def test_the_rehearsal_is_kept_and_tells_what_a_draft_changes() -> None:
    clock = ManualClock(NOW)
    stores = memory_stores(clock.now)
    rehearsals = 0

    def skills() -> set[str]:
        nonlocal rehearsals
        rehearsals += 1
        return set()

    plans = WeekPlans(stores.state, stores.repositories, skills, clock)
    mail = routine("mail", "0 23 * * *")
    assert await plans.difference(None, mail) == "Adds 7 pings in the coming week."
    await clock.advance(1800)
    assert await plans.difference(None, mail) == "Adds 7 pings in the coming week."
    assert rehearsals == 1

    await stores.state.transact(
        lambda tx: tx.config.change(lambda old: old.with_value("quiet_hours", "22:00-07:00"))
    )
    await clock.advance(1)
    waiting = "Adds 7 pings in the coming week, 7 more waiting until your quiet hours end."
    assert await plans.difference(None, mail) == waiting
    assert rehearsals == 2

    stores.routines.add(mail)
    await clock.advance(2)
    weekly = replace(mail, rhythm=Cron.parse("0 23 * * 1"))
    assert await plans.difference(mail, weekly) == (
        "Removes 6 pings from the coming week, 6 fewer waiting until your quiet hours end."
    )
    assert rehearsals == 3
    kept = await plans.week()
    assert rehearsals == 3
    assert [*kept.week.jobs.values()] == [mail]
    assert kept.week.now == NOW + A_FRACTION + timedelta(minutes=30, seconds=3)
