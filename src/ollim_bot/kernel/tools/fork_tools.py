"""Tools that enter, save and leave a fork, and report from one."""

from __future__ import annotations

import os

from ollim_bot.kernel.base.text import FROM_UNTRUSTED
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.tool_context import (
    BACKGROUND,
    FORK,
    MAIN,
    Arguments,
    BackgroundUse,
    OwnTool,
    ToolContext,
    arguments,
    text,
    whole,
    whole_of,
)
from ollim_bot.kernel.values.agent_caller import LOOKS, MARKED
from ollim_bot.kernel.values.forks import Discard, Report, Save
from ollim_bot.kernel.values.jobs import ReportMode
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.ports import ToolAnswer
from ollim_bot.kernel.values.run_history import EFFECT
from ollim_bot.kernel.values.runs import EnterFork, RunKind
from ollim_bot.kernel.values.updates import PendingUpdate

_ONLY_IN_A_FORK = "This is not an interactive fork, so there is nothing to leave."
_NOT_SAVED = (
    "This fork cannot become the main conversation: {}. Nobody is asked. `report_updates` keeps a "
    "summary of it."
)
_BLOCKED = "This job may not report to the main session. End without it."
_EMPTY = "A report needs words. Say in one or two sentences what the main session should know."


async def _enter_fork(context: ToolContext, given: Arguments) -> ToolAnswer:
    topic = " ".join(str(given.get("topic") or "").split())
    if topic and context.run.taint.sources:
        # The agent knows from its history what it wanted; the prompt of the fork is the program's.
        topic = FROM_UNTRUSTED
    await context.wants(EnterFork(topic, whole_of(given.get("idle_timeout"))))
    return ToolAnswer("The fork opens when this turn has ended. End your turn now.")


ENTER_FORK = OwnTool(
    "enter_fork",
    "Branch off: an interactive fork for a side topic, kept apart from the main conversation "
    "until it is saved, reported or discarded.",
    arguments(
        topic=text("what it is about; without one it waits for the owner"),
        idle_timeout=whole("minutes without a word after which it is asked to end", 1),
    ),
    _enter_fork,
    careful=LOOKS,
    where=MAIN,
    elsewhere="A fork is opened from the main session only; forks are not nested.",
)


async def _exit_fork(context: ToolContext, _: Arguments) -> ToolAnswer:
    await context.wants(Discard())
    return ToolAnswer("The fork is dropped when this turn has ended.")


EXIT_FORK = OwnTool(
    "exit_fork",
    "End the interactive fork and drop it; nothing comes back to the main conversation.",
    arguments(),
    _exit_fork,
    careful=LOOKS,
    where=FORK,
    elsewhere=_ONLY_IN_A_FORK,
)


async def _save_context(context: ToolContext, _: Arguments) -> ToolAnswer:
    fork, main = await context.store.read(lambda tx: (tx.fork.get(), tx.session.get()))
    if fork is not None and (obstacle := fork.lasting_obstacle(main)):
        return ToolAnswer(_NOT_SAVED.format(obstacle), is_error=True)
    await context.wants(Save())
    return ToolAnswer("The owner is asked when this turn has ended.")


SAVE_CONTEXT = OwnTool(
    "save_context",
    "End the interactive fork and make it the main conversation. The owner is asked first.",
    arguments(),
    _save_context,
    careful=MARKED,
    where=FORK,
    elsewhere=_ONLY_IN_A_FORK,
)


async def _report_updates(context: ToolContext, given: Arguments) -> ToolAnswer:
    summary = " ".join(str(given["message"]).split())
    policy = context.run.policy
    if policy.report is ReportMode.BLOCKED:
        return ToolAnswer(_BLOCKED, is_error=True)
    if not summary:
        return ToolAnswer(_EMPTY, is_error=True)
    if policy.kind is RunKind.FORK:
        await context.wants(Report(summary, context.run.taint.mark))
        return ToolAnswer("The fork ends after this turn, and the main session gets the summary.")
    read = context.run.taint.mark
    update = PendingUpdate(context.clock.now(), summary, os.urandom(4).hex(), read)
    await context.store.transact(lambda tx: leave_report(tx, update, context.run.occurrence))
    context.run.reports.append(summary)
    return ToolAnswer("Reported. The main session sees it at its next turn.")


def leave_report(tx: Transaction, update: PendingUpdate, occurrence: str) -> None:
    """Leave the report of a run, and note it, so that a crash does not make it unknown."""
    leave_update(tx, update)
    if occurrence:
        mark = {"untrusted": update.untrusted} if update.untrusted else {}
        facts = {"tool": REPORT_UPDATES.full_name, "report": update.message, **mark}
        tx.ledger.append(LedgerRow(tx.now, EFFECT, Occurrence.parse(occurrence), facts))


REPORT_UPDATES = OwnTool(
    "report_updates",
    "Leave a short summary for the main session. In an interactive fork it also ends the fork; "
    "in a background run it is how the main conversation learns what happened.",
    arguments(["message"], message=text("one or two sentences, with what matters")),
    _report_updates,
    careful=MARKED,
    where=FORK | BACKGROUND,
    elsewhere="This is the main session: what you know here, it knows. There is nothing to report.",
    background=BackgroundUse.NO_PATTERN,
)
