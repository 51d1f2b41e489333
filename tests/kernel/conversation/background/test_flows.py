"""Whole background runs: what reaches the owner, and what is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.kernel.conversation.background.real_scene import PING, REPORT, RealScene, calls
from tests.kernel.conversation.background.scene import reminder, routine
from tests.kernel.engine.scene import spoken

from ollim_bot.kernel.values.jobs import Chain, ReportMode
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.offline.server import Reply

BANK = calls(PING, message="The bank wrote.")


def one_report(words: str) -> Reply:
    return calls(REPORT, message=words)


async def pinging(at: RealScene, **fields: Any) -> asyncio.Task[OccurrenceState]:
    """Start a run whose ping waits for its turn."""
    at.model.then(calls(PING, message="Call mum."))
    task = at.scene.start(reminder(update_main_session=ReportMode.FREELY, **fields))
    await at.scene.until(lambda: at.scene.clock.sleeping == 2)
    return task


async def test_a_blocked_report_is_refused_with_what_to_do(in_process: RealScene) -> None:
    in_process.model.then(one_report("Psst."))
    await in_process.scene.run(routine(update_main_session=ReportMode.BLOCKED))
    assert in_process.results() == ["This job may not report to the main session. End without it."]


async def test_a_ping_while_the_owner_is_answered_is_refused_and_told_to_the_agent(
    in_process: RealScene,
) -> None:
    in_process.model.then(BANK, one_report("The bank wrote."))
    scene = in_process.scene
    scene.is_busy = True
    await scene.run(routine())
    assert scene.said == []
    assert in_process.results()[0] == (
        "The owner is in the middle of a conversation. "
        "Leave it with `report_updates`, or end without a message."
    )
    assert scene.pending == ["The bank wrote."]
    assert scene.store.run(lambda tx: tx.budget.get()).tokens == 5


async def test_a_reminder_that_was_ordered_waits_for_the_end_of_the_answer(
    in_process: RealScene,
) -> None:
    scene = in_process.scene
    scene.is_busy = True
    task = await pinging(in_process, must=True)
    await scene.clock.advance(30)
    assert scene.said == []
    scene.is_busy = False
    await scene.clock.advance(1)
    assert await task is OccurrenceState.DONE
    assert scene.said == ["Call mum."]
    assert scene.store.run(lambda tx: tx.budget.get()).tokens == 5


async def test_but_not_for_longer_than_two_minutes(in_process: RealScene) -> None:
    scene = in_process.scene
    scene.is_busy = True
    task = await pinging(in_process, must=True)
    await scene.clock.advance(120)
    assert await task is OccurrenceState.DONE
    assert scene.said == ["Call mum."]


async def test_a_check_of_a_chain_sets_the_next_one(in_process: RealScene) -> None:
    in_process.model.then(calls("mcp__discord__follow_up_chain", minutes_from_now=30))
    scene = in_process.scene
    await scene.run(reminder("root", chain=Chain(max=2)))
    assert "CHAIN CONTEXT: check 1 of 3." in spoken(in_process.model.requests[0])[0]
    (stored,) = scene.stores.reminders.all()
    assert stored.item.chain == Chain(max=2, depth=1, parent="root")
    assert stored.item.spec.message == "Look at the mail."


async def test_the_last_check_of_a_chain_sets_none(in_process: RealScene) -> None:
    in_process.model.then(calls("mcp__discord__follow_up_chain", minutes_from_now=30))
    scene = in_process.scene
    await scene.run(reminder("last", chain=Chain(max=2, depth=2, parent="root")))
    assert "This was the last check of the chain" in in_process.results()[0]
    assert scene.stores.reminders.all() == []
