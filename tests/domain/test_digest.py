"""The digest after quiet hours has each message that waited, once, in order, with its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId
from ollim_bot.domain.digest import HeldMessage, HeldMessages, digest_of
from ollim_bot.domain.pings import Charge

EVENING = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)
MORNING = datetime(2026, 11, 17, 7, 0, tzinfo=UTC)
BUTTON = Card("Pick one", buttons=(Button("Done", "done", "k1"),))
FILE = Attachment("plan.md", "notes/plan.md", "text/markdown", 12)


def said(number: int, text: str = "", card: Card | None = None, *files: Attachment) -> ChatMessage:
    at = EVENING + timedelta(minutes=number)
    words = text or f"message {number}."
    return ChatMessage(
        MessageId(str(number)), at, Author.BACKGROUND, words, card=card, attachments=files
    )


def held(
    number: int, key: str = "", card: Card | None = None, charge: Charge = Charge.TOKEN
) -> HeldMessage:
    return HeldMessage(said(number, card=card), key, charge)


messages = st.lists(
    st.builds(
        held,
        st.integers(0, 400),
        st.sampled_from(["", "", "nag water", "nag pills"]),
        st.sampled_from([None, Card("Plain"), BUTTON]),
        st.sampled_from([Charge.NOTHING, Charge.TOKEN]),
    ),
    min_size=1,
    max_size=12,
)


def waiting_after(arrivals: list[HeldMessage]) -> HeldMessages:
    waiting = HeldMessages()
    for each in arrivals:
        waiting = waiting.with_new(each)
    return waiting


def test_each_line_has_its_time_and_the_name_of_its_job() -> None:
    plan = ChatMessage(
        MessageId("1"), EVENING, Author.BACKGROUND, "Tuesday is full.\nMove one?", job="weekly plan"
    )
    notice = ChatMessage(
        MessageId("2"), EVENING + timedelta(hours=3), Author.PROGRAM, "The disk is almost full."
    )
    digest = digest_of([HeldMessage(plan), HeldMessage(notice)], MORNING)
    assert digest.message.text == (
        "While it was quiet:\n"
        "- 22:30 · weekly plan: Tuesday is full.\n  Move one?\n"
        "- 1:30 · The disk is almost full."
    )


def test_a_job_that_is_named_by_a_sentence_loses_its_full_stop() -> None:
    message = ChatMessage(
        MessageId("1"), EVENING, Author.BACKGROUND, "It is in town.", job="Look for the parcel."
    )
    digest = digest_of([HeldMessage(message)], MORNING)
    assert "- 22:30 · Look for the parcel: It is in town." in digest.message.text


def test_what_waited_for_longer_than_a_day_has_its_day_too() -> None:
    digest = digest_of([held(0)], MORNING + timedelta(days=1))
    assert "- Mon 16 Nov 22:30 · message 0." in digest.message.text


def test_what_has_a_button_or_a_file_follows_as_it_was_and_is_named_in_the_digest() -> None:
    card, file = said(1, "Pick one.", BUTTON), said(2, "The plan.", None, FILE)
    digest = digest_of([HeldMessage(card), HeldMessage(file), held(3)], MORNING)
    assert [each.message for each in digest.following] == [card, file]
    lines = digest.message.text.splitlines()[1:]
    assert lines == [
        "- 22:31 · Pick one (below)",
        "- 22:32 · The plan. (below)",
        "- 22:33 · message 3.",
    ]


@given(messages)
def test_everything_that_waits_is_in_the_digest_once_and_in_order(
    arrivals: list[HeldMessage],
) -> None:
    waiting = waiting_after(arrivals).waiting
    digest = digest_of(waiting, MORNING)
    lines = digest.message.text.splitlines()[1:]
    assert len(lines) == len(waiting)
    for line, each in zip(lines, waiting, strict=True):
        assert ("Pick one" if each.message.card == BUTTON else each.message.text) in line
        assert f"{each.message.at.hour}:{each.message.at.minute:02} ·" in line
    assert [*digest.following] == [each for each in waiting if each.needs_own_message]


@given(messages)
def test_of_one_key_and_of_one_message_only_the_newest_waits(arrivals: list[HeldMessage]) -> None:
    waiting = waiting_after(arrivals).waiting
    ids = [each.message.id for each in waiting]
    assert len(ids) == len(set(ids))
    for key in {each.key for each in arrivals} - {""}:
        newest = next(each for each in reversed(arrivals) if each.key == key)
        of_key = [each for each in waiting if each.key == key]
        later = arrivals[max(i for i, each in enumerate(arrivals) if each is newest) + 1 :]
        is_replaced = any(each.message.id == newest.message.id for each in later)
        assert of_key == ([] if is_replaced else [newest])


@given(messages)
def test_a_digest_answers_for_the_price_of_its_own_lines_only(arrivals: list[HeldMessage]) -> None:
    waiting = waiting_after(arrivals).waiting
    digest = digest_of(waiting, MORNING)
    paid = [each for each in waiting if each.charge is Charge.TOKEN]
    returned = {*digest.message.pings, *(each.message.id for each in digest.following)}
    assert {each.message.id for each in paid} <= returned
    assert len(digest.message.pings) == sum(not each.needs_own_message for each in paid)
    assert (digest.charge is Charge.TOKEN) == bool(digest.message.pings)
