"""What every store promises, as a test class.

Derive a class, say how a new store is opened, and let a test runner collect it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from devtools.doubles.contracts import raising
from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.store.message_log import LoggedMessage, Sender
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import JobOp, Step, Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.definitions import Definition, armed_row, roster_row
from ollim_bot.kernel.values.inbox import (
    Accepted,
    Ended,
    InputEnd,
    InputId,
    OwnerMessage,
    Taken,
    ToolCalled,
)
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.pings import Charge, PingBudget
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DISCORD, PHONE = "discord", "phone"


def said(name: str, text: str = "hello", *, minutes: int = 0) -> ChatMessage:
    at = NOW + minutes * MINUTE
    return ChatMessage(MessageId(name), at, Author.ASSISTANT, text, turn=TurnId("turn"))


def reminder(minutes: int = 0) -> Occurrence:
    return Occurrence.scheduled(JobKind.REMINDER, "call", NOW + minutes * MINUTE)


def typed(name: str) -> OwnerMessage:
    return OwnerMessage(InputId(name), "web", NOW, "hello")


def adding(message: ChatMessage) -> Step[LoggedMessage]:
    return lambda tx: tx.messages.add(message)


def refusing(channel: str, message_id: MessageId) -> Step[bool]:
    return lambda tx: tx.deliveries.refuse(channel, message_id, "no", NOW)


def receiving(name: str) -> Step[None]:
    return lambda tx: tx.deliveries.note_received(DISCORD, MessageId(name), [name])


def finding(ref: str) -> Step[LoggedMessage | None]:
    return lambda tx: tx.deliveries.by_ref(DISCORD, ref)


class StoreContract(ABC):
    """What every store promises of its steps. The clock of the store stands at `NOW`."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Store]:
        """A new store, closed at the end."""

    async def test_a_step_returns_its_result_and_its_changes_stay(self) -> None:
        async with self.opened() as store:

            def step(tx: Transaction) -> str:
                tx.session.put(SessionId("abc"))
                return "result"

            assert await store.transact(step) == "result"
            assert await store.read(lambda tx: tx.session.get()) == "abc"
            assert store.run(lambda tx: tx.session.get()) == "abc"

    async def test_of_a_step_that_raises_nothing_happened(self) -> None:
        def step(tx: Transaction) -> None:
            tx.session.put(SessionId("abc"))
            tx.ledger.append(LedgerRow(NOW, "noted"))
            tx.messages.add(said("m"))
            raise ZeroDivisionError

        async with self.opened() as store:
            with raising(ZeroDivisionError):
                await store.transact(step)
            assert await store.read(lambda tx: tx.session.get()) is None
            assert await store.read(lambda tx: tx.ledger.tail(5)) == []
            assert await store.read(lambda tx: tx.messages.last_change()) == 0

    async def test_steps_of_many_tasks_follow_each_other(self) -> None:
        def step(tx: Transaction) -> None:
            tx.memory.put({"count": int(str(tx.memory.get().get("count", 0))) + 1})

        async with self.opened() as store:
            await asyncio.gather(*(store.transact(step) for _ in range(40)))
            assert await store.read(lambda tx: tx.memory.get()) == {"count": 40}

    async def test_a_question_cannot_change_anything(self) -> None:
        async with self.opened() as store:
            with raising(Exception):
                await store.read(lambda tx: tx.session.put(SessionId("abc")))
            assert await store.read(lambda tx: tx.session.get()) is None

    async def test_an_event_is_set_by_the_commits_that_concern_it(self) -> None:
        def fail(tx: Transaction) -> None:
            tx.session.put(SessionId("other"))
            raise ZeroDivisionError

        async with self.opened() as store:
            with store.changes("session") as changed, store.changes("config") as other:
                await store.transact(lambda tx: tx.session.get())
                with raising(ZeroDivisionError):
                    await store.transact(fail)
                await asyncio.sleep(0)
                assert not changed.is_set()
                await store.transact(lambda tx: tx.session.put(SessionId("abc")))
                await asyncio.sleep(0)
                assert changed.is_set()
                assert not other.is_set()
                changed.clear()
            await store.transact(lambda tx: tx.session.put(None))
            await asyncio.sleep(0)
            assert not changed.is_set()

    async def test_ids_and_texts_may_hold_any_character(self) -> None:
        names = ["half \ud83d", "\x00", "é", "\\u00e9", '"', "’", "a\nb"]
        async with self.opened() as store:
            await store.transact(lambda tx: tx.channels.join(DISCORD, "account \ud83d"))
            for name in names:
                await store.transact(adding(said(name, f"text {name}")))
                await store.transact(receiving(name))
            for name in names:
                found = await store.read(finding(name))
                assert found is not None
                assert (found.message.id, found.message.text) == (name, f"text {name}")


