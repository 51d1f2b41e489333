"""`report_updates`: how forks and background runs tell the main session."""

from __future__ import annotations

import pytest
from tests.tools.server.tool_scene import BACKGROUND, MakeToolScene

from ollim_bot.domain.forks import Report
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.runs import RunKind

MAY_REPORT = [mode for mode in ReportMode if mode is not ReportMode.BLOCKED]


@pytest.mark.parametrize("kind", BACKGROUND)
@pytest.mark.parametrize("mode", MAY_REPORT)
async def test_the_report_of_a_background_run_waits_for_the_main_session(
    tool_scene: MakeToolScene, kind: RunKind, mode: ReportMode
) -> None:
    at = tool_scene(kind, report=mode)
    answer = await at.works("report_updates", message=" Three mails\nneed replies. ")
    assert "at its next turn" in answer
    (update,) = at.stores.updates.read().entries
    assert (update.message, update.ts) == ("Three mails need replies.", at.clock.now())
    assert at.run.reports == ["Three mails need replies."]
    assert not at.run.owes_report
    assert at.poster.messages == []


@pytest.mark.parametrize("kind", BACKGROUND)
async def test_where_reports_are_blocked_the_tool_refuses(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind, report=ReportMode.BLOCKED)
    assert "End without it" in await at.is_refused("report_updates", message="Done.")
    assert at.stores.updates.read().entries == ()
    assert at.run.reports == []


@pytest.mark.parametrize("kind", [*BACKGROUND, RunKind.FORK])
async def test_an_empty_report_is_no_report(tool_scene: MakeToolScene, kind: RunKind) -> None:
    at = tool_scene(kind, report=ReportMode.ALWAYS)
    assert "needs words" in await at.is_refused("report_updates", message=" \n ")
    assert at.run.owes_report
    assert at.stores.updates.read().entries == ()
    assert at.wanted == []


async def test_in_a_fork_it_is_the_way_out_that_leaves_a_summary(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.FORK)
    await at.works("report_updates", message="We chose Rome.")
    assert at.wanted == [Report("We chose Rome.")]
    assert at.stores.updates.read().entries == ()


async def test_the_main_session_has_nobody_to_report_to(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    assert "This is the main session" in await at.is_refused("report_updates", message="Done.")
    assert at.stores.updates.read().entries == ()
