"""What the offline model does with prompts that the owner did not type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ollim_bot.offline import texts
from ollim_bot.offline.messages import CallTool, Part, Say
from ollim_bot.offline.situation import Situation

PING = "mcp__discord__ping_user"
REPORT = "mcp__discord__report_updates"

# What the instructions of a job say where it may not do something, or has done it before.
_NO_PINGS = "`ping_user` and `discord_embed` are switched off"
_NO_REPORTS = "`report_updates` is not available in this job"
_FOLLOWS_UP = "Say in a ping that it is a follow-up."
_TOPIC = re.compile(r"Topic: *([^\n]+)")


def remind(situation: Situation) -> Part:
    """Ping the text of the reminder, then report that this was done, or why it was not."""
    return _told(situation, situation.prompt.task)


def run_routine(situation: Situation) -> Part:
    """A routine that only reminds can be done; any other is reported as not done."""
    task = situation.prompt.task
    if reminded := texts.REMIND_ME.fullmatch(task):
        return _told(situation, reminded["of"])
    return _reported(situation, texts.routine_not_done(task))


def _told(situation: Situation, task: str) -> Part:
    if _NO_PINGS in situation.prompt.instructions:
        return _reported(situation, texts.reminder_unsaid(task))
    if situation.may_call(PING):
        is_again = _FOLLOWS_UP in situation.prompt.instructions
        return CallTool(PING, {"message": texts.follow_up(task) if is_again else task})
    ping = situation.outcomes.get(PING)
    if ping is None:
        return Say(texts.reminder_due(task))
    if ping.is_error:
        return _reported(situation, texts.reminder_not_told(task, ping.text))
    return _reported(situation, texts.reminder_told(task))


def take_webhook(situation: Situation) -> Part:
    return _reported(situation, texts.webhook_not_read(situation.prompt.subject))


def open_fork(situation: Situation) -> Part:
    text = situation.prompt.text
    if topic := _TOPIC.match(text):
        return Say(texts.fork_about(topic[1].rstrip(" .")))
    return Say(texts.FORK_RESUMED if "earlier session" in text else texts.FORK_WITHOUT_TOPIC)


def hear_program(situation: Situation) -> Part:
    """Where the program asks for a report, give one."""
    if "report_updates" in situation.prompt.text:
        return _reported(situation, texts.FORK_REPORT)
    return Say(texts.PROGRAM_SPOKE)


def _reported(situation: Situation, text: str) -> Part:
    if situation.may_call(REPORT) and _NO_REPORTS not in situation.prompt.instructions:
        return CallTool(REPORT, {"message": text})
    return Say(texts.DONE if REPORT in situation.outcomes else text)


TAGGED: Mapping[str, Callable[[Situation], Part]] = {
    "reminder-bg": remind,
    "routine-bg": run_routine,
    "webhook": take_webhook,
    "reminder": lambda situation: Say(texts.reminder_due(situation.prompt.said_in_turn)),
    "routine": lambda situation: Say(texts.routine_due(situation.prompt.said_in_turn)),
    "fork-started": open_fork,
    "fork-timeout": lambda situation: _reported(situation, texts.FORK_IDLE),
    "system": hear_program,
}
