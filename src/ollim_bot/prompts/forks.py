"""What the agent is told about interactive forks and buttons."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.prompts.context import age, joined, timestamp
from ollim_bot.prompts.tags import BUTTON, FORK_STARTED, FORK_TIMEOUT, SYSTEM, neutralised, one_line

TOPIC = "Topic: "

_NO_TOPIC = "No topic yet. Say in one short sentence that you are here, and wait for the owner."
_RESUMED = "This goes on from an earlier session. Wait for the owner's words below, or ask."
_IDLE = (
    "Nobody has said anything for a while. If something here is worth keeping, call "
    "`report_updates` with a summary, or `save_context`; otherwise `exit_fork`."
)
_REPORT = (
    "The owner wants to end this fork with a report. Call `report_updates` now, with one or two "
    "sentences on what came of it, and nothing else."
)


def fork_prompt(now: datetime, topic: str = "", updates: str = "") -> str:
    """The first prompt of a fork from the main session."""
    task = f"{TOPIC}{one_line(topic)}" if topic else _NO_TOPIC
    return joined("\n", f"{FORK_STARTED} {task}", timestamp(now), updates)


def resumed_fork_prompt(now: datetime, began: datetime, words: str, updates: str = "") -> str:
    """The first prompt of a fork from an earlier session, with what the owner replied."""
    stale = f"[stale-fork: {age(began, now)}]"
    head = joined("\n", f"{FORK_STARTED} {stale} {_RESUMED}", timestamp(now), updates)
    return joined("\n\n", head, words)


def idle_prompt(now: datetime, updates: str = "") -> str:
    return joined("\n", f"{FORK_TIMEOUT} {_IDLE}", timestamp(now), updates)


def report_prompt(now: datetime, updates: str = "") -> str:
    return joined("\n", f"{SYSTEM} {_REPORT}", timestamp(now), updates)


def button_words(prompt: str) -> str:
    """A click, where it is the first thing that is said in a fork."""
    return f"{BUTTON} {neutralised(prompt)}"


def button_prompt(prompt: str, now: datetime, updates: str = "") -> str:
    """A click that sends a stored prompt, which may hold words of a stranger."""
    head = joined("\n", BUTTON, timestamp(now), updates)
    return joined("\n\n", head, neutralised(prompt))
