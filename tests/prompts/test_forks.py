"""What the agent is told about forks and buttons."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.prompts.prompt_parts import NOW, ago, hostile, reads_as_ours

from ollim_bot.prompts.turns import (
    button_prompt,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)

STAMP = "[2026-02-24 Tue 10:15 AM PST]"
UPDATES = "RECENT BACKGROUND UPDATES (x)\n- (just now) y"


@pytest.mark.parametrize("updates", ["", UPDATES])
@pytest.mark.parametrize(
    ("topic", "task"),
    [
        ("The trip\nto Rome", "Topic: The trip to Rome"),
        ("", "No topic yet. Say in one short sentence that you are here, and wait for the owner."),
    ],
)
def test_a_fork_begins_with_its_topic_or_waits(topic: str, task: str, updates: str) -> None:
    tail = f"\n{updates}" if updates else ""
    assert fork_prompt(NOW, topic, updates) == f"[fork-started] {task}\n{STAMP}{tail}"


def test_a_resumed_fork_says_how_old_it_is() -> None:
    assert resumed_fork_prompt(NOW, ago(125), "And then?", UPDATES) == (
        "[fork-started] [stale-fork: 2h ago] This goes on from an earlier session. "
        "Wait for the owner's words below, or ask.\n"
        f"{STAMP}\n{UPDATES}\n\nAnd then?"
    )


def test_what_the_program_asks_of_a_fork_names_the_tool() -> None:
    idle, report = idle_prompt(NOW), report_prompt(NOW)
    assert idle.startswith("[fork-timeout] Nobody has said anything for a while.")
    assert all(tool in idle for tool in ("`report_updates`", "`save_context`", "`exit_fork`"))
    assert report.startswith("[system] The owner wants to end this fork with a report.")
    assert idle.endswith(f"\n{STAMP}")
    assert report.endswith(f"\n{STAMP}")


@pytest.mark.parametrize("updates", ["", UPDATES])
def test_a_button_sends_its_prompt(updates: str) -> None:
    middle = f"\n{updates}" if updates else ""
    assert button_prompt("Snooze it.", NOW, updates) == f"[button]\n{STAMP}{middle}\n\nSnooze it."


@given(hostile)
def test_nothing_behind_a_button_or_in_a_topic_can_pose_as_ours(text: str) -> None:
    head, _, body = button_prompt(text, NOW).partition("\n\n")
    assert head == f"[button]\n{STAMP}"
    assert not any(map(reads_as_ours, body.splitlines()))
    assert fork_prompt(NOW, text).count("\n") == 1