class RowsContract(StoreContract):
    """What every database promises besides, in which the rows of a store are."""

    async def test_a_record_that_was_never_written_has_its_default(self) -> None:
        async with self.opened() as store:
            assert await store.read(lambda tx: tx.updates.get()) == PendingUpdates()
            assert await store.read(lambda tx: tx.budget.get()) == PingBudget.full(NOW)
            assert await store.read(lambda tx: (tx.fork.get(), tx.fork_messages.get())) == (
                None,
                (),
            )

    async def test_a_record_is_changed_and_taken_from(self) -> None:
        update = PendingUpdate(NOW, "half a pair \ud83d and \x00", "9f3c01aa")
        async with self.opened() as store:
            changed = await store.transact(
                lambda tx: tx.updates.change(lambda known: known.appended(update)[0])
            )
            assert changed.entries == (update,)
            taken = await store.transact(
                lambda tx: tx.updates.take(lambda known: (PendingUpdates(), known))
            )
            assert taken.entries == (update,)
            assert await store.read(lambda tx: tx.updates.get()) == PendingUpdates()

    async def test_session_events_stay_in_order(self) -> None:
        events = [
            SessionEvent(SessionId(f"s{number}"), SessionChange.CREATED, NOW) for number in range(5)
        ]
        async with self.opened() as store:
            await store.transact(lambda tx: tx.session_history.append(*events))
            assert await store.read(lambda tx: tx.session_history.all()) == events
            assert await store.read(lambda tx: tx.session_history.tail(2)) == events[-2:]

    async def test_an_occurrence_is_claimed_once_among_all(self) -> None:
        async with self.opened() as store:
            claims = [store.transact(lambda tx: tx.ledger.claim(reminder(), NOW)) for _ in range(9)]
            assert sorted(await asyncio.gather(*claims)) == [False] * 8 + [True]
            story = await store.read(lambda tx: tx.ledger.story(reminder()))
            assert [row.state for row in story.rows] == ["due"]

    async def test_an_occurrence_ahead_of_its_time_cannot_be_claimed(self) -> None:
        async with self.opened() as store:
            with raising(ValueError):
                await store.transact(lambda tx: tx.ledger.claim(reminder(5), NOW))

    async def test_of_many_claims_the_free_ones_are_given(self) -> None:
        rows = [LedgerRow(NOW, "due", reminder(-number)) for number in range(3)]
        async with self.opened() as store:
            await store.transact(lambda tx: tx.ledger.claim(reminder(-1), NOW))
            free = await store.transact(lambda tx: tx.ledger.claim_all(rows))
            assert free == {reminder(), reminder(-2)}
            assert await store.read(lambda tx: tx.ledger.count()) == 3

    async def test_the_open_history_has_every_row_of_what_has_no_end(self) -> None:
        rows = [
            LedgerRow(NOW, "due", reminder()),
            LedgerRow(NOW, "due", reminder(-1)),
            LedgerRow(NOW, "running", reminder()),
            LedgerRow(NOW, "missed", reminder(-1)),
            LedgerRow(NOW, "delivered", reminder(-1)),
        ]
        async with self.opened() as store:
            await store.transact(lambda tx: tx.ledger.append(*rows))
            history = await store.read(lambda tx: tx.ledger.open_history())
            assert list(history.stories) == [reminder()]
            assert [row.state for row in history.stories[reminder()].rows] == ["due", "running"]
            await store.transact(lambda tx: tx.ledger.checkpoint(NOW, NOW))
            newest = await store.read(lambda tx: tx.ledger.newest("checkpoint"))
            assert newest is not None
            assert newest.facts["unfinished"] == [reminder().id]

    async def test_the_ledger_is_read_by_moment_by_place_and_from_its_end(self) -> None:
        rows = [
            LedgerRow(NOW + minutes * MINUTE, "noted", facts={"n": minutes})
            for minutes in (3, 1, 2, 4)
        ]
        async with self.opened() as store:
            await store.transact(lambda tx: tx.ledger.append(*rows))
            since = await store.read(lambda tx: tx.ledger.rows_since(NOW + 2 * MINUTE))
            assert since == [rows[0], rows[2], rows[3]]
            assert await store.read(lambda tx: tx.ledger.tail(2)) == rows[2:]
            first, place = await store.read(lambda tx: tx.ledger.page(0, 3))
            rest, end = await store.read(lambda tx: tx.ledger.page(place, 3))
            assert first + rest == rows
            assert await store.read(lambda tx: tx.ledger.page(end, 3)) == ([], end)

    async def test_the_armed_jobs_are_those_since_the_last_roster(self) -> None:
        def job(name: str) -> Definition:
            key = JobKey(JobKind.ROUTINE, name)
            return Definition(key, "mark", "0 9 * * *", "UTC", enabled=True)

        rows = [
            armed_row(job("gone"), NOW, NOW),
            roster_row([job("kept")], NOW, NOW),
            LedgerRow(NOW, "roster", facts={"jobs": "damaged"}),
            armed_row(job("new"), NOW, NOW),
        ]
        async with self.opened() as store:
            assert (await store.read(lambda tx: tx.ledger.armed())).jobs == {}
            await store.transact(lambda tx: tx.ledger.append(*rows))
            armed = await store.read(lambda tx: tx.ledger.armed())
            assert [key.id for key in armed.jobs] == ["kept", "new"]

    async def test_an_input_is_accepted_once_also_after_its_end(self) -> None:
        async with self.opened() as store:
            accepted, end = Accepted(NOW, typed("a")), Ended(NOW, (InputId("a"),), InputEnd.STOPPED)
            await store.transact(lambda tx: tx.inbox.append(accepted, accepted))
            assert (await store.read(lambda tx: tx.inbox.get())).accepted == (typed("a"),)
            await store.transact(lambda tx: tx.inbox.append(end))
            await store.transact(lambda tx: tx.inbox.append(accepted))
            assert (await store.read(lambda tx: tx.inbox.get())).accepted == ()
            assert await store.read(lambda tx: tx.inbox.has(InputId("a")))
            assert await store.read(lambda tx: tx.inbox.end_of(InputId("a"))) is InputEnd.STOPPED
            assert not await store.read(lambda tx: tx.inbox.has(InputId("b")))

    async def test_the_inbox_has_the_running_turn_with_its_tools(self) -> None:
        taken = Taken(NOW, TurnId("t"), (InputId("a"),))
        tool = ToolCalled(NOW, TurnId("t"), "Read", "notes.md")
        async with self.opened() as store:
            await store.transact(lambda tx: tx.inbox.append(Accepted(NOW, typed("a")), taken))
            inbox = await store.transact(lambda tx: tx.inbox.append(tool))
            assert (inbox.running, inbox.tools) == (taken, (tool,))
            assert await store.read(lambda tx: tx.inbox.get()) == inbox

    async def test_messages_stay_in_the_order_in_which_they_were_added(self) -> None:
        async with self.opened() as store:
            for name, minutes in (("b", 5), ("a", 0), ("c", 1)):
                await store.transact(adding(said(name, minutes=minutes)))
            page = await store.read(lambda tx: tx.messages.page(2))
            assert [each.message.id for each in page] == ["a", "c"]
            before = await store.read(lambda tx: tx.messages.page(5, MessageId("c")))
            assert [each.message.id for each in before] == ["b", "a"]
            assert await store.read(lambda tx: tx.messages.page(5, MessageId("?"))) == []
            since = await store.read(lambda tx: tx.messages.since(NOW + MINUTE))
            assert [each.message.id for each in since] == ["b", "c"]
            assert len(await store.read(lambda tx: tx.messages.of_turn(TurnId("turn")))) == 3

    async def test_an_edited_message_keeps_its_place_and_is_the_newest_change(self) -> None:
        def step(tx: Transaction) -> None:
            tx.messages.add(said("a"))
            tx.messages.add(said("b"))
            tx.messages.add(said("a", "edited"))
            tx.messages.add(said("a", "edited"))

        async with self.opened() as store:
            await store.transact(step)
            page = await store.read(lambda tx: tx.messages.page(5))
            assert [(each.message.text, each.change) for each in page] == [
                ("edited", 3),
                ("hello", 2),
            ]
            changes = await store.read(lambda tx: tx.messages.since_change(2, 10))
            assert [each.message.id for each in changes] == ["a"]

    async def test_a_channel_gets_what_is_said_after_it_joined_in_order(self) -> None:
        def step(tx: Transaction) -> None:
            tx.messages.add(said("early"))
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))
            tx.messages.add(said("b"))

        async with self.opened() as store:
            await store.transact(step)
            waiting = await store.read(lambda tx: tx.deliveries.open(DISCORD, 9))
            assert [each.message.id for each in waiting] == ["a", "b"]
            assert await store.read(lambda tx: tx.deliveries.next_open(PHONE)) is None

    async def test_parts_are_frozen_at_the_first_try_and_confirmed_one_by_one(self) -> None:
        def join(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))

        first, other = [said("a", "he"), said("a", "llo")], [said("a", "hello")]
        async with self.opened() as store:
            await store.transact(join)
            name = MessageId("a")
            await store.transact(lambda tx: tx.deliveries.note_try(DISCORD, name, first, NOW))
            tried = await store.transact(
                lambda tx: tx.deliveries.note_try(DISCORD, name, other, NOW + MINUTE)
            )
            assert tried is not None
            assert (tried.parts[len(tried.refs)], tried.tries, tried.tried_at) == (
                first[0],
                2,
                NOW + MINUTE,
            )
            nonce = tried.nonce
            half = await store.transact(lambda tx: tx.deliveries.confirm_part(DISCORD, name, "100"))
            assert half is not None
            assert (half.state, half.parts[len(half.refs)], half.is_in_doubt) == (
                DeliveryState.OPEN,
                first[1],
                False,
            )
            assert half.nonce != nonce
            whole = await store.transact(
                lambda tx: tx.deliveries.confirm_part(DISCORD, name, "101")
            )
            assert whole is not None
            assert (whole.state, whole.refs) == (DeliveryState.CONFIRMED, ("100", "101"))
            found = await store.read(lambda tx: tx.deliveries.by_ref(DISCORD, "101"))
            assert found is not None
            assert found.message.id == "a"
            assert await store.read(lambda tx: tx.deliveries.refs(name)) == {
                DISCORD: ("100", "101")
            }
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is None
            assert await store.read(lambda tx: tx.deliveries.next_edit(DISCORD)) is None
            assert await store.read(lambda tx: tx.deliveries.count_open(DISCORD)) == 0
            newest = await store.read(lambda tx: tx.deliveries.newest_confirmed(DISCORD))
            assert newest == whole.message.at

    async def test_only_the_newest_edit_of_a_shown_message_waits(self) -> None:
        def shown(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))
            tx.deliveries.note_try(DISCORD, MessageId("a"), [said("a")], NOW)
            tx.messages.add(said("a", "while it was sent"))
            tx.deliveries.confirm_part(DISCORD, MessageId("a"), "100")

        async with self.opened() as store:
            await store.transact(shown)
            missed = await store.read(lambda tx: tx.deliveries.next_edit(DISCORD))
            assert missed is not None
            assert missed.message.text == "while it was sent"
            await store.transact(lambda tx: tx.messages.add(said("a", "newest")))
            edit = await store.read(lambda tx: tx.deliveries.next_edit(DISCORD))
            assert edit is not None
            assert edit.message.text == "newest"
            change = edit.logged.change
            await store.transact(lambda tx: tx.messages.add(said("a", "newer still")))
            await store.transact(
                lambda tx: tx.deliveries.note_shown(DISCORD, MessageId("a"), change)
            )
            again = await store.read(lambda tx: tx.deliveries.next_edit(DISCORD))
            assert again is not None
            last = again.logged.change
            await store.transact(lambda tx: tx.deliveries.note_shown(DISCORD, MessageId("a"), last))
            assert await store.read(lambda tx: tx.deliveries.next_edit(DISCORD)) is None

    async def test_a_message_edited_before_its_first_try_needs_no_edit(self) -> None:
        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))
            tx.messages.add(said("a", "edited"))
            tx.deliveries.note_try(DISCORD, MessageId("a"), [said("a", "edited")], NOW)
            tx.deliveries.confirm_part(DISCORD, MessageId("a"), "100")

        async with self.opened() as store:
            await store.transact(step)
            assert await store.read(lambda tx: tx.deliveries.next_edit(DISCORD)) is None

    async def test_a_draft_that_is_taken_over_is_edited_and_not_sent(self) -> None:
        parts = [said("a", "one"), said("a", "two")]

        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))
            tx.deliveries.take_over(DISCORD, MessageId("a"), ["7"], parts, "turn 0")

        async with self.opened() as store:
            await store.transact(step)
            waiting = await store.read(lambda tx: tx.deliveries.next_open(DISCORD))
            assert waiting is not None
            assert (waiting.parts[len(waiting.refs)], waiting.refs) == (parts[1], ("7",))
            await store.transact(
                lambda tx: tx.deliveries.confirm_part(DISCORD, MessageId("a"), "8")
            )
            edit = await store.read(lambda tx: tx.deliveries.next_edit(DISCORD))
            assert edit is not None
            assert edit.refs == ("7", "8")

    async def test_what_must_come_is_sent_before_what_has_not_begun(self) -> None:
        dose = replace(said("c"), must=True)

        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            for message in (said("a"), said("b"), dose):
                tx.messages.add(message)
            tx.deliveries.freeze(DISCORD, MessageId("b"), [said("b")])

        order = []
        async with self.opened() as store:
            await store.transact(step)
            while (
                found := await store.read(lambda tx: tx.deliveries.next_to_send(DISCORD))
            ) is not None:
                order.append(found.message.id)
                await store.transact(lambda tx: tx.deliveries.close(DISCORD, order[-1], NOW))
        assert order == ["b", "c", "a"]

    async def test_what_came_from_a_channel_is_not_sent_back_to_it(self) -> None:
        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.channels.join(PHONE, "number")
            tx.messages.add(said("a"))
            tx.deliveries.note_received(DISCORD, MessageId("a"), ["55"])

        async with self.opened() as store:
            await store.transact(step)
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is None
            assert await store.read(lambda tx: tx.deliveries.next_edit(DISCORD)) is None
            assert await store.read(lambda tx: tx.deliveries.next_open(PHONE)) is not None
            assert await store.read(lambda tx: tx.deliveries.is_confirmed(MessageId("a")))

    async def test_a_refund_comes_once_and_only_if_every_channel_concerned_refused(self) -> None:
        first, other, given_up = MessageId("a"), MessageId("b"), MessageId("c")

        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.channels.join(PHONE, "number")
            tx.budget.put(replace(PingBudget.full(NOW), available=1.0, daily_used=4))
            for name in (first, other, given_up):
                tx.messages.add(said(name), Sender(Charge.TOKEN))
            tx.deliveries.give_up(PHONE, given_up, "it does not say")

        async with self.opened() as store:
            await store.transact(step)
            refused = [
                await store.transact(refusing(channel, first))
                for channel in (DISCORD, PHONE, PHONE, DISCORD)
            ]
            assert refused == [False, True, False, False]
            assert (await store.read(lambda tx: tx.budget.get())).available == 2.0
            assert not await store.transact(refusing(DISCORD, other))
            await store.transact(lambda tx: tx.deliveries.close(PHONE, other, NOW))
            assert (await store.read(lambda tx: tx.budget.get())).available == 3.0
            assert not await store.transact(refusing(DISCORD, given_up)), "it may have arrived"
            assert (await store.read(lambda tx: tx.budget.get())).available == 3.0

    async def test_a_button_of_the_phone_is_pressed_once(self) -> None:
        def find(tx: Transaction) -> list[bool]:
            return [tx.push_buttons.find(nonce) is not None for nonce in ("one", "two", "none")]

        async with self.opened() as store:
            await store.transact(
                lambda tx: tx.push_buttons.offer(
                    MessageId("a"), ("done", "snooze"), ("one", "two"), NOW
                )
            )
            assert await store.read(find) == [True, True, False]
            await store.transact(lambda tx: tx.push_buttons.use("one"))
            assert await store.read(find) == [False, True, False]
            await store.transact(lambda tx: tx.push_buttons.withdraw(MessageId("a")))
            assert await store.read(find) == [False, False, False]

    async def test_a_changed_account_starts_at_the_present(self) -> None:
        def step(tx: Transaction) -> None:
            tx.channels.join(DISCORD, "account")
            tx.messages.add(said("a"))
            tx.channels.join(DISCORD, "account")

        async with self.opened() as store:
            await store.transact(step)
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is not None
            await store.transact(lambda tx: tx.channels.join(DISCORD, "other"))
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is None
            await store.transact(lambda tx: tx.messages.add(said("b")))
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is not None
            await store.transact(lambda tx: tx.channels.leave(DISCORD))
            assert await store.read(lambda tx: tx.deliveries.next_open(DISCORD)) is None
            assert await store.read(lambda tx: tx.channels.all()) == []

    async def test_a_change_of_a_job_file_waits_until_it_is_done_and_comes_once(self) -> None:
        first, second = JobOp("1", {"remove": "call"}), JobOp("2", {"snooze": 5})
        async with self.opened() as store:
            await store.transact(lambda tx: tx.job_ops.add(first))
            await store.transact(lambda tx: tx.job_ops.add(second))
            assert await store.read(lambda tx: tx.job_ops.pending()) == [first, second]
            await store.transact(lambda tx: tx.job_ops.done("1"))
            await store.transact(lambda tx: tx.job_ops.add(first))
            assert await store.read(lambda tx: tx.job_ops.pending()) == [second]
