"""`/today`: one message that says what waits, what comes and what is done, and stays true."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event

from devtools.doubles.clock import ManualClock
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.conversation.scene import NOW, Scene, card_of, scene, scripted

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Card, CardLine
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, LedgerRow, Occurrence
from ollim_bot.kernel.values.overviews import today_overview
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.kernel.values.task_cards import TaskUndo
from ollim_bot.kernel.values.tasks import Task

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


def put_day(at: Scene) -> None:
    """Two items wait, three jobs come, and one item was answered."""
    at.stores.reminders.add(TEA)
    at.stores.routines.add(PILLS)
    at.stores.routines.add(STRETCH)
    done = item(replace(TEA, run_at=NOW - 3 * HOUR), NOW - 3 * HOUR)
    put(
        at,
        item(WATER, NOW - HOUR),
        item(PILLS, NOW - 2 * HOUR),
        done.answered(Answer.DONE, NOW - 2 * HOUR, "web"),
    )


async def today(at: Scene) -> ChatMessage:
    assert (await at.chat.command("web", "/today")).text == ""
    return at.log[-1]


def shown(at: Scene, message: ChatMessage) -> Card:
    return card_of(at.message(message.id))


def buttons(card: Card) -> list[tuple[int, str]]:
    return [(each.line, each.label) for each in card.buttons]


async def test_today_has_what_waits_what_comes_and_what_was_answered() -> None:
    async with scene(scripted()) as at:
        put_day(at)
        card = shown(at, await today(at))
        assert card.problems() == []
        assert card.text.splitlines() == [
            "Today, Tue 24 Feb",
            "Overdue",
            "Take the pills · since 8:15 · not answered",
            "Drink water · since 9:15",
            "Next",
            "11:00 · Stretch · every hour · 12 more today",
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
    async with scene(scripted()) as at:
        put(at, item(WATER, NOW - HOUR))
        message = await today(at)
        (done, _) = shown(at, message).buttons
        assert not (await at.chat.click("web", message.id, done.custom_id)).is_error
        await at.clock.advance(1)
        await at.until(lambda: buttons(shown(at, message)) == [(1, "Done"), (1, "Undo")])
        assert [each.is_used for each in shown(at, message).buttons] == [True, False]
        assert [line.text for line in shown(at, message).lines] == ["✓ Drink water · 10:15"]

        at.stores.reminders.add(TEA)
        at.stores.ledger.append(LedgerRow(NOW, "armed"))
        await at.clock.advance(1)
        await at.until(lambda: len(shown(at, message).lines) == 2)
        assert shown(at, message).lines[1] == CardLine("11:15 · Make tea", "New")
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
    async with scene(scripted()) as at:
        put(at, item(WATER, NOW - HOUR))
        first = await today(at)
        second = await today(at)
        assert (shown(at, first).buttons, len(shown(at, second).buttons)) == ((), 2)
        before = shown(at, first)
        put(at, item(WATER, NOW - HOUR).answered(Answer.LET_GO, NOW, "web"))
        await at.clock.advance(1)
        await at.until(lambda: buttons(shown(at, second)) == [(1, "Done"), (1, "Undo")])
        assert shown(at, first) == before


async def test_a_second_tap_hits_the_same_line_or_nothing() -> None:
    """Whichever button is tapped, all others stay where they are, and Undo brings it back."""
    async with scene(scripted(), clock=ManualClock(NOW)) as at:
        at.stores.reminders.add(TEA)
        at.stores.routines.add(STRETCH)
        put(at, item(WATER, NOW - HOUR), item(PILLS, NOW - 2 * HOUR), item(PILLS, NOW - 14 * HOUR))
        message = await today(at)
        drawn = shown(at, message)
        overdue = [each for each in drawn.buttons if each.line <= 3]
        assert len(overdue) == 8
        for button in overdue:
            assert not (await at.chat.click("web", message.id, button.custom_id)).is_error
            await at.talk.overviews.refresh()
            after = shown(at, message)
            stayed = after.buttons[: len(drawn.buttons)]
            assert [each.line for each in stayed] == [each.line for each in drawn.buttons]
            others = [each for each in drawn.buttons if each.line != button.line]
            assert [each for each in stayed if each.line != button.line] == others
            again = after.buttons[drawn.buttons.index(button)]
            assert again.is_used or again.label == "Undo"
            (undo,) = (each for each in after.buttons if each.label == "Undo")
            assert not (await at.chat.click("web", message.id, undo.custom_id)).is_error
            await at.talk.overviews.refresh()
            assert shown(at, message) == drawn


async def test_what_comes_due_and_a_newer_moment_take_the_place_of_their_line() -> None:
    async with scene(scripted(), clock=ManualClock(NOW)) as at:
        at.stores.reminders.add(TEA)
        stretch = item(STRETCH, NOW - HOUR)
        put(at, stretch)
        message = await today(at)
        assert buttons(shown(at, message)) == [(1, "Done"), (1, "Snooze 1 h"), (2, "Snooze 1 h")]
        at.stores.reminders.remove("t1")
        put(
            at,
            item(STRETCH, NOW).in_place_of(stretch),
            replace(stretch, is_followed_up=True),
            item(TEA, NOW),
        )
        await at.talk.overviews.refresh()
        assert [each.text for each in shown(at, message).lines] == [
            "Stretch · since 10:15",
            "Make tea · since 10:15",
            "Stretch · before: 9:15 · not answered",
        ]
        assert buttons(shown(at, message)) == [
            (line, label) for line in (1, 2) for label in ("Done", "Snooze 1 h")
        ]


async def test_what_is_no_longer_there_keeps_its_place() -> None:
    async with scene(scripted(), clock=ManualClock(NOW)) as at:
        at.stores.reminders.add(TEA)
        at.stores.routines.add(PILLS)
        message = await today(at)
        at.stores.reminders.remove("t1")
        at.stores.ledger.append(LedgerRow(NOW, "armed"))
        await at.talk.overviews.refresh()
        assert shown(at, message).buttons[0].is_used
        assert [each.text for each in shown(at, message).lines] == [
            "11:15 · Make tea · no longer here",
            "20:00 · Take the pills",
        ]
        assert buttons(shown(at, message)) == [(1, "Snooze 1 h"), (2, "Skip once")]
        assert [each.text for each in shown(at, await today(at)).lines] == [
            "20:00 · Take the pills"
        ]


def test_a_task_that_is_ticked_keeps_its_place() -> None:
    first, second = (Task(name, f"Task {name}", due=NOW.date()) for name in ("a", "b"))
    given = ((), (), (), Skips(), NOW, ())
    before = today_overview(*given, [first, second])
    undo = TaskUndo("k", first, "", "m1", before.card.buttons[:1], "", NOW)
    after = today_overview(*given, [second], [undo], shown=before)
    assert [each.text for each in after.card.lines] == ["✓ Task a · 10:15", "Task b · due today"]
    assert [each.label for each in after.card.buttons] == ["Undo", "Done"]


def test_five_rows_of_buttons_stay_five_rows() -> None:
    """Discord has no sixth row, and would set all buttons anew."""
    tasks = [Task(name, f"Task {name}", due=NOW.date()) for name in "abcdef"]
    given = ((), (), (), Skips(), NOW, ())
    before = today_overview(*given, tasks[:5])
    after = today_overview(*given, tasks, shown=before)
    assert after.card.buttons == before.card.buttons
    assert after.card.lines == (*before.card.lines, CardLine("Task f · due today", "New"))
    assert len(today_overview(*given, tasks).card.buttons) == 6


@given(st.lists(st.lists(st.integers(0, 11), unique=True), min_size=1, max_size=6))
def test_what_is_not_shown_is_counted_and_is_no_thing_itself(days: Sequence[list[int]]) -> None:
    """Whatever is done and added meanwhile: each task is a line, or is counted in one."""
    drawn, shown = ((), (), (), Skips(), NOW, ()), None
    for due in days:
        tasks = [Task(f"t{each}", f"Task {each}", due=NOW.date()) for each in due]
        shown = today_overview(*drawn, tasks, shown=shown)
        lines = [each.text for each in shown.card.lines]
        here = [each for each in due if f"Task {each} · due today" in lines]
        counts = [each for each in lines if each.startswith("and ")]
        left = len(due) - len(here)
        assert counts in ([f"and {left} more"] if left else [], ["and no more"] if not left else [])
        assert not {each.line for each in shown.card.buttons if not each.is_used} & {
            number for number, each in enumerate(lines, 1) if each.startswith("and ")
        }
        assert len(lines) == len({*shown.places})


async def test_doses_come_first_then_the_newest_and_every_page_can_be_reached() -> None:
    async with scene(scripted(), clock=ManualClock(NOW)) as at:
        pills = [item(PILLS, NOW - day * 24 * HOUR) for day in range(3)]
        waters = [
            item(replace(WATER, spec=replace(WATER.spec, id=f"w{number}")), NOW - number * HOUR)
            for number in range(10)
        ]
        put(at, *waters, *pills)
        message = await today(at)
        seen: list[str] = []
        for page in range(3):
            card = shown(at, message)
            (turn,) = (each for each in card.buttons if each.label == "Show more")
            here = [each for each in card.buttons if each.label in ("Done", "Taken")]
            more = 13 - len(here) - bool(page)
            assert card.lines[len(here)].text == f"and {more} more"
            seen += [each.data for each in here]
            if page == 0:  # an answer on a page leaves the others where they are
                await at.chat.click("web", message.id, here[-1].custom_id)
                await at.talk.overviews.refresh()
                assert "✓" in shown(at, message).lines[4].text
                assert [each.text for each in shown(at, message).lines[:4]] == [
                    each.text for each in card.lines[:4]
                ]
                assert shown(at, message).lines[-1].text == "and 8 more"
                seen.pop()
            assert not (await at.chat.click("web", message.id, turn.custom_id)).is_error
        assert seen == [each.key for each in (*pills, *waters) if each != waters[1]]
        assert [each.text for each in shown(at, message).lines[:1]] == [
            "Take the pills · since 10:15 · not answered"
        ]
        put(at, item(TEA, NOW))
        await at.talk.overviews.refresh()
        assert shown(at, message).lines[-1] == CardLine("Make tea · since 10:15", "New")


async def test_moments_without_an_answer_are_a_line_of_the_newer_one() -> None:
    async with scene(scripted()) as at:
        last = item(STRETCH, NOW - 9 * HOUR)
        for hour in range(8, 0, -1):
            last = item(STRETCH, NOW - hour * HOUR).in_place_of(last)
        put(at, last)
        card = shown(at, await today(at))
        assert [each.text for each in card.lines] == [
            "Stretch · since 9:15",
            "Stretch · before: 8:15, 7:15, 6:15, 5:15, 4:15 and 3 more · not answered",
        ]
        assert {each.line for each in card.buttons} == {1}


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
