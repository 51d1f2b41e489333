"""An answer can be taken back until the next moment of its job or midnight, and is a change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.store.test_item_answers import (
    CHECK,
    HOUR,
    NOW,
    OTHER,
    PILL,
    TEA,
    WATER,
    answers,
    ask,
    files,
    given_answers,
    labels,
    stored,
)
from tests.stores import Stores

from ollim_bot.kernel.changes.file_changes import UndoRefused
from ollim_bot.kernel.changes.item_answers import end_undo, undo_answer_change
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.occurrences import Answer

DAY = 24 * HOUR


def rows(stores: Stores) -> list[ChangeRow]:
    """The changes, oldest first."""
    return stores.state.query(lambda tx: tx.changes.newest(100))[::-1]


def undo(stores: Stores, change: ChangeRow, job: Job | None = None) -> DueItem:
    by = Changer.COMMAND.value
    return stores.state.run(lambda tx: undo_answer_change(tx, change, by, job, "c2"))


async def test_after_ten_minutes_an_answer_is_taken_back_with_all_that_followed() -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + 5 * HOUR)
    await clock.advance(3600)
    stores.state.run(end_undo)
    assert labels(stores) == []
    both = (answers(stores).take_back(item.key, "web") for _ in range(2))
    ends = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(end, UndoRefused) for end in ends) == 1
    assert labels(stores)[0] == "Done"
    assert files(stores) == {"check": CHECK, "other": OTHER}
    assert given_answers(stores, item) == ["snoozed", "undone"]
    (again,) = stores.state.query(lambda tx: tx.due_items.to_come_again())
    assert again.again_at == clock.now() + timedelta(minutes=10)


async def test_the_limit_is_the_next_moment_or_midnight_and_a_sentence_says_which() -> None:
    evening = replace(PILL, spec=replace(PILL.spec, id="evening"))
    weekly = replace(WATER, rhythm=Cron.parse("0 9 * * 1"))
    cases = (
        (WATER, Answer.DONE, None, HOUR, "The next moment of “Water” has come"),
        (evening, Answer.TAKEN, None, 15 * HOUR, "until midnight; “Pill” was answered"),
        (weekly, Answer.LET_GO, None, 15 * HOUR, "until midnight; “Water” was answered"),
        (TEA, Answer.MOVED, 2 * HOUR, 2 * HOUR, "has come again, to the moment of its snooze"),
    )
    for job, answer, wait, limit, why in cases:
        for late, is_over in ((-timedelta(seconds=30), False), (timedelta(), True)):
            clock = ManualClock(NOW)
            stores = stored(clock)
            if job is not TEA:
                stores.routines.add(job)  # type: ignore[arg-type]
            item = ask(stores, job, "1")
            until = None if wait is None else NOW + wait
            await answers(stores).answer(item.key, answer, "web", until)
            await clock.advance((limit + late).total_seconds())
            if not is_over:
                assert (await answers(stores).take_back(item.key, "web")).is_open, job
                continue
            with pytest.raises(UndoRefused, match=why):
                await answers(stores).take_back(item.key, "web")


async def test_a_later_card_ends_the_undo_of_an_earlier_answer() -> None:
    """Also one that no rhythm foretells: the owner has run the job by hand."""
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = ask(stores, PILL, "1")
    await answers(stores).answer(item.key, Answer.TAKEN, "web")
    ask(stores, PILL, "2", NOW + HOUR)
    with pytest.raises(UndoRefused, match="so this answer stays"):
        await answers(stores).take_back(item.key, "web")


async def test_an_answer_and_its_undo_are_changes_that_undo_each_other_once() -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.SNOOZED, "agent", NOW + 2 * HOUR)
    (done,) = rows(stores)
    assert (done.kind, done.by, done.what) == ("answer", Changer.AGENT, "“Drink tea”")
    assert undo(stores, done).is_open
    with pytest.raises(UndoRefused) as refused:
        undo(stores, done)
    assert str(refused.value) == "It was undone before."
    _, taken_back = rows(stores)
    assert (taken_back.undoes, taken_back.by) == (done.key, Changer.COMMAND)
    again = undo(stores, taken_back)
    assert (again.answer, again.until, again.copy) == (Answer.SNOOZED, NOW + 2 * HOUR, "c2")
    with pytest.raises(UndoRefused, match="another answer since"):
        undo(stores, done)
    undo(stores, rows(stores)[-1])
    await answers(stores).answer(item.key, Answer.DONE, "web")
    assert [each.by for each in rows(stores)][-1] is Changer.BUTTON
    await answers(stores).take_back(item.key, "web")
    assert [each.undoes != "" for each in rows(stores)] == [False, True, True, True, False, True]
    assert (rows(stores)[-1].before, rows(stores)[-1].after) == (
        "done\nDrink tea\n",
        "open\nDrink tea\n",
    )


async def test_a_running_bot_changes_the_files_for_another_process() -> None:
    stores = stored(ManualClock(NOW))
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + 5 * HOUR)
    following = asyncio.create_task(JobFileChanges(stores.state, stores.repositories).follow())
    await asyncio.sleep(0)
    undo(stores, rows(stores)[-1])
    with stores.state.changes("job_ops") as has_changed:
        while files(stores) != {"check": CHECK, "other": OTHER}:
            await has_changed.wait()
            has_changed.clear()
    following.cancel()
