"""The kept week is rehearsed again when something has changed, and tells what a draft changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from devtools.doubles.clock import A_FRACTION, ManualClock
from tests.conversation.scene import NOW
from tests.domain.rehearsal_jobs import routine
from tests.stores import memory_stores

from ollim_bot.conversation.jobs.week import WeekPlans
from ollim_bot.domain.cron import Cron


async def test_the_week_is_kept_until_something_changes() -> None:
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
