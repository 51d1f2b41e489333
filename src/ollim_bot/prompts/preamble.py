"""The instructions of a background run, between its context and its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.calendar import BusyPeriod, age_words, clock_words
from ollim_bot.domain.forward_schedule import ScheduleEntry, UpcomingSchedule
from ollim_bot.domain.jobs import Chain, ReportMode
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.quiet import QuietSettings, is_quiet
from ollim_bot.domain.skills import required_skills
from ollim_bot.domain.taint import WEBHOOK_REQUEST, Untrusted
from ollim_bot.domain.webhook_data import Data, data_text
from ollim_bot.prompts.context import clock, fenced, joined, one_line, one_path

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
_ORDERED = (
    "The owner asked to be reminded of this, so deliver it: ping once, also if nothing is new. "
    "That ping is never refused, and costs nothing of the budget."
)
_PAID = "Beyond that, one ping is set aside for this run, which you set yourself in an earlier one."
_TOOLS = (
    "This run may also use {patterns}, and subagents (`Agent`), which may use no more. Any other "
    "call is refused. If the task cannot be done without one, say which pattern the "
    "`allowed-tools` of the job need."
)
_SENT = "what the caller of this webhook sent, as JSON"
# Marks the beginning of the task, which may have several paragraphs.
TASK = "YOUR TASK:"

_NO_CHAIN = Chain()
_MOST_BUSY = 12


@dataclass(frozen=True, slots=True)
class Briefing:
    """`budget` is a status line, `schedule` comes from `upcoming_lines`; empty parts are omitted.

    `must`: the owner ordered this message, so the run does not decide whether to ping. `is_paid`:
    one ping of the budget is reserved for the run. `quiet_until` is set while it is quiet.
    `data` is what the caller of a webhook sent, from `sent_data`.
    """

    report: ReportMode
    allow_ping: bool
    is_busy: bool = False
    budget: str = ""
    schedule: str = ""
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    chain: Chain = _NO_CHAIN
    must: bool = False
    is_paid: bool = False
    quiet_until: datetime | None = None
    data: str = ""

    @property
    def is_ordered(self) -> bool:
        return self.must and self.allow_ping

    @property
    def can_report(self) -> bool:
        return self.report is not ReportMode.BLOCKED


def build_bg_preamble(briefing: Briefing) -> str:
    is_alone = not briefing.can_report and briefing.allow_ping
    patterns = ", ".join(f"`{pattern}`" for pattern in briefing.tools)
    return joined(
        "\n\n",
        _PING if briefing.allow_ping else _NO_PING,
        joined(" ", _REPORTS[briefing.report], _SILENT_TO_MAIN if is_alone else ""),
        _waiting_sections(briefing) if briefing.allow_ping and not briefing.is_ordered else "",
        _budget_section(briefing) if briefing.allow_ping else "",
        _TOOLS.format(patterns=patterns) if patterns else "",
        required_skills(briefing.skills) if briefing.skills else "",
        chain_section(briefing) if briefing.chain.max else "",
        briefing.data,
        TASK,
    )


def sent_data(data: Data) -> str:
    """The data of a webhook's call, fenced."""
    return fenced(data_text(data), Untrusted(WEBHOOK_REQUEST, _SENT))


def upcoming_lines(
    upcoming: UpcomingSchedule, budget: PingBudget, quiet: QuietSettings | None = None
) -> str:
    """The tasks around this one, and the refills of the budget until the last; empty if none.

    Those that fire while it is quiet are marked. The times at which the owner is busy follow.
    """
    tasks = ""
    if upcoming.entries:
        least = "" if upcoming.is_counted else " at least"
        tasks = joined(
            "\n",
            f"Upcoming bg tasks (next {upcoming.hours}h):",
            *(f"- {_upcoming_task(entry, upcoming.now, quiet)}" for entry in upcoming.entries),
            f"+{upcoming.more} more{least}" if upcoming.more else "",
            _refills(upcoming.last, upcoming.now, budget) if upcoming.last else "",
        )
    return joined("\n", tasks, _busy_lines(upcoming) if upcoming.busy else "")


