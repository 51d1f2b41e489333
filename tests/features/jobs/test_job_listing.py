"""All jobs in a list: when each comes, how its last days were, and a switch for each."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import settle
from tests.features.jobs.test_forms import FILES, Forms, forms
from tests.kernel.conversation.scene import NOW

from ollim_bot.features.jobs.job_listing import job_object
from ollim_bot.features.jobs.reminder_command import ReminderNoun
from ollim_bot.features.jobs.routine_command import RoutineNoun
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.job_list import DAYS, DayState, JobLine, JobList
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

pytestmark = pytest.mark.usefixtures("inline_executor")

DUE, RUNNING, DONE = OccurrenceState.DUE, OccurrenceState.RUNNING, OccurrenceState.DONE


def put_all(at: Forms) -> None:
    for place, text in FILES.items():
        at.put(place, text.format(more=""))


async def listed(at: Forms, **asked: str) -> JobList:
    found: JobList = await at.at.chat.views["jobs"].look(asked)
    return found


async def by_id(at: Forms, **asked: str) -> dict[str, JobLine]:
    return {each.key: each for each in (await listed(at, **asked)).lines}


def ran(tx: Transaction, day: int, *ends: tuple[OccurrenceState, int, dict[str, object]]) -> None:
    """The plan of that February day, with the states after so many minutes."""
    moment = datetime(2026, 2, day, 9, tzinfo=UTC)
    one = Occurrence.scheduled(JobKind.ROUTINE, "plan", moment)
    tx.ledger.append(LedgerRow(moment, DUE.value, one, {"job": "The plan"}))
    for state, minutes, facts in ends:
        tx.ledger.append(LedgerRow(moment + timedelta(minutes=minutes), state.value, one, facts))
    row = UsageRow(moment, UsageKind.TURN, "sonnet", Price.LISTED, day * 1000, occurrence=one.id)
    tx.usage.add(row)


def called(tx: Transaction, hook: str, name: str, ago: int) -> None:
    one, at = Occurrence(JobKind.WEBHOOK, hook, name), NOW - timedelta(days=ago)
    tx.ledger.append(LedgerRow(at, DUE.value, one), LedgerRow(at, RUNNING.value, one))
    tx.ledger.append(LedgerRow(at, DONE.value, one, {"pings": 1}))


def past_weeks(tx: Transaction) -> None:
    called(tx, "bell", "older-name", 40)
    ran(tx, 17, (RUNNING, 0, {}), (DONE, 1, {"answered": True}))
    ran(tx, 18, (RUNNING, 90, {}), (DONE, 91, {"answered": True}))
    ran(tx, 19, (OccurrenceState.SKIPPED, 0, {"reason": SkipReason.QUIET.value}))
    ran(tx, 20, (OccurrenceState.MISSED, 0, {}))
    # The name of another hook begins alike.
    called(tx, "bells", "a", 2)
    called(tx, "bell", "any-name", 1)
    ran(tx, 23, (RUNNING, 0, {}), (OccurrenceState.FAILED, 2, {"error": "No network."}))


async def test_each_job_has_its_moments_its_last_days_its_cost_and_its_last_run(
    tmp_path: Path,
) -> None:
    async with forms(tmp_path) as at:
        assert (await listed(at)).all == 0
        put_all(at)
        await at.store.transact(past_weeks)
        await settle()
        found = await by_id(at)
        assert [*found] == ["plan", "tooth", "bins", "bell"]
        plan = found["plan"]
        assert plan.title == "The plan"
        assert plan.rhythm == "At 9:00 on Monday through Friday"
        assert [f"{each:%a %d}" for each in plan.next] == ["Wed 25", "Thu 26", "Fri 27"]
        marks = {each.day: each.state for each in plan.past.days}
        assert len(marks) == DAYS
        assert [marks[date(2026, 2, day)] for day in range(17, 25)] == [
            DayState.ON_TIME,
            DayState.LATE,
            DayState.SKIPPED,
            DayState.MISSED,
            DayState.NOTHING,
            DayState.NOTHING,
            DayState.FAILED,
            DayState.NOTHING,
        ]
        assert plan.past.sentence == (
            "1 on time, 1 skipped (Thu 19 Feb: it was quiet), 1 late (Wed 18 Feb), "
            "1 failed (Mon 23 Feb: No network), 1 missed (Fri 20 Feb)"
        )
        assert plan.past.cost is not None
        assert plan.past.cost.micros == 19_000
        assert plan.past.last is not None
        assert plan.past.last.words == "failed: No network"
        since = NOW - timedelta(days=DAYS)
        calls = at.store.query(lambda tx: tx.ledger.stories_since(JobKind.WEBHOOK, "bell", since))
        assert [each.occurrence.key for each in calls] == ["any-name"], "older ones are not read"
        bell = found["bell"].past
        assert [each.state for each in bell.days].count(DayState.ON_TIME) == 1
        assert bell.last is not None
        assert bell.last.at == NOW - timedelta(days=1)
        assert found["tooth"].past.sentence == "nothing was due"


async def test_the_commands_list_the_same_moments_in_the_same_order(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        put_all(at)
        at.put("reminders/late.md", '---\nid: late\nrun-at: "2026-02-20T09:00"\n---\nPay.\n')
        at.put("routines/off.md", "---\nid: off\ncron: 0 9 * * *\nenabled: false\n---\nStretch.\n")
        found = await by_id(at)
        assert [*found] == ["late", "plan", "tooth", "bins", "bell", "off"]
        assert found["late"].is_overdue
        repositories = at.at.stores.repositories
        for noun, all_ in (
            (RoutineNoun(), repositories.routines.all()),
            (ReminderNoun(), repositories.reminders.all()),
        ):
            for each in all_:
                told = job_object(noun, each, NOW)  # type: ignore[misc]
                line = found[str(told["id"])]
                assert told["next"] == (line.next[0] if line.next else None)
                assert told["enabled"] is line.is_enabled


async def test_the_address_filters_by_words_and_kind_and_says_how_many_lines(
    tmp_path: Path,
) -> None:
    async with forms(tmp_path) as at:
        put_all(at)
        at.put("reminders/plan.md", '---\nid: plan\nrun-at: "2026-03-20T09:00"\n---\nPlan it.\n')
        told = {
            (): ["routine:plan", "tooth", "bins", "reminder:plan", "bell"],
            (("words", "BINS out"),): ["bins"],
            (("words", "plan"), ("kind", "reminder")): ["reminder:plan"],
            (("kind", "webhook"),): ["bell"],
            (("kind", "x"), ("most", "2")): ["routine:plan", "tooth"],
            (("words", "% '\" <b>"),): [],
        }
        shown = {asked: [*await by_id(at, **dict(asked))] for asked in told}
        assert shown == told
        counted = await listed(at, most="2")
        assert (len(counted.lines), counted.found, counted.all) == (2, 5, 5)
        assert (await at.form("routine:plan")).kind is JobKind.ROUTINE


async def test_pause_resume_and_a_new_line_are_changes_by_the_page(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        put_all(at)
        view = at.at.chat.views["jobs"]
        for action, is_on in (("pause", False), ("resume", True)):
            for job in ("plan", "bell"):
                answer = await view.act("web", action, {"id": job})
                assert not answer.is_error, answer
                line = (await by_id(at))[job]
                assert (line.is_enabled, bool(line.next)) == (is_on, is_on and job == "plan")
                (row,) = at.rows(1)
                assert (row.by, Path(row.place).stem) == (Changer.PAGE, job)
        await at.view.act("web", "skip", {"id": "plan"})
        await settle()
        assert [each.key for each in (await listed(at)).lines if each.is_skipped] == ["plan"]
        added = await view.act("web", "add", {"line": "stretch every day at 11", "key": "k"})
        assert added.text.startswith("Routine set: stretch")
        assert "stretch" in [each.title for each in (await listed(at)).lines]
        assert (await view.preview("add", {"line": "tea every day at 4pm"})).sentences
        for action, job in (("delete", "plan"), ("pause", "gone"), ("pause", "../x")):
            assert (await view.act("web", action, {"id": job})).is_error
        assert (tmp_path / "routines/plan.md").exists()


async def test_a_change_of_the_ledger_is_seen_at_the_next_look(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        put_all(at)
        before = await listed(at)
        again = await listed(at)
        assert again.lines[0].past is before.lines[0].past, "it is kept"
        await at.store.transact(past_weeks)
        await settle()
        assert (await by_id(at))["plan"].past.last is not None


async def test_a_job_that_names_no_tool_of_a_server_is_named_and_runs(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        tools = "background: true\nallowed-tools: [mcp__home__*]\n"
        at.put("routines/lamp.md", f'---\nid: lamp\ncron: "0 9 * * *"\n{tools}---\nLook.\n')
        at.put("routines/odd.md", "---\nid: odd\n---\nLook.\n")
        found = await listed(at)
        assert [each.key for each in found.lines] == ["lamp"]
        assert [each.split(":")[0] for each in (*found.warnings, *found.problems)] == [
            "routines/lamp.md",
            "routines/odd.md",
        ]
        assert "`mcp__home__*` allows a background run nothing" in found.warnings[0]
