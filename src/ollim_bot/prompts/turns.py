"""The prompts of forks, jobs, and turns that continue after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.domain.inputs import JobTurn, OwnerMessage
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.domain.skills import required_skills
from ollim_bot.domain.taint import Untrusted
from ollim_bot.domain.text import shortened
from ollim_bot.domain.webhook_data import Data
from ollim_bot.prompts.context import (
    BUTTON,
    FORK_STARTED,
    FORK_TIMEOUT,
    SYSTEM,
    age,
    clock,
    fenced,
    job_tag,
    joined,
    neutralised,
    one_line,
    owner_words,
    task,
    timestamp,
)
from ollim_bot.prompts.preamble import foreground_chain_section

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
THE_WORDS = "What the owner had written:"
_CUT_OFF = "The program was restarted in the middle of your answer. Part of it may be lost."
_NEVER_TAKEN = "The program was restarted while the message below was being answered."
_ALREADY = "These tools had already been called:"
_NOT_AGAIN = (
    "Do not call them again, unless you can see that a call did not work. Where it matters, look "
    "at what is there now before you act."
)
_FINISH = "Finish the answer now, so that it can be understood by itself."
_LONGEST_LABEL = 300


def fork_prompt(now: datetime, topic: str = "", updates: str = "") -> str:
    """The first prompt of a fork from the main session."""
    task = f"{TOPIC}{one_line(topic)}" if topic else _NO_TOPIC
    return joined("\n", f"{FORK_STARTED} {task}", timestamp(now), updates)


def resumed_fork_prompt(now: datetime, began: datetime, words: str, updates: str = "") -> str:
    """The first prompt of a fork from an earlier session, with the owner's reply."""
    stale = f"[stale-fork: {age(began, now)}]"
    head = joined("\n", f"{FORK_STARTED} {stale} {_RESUMED}", timestamp(now), updates)
    return joined("\n\n", head, words)


def idle_prompt(now: datetime, updates: str = "") -> str:
    return joined("\n", f"{FORK_TIMEOUT} {_IDLE}", timestamp(now), updates)


def report_prompt(now: datetime, updates: str = "") -> str:
    return joined("\n", f"{SYSTEM} {_REPORT}", timestamp(now), updates)


def button_words(prompt: str, untrusted: Untrusted | None = None) -> str:
    """A click that opens a fork; `untrusted` is as in `button_prompt`."""
    between = " " if untrusted is None else "\n"
    return joined(between, BUTTON, _stored_prompt(prompt, untrusted))


def button_prompt(
    prompt: str, now: datetime, updates: str = "", untrusted: Untrusted | None = None
) -> str:
    """A click that sends a stored prompt; `untrusted` is set if a tainted turn has stored it."""
    head = joined("\n", BUTTON, timestamp(now), updates)
    return joined("\n\n", head, _stored_prompt(prompt, untrusted))


def _stored_prompt(prompt: str, untrusted: Untrusted | None) -> str:
    return neutralised(prompt) if untrusted is None else fenced(prompt, untrusted)


def background_prompt(
    job: Job,
    now: datetime,
    *,
    preamble: str,
    updates: str = "",
    late_since: datetime | None = None,
    data: Data | None = None,
) -> str:
    """The prompt, which ends with the task of the job; the last line of `preamble` announces it.

    `data` is what the caller of the job sent; the preamble shows it.
    """
    tag = job_tag(job.kind, job.spec.id, background=True)
    head = joined("\n", joined(" ", tag, _late(late_since, now)), timestamp(now), updates)
    body = task(job.task(data or {}), job.spec.untrusted)
    return joined("\n\n", head, preamble, body)


def foreground_prompt(turn: JobTurn, now: datetime, updates: str = "") -> str:
    """A job in the main conversation, with its skills and the instructions of a chain."""
    tag = job_tag(turn.kind, turn.job, background=False)
    when = _late(turn.late_since, now) or _waited(turn.waited_since, now)
    head = joined("\n", joined(" ", tag, when), timestamp(now), updates)
    skills, chain = required_skills(turn.skills), foreground_chain_section(turn.chain)
    return joined("\n\n", head, skills, chain, task(turn.body, turn.untrusted))


def _late(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f"[late: was scheduled for {_moment(since, now)}, running now]"


def _waited(since: datetime | None, now: datetime) -> str:
    """That the turn waited as the owner wants, which is not late."""
    return "" if since is None else f"[was due {_moment(since, now)}, in the owner's quiet hours]"


def _moment(moment: datetime, now: datetime) -> str:
    """The moment in the zone of `now`, with its day if that is another day."""
    local = moment.astimezone(now.tzinfo)
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} "
    return clock(local) if local.date() == now.date() else day + clock(local)


def continued_prompt(
    tools: Sequence[ToolCalled],
    now: datetime,
    *,
    again: Sequence[OwnerMessage] = (),
    updates: str = "",
) -> str:
    """The prompt for a turn that was cut off after `tools` were called.

    `again` are the messages of the turn if the engine never took its prompt and has to be told
    them.
    """
    words = owner_words(again)
    body = joined(
        "\n\n",
        _NEVER_TAKEN if words else _CUT_OFF,
        joined("\n", _ALREADY, *_labels(tools)) if tools else "",
        _NOT_AGAIN if tools else "",
        _FINISH,
        f"{THE_WORDS}\n\n{words}" if words else "",
    )
    return joined("\n\n", joined("\n", SYSTEM, timestamp(now), updates), body)


def _labels(tools: Iterable[ToolCalled]) -> list[str]:
    """One line for each call; equal calls are one line with their number."""
    counted = Counter(map(_label, tools))
    return [label if times == 1 else f"{label} ({times} times)" for label, times in counted.items()]


def _label(call: ToolCalled) -> str:
    return f"- {shortened(one_line(call.summary or call.tool), _LONGEST_LABEL)}"