def _busy_lines(upcoming: UpcomingSchedule) -> str:
    """When the owner's calendars have an event; its own text is untrusted, and is left out."""
    now, busy = upcoming.now, upcoming.busy
    stale = [copy for copy in upcoming.calendars if copy.is_stale(now)]
    return joined(
        "\n",
        f"The owner's calendars (next {upcoming.hours}h):",
        *(f"- {_busy_time(period, now)}" for period in busy[:_MOST_BUSY]),
        f"+{len(busy) - _MOST_BUSY} more" if len(busy) > _MOST_BUSY else "",
        *(f"({one_line(copy.name)} may have changed: {age_words(copy, now)})" for copy in stale),
    )


def _busy_time(period: BusyPeriod, now: datetime) -> str:
    times = f"{clock_words(period.start)}–{clock_words(period.end)}"
    return joined(" ", _day(period.start, now), times, f"busy ({one_line(period.calendar)})")


_NEXT_CHECK = "`follow_up_chain(minutes_from_now)` sets the next check; without it the chain ends."
_LAST_CHECK = "This is the last check: no further follow-up can be set."


def chain_section(briefing: Briefing) -> str:
    """For a check of a chain; names only what the run may do and has to decide."""
    chain = briefing.chain
    check = f"CHAIN CONTEXT: check {chain.depth + 1} of {chain.max + 1}."
    follow = "Say in a ping that it is a follow-up." if chain.depth and briefing.allow_ping else ""
    if chain.may_follow_up:
        return joined(" ", check, _NEXT_CHECK, follow)
    return joined(" ", check, _LAST_CHECK, _advice_for_the_last_check(briefing), follow)


def foreground_chain_section(chain: Chain) -> str:
    """As `chain_section`, for a turn of the conversation, whose answer the owner reads."""
    if chain.max == 0:
        return ""
    check = f"CHAIN CONTEXT: check {chain.depth + 1} of {chain.max + 1}."
    follow = "Say that it is a follow-up." if chain.depth else ""
    return joined(" ", check, _NEXT_CHECK if chain.may_follow_up else _LAST_CHECK, follow)


def _advice_for_the_last_check(briefing: Briefing) -> str:
    if briefing.is_ordered:
        return ""
    if not briefing.allow_ping:
        return "Report if it is unresolved." if briefing.can_report else ""
    otherwise = "report" if briefing.can_report else "end"
    return f"Ping only if it is unresolved and the owner would regret it; otherwise {otherwise}."


def _waiting_sections(briefing: Briefing) -> str:
    """Why a ping had better not come now: the owner is being answered, or it is quiet."""
    advice = "report instead of pinging" if briefing.can_report else "do not ping"
    busy = f"The owner is being answered now: {advice}, unless it is critical."
    until = briefing.quiet_until
    quiet = until and (
        f"It is quiet until {clock(until)}: {advice}, unless it is critical. "
        "Any other ping is kept, and the owner gets it then."
    )
    return joined("\n\n", busy if briefing.is_busy else "", quiet or "")


def _budget_section(briefing: Briefing) -> str:
    instead = "report, or stay silent" if briefing.can_report else "stay silent"
    rule = _ORDERED if briefing.is_ordered else _REGRET.format(instead=instead)
    paid = _PAID if briefing.is_paid else ""
    return joined("\n", briefing.budget, paid, briefing.schedule, rule)


def _upcoming_task(entry: ScheduleEntry, now: datetime, quiet: QuietSettings | None) -> str:
    path = one_path(entry.file_path)
    is_held = quiet is not None and is_quiet(quiet, entry.fire_time)
    marks = "(silent)" if entry.silent else "", "(quiet)" if is_held else ""
    title = joined(" ", one_line(entry.label), *marks)
    description = entry.description if entry.description != entry.label else ""
    return joined(
        " ",
        _day(entry.fire_time, now),
        clock(entry.fire_time),
        joined(": ", title, one_line(description)),
        f"({path})" if path else "",
        f"[{entry.tag}]" if entry.tag else "",
    )


def _day(moment: datetime, now: datetime) -> str:
    """The name of the day; empty for today."""
    return {-1: "yesterday", 1: "tomorrow"}.get((moment.date() - now.date()).days, "")


def _refills(last: datetime, now: datetime, budget: PingBudget) -> str:
    match budget.refills_until(last, now):
        case 0:
            return "No refill of the budget comes before the last of them."
        case 1:
            return "1 refill of the budget comes before the last of them."
        case count:
            return f"{count} refills of the budget come before the last of them."


def _listed(head: str, lines: Sequence[str]) -> str:
    return joined("\n", head, *(f"- {line}" for line in lines)) if lines else ""
