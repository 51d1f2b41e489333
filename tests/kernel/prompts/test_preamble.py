"""The instructions of a background run: each section in its place, and only where it applies."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from tests.kernel.prompts.prompt_parts import NOW

from ollim_bot.kernel.prompts.turn_prompts import Briefing, build_bg_preamble, chain_section
from ollim_bot.kernel.values.jobs import Chain, ReportMode

PING = (
    "BACKGROUND RUN: nobody reads your text. Only tools reach the owner: `ping_user` for a "
    "sentence, `discord_embed` for something with structure."
)
NO_PING = (
    "BACKGROUND RUN: nobody reads your text, and `ping_user` and `discord_embed` are switched off "
    "for this job."
)
UPDATE = {
    ReportMode.ALWAYS: "You must call `report_updates` before you end.",
    ReportMode.ON_PING: "If you ping the owner, you must also call `report_updates`.",
    ReportMode.FREELY: "You may call `report_updates` if the main session should know something.",
    ReportMode.BLOCKED: "`report_updates` is not available in this job.",
}
UNKNOWN_TO_MAIN = " The main session will not know of it; pinging still works."
BUSY = "The owner is being answered now: report instead of pinging, unless it is critical."
BUSY_BLOCKED = "The owner is being answered now: do not ping, unless it is critical."
BUDGET = "budget: 3/5 (next refill in 42 min)"
SCHEDULE = "Upcoming bg tasks (next 3h):\n- 11:00 AM Reminder: Call the dentist"
REGRET = (
    "One ping for each run. Ping only what the owner would regret missing; otherwise report, or "
    "stay silent. `critical=True` skips the budget, for what cannot wait."
)
ORDERED = (
    "The owner asked to be reminded of this, so deliver it: ping once, also if nothing is new. "
    "That ping is never refused, and costs nothing of the budget."
)
REGRET_BLOCKED = REGRET.replace("report, or stay silent", "stay silent")
TOOLS = (
    "This run may also use `WebSearch`, `Write(./notes/**.md)`, and subagents (`Agent`), which may "
    "use no more. Any other call is refused. If the task cannot be done without one, say which "
    "pattern the `allowed-tools` of the job need."
)
SKILLS = "REQUIRED SKILLS\n- Skill(mail)\n- Skill(week)"
CHAIN = (
    "CHAIN CONTEXT: check 1 of 3. `follow_up_chain(minutes_from_now)` sets the next check; "
    "without it the chain ends."
)
TASK = "YOUR TASK:"


@pytest.mark.parametrize("mode", ReportMode)
def test_every_section_stands_in_its_place_where_it_applies(mode: ReportMode) -> None:
    """If pings are off, a request to deliver changes nothing."""
    for flags in product([True, False], repeat=6):
        briefing, wanted = briefed(mode, *flags)
        assert build_bg_preamble(briefing) == "\n\n".join(wanted), briefing


def briefed(
    mode: ReportMode, ping: bool, must: bool, busy: bool, tools: bool, skills: bool, chain: bool
) -> tuple[Briefing, list[str]]:
    """A briefing and the sections that it must lead to."""
    briefing = Briefing(
        mode,
        ping,
        is_busy=busy,
        budget=BUDGET,
        schedule=SCHEDULE,
        tools=("WebSearch", "Write(./notes/**.md)") if tools else (),
        skills=("mail", "week") if skills else (),
        chain=Chain(max=2) if chain else Chain(),
        must=must,
    )
    blocked = mode is ReportMode.BLOCKED
    rule = ORDERED if must else REGRET_BLOCKED if blocked else REGRET
    wanted = [
        PING if ping else NO_PING,
        UPDATE[mode] + (UNKNOWN_TO_MAIN if blocked and ping else ""),
        *([BUSY_BLOCKED if blocked else BUSY] if busy and ping and not must else []),
        *([f"{BUDGET}\n{SCHEDULE}\n{rule}"] if ping else []),
        *([TOOLS] if tools else []),
        *([SKILLS] if skills else []),
        *([CHAIN] if chain else []),
        TASK,
    ]
    return briefing, wanted


LAST = "This is the last check: no further follow-up can be set."
IF_REGRETTED = "Ping only if it is unresolved and the owner would regret it; otherwise"
FOLLOW_UP = "Say in a ping that it is a follow-up."


@pytest.mark.parametrize(
    ("chain", "ping", "mode", "said"),
    [
        (Chain(2, 0), True, ReportMode.FREELY, CHAIN),
        (
            Chain(2, 1),
            True,
            ReportMode.FREELY,
            f"{CHAIN.replace('check 1', 'check 2')} {FOLLOW_UP}",
        ),
        (Chain(2, 1), False, ReportMode.FREELY, CHAIN.replace("check 1", "check 2")),
        (
            Chain(2, 2),
            True,
            ReportMode.FREELY,
            f"CHAIN CONTEXT: check 3 of 3. {LAST} {IF_REGRETTED} report. {FOLLOW_UP}",
        ),
        (
            Chain(2, 2),
            True,
            ReportMode.BLOCKED,
            f"CHAIN CONTEXT: check 3 of 3. {LAST} {IF_REGRETTED} end. {FOLLOW_UP}",
        ),
        (
            Chain(2, 2),
            False,
            ReportMode.FREELY,
            f"CHAIN CONTEXT: check 3 of 3. {LAST} Report if it is unresolved.",
        ),
        (Chain(2, 2), False, ReportMode.BLOCKED, f"CHAIN CONTEXT: check 3 of 3. {LAST}"),
    ],
)
def test_a_chain_says_which_check_this_is_and_what_is_left(
    chain: Chain, ping: bool, mode: ReportMode, said: str
) -> None:
    assert chain_section(Briefing(mode, ping, chain=chain)) == said


@pytest.mark.parametrize("mode", ReportMode)
def test_the_last_check_of_what_must_be_delivered_is_not_weighed(mode: ReportMode) -> None:
    briefing = Briefing(mode, allow_ping=True, chain=Chain(2, 2), must=True)
    preamble = build_bg_preamble(briefing)
    assert f"CHAIN CONTEXT: check 3 of 3. {LAST} {FOLLOW_UP}\n" in preamble
    assert "regret" not in preamble
    silent = build_bg_preamble(Briefing(mode, allow_ping=False, chain=Chain(2, 2), must=True))
    assert ("Report if it is unresolved." in silent) == (mode is not ReportMode.BLOCKED)


@pytest.mark.parametrize(
    ("mode", "advice"),
    [(ReportMode.FREELY, "report instead of pinging"), (ReportMode.BLOCKED, "do not ping")],
)
def test_a_run_in_the_quiet_is_told_until_when_and_to_report(mode: ReportMode, advice: str) -> None:
    briefing = Briefing(mode, True, budget=BUDGET, quiet_until=NOW.replace(hour=19, minute=0))
    assert (
        f"It is quiet until 7:00 PM: {advice}, unless it is critical. "
        "Any other ping is kept, and the owner gets it then."
    ) in build_bg_preamble(briefing)
    for other in (replace(briefing, must=True), replace(briefing, allow_ping=False)):
        assert "quiet" not in build_bg_preamble(other)
