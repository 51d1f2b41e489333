"""A damaged database is replaced by what can be read of it, or by the newest copy."""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime, timedelta

import pytest
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.features.runs.runs_command import page
from ollim_bot.features.setup.set_up_talk import coming_back
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.changes.item_answers import add_item
from ollim_bot.kernel.store.copies import (
    KEPT,
    copies_of,
    copy_database,
    damage_of,
    is_copy_due,
    settle_return,
)
from ollim_bot.kernel.store.steps import hold
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.due_items import NO_CARD, DueItem, delivery_id
from ollim_bot.kernel.values.inbox import Accepted, InputEnd, InputId, OwnerMessage
from ollim_bot.kernel.values.item_messages import card_message
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.quiet import QuietChoice
from ollim_bot.kernel.values.run_history import NOTES, PLAINLY, History, planned_row

HOUR = timedelta(hours=1)
DUE = Occurrence.scheduled(JobKind.REMINDER, "due", NOW)
RUNNING = Occurrence.scheduled(JobKind.REMINDER, "running", NOW)
PAST = Occurrence.scheduled(JobKind.REMINDER, "past", NOW)
AHEAD = Occurrence.scheduled(JobKind.REMINDER, "ahead", NOW)
NOTE = '{"spec": {}}'
MUST = Occurrence.scheduled(JobKind.ROUTINE, "must", NOW)


def fill(tx: Transaction, rows: int = 400) -> None:
    tx.ledger.append(*(LedgerRow(NOW, "noted", facts={"text": "x" * 300}) for _ in range(rows)))


def leave_open(tx: Transaction) -> None:
    """An input, two occurrences and a delivery without an end."""
    tx.channels.join("discord", "account")
    tx.messages.add(ChatMessage(MessageId("m"), NOW, Author.ASSISTANT, "hello"))
    tx.inbox.append(Accepted(NOW, OwnerMessage(InputId("i"), "web", NOW, "hello")))
    tx.ledger.append(LedgerRow(NOW, "due", DUE), LedgerRow(NOW, "due", RUNNING))
    tx.ledger.append(LedgerRow(NOW, "running", RUNNING))


def overwrite(scene: StoreScene, start: int, length: int) -> None:
    with (scene.state / "ollim.db").open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)


def test_a_copy_is_whole_and_the_newest_ones_are_kept(scene: StoreScene) -> None:
    database = scene.open()
    database.run(fill)
    path = database.path
    assert is_copy_due(path, NOW)
    for number in range(KEPT + 2):
        copy = copy_database(path, NOW + number * HOUR)
        assert damage_of(copy) is None
    assert len(copies_of(path)) == KEPT
    assert copies_of(path)[0] == copy
    assert not is_copy_due(path, NOW + (KEPT + 1) * HOUR + timedelta(minutes=59))
    assert is_copy_due(path, NOW + (KEPT + 2) * HOUR)
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (400,)
    connection.close()


