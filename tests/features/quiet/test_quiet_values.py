"""Quiet hours, through clock changes and the owner's choices, and the digest after them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import instants, zones

from ollim_bot.features.quiet import digest_message
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.digest import (
    LONGEST_PAGE,
    MOST_LINES,
    MOST_LINES_WITH_BUTTONS,
    Digest,
    Digests,
    HeldMessage,
    HeldMessages,
)
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.item_messages import item_message
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.pings import Charge
from ollim_bot.kernel.values.quiet import (
    QuietChoice,
    QuietHours,
    QuietSettings,
    ended_now,
    is_quiet,
    quiet_spans,
    quiet_until,
)
from ollim_bot.kernel.values.schedule import occurrence_at
from ollim_bot.kernel.values.taint import Untrusted

BERLIN = ZoneInfo("Europe/Berlin")

NIGHT = QuietHours.parse("22:00-07:00")

SETTINGS = QuietSettings(BERLIN, NIGHT)

hours = (
    st.lists(
        st.times().map(lambda each: each.replace(second=0, microsecond=0)),
        min_size=2,
        max_size=2,
        unique=True,
    )
    .map(lambda ends: QuietHours(*ends))
    .filter(lambda each: each.start != each.end)
)

choices = st.builds(QuietChoice, st.none() | instants, st.none() | instants)

all_settings = st.builds(QuietSettings, zones, st.none() | hours, choices)


def at(day: int, hour: int, minute: int = 0, month: int = 11) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


def test_a_night_is_quiet_from_its_first_minute_until_before_its_end() -> None:
    assert [is_quiet(SETTINGS, at(16, hour)) for hour in (21, 22, 23, 0, 6, 7, 12)] == [
        *(False, True, True, True, True, False, False)
    ]
    assert quiet_until(SETTINGS, at(16, 23)) == at(17, 7)
    assert quiet_until(SETTINGS, at(17, 6, 59)) == at(17, 7)
    assert quiet_until(SETTINGS, at(17, 7)) is None


def test_hours_within_one_day_do_not_pass_midnight() -> None:
    nap = QuietSettings(BERLIN, QuietHours.parse("13:00-14:30"))
    assert quiet_until(nap, at(16, 13)) == at(16, 14, 30)
    assert not is_quiet(nap, at(16, 23))


@pytest.mark.parametrize(
    "text", ["", "22:00", "10-7", "25-7", "25:00-07:00", "22:00-22:00", "22pm-7am", "a-b"]
)
def test_what_is_no_span_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no|length|two ways"):
        QuietHours.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" 9:30 – 17:00 ", "09:30-17:00"),
        ("22-7", "22:00-07:00"),
        ("22 to 7.30", "22:00-07:30"),
        ("10pm-7am", "22:00-07:00"),
        ("from 10:30 PM until 12 am", "22:30-00:00"),
        ("22h-7h", "22:00-07:00"),
    ],
)
def test_a_span_is_read_as_people_write_it_and_written_in_one_way(text: str, written: str) -> None:
    assert str(QuietHours.parse(text)) == written


def test_an_end_that_comes_twice_in_autumn_ends_the_quiet_once() -> None:
    settings = QuietSettings(BERLIN, QuietHours.parse("22:00-02:30"))
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    end = quiet_until(settings, first - timedelta(hours=1))
    assert end is not None
    assert end.astimezone(UTC) == first
    assert not any(is_quiet(settings, first + timedelta(minutes=each)) for each in range(0, 180, 5))


def test_an_end_that_does_not_exist_in_spring_is_the_end_of_the_gap() -> None:
    settings = QuietSettings(BERLIN, QuietHours.parse("22:00-02:30"))
    end = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert quiet_until(settings, end - timedelta(hours=3)) == end


def test_a_chosen_quiet_that_reaches_into_the_hours_ends_with_them() -> None:
    chosen = QuietSettings(BERLIN, NIGHT, QuietChoice(until=at(16, 23)))
    assert quiet_until(chosen, at(16, 20)) == at(17, 7)
    short = QuietSettings(BERLIN, NIGHT, QuietChoice(until=at(16, 21)))
    assert quiet_until(short, at(16, 20)) == at(16, 21)


def test_ending_the_quiet_holds_for_this_night_only() -> None:
    lifted = QuietSettings(BERLIN, NIGHT, ended_now(SETTINGS, at(16, 23)))
    assert not is_quiet(lifted, at(16, 23))
    assert not is_quiet(lifted, at(17, 6, 59))
    assert is_quiet(lifted, at(17, 22))


@given(all_settings, instants)
def test_it_is_quiet_until_the_end_and_not_at_the_end(
    settings: QuietSettings, moment: datetime
) -> None:
    end = quiet_until(settings, moment)
    assert is_quiet(settings, moment) == (end is not None)
    if end is not None:
        assert end.astimezone(UTC) > moment.astimezone(UTC)
        assert not is_quiet(settings, end)
        assert is_quiet(settings, end.astimezone(UTC) - timedelta(microseconds=1))


@given(all_settings, instants)
def test_ending_the_quiet_ends_it_at_once(settings: QuietSettings, now: datetime) -> None:
    after = QuietSettings(settings.zone, settings.hours, ended_now(settings, now))
    assert not is_quiet(after, now)


@given(hours, zones, instants)
def test_away_from_clock_changes_the_clock_on_the_wall_decides(
    span: QuietHours, zone: ZoneInfo, moment: datetime
) -> None:
    local = moment.astimezone(zone)
    days = [local + timedelta(days=each) for each in (-2, 2)]
    if len({each.utcoffset() for each in (*days, local)}) == 1:
        assert is_quiet(QuietSettings(zone, span), moment) == span.has(local.time())


@given(zones, hours, instants, st.integers(0, 3000), st.integers(0, 7 * 24 * 60 - 1))
def test_the_spans_of_a_week_have_every_quiet_moment(
    zone: ZoneInfo, night: QuietHours, start: datetime, chosen: int, minutes: int
) -> None:
    moment = start.astimezone(UTC) + timedelta(minutes=minutes)
    end = start.astimezone(UTC) + timedelta(minutes=chosen)
    for choice in (QuietChoice(), QuietChoice(until=end), QuietChoice(lifted_until=end)):
        settings = QuietSettings(zone, night, choice)
        spans = quiet_spans(settings, start, start + timedelta(days=7))
        until = quiet_until(settings, moment)
        found = [end for begin, end in spans if begin <= moment < end]
        assert found == ([] if until is None else [until])


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


def brought(*waiting: HeldMessage, now: datetime = MORNING) -> ChatMessage:
    return digest_message(Digest.of(waiting, now), {}, frozenset(), now)


def test_each_line_has_its_time_and_the_name_of_its_job() -> None:
    plan = ChatMessage(
        MessageId("1"), EVENING, Author.BACKGROUND, "Tuesday is full.\nMove one?", job="weekly plan"
    )
    notice = ChatMessage(
        MessageId("2"), EVENING + timedelta(hours=3), Author.PROGRAM, "The disk is almost full."
    )
    digest = brought(HeldMessage(plan), HeldMessage(notice))
    assert digest.text == (
        "While it was quiet:\n"
        "- 22:30 · weekly plan: Tuesday is full.\n  Move one?\n"
        "- 1:30 · The disk is almost full."
    )
    assert digest.card is None


def test_a_job_that_is_named_by_a_sentence_loses_its_full_stop() -> None:
    message = ChatMessage(
        MessageId("1"), EVENING, Author.BACKGROUND, "It is in town.", job="Look for the parcel."
    )
    digest = brought(HeldMessage(message))
    assert "- 22:30 · Look for the parcel: It is in town." in digest.text


def test_what_waited_for_longer_than_a_day_has_its_day_too() -> None:
    digest = brought(held(0), now=MORNING + timedelta(days=1))
    assert "- Mon 16 Nov 22:30 · message 0." in digest.text


def test_what_does_not_fit_into_a_line_is_a_line_with_show() -> None:
    card, file = said(1, "Pick one.", BUTTON), said(2, "The plan.", None, FILE)
    long = said(3, "Very long. " * 100)
    digest = brought(*map(HeldMessage, (card, file, long)), held(4))
    lines = digest.text.splitlines()[1:]
    assert lines[:2] == ["- 22:31 · Pick one", "- 22:32 · The plan."]
    assert len(lines[2]) < 220
    assert lines[3] == "- 22:34 · message 4."
    assert digest.card is not None
    assert [(each.line, each.label) for each in digest.card.buttons] == [
        (1, "Show"),
        (2, "Show"),
        (3, "Show"),
    ]


def test_one_untrusted_line_marks_the_digest() -> None:
    page = ChatMessage(
        MessageId("1"), EVENING, Author.BACKGROUND, "Buy!", untrusted=Untrusted("web page", "x")
    )
    digest = brought(held(2), HeldMessage(page))
    assert digest.untrusted is not None
    assert digest.untrusted.source == "web page"


def asking(number: int) -> tuple[HeldMessage, DueItem]:
    at = EVENING + timedelta(minutes=number)
    job = Reminder(JobSpec(id=f"r{number}", message=f"Do {number}.", plain=True, must=False), at)
    message, item = item_message(job, occurrence_at(job, at), at)
    return HeldMessage(message, f"plain {number}"), item


long_messages = st.lists(
    st.one_of(
        st.builds(held, st.integers(0, 400), card=st.sampled_from([None, BUTTON])),
        st.builds(
            lambda number, length: HeldMessage(said(number, "word " * length)),
            st.integers(0, 400),
            st.integers(1, 200),
        ),
        st.integers(401, 500).map(lambda number: asking(number)[0]),
    ),
    min_size=1,
    max_size=60,
)


@given(long_messages, st.sampled_from(["", "Today: due 7, came 6, held 1, late 0, lost 0."]))
def test_every_page_is_small_enough_and_together_they_have_everything_once(
    arrivals: list[HeldMessage], receipt: str
) -> None:
    waiting = waiting_after(arrivals).waiting
    digest = replace(Digest.of(waiting, MORNING), receipt=receipt)
    items = {item.key: item for _, item in map(asking, range(401, 501))}
    seen: list[HeldMessage] = []
    for page in digest.pages:
        number = digest.pages.index(page)
        shown = digest_message(replace(digest, page=number), items, frozenset(), MORNING)
        assert len(page) <= MOST_LINES
        assert len(shown.text) <= LONGEST_PAGE
        if shown.card is not None:
            numbered = {each.line for each in shown.card.buttons} - {0}
            assert len(numbered) <= MOST_LINES_WITH_BUTTONS
            assert shown.card.problems() == []
        left = len(digest.entries) - len(seen) - len(page)
        assert shown.text.endswith(f"\n+{left} more") == bool(left)
        assert shown.text.endswith(f"\n{receipt}") == (not left) or not receipt
        seen += page
    assert seen == sorted(waiting, key=lambda each: each.message.at)


@given(long_messages)
def test_a_digest_is_kept_as_it_is(arrivals: list[HeldMessage]) -> None:
    kept = Digests((Digest.of(waiting_after(arrivals).waiting, MORNING),))
    assert decode_plain(Digests, encode_plain(kept)) == kept


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
def test_a_digest_answers_for_the_price_of_all_its_lines(arrivals: list[HeldMessage]) -> None:
    waiting = waiting_after(arrivals).waiting
    paid = {each.message.id for each in waiting if each.charge is Charge.TOKEN}
    assert {*brought(*waiting).pings} == paid
