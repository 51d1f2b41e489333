"""Whatever a prompt is made of, the built-in model answers with the owner's words alone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.offline.test_rules import answer, said

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.base.text import PromptMark
from ollim_bot.kernel.prompts.prompt_context import (
    FOR_MAIN,
    OPEN_REMINDERS,
    READ_ONLY,
    owner_prompt,
)
from ollim_bot.kernel.prompts.turn_prompts import (
    button_prompt,
    continued_prompt,
    foreground_prompt,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.inbox import InputId, JobTurn, OwnerMessage, ToolCalled
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, Routine
from ollim_bot.offline.server import Say

NOW = datetime(2026, 11, 16, 9, 5, 7, 137, tzinfo=ZoneInfo("Asia/Kathmandu"))
EARLIER = NOW - timedelta(hours=1, minutes=3)
TASK = "Tränk die Pflanzen"
ITEMS = f"{OPEN_REMINDERS}\n- Wäsche (key 0a1b2c3d4e5f, due today 8:06, just shown)"
UPDATES = (
    "",
    f"{FOR_MAIN}\n- (5m ago) Es schneit.",
    f"{READ_ONLY}\n- (5m ago) Es schneit.\n{ITEMS}",
    ITEMS,
)
OURS = re.compile(
    r"\[[a-z]+(?:-[a-z]+)*[: ][^\]]*\]|\[\d{4}|RECENT BACKGROUND|OPEN REMINDERS|\(key "
    r"|settle_reminder"
)
DUE = (
    JobTurn.of(
        Reminder(JobSpec(id="a1", message=TASK, description="Balkon"), NOW.astimezone(UTC)),
        InputId("reminder:a1:2026-11-16T02:17:00Z"),
        NOW,
    ),
    JobTurn.of(
        Routine(JobSpec(id="b2", message=f"remind me to {TASK}"), Cron.parse("6 8 * * *")),
        InputId("routine:b2:2026-11-16T02:21:00Z"),
        NOW,
    ),
)
MANNERS: dict[str, dict[str, Any]] = {
    "on time": {},
    "late": {"late_since": EARLIER},
    "after the quiet": {"has_waited": True},
    "followed up": {"chain": Chain(2, 1)},
}


def words_of(prompt: str) -> str:
    return "\n".join(part.text for part in answer(said(prompt)) if isinstance(part, Say))


def owner(text: str) -> OwnerMessage:
    return OwnerMessage(InputId("i"), "web", NOW, text)


@pytest.mark.parametrize("turn", DUE)
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("updates", UPDATES)
def test_a_due_job_says_its_own_words(turn: JobTurn, manner: str, updates: str) -> None:
    told = words_of(foreground_prompt(replace(turn, **MANNERS[manner]), NOW, updates))
    assert TASK in told
    assert not OURS.search(told), told


@pytest.mark.parametrize("mark", PromptMark)
def test_every_mark_behind_a_tag_is_known(mark: PromptMark) -> None:
    stamp = "[2026-11-16 Mon 09:05 AM +0545]"
    told = words_of(f"[routine:b2] {mark.of('8:06 AM, in the quiet')}\n{stamp}\n\n{TASK}")
    assert told == f"It is time: {TASK}"


def test_no_other_prompt_comes_back_as_an_answer() -> None:
    again = (owner("hallo"),)
    for updates, words in product(UPDATES, ("wie geht es dir", "thanks", TASK, "")):
        prompts = (
            owner_prompt([owner(words)], NOW, updates),
            fork_prompt(NOW, words, updates),
            resumed_fork_prompt(NOW, EARLIER, words, updates),
            idle_prompt(NOW, updates),
            report_prompt(NOW, updates),
            button_prompt(words, NOW, updates),
            continued_prompt((ToolCalled(NOW, TurnId("t"), "Bash", "ls"),), NOW, updates=updates),
            continued_prompt((), NOW, again=again, updates=updates),
        )
        for prompt in prompts:
            told = words_of(prompt)
            assert not OURS.search(told), (prompt, told)
