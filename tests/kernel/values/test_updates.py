"""Pending updates are seen once or told as omitted; a run's taint is told later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.examples import examples
from tests.kernel.values.strategies import pending_updates

from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.runs import taint_of_job
from ollim_bot.kernel.values.taint import (
    Reading,
    Taint,
    addresses_in,
    kind_of,
    marked_taint,
    reading_of,
    site_of,
)
from ollim_bot.kernel.values.updates import (
    MAX_PENDING_UPDATES,
    PendingUpdate,
    PendingUpdates,
    omission_notice,
)

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


def update(number: int) -> PendingUpdate:
    """Updates that differ only in their ids."""
    return PendingUpdate(NOW, "3 mails need replies", f"{number:08x}")


def updates(count: int, start: int = 0) -> tuple[PendingUpdate, ...]:
    return tuple(update(number) for number in range(start, start + count))


def after_appends(
    appended: Sequence[PendingUpdate], before: PendingUpdates | None = None
) -> PendingUpdates:
    return reduce(lambda now, one: now.appended(one)[0], appended, before or PendingUpdates())


def line_count(pending: PendingUpdates) -> int:
    return len(pending.entries) + bool(pending.omitted)


class UpdatesThroughCrashes(RuleBasedStateMachine):
    """The file, a claim in the inbox, and a crash between any two writes.

    The sets hold the expected place of each update, independently of the file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.file = PendingUpdates()
        self.count = 0
        self.waiting: list[PendingUpdate] = []
        self.seen: set[PendingUpdate] = set()
        self.dropped: set[PendingUpdate] = set()
        self.uncounted: set[PendingUpdate] = set()

        self.claim = PendingUpdates()
        self.claimed: list[PendingUpdate] = []
        self.claimed_count: set[PendingUpdate] = set()
        self.file_was_emptied = True
        self.decision = "committed"

    @rule(count=st.integers(1, 4) | st.integers(8, 12))
    def append(self, count: int) -> None:
        for one in updates(count, self.count):
            self.file, gave_way = self.file.appended(one)
            assert line_count(self.file) <= MAX_PENDING_UPDATES
            self.waiting = [left for left in (*self.waiting, one) if left not in gave_way]
            self.dropped.update(gave_way)
            self.uncounted.update(gave_way)
        self.count += count

    @precondition(lambda self: self.decision)
    @rule()
    def claim_what_waits_and_crash(self) -> None:
        self.claim = self.file
        self.claimed, self.claimed_count = list(self.waiting), set(self.uncounted)
        self.file_was_emptied = False
        self.decision = ""

    @precondition(lambda self: self.decision)
    @rule()
    def claim_what_waits(self) -> None:
        self.claim_what_waits_and_crash()
        self.file = PendingUpdates()
        self.waiting, self.uncounted = [], set()
        self.file_was_emptied = True

    @precondition(lambda self: self.decision != "committed")
    @rule()
    def restore(self) -> None:
        self.file = self.file.restored(self.claim)
        if not self.decision and self.file_was_emptied:
            self.waiting = self.claimed + self.waiting
            self.uncounted |= self.claimed_count
        self.decision = "restored"

    @precondition(lambda self: self.decision != "restored")
    @rule()
    def commit(self) -> None:
        self.file = self.file.committed(self.claim)
        if not self.decision:
            self.seen.update(self.claimed)
            self.waiting = [one for one in self.waiting if one not in self.claimed]
            # An update that was dropped after its claim was seen nevertheless.
            self.dropped.difference_update(self.claimed)
            self.uncounted -= {*self.claimed, *self.claimed_count}
        self.decision = "committed"

    @invariant()
    def what_waits_is_in_the_file_in_order(self) -> None:
        assert list(self.file.entries) == self.waiting

    @invariant()
    def the_notice_counts_what_gave_way_and_was_not_told(self) -> None:
        assert self.file.omitted == len(self.uncounted)

    @invariant()
    def every_update_is_in_one_place(self) -> None:
        held = self.claimed if self.file_was_emptied and not self.decision else []
        places = [*self.waiting, *held, *self.seen, *self.dropped]
        assert sorted(one.id or "" for one in places) == [one.id for one in updates(self.count)]


TestUpdatesThroughCrashes = UpdatesThroughCrashes.TestCase

TestUpdatesThroughCrashes.settings = settings(max_examples=examples(1.5), stateful_step_count=20)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 12, 25, 1000])
def test_the_newest_wait_and_the_count_of_the_others_takes_one_place(count: int) -> None:
    pending = after_appends(updates(count))
    fits = count <= MAX_PENDING_UPDATES
    kept = count if fits else MAX_PENDING_UPDATES - 1
    assert pending.entries == updates(kept, count - kept)
    assert pending.omitted == count - kept


