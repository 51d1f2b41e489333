"""The inbox: through any rows, each accepted input waits, is taken or has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.examples import examples

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.values.inbox import (
    MOST_FAILED,
    Accepted,
    CommandCall,
    Edited,
    Ended,
    FailedTurn,
    FailedTurns,
    Inbox,
    InboxRow,
    Input,
    InputEnd,
    InputId,
    OwnerMessage,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


def test_a_failed_turn_can_be_taken_once_and_the_newest_are_kept() -> None:
    asked = tuple(OwnerMessage(InputId(name), "web", NOW, name) for name in "ab")
    failed = FailedTurns()
    for number in range(MOST_FAILED + 1):
        failed = failed.with_turn(FailedTurn(TurnId(str(number)), NOW, asked))
    assert failed.taken(TurnId("0"))[1] is None
    after, found = failed.taken(TurnId("1"))
    assert found is not None
    assert after.taken(TurnId("1"))[1] is None
    assert len(after.turns) == MOST_FAILED - 1
    again = [row.input for row in found.again(NOW)]
    assert [each.id for each in again] == ["retry-1-1", "retry-1-2"]
    assert [replace(each, id=was.id) for each, was in zip(again, asked, strict=True)] == [*asked]


input_ids = st.sampled_from("abcdef").map(InputId)
turns = st.sampled_from(["t1", "t2", "t3"]).map(TurnId)
several = st.lists(input_ids, max_size=4).map(tuple)
claims = st.builds(PendingUpdate, st.just(NOW), st.text(max_size=3), st.just("9f3c01aa")).map(
    lambda update: PendingUpdates((update,))
)
rows: st.SearchStrategy[InboxRow] = st.one_of(
    st.builds(lambda name: Accepted(NOW, message(name)), input_ids),
    st.builds(lambda name: Accepted(NOW, command(name)), input_ids),
    st.builds(Edited, st.just(NOW), input_ids, st.text(max_size=3)),
    st.builds(Taken, st.just(NOW), turns, several, st.integers(1, 3), st.text("p"), claim=claims),
    st.builds(ToolCalled, st.just(NOW), turns, st.sampled_from(["Read", "Write"]), st.just("…")),
    st.builds(Released, st.just(NOW), turns),
    st.builds(Ended, st.just(NOW), several, st.sampled_from(InputEnd)),
)
histories = st.lists(rows, max_size=25)


def message(name: str, text: str = "hello") -> OwnerMessage:
    return OwnerMessage(InputId(name), "web", NOW, text)


def command(name: str) -> CommandCall:
    return CommandCall(InputId(name), "web", NOW, "clear")


def accepted(*inputs: Input) -> list[InboxRow]:
    return [Accepted(NOW, each) for each in inputs]


def ids(inputs: tuple[Input, ...]) -> list[str]:
    return [each.id for each in inputs]


def taken(turn: str, *inputs: str, attempt: int = 1) -> Taken:
    return Taken(NOW, TurnId(turn), tuple(map(InputId, inputs)), attempt)


def ended(*inputs: str) -> Ended:
    return Ended(NOW, tuple(map(InputId, inputs)), InputEnd.ANSWERED)


def inbox_of(rows: Iterable[InboxRow]) -> Inbox:
    return reduce(Inbox.after, rows, Inbox())


class InboxThroughRows(RuleBasedStateMachine):
    """Any rows in any order; a dictionary holds the state of each input."""

    def __init__(self) -> None:
        super().__init__()
        self.inbox = Inbox()
        self.place: dict[str, str] = {}
        self.text: dict[str, str] = {}

    @rule(given=st.builds(message, input_ids, st.text(max_size=3)))
    def accept(self, given: OwnerMessage) -> None:
        self.inbox = self.inbox.after(Accepted(NOW, given))
        if given.id not in self.place:
            self.place[given.id], self.text[given.id] = "waiting", given.text

    @rule(row=st.builds(Edited, st.just(NOW), input_ids, st.text(max_size=3)))
    def edit(self, row: Edited) -> None:
        self.inbox = self.inbox.after(row)
        if self.place.get(row.input) == "waiting":
            self.text[row.input] = row.text

    @rule(row=st.builds(Taken, st.just(NOW), turns, several, st.integers(1, 2)))
    def take(self, row: Taken) -> None:
        before, self.inbox = self.inbox, self.inbox.after(row)
        known = [each for each in row.inputs if self.place.get(each) in ("waiting", "taken")]
        if not known:
            assert self.inbox == before
            return
        for each, place in self.place.items():
            if place == "taken":
                self.place[each] = "waiting"
        self.place.update(dict.fromkeys(known, "taken"))
        assert self.inbox.running is not None
        assert self.inbox.running.turn == row.turn

    @rule(row=st.builds(Ended, st.just(NOW), several, st.sampled_from(InputEnd)))
    def end(self, row: Ended) -> None:
        self.inbox = self.inbox.after(row)
        for each in row.inputs:
            if each in self.place:
                self.place[each] = "ended"

    @invariant()
    def each_accepted_input_is_in_one_place_and_in_its_order(self) -> None:
        for place, inputs in (("waiting", self.inbox.waiting), ("taken", self.inbox.taken)):
            assert ids(inputs) == [each for each in self.place if self.place[each] == place]

    @invariant()
    def it_has_the_text_that_it_was_last_given_while_it_waited(self) -> None:
        found = {each.id: each.text for each in self.messages()}
        assert found == {each: self.text[each] for each in found}

    @invariant()
    def a_turn_runs_as_long_as_something_is_taken(self) -> None:
        assert (self.inbox.running is not None) == bool(self.inbox.taken)

    @invariant()
    def whatever_was_accepted_is_known(self) -> None:
        assert self.inbox.seen == set(self.place)

    def messages(self) -> list[OwnerMessage]:
        return [each for each in self.inbox.accepted if isinstance(each, OwnerMessage)]


InboxThroughRows.TestCase.settings = settings(max_examples=examples(1.5), stateful_step_count=25)
TestInboxThroughRows = InboxThroughRows.TestCase


@given(histories)
def test_the_next_batch_is_the_head_of_the_line_and_of_one_kind(history: list[InboxRow]) -> None:
    inbox = inbox_of(history)
    batch = inbox.next_batch()
    assert inbox.waiting[: len(batch)] == batch
    assert bool(batch) == bool(inbox.waiting)
    assert len({type(each) for each in batch}) <= 1
    assert len(batch) == 1 or not any(isinstance(each, CommandCall) for each in batch)
    following = inbox.waiting[len(batch) :][:1]
    for last, first in pairwise((*batch[-1:], *following)):
        assert isinstance(last, CommandCall) or isinstance(first, CommandCall)


def test_a_further_attempt_keeps_what_the_tools_have_done() -> None:
    called = [ToolCalled(NOW, TurnId(turn), "Write", f"in {turn}") for turn in ("t1", "t2")]
    rows = [
        *accepted(message("a")),
        taken("t1", "a"),
        called[0],
        taken("t2", "a", attempt=2),
        called[1],
    ]
    inbox = inbox_of(rows)
    assert inbox.tools == tuple(called)
    assert inbox.running == rows[3]


def test_what_a_turn_had_taken_waits_again_when_it_is_released() -> None:
    rows = [*accepted(message("a"), message("b")), taken("t1", "a")]
    released = inbox_of([*rows, Released(NOW, TurnId("t1"))])
    assert released.running is None
    assert ids(released.next_batch()) == ["a", "b"]
    assert inbox_of([*rows, Released(NOW, TurnId("t2"))]) == inbox_of(rows)


def test_tools_of_a_turn_that_is_over_are_forgotten() -> None:
    called = ToolCalled(NOW, TurnId("t1"), "Write", "…")
    rows = [*accepted(message("a"), message("b")), taken("t1", "a"), called]
    assert inbox_of([*rows, ended("a")]).tools == ()
    assert inbox_of([*rows, ended("a"), taken("t2", "b")]).tools == ()
    assert inbox_of([*rows, ended("a"), called]).tools == ()


@pytest.mark.parametrize(
    "rows", [[*accepted(message("a")), taken("t1", "a")], accepted(command("a"))]
)
def test_an_edit_of_what_is_taken_or_is_no_message_changes_nothing(rows: list[InboxRow]) -> None:
    inbox = inbox_of(rows)
    assert inbox.after(Edited(NOW, InputId("a"), "other")) == inbox


def test_messages_wait_together_and_a_command_waits_alone() -> None:
    inbox = inbox_of(accepted(message("a"), message("b"), command("c"), command("d")))
    assert ids(inbox.next_batch()) == ["a", "b"]
    inbox = inbox.after(ended("a", "b"))
    assert ids(inbox.next_batch()) == ["c"]
