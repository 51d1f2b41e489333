"""Claims: each occurrence is begun once, by whoever is first, however the clock is set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.chaos.test_rivals import rivals
from tests.storage.ledger_rival import occurrence
from tests.storage.places import NOW, DataDirectory, QuickDisk
from tests.stores import Stores, memory_stores

from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.jobs import JobKind, JobSpec, Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.errors import WriteFailed
from ollim_bot.store.files import OsDisk
from ollim_bot.testing.disks import SteppedDisk

ONE = occurrence(1)
MANY = 200


@pytest.fixture(params=["disk", "memory"])
def stores(request: pytest.FixtureRequest, data: DataDirectory) -> Stores:
    return data.open(QuickDisk()) if request.param == "disk" else memory_stores(NOW)


def at(moment: datetime) -> Occurrence:
    return Occurrence.scheduled(JobKind.ROUTINE, "daily", moment)


def test_two_processes_that_race_get_each_occurrence_once(data: DataDirectory) -> None:
    with rivals(data.paths.root, str(MANY), program="tests.storage.ledger_rival") as both:
        for each in both:
            each.tell("go")
        won = [each.answer().split() for each in both]
    assert sorted(map(int, won[0] + won[1])) == list(range(MANY))
    rows = data.open().ledger.read().entries
    by = {row.occurrence: row.facts["by"] for row in rows}
    assert len(rows) == len(by) == MANY
    assert by == {occurrence(int(n)): "ab"[side] for side in (0, 1) for n in won[side]}


def test_a_claim_of_another_process_is_seen_at_once(data: DataDirectory) -> None:
    mine, theirs = data.open(), data.open()
    for number in range(6):
        winner, loser = (mine, theirs) if number % 2 else (theirs, mine)
        assert winner.claims.claim(occurrence(number), NOW)
        assert not loser.claims.claim(occurrence(number), NOW)


def test_a_claim_reads_only_what_is_new(data: DataDirectory) -> None:
    steps: list[str] = []
    stores = data.open(SteppedDisk(QuickDisk(), lambda step, _: steps.append(step)))
    stores.ledger.claim(occurrence(0), NOW)
    stores.ledger.claim(occurrence(1), NOW)
    path = data.paths.ledger
    content = path.read_bytes()
    # Were it read again, the claims in it would be lost.
    path.write_bytes(b"x" * (len(content) - 1) + b"\n")
    steps.clear()
    assert not stores.ledger.claim(occurrence(0), NOW)
    assert stores.ledger.claim(occurrence(2), NOW)
    assert steps == ["append"]


def test_claims_hold_across_the_turn_of_the_month(data: DataDirectory) -> None:
    last = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    next_day = last + timedelta(minutes=5)
    mine, theirs = data.open(), data.open()
    assert mine.claims.claim(at(last), last)
    assert theirs.claims.claim(at(next_day), next_day)
    assert (data.paths.state / "ledger-2026-11.jsonl").exists()
    for stores in (mine, theirs, data.open()):
        assert not stores.ledger.claim(at(last), next_day)
        assert not stores.ledger.claim(at(next_day), next_day)
    assert mine.claims.claim(at(last - timedelta(days=1)), next_day)


def test_months_long_past_are_not_kept_in_memory(data: DataDirectory) -> None:
    months = [datetime(2026, month, 2, tzinfo=UTC) for month in (9, 10, 11)]
    claims = data.open().claims
    assert all(claims.claim(at(month), month) for month in months)
    for name in ("ledger-2026-09.jsonl", "ledger-2026-10.jsonl"):
        path = data.paths.state / name
        path.write_bytes(b"x" * (path.stat().st_size - 1) + b"\n")
    # What is remembered is not read again, and so does not seem to be lost.
    assert not claims.claim(at(months[1]), months[2])
    assert claims.claim(at(months[0]), months[2])


def test_no_file_of_an_earlier_month_than_the_moment_is_opened(data: DataDirectory) -> None:
    for month in (8, 9, 10):
        data.open().ledger.append(LedgerRow(datetime(2026, month, 2, tzinfo=UTC), "noted"))
    past = data.paths.state / "ledger-2026-08.jsonl"
    past.unlink()
    past.mkdir()
    claims = data.open().claims
    assert claims.claim(ONE, NOW)
    october = datetime(2026, 10, 5, tzinfo=UTC)
    assert claims.claim(at(october), NOW)
    assert past.is_dir()
    claims.claim(at(datetime(2026, 8, 5, tzinfo=UTC)), NOW)
    assert [problem.path for problem in data.problems] == [past]
    assert not past.exists()


@pytest.mark.parametrize("days", [1, 40, 400])
def test_a_clock_that_is_set_back_brings_nothing_a_second_time(
    data: DataDirectory, days: int
) -> None:
    """Nor one that went ahead first: whatever month the rows stand in."""
    moments = [NOW + timedelta(days=n * days) for n in (0, 1, 2)]
    for moment in moments:
        assert data.open().claims.claim(at(moment), moment)
    old = data.open().claims
    for moment in (*moments, *moments[::-1]):
        assert not old.claim(at(moment), moment)
        assert not data.open().claims.claim(at(moment), moment)
    between = moments[0] + timedelta(days=days / 2)
    assert old.claim(at(between), between)
    assert not data.open().claims.claim(at(between), between + timedelta(days=3 * days))


def test_a_delivery_is_known_by_its_key_for_a_week(data: DataDirectory) -> None:
    delivery = Occurrence(JobKind.WEBHOOK, "hook", "key")
    december = datetime(2026, 12, 1, tzinfo=UTC)
    assert data.open().claims.claim(delivery, december - timedelta(days=6))
    data.open().ledger.append(LedgerRow(december, "noted"))
    for stores in (data.open(), data.open()):
        assert not stores.ledger.claim(delivery, december)
    assert data.open().claims.claim(delivery, december + timedelta(days=60))


@pytest.mark.parametrize("tail", [b"", b'{"ts": "2026-11-15T09:00:00+00:00", "sta'])
def test_a_claim_that_lost_its_line_end_counts_and_a_torn_one_does_not(
    data: DataDirectory, tail: bytes
) -> None:
    data.open().claims.claim(ONE, NOW)
    path = data.paths.ledger
    path.write_bytes(path.read_bytes().rstrip(b"\n") + (b"\n" + tail if tail else b""))
    claims = data.open().claims
    assert not claims.claim(ONE, NOW)
    assert claims.claim(occurrence(2), NOW)
    assert not claims.claim(occurrence(2), NOW)
    assert not data.open().claims.claim(occurrence(2), NOW)
    assert data.open().ledger.read().skipped == bool(tail)


def test_a_claim_that_cannot_be_written_is_none_and_can_be_made_later(data: DataDirectory) -> None:
    full = [True]

    class Full(OsDisk):
        def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
            if full:
                raise OSError(28, "No space left on device")
            super().append(path, data, mode, sync=sync)

    claims = data.open(Full()).claims
    with pytest.raises(WriteFailed):
        claims.claim(ONE, NOW)
    full.clear()
    assert claims.claim(ONE, NOW)
    assert not claims.claim(ONE, NOW)


def test_a_ledger_that_was_replaced_is_read_anew(data: DataDirectory) -> None:
    claims = data.open().claims
    assert claims.claim(ONE, NOW)
    assert claims.claim(occurrence(2), NOW)
    data.paths.ledger.write_bytes(b"")
    assert claims.claim(ONE, NOW)


def test_what_is_unfinished_is_found_at_a_cost_that_does_not_grow(stores: Stores) -> None:
    forgotten, waiting = occurrence(1), occurrence(2)
    stores.ledger.claim(forgotten, NOW)
    stores.ledger.claim(waiting, NOW)
    stores.ledger.append(LedgerRow(NOW, "skipped", forgotten))
    for number in range(3, 2000):
        past = occurrence(number)
        stores.ledger.append(*(LedgerRow(NOW, state, past) for state in ("due", "missed")))
        if number % 50 == 0:
            stores.keep_checkpoint(NOW, NOW)
    history = stores.recent_history()
    assert [story.occurrence for story in history.unfinished] == [waiting]
    stores.ledger.append(LedgerRow(NOW, "missed", waiting))
    for _ in range(2):
        stores.keep_checkpoint(NOW, NOW)
    history = stores.recent_history()
    assert history.unfinished == []
    assert len(history.stories) < 1000


def test_a_year_of_months_does_not_hide_what_is_unfinished(data: DataDirectory) -> None:
    assert data.open(QuickDisk()).claims.claim(ONE, NOW)
    now = NOW
    for _ in range(12):
        now += timedelta(days=31)
        stores = data.open(QuickDisk())
        stores.keep_checkpoint(now, now)
        assert [story.occurrence for story in stores.recent_history().unfinished] == [ONE]
    assert len(list(data.paths.state.glob("ledger-*.jsonl"))) == 12


def test_what_is_armed_is_read_back_to_the_last_roster(stores: Stores) -> None:
    assert stores.armed_jobs() == Armed()
    jobs = [
        Definition.of(Reminder(JobSpec(id=name, message="words"), NOW), UTC) for name in ("a", "b")
    ]
    stores.ledger.append(*stores.armed_jobs().rows_for(jobs, NOW, NOW))
    stores.ledger.append(*(LedgerRow(NOW, "noted") for _ in range(3000)))
    stores.ledger.append(*stores.armed_jobs().rows_for(jobs[:1], NOW, NOW))
    assert list(stores.armed_jobs().jobs.values()) == jobs[:1]
