"""What the offline model does with prompts that the owner did not type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ollim_bot.offline import texts
from ollim_bot.offline.messages import CallTool, Part, Say
from ollim_bot.offline.situation import Situation

PING = "mcp__discord__ping_user"
REPORT = "mcp__discord__report_updates"

_TOPIC = re.compile(r"Topic: *([^\n]+)")


def remind(situation: Situation) -> Part:
    """Ping the text of the reminder, then report that this was done, or why it was not."""
    task = situation.prompt.task
    if situation.may_call(PING):
        return CallTool(PING, {"message": task})
    ping = situation.outcomes.get(PING)
    if ping is None:
        return Say(texts.reminder_due(task))
    if ping.is_error:
        return _reported(situation, texts.reminder_not_told(task, ping.text))
    return _reported(situation, texts.reminder_told(task))


def run_routine(situation: Situation) -> Part:
    return _reported(situation, texts.routine_not_done(situation.prompt.task))


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
    if situation.may_call(REPORT):
        return CallTool(REPORT, {"message": text})
    return Say(texts.DONE if REPORT in situation.outcomes else text)


TAGGED: Mapping[str, Callable[[Situation], Part]] = {
    "reminder-bg": remind,
    "routine-bg": run_routine,
    "webhook": take_webhook,
    "reminder": lambda situation: Say(texts.reminder_due(situation.prompt.text)),
    "routine": lambda situation: Say(texts.routine_due(situation.prompt.text)),
    "fork-started": open_fork,
    "fork-timeout": lambda situation: _reported(situation, texts.FORK_IDLE),
    "system": hear_program,
}
