"""`report_updates`: a short summary for the main session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.forks import Report
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.runs import RunKind
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.schemas import arguments, text

_NOT_IN_MAIN = "This is the main session: what you know here, it knows. There is nothing to report."
_BLOCKED = "This job may not report to the main session. End without it."
_EMPTY = "A report needs words. Say in one or two sentences what the main session should know."


def report_updates(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        summary = " ".join(str(given["message"]).split())
        policy = bench.run.policy
        if bench.run.is_main:
            return ToolAnswer(_NOT_IN_MAIN, is_error=True)
        if policy.report is ReportMode.BLOCKED:
            return ToolAnswer(_BLOCKED, is_error=True)
        if not summary:
            return ToolAnswer(_EMPTY, is_error=True)
        if policy.kind is RunKind.FORK:
            await bench.wants(Report(summary))
            return ToolAnswer(
                "The fork ends after this turn, and the main session gets the summary."
            )
        await asyncio.to_thread(bench.stores.leave_update, summary, bench.clock.now())
        bench.run.reports.append(summary)
        return ToolAnswer("Reported. The main session sees it at its next turn.")

    return Tool(
        "report_updates",
        "Leave a short summary for the main session. In an interactive fork it also ends the fork; "
        "in a background run it is how the main conversation learns what happened.",
        arguments(["message"], message=text("one or two sentences, with what matters")),
        run,
    )
