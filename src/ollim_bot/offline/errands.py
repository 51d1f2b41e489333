"""What the offline model does about reminders and routines: one call after the other, then a line.

Each errand looks at what was done in the turn so far and gives the next step.
"""

from __future__ import annotations

import re
import shlex

from ollim_bot.domain.phrases import parse_duration
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts
from ollim_bot.offline.listings import (
    Listed,
    matching,
    other_lines,
    reminders_in,
    routines_in,
    shown,
)
from ollim_bot.offline.messages import CallTool, Part, Say, ToolResult
from ollim_bot.offline.situation import Situation
from ollim_bot.offline.wishes import Cancel, JobNoun, Remind, Repeat, Unsure, Wish

ADD_REMINDER = "mcp__discord__add_reminder"
LIST_REMINDERS = CallTool("mcp__discord__list_reminders")
CANCEL_REMINDER = "mcp__discord__cancel_reminder"
SHELL = "Bash"

_REMINDER_SET = re.compile(r"Reminder \S+ set: (?P<when>.+)\. File: .*", re.DOTALL)
_DISTANCE = re.compile(r" \([^()]*\)$")
_WHERE_IT_IS = re.compile(r"id \S+, file .*")


def ran(*words: str) -> CallTool:
    """One of our own commands; each word is quoted, so that a shell reads nothing into it."""
    return CallTool(SHELL, {"command": shlex.join(["ollim-bot", *words])})


LIST_ROUTINES = ran("routine", "list")


def step_to(wish: Wish, situation: Situation) -> Part:
    """The next thing to do or to say about a wish."""
    match wish:
        case Unsure():
            return Say(wish.reason)
        case Remind():
            return _remind(wish, situation)
        case Repeat():
            return _repeat(wish, situation)
        case Cancel():
            return _cancel(wish, situation)


def show_reminders(situation: Situation) -> Part:
    listed = _looked(LIST_REMINDERS, situation)
    return listed if isinstance(listed, CallTool | Say) else Say(_reminders(listed.text))


def show_routines(situation: Situation) -> Part:
    listed = _looked(LIST_ROUTINES, situation)
    return listed if isinstance(listed, CallTool | Say) else Say(_routines(listed.text))


def show_upcoming(situation: Situation) -> Part:
    for look in (show_reminders, show_routines):
        if isinstance(step := look(situation), CallTool):
            return step
    parts = (show_reminders(situation), show_routines(situation))
    return Say("\n\n".join(part.text for part in parts if isinstance(part, Say)))


def _remind(wish: Remind, situation: Situation) -> Part:
    arguments = {"prompt": wish.task, **_arguments(wish.when), "foreground": False}
    call = CallTool(ADD_REMINDER, arguments)
    done = _acted(call, situation)
    if not isinstance(done, ToolResult):
        return done
    found = _REMINDER_SET.fullmatch(done.text)
    return Say(texts.reminder_set(wish.task, _moment_of(found["when"])) if found else done.text)


def _arguments(when: str) -> dict[str, object]:
    try:
        minutes = parse_duration(when.lower().removesuffix(" from now")).total_seconds() / 60
    except BadPhrase:
        return {"run_at": when}
    return {"delay_minutes": int(minutes) if minutes.is_integer() else minutes}


def _repeat(wish: Repeat, situation: Situation) -> Part:
    # In one word with its flag, a text may begin with a dash.
    call = ran("routine", "add", f"--message={wish.message}", "--cron", wish.cron)
    done = _acted(call, situation)
    if not isinstance(done, ToolResult):
        return done
    lines = [line for line in done.text.splitlines() if not _WHERE_IT_IS.fullmatch(line)]
    said = "\n".join(lines).strip()
    is_a_reminder = wish.message.startswith("remind me ")
    return Say(said if is_a_reminder else f"{said}\n{texts.ONLY_ITS_WORDS}")


def _acted(call: CallTool, situation: Situation) -> ToolResult | CallTool | Say:
    """What came of a call that must be made once; what to do or say until then."""
    outcome = situation.outcome(call)
    if situation.prompt.may_have_acted and (outcome is None or outcome.is_error):
        return Say(texts.MAY_BE_SET)
    if outcome is None:
        return call if call.name in situation.tools else Say(texts.NOT_HERE)
    return Say(texts.not_set(outcome.text)) if outcome.is_error else outcome


def _looked(call: CallTool, situation: Situation) -> ToolResult | CallTool | Say:
    outcome = situation.outcome(call)
    if outcome is None:
        return call if call.name in situation.tools else Say(texts.NOT_HERE)
    return Say(texts.not_seen(outcome.text)) if outcome.is_error else outcome


def _cancel(wish: Cancel, situation: Situation) -> Part:
    """Look first, and take back only what is meant beyond doubt."""
    found: list[tuple[JobNoun, Listed]] = []
    for noun in [wish.noun] if wish.noun else JobNoun:
        listed = _looked(_LISTS[noun], situation)
        if not isinstance(listed, ToolResult):
            return listed
        found += [(noun, job) for job in matching(_READ[noun](listed.text), wish.subject)]
    if len(found) == 1:
        return _take_back(*found[0], situation)
    if found:
        return Say(texts.several_match(shown([job for _, job in found], with_ids=True)))
    return Say(texts.none_matches(wish.noun or JobNoun.REMINDER, wish.subject))


def _take_back(noun: JobNoun, job: Listed, situation: Situation) -> Part:
    call = (
        CallTool(CANCEL_REMINDER, {"reminder_id": job.id})
        if noun is JobNoun.REMINDER
        else ran("routine", "cancel", job.id)
    )
    outcome = situation.outcome(call)
    if outcome is None:
        return call if call.name in situation.tools else Say(texts.NOT_HERE)
    if outcome.is_error:
        return Say(texts.not_cancelled(outcome.text))
    return Say(texts.cancelled(noun, job.title, _moment_of(job.when)))


def _moment_of(when: str) -> str:
    """Without how far away it is: a moment is named once."""
    return _DISTANCE.sub("", when)


def _reminders(listed: str) -> str:
    return _list(texts.REMINDERS, reminders_in(listed), listed, texts.NO_REMINDERS)


def _routines(listed: str) -> str:
    return _list(texts.ROUTINES, routines_in(listed), listed, texts.NO_ROUTINES)


def _list(head: str, jobs: tuple[Listed, ...], listed: str, nothing: str) -> str:
    if jobs:
        return "\n".join([head, shown(jobs), *other_lines(listed)])
    problems = [
        line for line in other_lines(listed) if not line.startswith(("There are no", "No "))
    ]
    return "\n".join([nothing, *problems])


_LISTS = {JobNoun.REMINDER: LIST_REMINDERS, JobNoun.ROUTINE: LIST_ROUTINES}
_READ = {JobNoun.REMINDER: reminders_in, JobNoun.ROUTINE: routines_in}
