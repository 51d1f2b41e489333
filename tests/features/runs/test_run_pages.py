"""The page reads runs and receipts as `ollim-bot runs` and `ollim-bot receipt` do."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from devtools.doubles.memory import RecordingStore, memory_repositories
from tests.features.runs.test_runs_command import ROWS, TODAY, append
from tests.terminal import SUNDAY, Terminal

from ollim_bot.features.runs.run_reports import run_named
from ollim_bot.features.runs.runs_command import page_object
from ollim_bot.features.runs.runs_view import RunListView, RunView, run_list
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.schedule.day_receipts import receipt_for
from ollim_bot.kernel.store import run_ledger
from ollim_bot.kernel.store.codecs.ledger_codec import LEDGER_ROWS
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.receipts import RunFilter, RunList, receipt_of
from ollim_bot.kernel.values.run_words import run_object
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

MINUTE = timedelta(minutes=1)


class _Clock(SystemClock):
    def now(self) -> datetime:
        return SUNDAY


def kept(*rows: LedgerRow) -> RecordingStore:
    store = RecordingStore(lambda: SUNDAY)
    store.run(lambda tx: tx.ledger.append(*rows))
    return store


def as_json(value: object) -> Any:
    return json.loads(json.dumps(value, default=lambda each: each.isoformat()))


def run_of(name: str, at: datetime, *states: str, **facts: object) -> list[LedgerRow]:
    one = Occurrence.scheduled(JobKind.ROUTINE, name, at)
    return [LedgerRow(at, "due", one), *(LedgerRow(at, each, one, facts) for each in states)]


async def test_the_page_has_what_the_json_of_the_commands_has(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    append(terminal, *ROWS)
    store = kept(*(LEDGER_ROWS.decode(each.encode()) for each in ROWS))
    listed = await RunListView(store, _Clock(UTC)).look({})
    told = terminal.json("runs", "--since", "90d")["runs"]
    assert as_json([run_object(each, listed.now) for each in listed.runs]) == told
    view = RunView(store, memory_repositories(), _Clock(UTC))
    for word in (TODAY, listed.runs[0].short_id, "morning"):
        page = await view.look({"id": word})
        assert as_json(page_object(page.story, page.now)) == terminal.json("runs", "show", word)
    for day in ("today", "2026-11-14", "2026-10-01"):
        shown = await RunListView(store, _Clock(UTC)).look({"day": day})
        told = terminal.json("receipt", day)
        assert shown.receipt is not None
        assert [each.occurrence.id for each in shown.receipt.things] == [
            each["id"] for each in told["things"]
        ]
        assert {name: told[name] for name in shown.receipt.counts} == shown.receipt.counts
    with pytest.raises(OllimError, match="There is no run nothing"):
        await view.look({"id": "nothing"})


async def test_each_filter_has_its_runs_and_wrong_words_are_named() -> None:
    morning, late = SUNDAY - timedelta(hours=5), {"lateness": 600}
    called = Occurrence.scheduled(JobKind.ROUTINE, "late", morning)
    store = kept(
        *run_of("silent", morning, "running", "done", silent_because="nothing new"),
        *run_of("spoke", morning, "running", "done", pings=["1"]),
        *run_of("broken", morning, "running", "timed_out", error="it took too long"),
        LedgerRow(morning + 10 * MINUTE, "due", called),
        LedgerRow(morning + 10 * MINUTE, "done", called, {"pings": ["2"], **late}),
        # The bot was away on Saturday, and wrote the row on Sunday.
        *_missed(SUNDAY - timedelta(days=1)),
    )
    dear = Occurrence.scheduled(JobKind.ROUTINE, "spoke", morning).id
    cheap = Occurrence.scheduled(JobKind.ROUTINE, "silent", morning).id
    more = Occurrence.scheduled(JobKind.ROUTINE, "broken", morning).id
    spent = ((dear, 90_000), (cheap, 10_000), (more, 11_000))
    usage = [
        UsageRow(SUNDAY, UsageKind.RUN, "m", Price.LISTED, micros, 1, "", run)
        for run, micros in spent
    ]
    store.run(lambda tx: tx.usage.add(*usage))
    view = RunListView(store, _Clock(UTC))
    wanted = {
        "show=silent": ["silent"],
        "show=late": ["late"],
        "show=missed": ["missed"],
        "show=failed": ["broken"],
        "show=costly": ["spoke"],
        "job=spoke": ["spoke"],
        "day=2026-11-14": ["missed"],
        "day=2026-11-14&show=silent": [],
        "most=2": ["missed", "late"],
        "": ["missed", "late", "silent", "spoke", "broken"],
    }
    found: dict[str, list[str]] = {}
    for query in wanted:
        asked = dict(each.split("=") for each in query.split("&") if each)
        listed = await view.look(asked)
        found[query] = [each.occurrence.job_id for each in listed.runs]
    assert found == wanted
    for asked in ({"show": "x"}, {"day": "soon"}, {"day": "0001-01-01"}, {"day": "9999-12-31"}):
        with pytest.raises(WrongInput):
            await view.look(asked)


def _missed(due: datetime) -> list[LedgerRow]:
    one = Occurrence.scheduled(JobKind.ROUTINE, "missed", due)
    return [LedgerRow(SUNDAY, "due", one), LedgerRow(SUNDAY, "missed", one)]


async def test_a_run_leads_to_its_job_only_while_that_has_a_file() -> None:
    store, repositories = kept(*run_of("water", SUNDAY, "done")), memory_repositories()
    view = RunView(store, repositories, _Clock(UTC))
    assert (await view.look({"id": "water"})).job == ""
    repositories.routines.add(
        Routine(JobSpec(id="water", message="drink water"), Cron.parse("0 9 * * *"))
    )
    assert (await view.look({"id": "water"})).job == "routine:water"


def test_of_a_long_ledger_only_a_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = SUNDAY - timedelta(days=150)
    rows = [
        row
        for number in range(150)
        for hour in range(4)
        for row in run_of(
            f"j{hour}", begun + timedelta(days=number, hours=hour), "running", "done", pings=["1"]
        )
    ]
    store, read = kept(*rows), 0
    decode = LEDGER_ROWS.decode

    def counting(raw: bytes) -> LedgerRow:
        nonlocal read
        read += 1
        return decode(raw)

    monkeypatch.setattr(run_ledger, "LEDGER_ROWS", LEDGER_ROWS._replace(decode=counting))
    old = (begun + timedelta(days=30)).date()
    asked: dict[str, Callable[[Transaction], object]] = {
        "newest": lambda tx: run_list(tx, _filter(), 5, SUNDAY, SUNDAY),
        "rare": lambda tx: run_list(tx, _filter(show="missed"), 5, SUNDAY, SUNDAY),
        "job": lambda tx: run_list(tx, _filter(job="j1"), 5, SUNDAY, SUNDAY),
        "day": lambda tx: run_list(tx, _filter(day=old.isoformat()), 5, SUNDAY, SUNDAY),
        "run": lambda tx: run_named(tx, rows[0].occurrence.id),  # type: ignore[union-attr]
        "receipt": lambda tx: receipt_for(tx, old, SUNDAY, SUNDAY),
    }
    reads: dict[str, int] = {}
    for name, question in asked.items():
        read = 0
        answer = store.query(question)
        reads[name] = read
        if name == "receipt":
            assert answer == receipt_of(rows, old, SUNDAY, SUNDAY)
        if name == "rare":
            assert isinstance(answer, RunList)
            assert answer.has_more
    assert {name: number for name, number in reads.items() if number > len(rows) // 4} == {}


def _filter(**asked: str) -> RunFilter:
    return RunFilter.read(asked, SUNDAY)
