"""The instructions of a background run, between its context and its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ollim_bot.domain.jobs import Chain, ReportMode
from ollim_bot.prompts.context import joined

_PING = (
    "BACKGROUND RUN: nobody reads your text. Only tools reach the owner: `ping_user` for a "
    "sentence, `discord_embed` for something with structure."
)
_NO_PING = (
    "BACKGROUND RUN: nobody reads your text, and `ping_user` and `discord_embed` are switched off "
    "for this job."
)
_REPORTS = {
    ReportMode.ALWAYS: "You must call `report_updates` before you end.",
    ReportMode.ON_PING: "If you ping the owner, you must also call `report_updates`.",
    ReportMode.FREELY: "You may call `report_updates` if the main session should know something.",
    ReportMode.BLOCKED: "`report_updates` is not available in this job.",
}
_SILENT_TO_MAIN = "The main session will not know of it; pinging still works."
_REGRET = (
    "One ping for each run. Ping only what the owner would regret missing; otherwise {instead}. "
    "`critical=True` skips the budget, for what cannot wait."
)
# Where a task of several paragraphs begins.
TASK = "YOUR TASK:"

_NO_CHAIN = Chain()


@dataclass(frozen=True, slots=True)
class Briefing:
    """`budget` and `schedule` are lines made elsewhere; empty ones are left out."""

    report: ReportMode
    allow_ping: bool
    is_busy: bool = False
    budget: str = ""
    schedule: str = ""
    allowed_tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    chain: Chain = _NO_CHAIN


def build_bg_preamble(briefing: Briefing) -> str:
    return joined(
        "\n\n",
        _PING if briefing.allow_ping else _NO_PING,
        _update_section(briefing),
        _busy_section(briefing),
        _budget_section(briefing),
        _listed("Beside the usual tools, this job may use:", briefing.allowed_tools),
        _listed("REQUIRED SKILLS", [f"Skill({name})" for name in briefing.skills]),
        chain_section(briefing.chain, briefing.allow_ping, briefing.report),
        TASK,
    )


def chain_section(
    chain: Chain, allow_ping: bool = True, report: ReportMode = ReportMode.FREELY
) -> str:
    """Says nothing of pings and reports where there can be none."""
    if chain.max == 0:
        return ""
    check = f"CHAIN CONTEXT: check {chain.depth + 1} of {chain.max + 1}."
    follow = "Say in a ping that it is a follow-up." if chain.depth and allow_ping else ""
    if chain.may_follow_up:
        leave = (
            "`follow_up_chain(minutes_from_now)` sets the next check; without it the chain ends."
        )
        return joined(" ", check, leave, follow)
    last = "This is the last check: no further follow-up can be set."
    return joined(" ", check, last, _last_words(allow_ping, report), follow)


def _last_words(allow_ping: bool, report: ReportMode) -> str:
    may_report = report is not ReportMode.BLOCKED
    if allow_ping:
        otherwise = "report" if may_report else "end"
        return (
            f"Ping only if it is unresolved and the owner would regret it; otherwise {otherwise}."
        )
    return "Report if it is unresolved." if may_report else ""


def _busy_section(briefing: Briefing) -> str:
    if not briefing.is_busy or not briefing.allow_ping:
        return ""
    can_report = briefing.report is not ReportMode.BLOCKED
    advice = "report instead of pinging" if can_report else "do not ping"
    return f"The owner is being answered now: {advice}, unless it is critical."


def _update_section(briefing: Briefing) -> str:
    text = _REPORTS[briefing.report]
    is_alone = briefing.report is ReportMode.BLOCKED and briefing.allow_ping
    return joined(" ", text, _SILENT_TO_MAIN if is_alone else "")


def _budget_section(briefing: Briefing) -> str:
    if not briefing.allow_ping:
        return ""
    can_report = briefing.report is not ReportMode.BLOCKED
    instead = "report, or stay silent" if can_report else "stay silent"
    return joined("\n", briefing.budget, briefing.schedule, _REGRET.format(instead=instead))


def _listed(head: str, lines: Sequence[str]) -> str:
    return joined("\n", head, *(f"- {line}" for line in lines)) if lines else ""