def test_what_can_be_read_of_a_damaged_database_stays(scene: StoreScene) -> None:
    database = scene.open()
    database.run(fill)
    database.close()
    size = (scene.state / "ollim.db").stat().st_size
    # A page in the middle, which holds some rows of the ledger.
    overwrite(scene, size // 2 // 4096 * 4096, 4096)
    (scene.state / "ollim.db.suspect").touch()
    database = scene.open()
    count = database.run(lambda tx: tx.ledger.count())
    assert 300 < count <= 400
    assert "was damaged" in scene.problems[0]
    assert "could still be read" in scene.problems[0]
    assert len(list(scene.state.glob("ollim.db.corrupt-*"))) == 1


def test_where_nothing_can_be_read_the_newest_copy_takes_its_place(scene: StoreScene) -> None:
    database = scene.open()
    database.run(fill)
    copy_database(database.path, NOW)
    database.run(lambda tx: fill(tx, 5))
    database.close()
    overwrite(scene, 0, 8192)
    database = scene.open(now=lambda: NOW + HOUR)
    assert database.run(lambda tx: tx.ledger.count()) == 400
    assert "The copy of 2026-11-15 09:00 UTC" in scene.problems[0]


def test_without_a_copy_an_unreadable_database_is_made_anew(scene: StoreScene) -> None:
    scene.open().close()
    (scene.state / "ollim.db").write_bytes(b"this is not a database at all" * 1000)
    assert scene.open().run(lambda tx: tx.ledger.count()) == 0
    assert "was damaged" in scene.problems[0]


@pytest.mark.parametrize("is_restored", [True, False])
def test_after_a_return_to_a_copy_nothing_is_repeated(
    scene: StoreScene, *, is_restored: bool
) -> None:
    database = scene.open()
    database.run(leave_open)
    if is_restored:
        scene.return_to_copy(NOW - HOUR)
        database = scene.open()
    settled = database.run(settle_return)
    if not is_restored:
        assert settled is None
        assert len(database.run(lambda tx: tx.ledger.open_history()).unfinished) == 2
        return
    assert settled is not None
    assert settled.since == NOW - HOUR
    assert [each.id for each in settled.inputs] == ["i"]
    assert settled.occurrences == (DUE, RUNNING)
    assert [each.message.id for each in settled.deliveries] == ["m"]
    assert database.run(lambda tx: tx.inbox.end_of(InputId("i"))) is InputEnd.SET_ASIDE
    states = [
        database.run(lambda tx, one=one: tx.ledger.story(one)).state  # type: ignore[misc]
        for one in (DUE, RUNNING)
    ]
    assert states == ["failed", "interrupted"]
    waiting = database.run(lambda tx: tx.deliveries.next_open("discord"))
    assert waiting is not None
    assert waiting.is_in_doubt
    assert database.run(settle_return) is None


def leave_to_come(tx: Transaction) -> None:
    """Two items that come again, and a routine that must come."""
    for name, again_at in ((PAST, NOW + HOUR / 2), (AHEAD, NOW + 2 * HOUR)):
        time = name.again(2)
        item = DueItem(name.id, "pill", NOW, NOTE, MessageId(name.id), again_at=again_at)
        tx.due_items.put(item)
        tx.ledger.append(LedgerRow(NOW, "due", name), LedgerRow(NOW, "done", name))
        tx.ledger.append(planned_row(time, "", again_at, NOW))
    tx.ledger.append(LedgerRow(NOW, "due", MUST, {"job": "Take the pill", "must": True}))


@pytest.mark.parametrize("end", [NOW + HOUR / 2, NOW + 2 * HOUR])
def test_after_a_return_only_what_is_still_ahead_comes(scene: StoreScene, end: datetime) -> None:
    quiet = QuietChoice(until=end)
    database = scene.open()
    database.run(leave_to_come)
    database.run(lambda tx: tx.quiet.put(quiet))
    database.run(lambda tx: hold_ping(tx, end))
    scene.return_to_copy(NOW)
    database = scene.open(now=lambda: NOW + HOUR)
    settled = database.run(lambda tx: settle_return(tx, NOW + HOUR))
    assert settled is not None
    assert settled.jobs == ("Take the pill",)
    assert settled.occurrences == (PAST.again(2), MUST)
    assert [one.occurrence for one in database.run(lambda tx: tx.due_items.to_come_again())] == [
        AHEAD.id
    ]
    story = database.run(lambda tx: tx.ledger.story(PAST.again(2)))
    assert story.state is OccurrenceState.SKIPPED
    assert not database.run(lambda tx: tx.ledger.open_history()).owed, "it may have come"
    is_ahead = end > NOW + HOUR
    assert database.run(lambda tx: tx.held.get().has(MessageId("h"))) is is_ahead
    assert len(settled.held) is int(not is_ahead)
    rows = database.run(lambda tx: tx.ledger.story(MUST)).rows
    noted = [(row.state, row.facts["message"]) for row in rows if row.state in NOTES]
    assert noted == [("held", "h")] + [("dropped", "h")] * (not is_ahead)
    (record,) = History.of(rows).newest_first
    became = "waits until" if is_ahead else "did not come, because it may have come"
    assert became in page(record, NOW + HOUR)
    assert check(rows, NOW + HOUR) == []


def hold_ping(tx: Transaction, until: datetime) -> None:
    said = ChatMessage(MessageId("h"), NOW, Author.BACKGROUND, "It rains.", occurrence=MUST.id)
    hold(tx, HeldMessage(said), until)


def test_after_a_return_an_item_whose_card_waited_is_open_and_waits_for_nothing(
    scene: StoreScene,
) -> None:
    now, job = NOW + HOUR, Reminder(JobSpec(id="past", message="Drink water."), NOW)

    def hold_card(tx: Transaction) -> None:
        item = DueItem.of(job, PAST, delivery_id(PAST), NOW)
        hold(tx, HeldMessage(card_message(item, PAST, NOW)), NOW + HOUR / 2)
        add_item(tx, item)
        tx.ledger.append(LedgerRow(NOW, "due", PAST), LedgerRow(NOW, "done", PAST, PLAINLY))

    scene.open().run(hold_card)
    scene.return_to_copy(NOW)
    database = scene.open(now=lambda: now)
    database.run(lambda tx: settle_return(tx, now))
    (item,) = database.run(lambda tx: tx.due_items.open())
    assert (item.card, item.waiting) == (NO_CARD, None)
    states = [row.state for row in database.run(lambda tx: tx.ledger.story(PAST)).rows]
    assert states == ["held", "due", "done", "dropped"]


def test_after_a_return_what_a_session_has_read_counts_as_unknown_until_the_owner_writes(
    scene: StoreScene,
) -> None:
    scene.open()
    scene.return_to_copy(NOW)
    database = scene.open(now=lambda: NOW + HOUR)
    database.run(settle_return)
    found = database.run(lambda tx: tx.marks.of(SessionId("any")))
    assert found == ("something that is not known any more",)
    database.run(lambda tx: tx.marks.end(SessionId("any")))
    assert database.run(lambda tx: tx.marks.of(SessionId("any"))) == ()


def test_a_copy_that_takes_the_place_is_settled_once(scene: StoreScene) -> None:
    database = scene.open()
    database.run(leave_open)
    copy_database(database.path, NOW)
    database.close()
    overwrite(scene, 0, 8192)
    settled = scene.open(now=lambda: NOW + HOUR).run(settle_return)
    assert settled is not None
    assert settled.since == NOW
    assert len(settled.occurrences) == 2


def test_a_copy_that_a_person_puts_in_place_is_settled_once(scene: StoreScene) -> None:
    database = scene.open()
    database.run(leave_open)
    copy = copy_database(database.path, NOW)
    database.run(
        lambda tx: tx.messages.add(ChatMessage(MessageId("n"), NOW, Author.OWNER, "later"))
    )
    scene.close()
    for path in scene.state.glob("ollim.db*"):
        path.unlink()
    copy.rename(scene.state / "ollim.db")
    returned = scene.open().run(settle_return)
    assert returned is not None
    assert returned.since == NOW
    assert [each.id for each in returned.inputs] == ["i"]
    assert all(each.is_in_doubt for each in returned.deliveries)
    assert scene.open().run(settle_return) is None


def test_a_copy_of_a_running_bot_tells_of_no_crash(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.presence.change(lambda presence: presence.begun(NOW, None)))
    copy = copy_database(database.path, NOW)
    database.run(lambda tx: tx.presence.change(lambda presence: presence.ended(for_restart=False)))
    scene.close()
    for path in scene.state.glob("ollim.db*"):
        path.unlink()
    copy.rename(scene.state / "ollim.db")
    database, now = scene.open(), NOW + HOUR
    assert database.run(settle_return) is not None
    database.run(lambda tx: tx.presence.change(lambda presence: presence.begun(now, now)))
    presence = database.run(lambda tx: tx.presence.get())
    assert coming_back(presence, None, now, goes_on=True) == "back. our conversation goes on."


def test_of_two_that_have_the_same_rows_the_damaged_one_counts(scene: StoreScene) -> None:
    database = scene.open()
    database.run(fill)
    copy_database(database.path, NOW)
    found = "SELECT rootpage FROM sqlite_master WHERE name = 'ledger_at'"
    root = database.query(lambda tx: tx._statements.number(found))
    scene.close()
    overwrite(scene, (root - 1) * 4096, 4096)
    (scene.state / "ollim.db.suspect").touch()
    scene.open()
    assert "could still be read" in scene.problems[0]


def test_a_copy_that_cannot_be_written_leaves_nothing_behind(scene: StoreScene) -> None:
    database = scene.open()
    (scene.state / "copies").mkdir()
    (scene.state / "copies" / ".ollim-20261115T090000Z.db.tmp").mkdir()
    with pytest.raises(Exception, match="could not be written"):
        copy_database(database.path, NOW)
    assert copies_of(database.path) == []
    assert os.path.exists(database.path)