def test_what_comes_back_stands_first_and_may_exceed_the_cap() -> None:
    left, claim = PendingUpdates(), after_appends(updates(12))
    restored = after_appends(updates(10, 12), left).restored(claim)
    assert restored.entries == updates(19, 3)
    assert restored.omitted == 3


def test_what_came_back_gives_way_first_when_more_is_appended() -> None:
    left, claim = PendingUpdates(), after_appends(updates(10))
    restored = after_appends(updates(8, 10), left).restored(claim)
    after, gave_way = restored.appended(update(18))
    assert (after.entries, after.omitted) == (updates(9, 10), 10)
    assert gave_way == updates(10)


@settings(max_examples=40)
@given(pending_updates(), pending_updates())
def test_an_empty_claim_changes_nothing(pending: PendingUpdates, other: PendingUpdates) -> None:
    assert pending.restored(PendingUpdates()) == pending
    assert pending.committed(PendingUpdates()) == pending
    assert PendingUpdates().committed(other) == PendingUpdates()


def test_updates_written_by_hand_without_an_id_are_told_apart_by_their_moment() -> None:
    by_hand = [PendingUpdate(NOW + n * timedelta(minutes=1), "look at this") for n in range(3)]
    file = after_appends(by_hand)
    left, claim = PendingUpdates(), file
    assert file.restored(claim) == file
    assert file.committed(claim) == PendingUpdates()
    assert left.restored(claim) == file
    assert after_appends(updates(1), left).restored(claim).entries == (*by_hand, update(0))


def test_the_notice_says_how_many_are_missing() -> None:
    assert omission_notice(3) == "(3 earlier update(s) omitted — cap reached)"


TYPED = "see (https://Example.com/a_(b)), or x.example/y. And <https://q.example/?a=1#top>!"

TAINT = Taint(("forwarded message",), addresses_in(TYPED))

SITES = {
    "https://News.Example/today?a=b": "news.example",
    "HTTP://news.example:8080": "news.example",
    " https://news.example#top": "news.example",
    "https://xn--bcher-kva.example/": "xn--bcher-kva.example",
    "https://bücher.example/": "",
    "https://b\u0131g.example/": "",
    "https://ban\u212a.example/": "",
    f"https://{'a' * 50}.{'b' * 30}.example/": f"{'a' * 21}.{'b' * 30}.example",
    "https://ada@news.example/": "",
    "https://evil.example\\@news.example/": "",
    "https://[::1]/": "",
    "https://news example/": "",
    "https://*you-may*.example/": "",
    "https://news.example。evil.example/": "",
    "https://news.example%2eevil.example/": "",
    "ftp://news.example/": "",
    "news.example": "",
    "": "",
}


@pytest.mark.parametrize(("url", "site"), SITES.items())
def test_a_page_is_named_by_its_site_in_plain_characters(url: str, site: str) -> None:
    assert site_of(url) == site
    reading = reading_of("WebFetch", {"url": url}, "", ())
    assert reading == Reading(f"web page {site}" if site else "web page")


def test_many_sites_are_one_kind_and_are_not_all_named() -> None:
    taint = Taint()
    for number in range(30):
        taint = taint.after(Reading(f"web page {number}.example")).after(Reading("mail"))
    assert len(taint.sources) == 22
    assert {*map(kind_of, taint.sources)} == {"web page", "mail"}
    assert taint.in_words == "a web page 0.example and a mail and a web page 1.example and 19 more"


def test_a_mark_gives_back_the_sources() -> None:
    taint = Taint(("web page", "mail"))
    assert marked_taint(taint.mark) == taint
    assert (Taint().mark, marked_taint(None), marked_taint(" , ")) == ("", Taint(), Taint())


def test_a_job_taints_its_run_by_its_mark_and_a_webhook_by_its_values() -> None:
    spec = JobSpec(id="a", message="See https://news.example/today.")
    trusted, marked = Reminder(spec, NOW), Reminder(replace(spec, untrusted="mail"), NOW)
    assert taint_of_job(trusted) == Taint(addresses=addresses_in(spec.message))
    assert taint_of_job(marked) == Taint(("mail",))
    assert taint_of_job(WebhookSpec(spec, {})).sources == ("webhook request",)


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("ollim-bot gmail unread", "mail"),
        ("'/opt/venv/bin/ollim-bot' 'gmail' 'read' '1'", "mail"),
        ("/opt/venv/bin/ollim-bot cal today", "calendar entry"),
        ("/opt/other gmail unread", "text that others wrote"),
    ],
)
def test_what_a_command_of_ours_has_shown_is_named_also_by_its_path(
    command: str, source: str
) -> None:
    result = "Data\n<untrusted-0123456789abcdef>\nx\n</untrusted-0123456789abcdef>"
    reading = reading_of("Bash", {"command": command}, result, ())
    assert reading is not None
    assert reading.source == source
