"""`/today`: one message that says what waits, what comes and what is done, and stays true."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event

from tests.conversation.scene import NOW, Scene, scene, scripted

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.due_items import Answer, DueItem
from ollim_bot.domain.jobs import ItemKind, JobKind, JobSpec, Reminder, Routine
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.store.transaction import Transaction
from ollim_bot.testing.clock import ManualClock

HOUR = timedelta(hours=1)
WATER = Reminder(JobSpec(id="w1", message="Drink water."), NOW - HOUR)
PILLS = Routine(
    JobSpec(id="p1", message="Take the pills", kind=ItemKind.DOSE), Cron.parse("0 8,20 * * *")
)
TEA = Reminder(JobSpec(id="t1", message="Make tea"), NOW + HOUR)
STRETCH = Routine(JobSpec(id="s1", message="Stretch"), Cron.parse("0 * * * *"))


def item(job: Reminder | Routine, due: datetime) -> DueItem:
    kind = JobKind.REMINDER if isinstance(job, Reminder) else JobKind.ROUTINE
    occurrence = Occurrence.scheduled(kind, job.spec.id, due)
    return DueItem.of(job, occurrence, MessageId("m1"), due)


def put(at: Scene, *items: DueItem) -> None:
    def step(tx: Transaction) -> None:
        for each in items:
            tx.due_items.put(each)

    at.store.run(step)


async def today(at: Scene) -> ChatMessage:
    assert (await at.chat.command("web", "/today")).text == ""
    return at.log[-1]


def shown(at: Scene, message: ChatMessage) -> Card:
    card = at.message(message.id).card
    assert card is not None
    return card


def buttons(card: Card) -> list[tuple[int, str]]:
    return [(each.line, each.label) for each in card.buttons]


async def test_today_has_what_waits_what_comes_and_what_was_answered() -> None:
    async with scene(scripted()) as at:
        for job in (TEA,):
            at.stores.reminders.add(job)
        for routine in (PILLS, STRETCH):
            at.stores.routines.add(routine)
        done = item(replace(TEA, run_at=NOW - 3 * HOUR), NOW - 3 * HOUR)
        put(
            at,
            item(WATER, NOW - HOUR),
            item(PILLS, NOW - 2 * HOUR),
            done.answered(Answer.DONE, NOW - 2 * HOUR, "web"),
        )
        card = shown(at, await today(at))
        assert card.problems() == []
        assert card.text.splitlines() == [
            "Today, Tue 24 Feb",
            "Overdue",
            "Take the pills · since 8:15 · not answered",
            "Drink water · since 9:15",
            "Next",
            "11:00 · Stretch · 12 more today",
            "11:15 · Make tea",
            "20:00 · Take the pills",
            "Done",
            "✓ Make tea · 8:15",
        ]
        assert buttons(card) == [
            (1, "Taken"),
            (1, "Skipped"),
            (1, "Snooze 1 h"),
            (2, "Done"),
            (2, "Snooze 1 h"),
            (3, "Skip once"),
            (4, "Snooze 1 h"),
            (5, "Skip once"),
        ]


async def test_an_empty_day_says_so() -> None:
    async with scene(scripted()) as at:
        card = shown(at, await today(at))
        assert card.description == "Nothing waits for you, and nothing more comes today."
        assert card.lines == ()


async def test_the_message_follows_answers_jobs_and_runs() -> None:
    clock = ManualClock(NOW)
    async with scene(scripted(), clock=clock) as at:
        put(at, item(WATER, NOW - HOUR))
        message = await today(at)
        (done, _) = shown(at, message).buttons
        assert not (await at.chat.click("web", message.id, done.custom_id)).is_error
        await clock.advance(1)
        await at.until(lambda: buttons(shown(at, message)) == [(1, "Undo")])
        assert [line.text for line in shown(at, message).lines] == ["✓ Drink water · 10:15"]

        at.stores.reminders.add(TEA)
        at.stores.ledger.append(LedgerRow(NOW, "armed"))
        await clock.advance(1)
        await at.until(lambda: len(shown(at, message).lines) == 2)
        assert shown(at, message).lines[0].text == "11:15 · Make tea"
        assert len([each for each in at.log if each.card]) == 1, "it is one message"


async def test_a_skip_on_its_line_is_seen_there() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PILLS)
        message = await today(at)
        (skip,) = shown(at, message).buttons
        answer = await at.chat.click("web", message.id, skip.custom_id)
        assert answer.text.startswith("Skipped: Take the pills, today 20:00.")
        assert [line.text for line in shown(at, message).lines] == [
            "20:00 · Take the pills · skipped"
        ]
        assert buttons(shown(at, message)) == [(1, "Do not skip")]


async def test_only_the_newest_message_has_buttons_and_is_kept_up_to_date() -> None:
    clock = ManualClock(NOW)
    async with scene(scripted(), clock=clock) as at:
        put(at, item(WATER, NOW - HOUR))
        first = await today(at)
        second = await today(at)
        assert (shown(at, first).buttons, len(shown(at, second).buttons)) == ((), 2)
        before = shown(at, first)
        put(at, item(WATER, NOW - HOUR).answered(Answer.LET_GO, NOW, "web"))
        await clock.advance(1)
        await at.until(lambda: buttons(shown(at, second)) == [(1, "Undo")])
        assert shown(at, first) == before


async def test_one_that_was_replaced_while_it_was_drawn_gets_no_buttons_back() -> None:
    is_slow, is_drawn, goes_on = Event(), Event(), Event()

    def calendars() -> tuple[()]:
        if is_slow.is_set() and not is_drawn.is_set():
            is_drawn.set()
            goes_on.wait(60)
        return ()

    async with scene(scripted(), clock=ManualClock(NOW), calendars=calendars) as at:
        put(at, item(WATER, NOW - HOUR))
        first = await today(at)
        is_slow.set()
        redrawing = asyncio.create_task(at.talk.overviews.refresh())
        await at.until(is_drawn.is_set)
        second = await today(at)
        goes_on.set()
        await redrawing
        assert (shown(at, first).buttons, len(shown(at, second).buttons)) == ((), 2)


async def test_it_goes_on_after_a_restart_and_ends_at_midnight() -> None:
    clock = ManualClock(NOW)
    async with scene(scripted(), clock=clock) as at:
        put(at, item(WATER, NOW - HOUR))
        message = await today(at)
        stores = at.stores
    put_later = item(PILLS, NOW - HOUR)
    stores.state.run(lambda tx: tx.due_items.put(put_later))
    async with scene(scripted(), stores=stores, clock=clock) as at:
        await at.until(lambda: len(shown(at, message).lines) == 2)
        await clock.advance(14 * 3600)
        await at.until(lambda: shown(at, message).buttons == ())
        assert len(shown(at, message).lines) == 2
        assert at.store.query(lambda tx: tx.overviews.get()).messages == {}
