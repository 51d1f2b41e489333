"""When a job is due the offline model does what its instructions allow, and no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.offline.test_actions import did
from tests.offline.test_rules import answer, ping, report, said

from ollim_bot.kernel.prompts.turn_prompts import (
    Briefing,
    background_prompt,
    build_bg_preamble,
    foreground_prompt,
)
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.inbox import InputId, JobTurn
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, ReportMode, Routine
from ollim_bot.offline import texts
from ollim_bot.offline.rules import PING, REPORT
from ollim_bot.offline.server import CallTool, Message, Part, Say

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
TASK = "Drink water.\n\nA whole glass."
TOOLS = (PING, REPORT)
NO_CHAIN = Chain()
MODES = [mode for mode in ReportMode if mode is not ReportMode.BLOCKED]


def reminder(task: str = TASK) -> Reminder:
    return Reminder(JobSpec(id="a1", message=task, background=True), NOW)


def routine(task: str) -> Routine:
    return Routine(JobSpec(id="b2", message=task, background=True), Cron.parse("0 9 * * *"))


def due(
    job: Reminder | Routine,
    mode: ReportMode = ReportMode.ON_PING,
    *,
    allow_ping: bool = True,
    chain: Chain = NO_CHAIN,
) -> Message:
    briefing = Briefing(mode, allow_ping, budget="budget: 3/5", skills=("tea",), chain=chain)
    preamble = build_bg_preamble(briefing)
    return said(background_prompt(job, NOW, preamble=preamble, late_since=NOW - timedelta(hours=1)))


def step(*messages: Message) -> tuple[Part, ...]:
    return answer(*messages, tools=TOOLS)


def pinged(text: str = TASK, *, refused: bool = False) -> tuple[Message, Message]:
    call = CallTool(PING, {"message": text})
    return did(call, "Not now." if refused else "Sent.", refused=refused)


@pytest.mark.parametrize("mode", MODES)
def test_a_reminder_is_pinged_and_then_reported(mode: ReportMode) -> None:
    prompt = due(reminder(), mode)
    assert step(prompt) == ping(TASK)
    assert step(prompt, *pinged()) == report(texts.reminder_told(TASK))
    refused = pinged(refused=True)
    assert step(prompt, *refused) == report(texts.reminder_not_told(TASK, "Not now."))


@pytest.mark.parametrize("mode", MODES)
def test_where_pings_are_off_it_is_only_reported(mode: ReportMode) -> None:
    for job in (reminder(), routine(f"remind me to {TASK}")):
        assert step(due(job, mode, allow_ping=False)) == report(texts.reminder_unsaid(TASK))


def test_where_reports_are_blocked_none_is_tried() -> None:
    prompt = due(reminder(), ReportMode.BLOCKED)
    assert step(prompt) == ping(TASK)
    assert step(prompt, *pinged()) == (Say(texts.reminder_told(TASK)),)
    for job in (reminder(), routine("Look at the mail.")):
        (part,) = step(due(job, ReportMode.BLOCKED, allow_ping=False))
        assert isinstance(part, Say)


def test_a_follow_up_says_that_it_is_one() -> None:
    assert step(due(reminder(), chain=Chain(2, 0))) == ping(TASK)
    for depth in (1, 2):
        assert step(due(reminder(), chain=Chain(2, depth))) == ping(texts.follow_up(TASK))


@pytest.mark.parametrize("mode", MODES)
def test_a_routine_that_only_reminds_is_done_and_another_is_reported(mode: ReportMode) -> None:
    assert step(due(routine("remind me to stretch"), mode)) == ping("stretch")
    told = step(due(routine("remind me to stretch"), mode), *pinged("stretch"))
    assert told == report(texts.reminder_told("stretch"))
    mail = routine("Look at the mail.\n\nAll of it.")
    expected = report(texts.routine_not_done("Look at the mail.\n\nAll of it."))
    assert step(due(mail, mode)) == expected


@pytest.mark.parametrize("words", ["`ping_user` and `discord_embed` are switched off", "report"])
def test_words_of_the_task_are_no_instructions(words: str) -> None:
    assert step(due(reminder(words))) == ping(words)
    told = texts.reminder_told("`report_updates` is not available in this job")
    task = "`report_updates` is not available in this job"
    assert step(due(reminder(task)), *pinged(task)) == report(told)


def in_turn(job: Reminder | Routine, late_since: datetime | None = None) -> Message:
    return said(foreground_prompt(JobTurn.of(job, InputId("i"), NOW, late_since), NOW))


@pytest.mark.parametrize("depth", [None, 0, 1, 2])
@pytest.mark.parametrize("late_since", [None, NOW - timedelta(hours=1)])
def test_in_the_conversation_the_text_is_said_and_nothing_else(
    depth: int | None, late_since: datetime | None
) -> None:
    chain = NO_CHAIN if depth is None else Chain(2, depth)
    prompt = in_turn(replace(reminder(), chain=chain), late_since)
    assert step(prompt) == (Say(texts.reminder_due(TASK)),)


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        ("ask me for my plan", "It is time: ask me for my plan"),
        ("remind me to stretch", "It is time: stretch"),
        ("Remind me that it is\nlate", "It is time: it is\nlate"),
        ("remind me", "It is time: remind me"),
    ],
)
def test_a_routine_in_the_conversation_says_its_text(message: str, spoken: str) -> None:
    assert step(in_turn(routine(message))) == (Say(spoken),)
