"""An answer to a due item is atomic, counts once, and can be undone as a whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.crashing import Crash, CrashingRepository, CrashingStore, StepCounter
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.changes.file_changes import UndoRefused
from ollim_bot.kernel.changes.item_answers import (
    ItemAnswers,
    add_item,
    add_missed,
    answer_reply,
    end_undo,
)
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.steps import note_agent_skills
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem, open_card, settled_card
from ollim_bot.kernel.values.jobs import Chain, ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.updates import PendingUpdates

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPEC = JobSpec(id="tea", message="Drink tea.")
TEA = Reminder(replace(SPEC, nag=Nag(timedelta(minutes=10), 4)), NOW, Chain(3))
CHECK = Reminder(replace(SPEC, id="check"), NOW + HOUR, Chain(3, 1, "tea"))
OTHER = Reminder(JobSpec(id="other", message="Stretch."), NOW + HOUR)
PILL = Routine(JobSpec(id="pill", message="Pill", kind=ItemKind.DOSE), Cron.parse("0 9 * * *"))

Life = Callable[[ItemAnswers, JobFileChanges], Awaitable[object]]


def ask(stores: Stores, job: Reminder | Routine, name: str, at: datetime = NOW) -> DueItem:
    """Show the item of a job on a new message, as a ping does."""
    kind = JobKind.REMINDER if isinstance(job, Reminder) else JobKind.ROUTINE
    item = DueItem.of(job, Occurrence.scheduled(kind, job.spec.id, at), MessageId(name), at)
    message = ChatMessage(
        item.card,
        at,
        Author.BACKGROUND,
        "Tea?",
        footer="late",
        card=open_card(item, at, "Tea?"),
        occurrence=item.occurrence,
    )

    def step(tx: Transaction) -> None:
        tx.messages.add(message)
        add_item(tx, item)

    stores.state.run(step)
    return item


def stored(clock: ManualClock | None = None) -> Stores:
    stores = memory_stores(clock.now if clock else NOW)
    for reminder in (CHECK, OTHER):
        stores.reminders.add(reminder)
    return stores


def answers(stores: Stores) -> ItemAnswers:
    return ItemAnswers(stores.state, JobFileChanges(stores.state, stores.repositories))


def message(stores: Stores, name: str = "1") -> ChatMessage:
    found = stores.state.query(lambda tx: tx.messages.get(MessageId(name)))
    assert found is not None
    return found


def title(stores: Stores, name: str = "1") -> str:
    card = message(stores, name).card
    return card.title if card else ""


def labels(stores: Stores, name: str = "1") -> list[str]:
    card = message(stores, name).card
    return [each.label for each in card.buttons] if card else []


def given_answers(stores: Stores, item: DueItem) -> list[object]:
    occurrence = Occurrence.parse(item.occurrence)
    rows = stores.state.query(lambda tx: tx.ledger.story(occurrence).rows)
    return [row.facts["answer"] for row in rows]


def updates(stores: Stores) -> list[str]:
    return [each.message for each in stores.updates.read().entries]


def files(stores: Stores) -> dict[str, Reminder]:
    return {each.item.spec.id: each.item for each in stores.reminders.all()}


def test_a_new_reminder_of_the_same_id_ends_the_planned_time_of_the_old() -> None:
    stores = stored()
    old = ask(stores, TEA, "1")
    new = ask(stores, TEA, "2", NOW + HOUR)
    time = Occurrence.parse(old.occurrence).again(2)
    story = stores.state.query(lambda tx: tx.ledger.story(time))
    assert (story.state, story.rows[-1].facts["reason"]) == ("skipped", "superseded")
    assert stores.state.query(lambda tx: tx.due_items.to_come_again()) == [new]


WATER = Routine(JobSpec(id="water", message="Water", plain=True), Cron.parse("0 * * * *"))


async def test_a_later_moment_of_a_routine_asks_in_the_place_of_the_earlier_ones() -> None:
    stores = stored(ManualClock(NOW))
    job = replace(WATER, spec=replace(WATER.spec, nag=Nag(timedelta(minutes=10), 4)))
    ask(stores, OTHER, "0")
    for hour in range(1, 9):
        ask(stores, job, str(hour), NOW + hour * HOUR)
    assert [labels(stores, str(hour)) for hour in range(1, 8)] == [[]] * 7
    assert title(stores, "7") == "Water · asked at 16:00"
    assert labels(stores, "8")[0] == labels(stores, "0")[0] == "Done"
    tea, newest = stores.state.query(lambda tx: tx.due_items.open())
    assert (tea.earlier_count, newest.earlier_count) == (0, 7)
    assert [each.hour for each in newest.earlier] == [16, 15, 14, 13, 12]
    again = stores.state.query(lambda tx: tx.due_items.to_come_again())
    assert [each.key for each in again] == [newest.key]
    await answers(stores).answer(newest.key, Answer.DONE, "web")
    restored = await answers(stores).take_back(newest.key, "web")
    assert restored is not None
    assert (restored.earlier, restored.earlier_count) == (newest.earlier, 7)


async def test_an_earlier_dose_is_a_line_and_stays_open_with_an_answer_of_its_own() -> None:
    stores = stored(ManualClock(NOW))
    for day in range(3):
        ask(stores, PILL, str(day), NOW + day * 24 * HOUR)
    assert [labels(stores, str(day)) for day in range(2)] == [[], []]
    assert title(stores, "0") == "Pill · 9:00 · not answered"
    assert "Taken" in labels(stores, "2")
    first, *others = stores.state.query(lambda tx: tx.due_items.open())
    assert len(others) == 2
    assert await answers(stores).answer(first.key, Answer.NOT_TAKEN, "web")
    assert (title(stores, "0"), labels(stores, "0")) == ("– Pill · skipped 9:00", ["Undo"])
    assert await answers(stores).take_back(first.key, "web") == first
    assert labels(stores, "0") == []


async def test_a_moment_that_was_missed_never_hides_a_newer_one() -> None:
    """The newer one may have come before, by the sentinel or while the others were written."""
    stores = stored(ManualClock(NOW))
    newer = ask(stores, WATER, "1", NOW + 3 * HOUR)
    moments = [NOW + HOUR, NOW + 2 * HOUR]
    for _ in range(2):
        stores.state.run(lambda tx: add_missed(tx, WATER, [NOW + 3 * HOUR]))
    stores.state.run(lambda tx: add_missed(tx, WATER, moments))
    (item,) = stores.state.query(lambda tx: tx.due_items.open())
    assert (item.key, item.card, item.earlier_count) == (newer.key, newer.card, 2)


async def test_done_is_a_line_and_its_undo_brings_everything_back() -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = ask(stores, TEA, "1")
    shown = message(stores)
    assert await answers(stores).answer(item.key, Answer.DONE, "web")
    assert (title(stores), labels(stores)) == ("✓ Drink tea · 9:00", ["Undo"])
    assert (message(stores).text, message(stores).footer) == ("Tea?", "")
    assert updates(stores) == ["Known to the owner: done with “Drink tea.”."]
    assert list(files(stores)) == ["other"]
    open_again = replace(item, again_at=clock.now() + timedelta(minutes=10))
    assert await answers(stores).take_back(item.key, "discord") == open_again
    assert message(stores) == shown
    assert updates(stores) == []
    assert files(stores) == {"check": CHECK, "other": OTHER}
    assert given_answers(stores, item) == ["done", "undone"]
    assert stores.state.query(lambda tx: tx.due_items.to_come_again()) == [open_again]
    await clock.advance(1)
    assert await answers(stores).answer(item.key, Answer.DONE, "web")
    assert list(files(stores)) == ["other"]


async def test_the_undo_of_a_snooze_removes_the_reminder_that_it_made() -> None:
    stores = stored()
    item = ask(stores, TEA, "1")
    assert await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + HOUR)
    assert title(stores) == "⏱ Drink tea · again at 10:00"
    (copy,) = set(files(stores)) - {"other"}
    assert files(stores)[copy].run_at == NOW + HOUR
    occurrence = Occurrence.parse(item.occurrence)
    rows = stores.state.query(lambda tx: tx.ledger.story(occurrence).rows)
    assert [row.facts.get("reminder") for row in rows] == [copy]
    await answers(stores).take_back(item.key, "web")
    assert files(stores) == {"check": CHECK, "other": OTHER}


@pytest.mark.parametrize("job", [TEA, CHECK, OTHER], ids=lambda job: job.spec.id)
async def test_a_snoozed_reminder_stays_one_whose_skills_the_agent_has_named(job: Reminder) -> None:
    stores = stored()
    stores.state.run(lambda tx: note_agent_skills(tx, "reminder:tea", ["mail"]))
    item = ask(stores, job, "1")
    assert await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + HOUR)
    (copy,) = set(files(stores)) - {"other", "check"}
    named = stores.state.query(lambda tx: tx.agent_skills.get())
    assert named.of_job(f"reminder:{copy}") == ({"mail"} if job is not OTHER else set())


@pytest.mark.parametrize(
    ("hours", "said"), [("10:00-12:00", "in your quiet hours"), ("12:00-13:00", "")]
)
async def test_a_snooze_into_the_quiet_says_so(hours: str, said: str) -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    stores.state.run(lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", hours)))
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + HOUR)
    assert (title(stores), message(stores).footer) == ("⏱ Drink tea · again at 10:00", said)
    await clock.advance(601)
    stores.state.run(end_undo)
    assert (labels(stores), message(stores).footer) == ([], said)


async def test_the_agent_is_corrected_where_it_has_heard_of_the_answer() -> None:
    stores = stored()
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.DONE, "web")
    stores.state.run(lambda tx: tx.updates.put(PendingUpdates()))
    await answers(stores).take_back(item.key, "web")
    said = "Known to the owner: took back the answer to “Drink tea.”; it is open again."
    assert updates(stores) == [said]


async def test_the_agent_needs_no_update_of_its_own_answer() -> None:
    stores = stored()
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.DONE, "agent")
    assert updates(stores) == []
    assert given_answers(stores, item) == ["done"]


async def test_of_two_surfaces_at_once_one_is_heard() -> None:
    stores = stored()
    item, both = ask(stores, TEA, "1"), answers(stores)
    given = await asyncio.gather(
        both.answer(item.key, Answer.DONE, "web"),
        both.answer(item.key, Answer.SNOOZED, "discord", NOW + HOUR),
        both.answer(item.key, Answer.DONE, "web"),
    )
    assert sum(each is not None for each in given) == 1
    assert len(given_answers(stores, item)) == 1
    assert len(updates(stores)) == 1


async def test_an_undo_ends_after_ten_minutes_and_its_button_goes() -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = ask(stores, TEA, "1")
    await answers(stores).answer(item.key, Answer.DONE, "web")
    await clock.advance(599)
    stores.state.run(end_undo)
    assert labels(stores) == ["Undo"]
    await clock.advance(1)
    stores.state.run(end_undo)
    assert (title(stores), labels(stores)) == ("✓ Drink tea · 9:00", [])
    assert stores.state.query(lambda tx: tx.due_items.with_undo()) == []


def test_a_later_check_asks_in_the_place_of_the_earlier_one() -> None:
    stores = stored()
    first, later = ask(stores, TEA, "1"), ask(stores, CHECK, "2", NOW + HOUR)
    assert (title(stores, "1"), labels(stores, "1")) == ("Drink tea · asked at 9:00", [])
    assert labels(stores, "2")[0] == "Done"
    assert stores.state.query(lambda tx: tx.due_items.open()) == [later]
    assert first.key != later.key


def test_a_routine_with_the_id_of_a_reminder_leaves_its_card_open() -> None:
    stores = stored()
    reminder = ask(stores, TEA, "1")
    routine = ask(stores, replace(PILL, spec=replace(PILL.spec, id="tea")), "2", NOW + HOUR)
    assert stores.state.query(lambda tx: tx.due_items.open()) == [reminder, routine]


async def test_done_on_a_later_check_ends_the_chain() -> None:
    stores = stored()
    last = Reminder(replace(SPEC, id="last"), NOW + 2 * HOUR, Chain(3, 2, "tea"))
    stores.reminders.add(last)
    later = ask(stores, CHECK, "2")
    await answers(stores).answer(later.key, Answer.DONE, "web")
    assert list(files(stores)) == ["other"]


def test_a_reply_to_an_earlier_message_of_the_item_answers_it_too() -> None:
    stores = stored()
    item = ask(stores, PILL, "1")
    ask(stores, PILL, "2")

    def reply(words: str) -> DueItem | None:
        return stores.state.run(lambda tx: answer_reply(tx, MessageId("1"), words, "web", "c1"))

    assert reply("what is it for?") is None
    assert reply("taken") is not None
    assert given_answers(stores, item) == ["taken"]
    assert reply("taken") is None


async def test_a_dose_has_one_card_and_one_answer() -> None:
    stores = stored()
    item = ask(stores, PILL, "1")
    assert ask(stores, PILL, "2").key == item.key
    assert (labels(stores, "1"), labels(stores, "2")[0]) == ([], "Taken")
    await answers(stores).answer(item.key, Answer.TAKEN, "web")
    ask(stores, PILL, "3")
    assert (title(stores, "3"), labels(stores, "3")) == ("✓ Pill · 9:00", ["Undo"])
    assert (title(stores, "2"), labels(stores, "2")) == ("Pill · asked at 9:00", [])
    assert given_answers(stores, item) == ["taken"]


async def life(stores: Stores, fate: StepCounter, live: Life) -> None:
    """A start of the bot, which first makes the changes that an earlier one has left."""
    repositories = JobRepositories(
        stores.routines, CrashingRepository(stores.reminders, fate), stores.webhooks
    )
    changes = JobFileChanges(CrashingStore(stores.state, fate), repositories)
    try:
        await changes.make()
        await live(ItemAnswers(CrashingStore(stores.state, fate), changes), changes)
    except Crash:
        assert fate.has_crashed


@pytest.mark.parametrize("answer", [Answer.DONE, Answer.SNOOZED])
async def test_a_crash_between_any_two_steps_leaves_one_answer_and_one_undo(answer: Answer) -> None:
    """Also after the ten minutes in which the answer has a button for it."""
    until = NOW + 5 * HOUR if answer is Answer.SNOOZED else None
    for at in range(1, 100):
        clock = ManualClock(NOW)
        stores = stored(clock)
        item = ask(stores, TEA, "1")

        async def give(items: ItemAnswers, _: object, item: DueItem = item) -> None:
            await items.answer(item.key, answer, "web", until)

        async def undo(items: ItemAnswers, _: object, item: DueItem = item) -> None:
            # The second time, it is open already.
            with suppress(UndoRefused):
                await items.take_back(item.key, "web")

        ends = []
        for live in (give, undo):
            fate = StepCounter(at)
            await life(stores, fate, live)
            await life(stores, StepCounter(), live)
            ends.append(fate.has_crashed)
            if live is give:
                assert given_answers(stores, item) == [answer.value]
                made = set(files(stores)) - {"other"}
                assert len(made) == (0 if until is None else 1)
                await clock.advance(3600)
        assert given_answers(stores, item) == [answer.value, "undone"]
        assert files(stores) == {"check": CHECK, "other": OTHER}
        assert labels(stores)[0] == "Done"
        undos = [each.undoes != "" for each in stores.state.query(lambda tx: tx.changes.newest(9))]
        assert undos == [True, False]
        if not any(ends):
            return
    raise AssertionError("It never ended.")


def answered_before_0_18(stores: Stores) -> DueItem:
    """An item that an older version answered: its line stands in the message in place of the card.

    The item had kept the card, to restore it.
    """
    item = ask(stores, TEA, "1").answered(Answer.DONE, NOW, "web")
    asked = message(stores)

    def store_as_then(tx: Transaction) -> None:
        tx.due_items.put(item)
        row = tx.statements.row("SELECT value FROM due_items WHERE key = ?", item.key)
        assert row is not None
        value = json.loads(row[0]) | {"asked": {"title": "Tea?"}, "footer": "late"}
        tx.statements.write(
            "due_items", "UPDATE due_items SET value = ? WHERE key = ?", json.dumps(value), item.key
        )
        line = replace(asked, card=settled_card(item, NOW), footer="in your quiet hours")
        tx.statements.write(
            "messages",
            "UPDATE messages SET value = ? WHERE seq = 1",
            CHAT_MESSAGES.encode(line).decode(),
        )

    stores.state.run(store_as_then)
    return item


async def test_a_card_from_before_0_18_is_the_line_that_it_was_and_its_undo_asks_again() -> None:
    clock = ManualClock(NOW)
    stores = stored(clock)
    item = answered_before_0_18(stores)
    line = "✓ Drink tea · 9:00"
    assert (title(stores), labels(stores)) == (line, ["Undo"])
    assert message(stores).footer == "in your quiet hours"
    await answers(stores).take_back(item.key, "web")
    assert (title(stores), labels(stores)[0]) == ("Drink tea.", "Done")
    await answers(stores).answer(item.key, Answer.DONE, "web")
    assert (title(stores), labels(stores)) == (line, ["Undo"])
    other = stored(clock)
    answered_before_0_18(other)
    await clock.advance(601)
    before = other.state.query(lambda tx: tx.messages.last_change())
    other.state.run(end_undo)
    assert (title(other), labels(other)) == (line, [])
    assert other.state.query(lambda tx: tx.messages.last_change()) > before


async def test_only_the_line_of_the_answer_says_that_the_snooze_ends_in_the_quiet() -> None:
    stores = stored(ManualClock(NOW))
    stores.state.run(
        lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", "10:00-12:00"))
    )
    item = ask(stores, PILL, "1")
    ask(stores, PILL, "2")
    await answers(stores).answer(item.key, Answer.SNOOZED, "web", NOW + HOUR)
    assert [message(stores, name).footer for name in "12"] == ["", "in your quiet hours"]
    assert title(stores, "1") == "Pill · asked at 9:00"
