"""Tools that enter, save and leave a fork, and report from one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.domain.forks import Discard, ForkExit, Report, Save
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.runs import EnterFork, RunKind
from ollim_bot.ports import Tool, ToolAnswer
from ollim_bot.tools.context import ToolContext, arguments, text, whole, whole_of

_ONLY_IN_MAIN = "A fork is opened from the main session only; forks are not nested."
_ONLY_IN_A_FORK = "This is not an interactive fork, so there is nothing to leave."


def enter_fork(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        if not bench.run.is_main:
            return ToolAnswer(_ONLY_IN_MAIN, is_error=True)
        topic = " ".join(str(given.get("topic") or "").split())
        await bench.wants(EnterFork(topic, whole_of(given.get("idle_timeout"))))
        return ToolAnswer("The fork opens when this turn has ended. End your turn now.")

    return Tool(
        "enter_fork",
        "Branch off: an interactive fork for a side topic, kept apart from the main conversation "
        "until it is saved, reported or discarded.",
        arguments(
            topic=text("what it is about; without one it waits for the owner"),
            idle_timeout=whole("minutes without a word after which it is asked to end", 1),
        ),
        run,
    )


def exit_fork(bench: ToolContext) -> Tool:
    return _leaving(
        bench,
        "exit_fork",
        "End the interactive fork and drop it; nothing comes back to the main conversation.",
        Discard(),
        "The fork is dropped when this turn has ended.",
    )


def save_context(bench: ToolContext) -> Tool:
    return _leaving(
        bench,
        "save_context",
        "End the interactive fork and make it the main conversation. The owner is asked first.",
        Save(),
        "The owner is asked when this turn has ended.",
    )


def _leaving(bench: ToolContext, name: str, about: str, how: ForkExit, answer: str) -> Tool:
    async def run(_: Mapping[str, object]) -> ToolAnswer:
        if bench.run.policy.kind is not RunKind.FORK:
            return ToolAnswer(_ONLY_IN_A_FORK, is_error=True)
        await bench.wants(how)
        return ToolAnswer(answer)

    return Tool(name, about, arguments(), run)


_NOT_IN_MAIN = "This is the main session: what you know here, it knows. There is nothing to report."
_BLOCKED = "This job may not report to the main session. End without it."
_EMPTY = "A report needs words. Say in one or two sentences what the main session should know."


def report_updates(bench: ToolContext) -> Tool:
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
