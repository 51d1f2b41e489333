"""A conversation is known by the first words that its owner wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts.prompt_parts import NOW, ago, attachments, call, file, hostile, image, message

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import InputId, JobTurn
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import JobSpec, Reminder, ReportMode, Routine
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.prompts.context import (
    FOR_MAIN,
    joined,
    open_items_block,
    owner_prompt,
    owner_words,
    updates_block,
)
from ollim_bot.prompts.turns import (
    Briefing,
    background_prompt,
    break_down_request,
    build_bg_preamble,
    button_prompt,
    continued_prompt,
    first_words,
    foreground_prompt,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)


def news(*said: str) -> str:
    """What the program writes above a prompt: updates, if there are any, and what waits."""
    waiting = PendingUpdates(tuple(PendingUpdate(ago(5), each) for each in said), omitted=len(said))
    return joined("\n", updates_block(waiting, FOR_MAIN, NOW), still_open())


def still_open() -> str:
    pill = Reminder(JobSpec(id="pill", message="pills"), ago(9))
    occurrence = Occurrence.scheduled(JobKind.REMINDER, "pill", ago(9))
    return open_items_block([DueItem.of(pill, occurrence, MessageId("m"), ago(9))], NOW)


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


def test_everything_that_the_owner_did_not_type_is_gone() -> None:
    parts = [
        message("Is this\nright?", "A bill\n\nfor you", file("downloads/b.pdf"), image("c.png"))
    ]
    assert first_words(owner_prompt(parts, NOW, news("one\n\ntwo"))) == "Is this right?"


@given(
    hostile | st.text(), hostile, st.lists(attachments, max_size=2), st.lists(hostile, max_size=2)
)
def test_it_is_the_beginning_of_the_text_whatever_that_is(
    text: str, quote: str, files: list[Attachment], updates: list[str]
) -> None:
    parts = [message(text, quote, *files)]
    assert first_words(owner_prompt(parts, NOW, news(*updates))) == shortened(text)


@given(hostile, hostile, st.lists(hostile, max_size=2))
def test_also_where_the_words_came_again_after_a_crash(
    text: str, quote: str, tools: list[str]
) -> None:
    calls = [call(tool) for tool in tools]
    prompt = continued_prompt(calls, NOW, again=[message(text, quote)], updates=news("x"))
    assert first_words(prompt) == shortened(text)


def test_of_several_messages_the_first_that_says_something_comes_first() -> None:
    parts = [message("", "", image("a.png")), message("> why?", "Look"), message("now")]
    assert first_words(owner_prompt(parts, NOW)) == "> why? now"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", ""),
        ("hello", "hello"),
        ("[x] a list", "[x] a list"),
        (owner_prompt([message("")], NOW), ""),
        (continued_prompt([call("Bash")], NOW), ""),
        ("[system] Report now.", ""),
        ("[button] show the day", "show the day"),
        ("[2026-02-24 Tue 10:15 AM PST]", ""),
        (f"[2026-02-24 Tue 10:15 AM PST]\n{FOR_MAIN}\n- (5m ago) cut o", ""),
    ],
)
def test_other_prompts_are_taken_as_they_are(prompt: str, words: str) -> None:
    assert first_words(prompt) == words


@given(hostile)
def test_a_fork_is_known_by_its_topic_or_by_what_opened_it(text: str) -> None:
    assert first_words(fork_prompt(NOW, text, news("one"))) == shortened(text)
    words = owner_words([message(text)])
    assert first_words(resumed_fork_prompt(NOW, ago(90), words, news("one"))) == shortened(text)


@pytest.mark.parametrize("updates", ["", news(), news("one")])
def test_no_prompt_of_the_program_is_taken_for_words(updates: str) -> None:
    plan = Routine(JobSpec(id="plan", message="What is the one thing?"), Cron.parse("0 9 * * *"))
    briefing = build_bg_preamble(Briefing(ReportMode.ALWAYS, allow_ping=True))
    prompts = [
        foreground_prompt(JobTurn.of(plan, InputId("i"), NOW), NOW, updates),
        background_prompt(plan, NOW, preamble=briefing, updates=updates),
        idle_prompt(NOW, updates),
        report_prompt(NOW, updates),
        continued_prompt([call("Bash")], NOW, updates=updates),
        fork_prompt(NOW, updates=updates),
        owner_prompt([message("")], NOW, updates),
    ]
    assert [first_words(each) for each in prompts] == [""] * len(prompts)
    pressed = button_prompt(break_down_request("task:1"), NOW, updates, subject="the taxes")
    assert first_words(pressed) == "the taxes"


def test_what_the_engine_and_the_program_say_are_no_words_of_the_owner() -> None:
    assert first_words(fork_prompt(NOW)) == ""
    summary = "This session is being continued from a previous conversation that ran out."
    assert first_words(summary) == ""
