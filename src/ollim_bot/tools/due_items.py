"""The tool that answers a due item in the owner's name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ollim_bot.domain.agent_caller import asks
from ollim_bot.domain.due_items import DueItem, Settlement, done, let_go, not_today, settled_line
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import Answer
from ollim_bot.domain.phrases.moment import parse_moment
from ollim_bot.errors import WrongInput
from ollim_bot.ports import ToolAnswer
from ollim_bot.store.item_answers import AGENT
from ollim_bot.tools.context import (
    FORK,
    MAIN,
    Arguments,
    OwnTool,
    ToolContext,
    arguments,
    choice,
    text,
)

_UNDO = "undo"
_ACTIONS = ("done", "snooze", "not_today", "let_go", _UNDO)


async def _settle_reminder(context: ToolContext, given: Arguments) -> ToolAnswer:
    which, action = str(given["item"]).strip(), str(given["action"])
    if action == _UNDO:
        return await _undo(context, which)
    now = context.clock.now()
    words = str(given.get("until") or "")
    if action == "snooze" and not words:
        raise WrongInput("Say until when, such as `in 1 hour` or `tomorrow 9am`.")
    until = parse_moment(words, now) if action == "snooze" else None
    waiting = await context.store.read(lambda tx: tx.due_items.open())
    item = _meant(waiting, which, now, "No reminder waits for an answer.")
    said = _settlement(action, item, until, now)
    assert context.items is not None
    settled = await context.items.answer(item.key, said.answer, AGENT, said.until)
    if settled is None:
        return ToolAnswer(f"“{item.title}” has its answer already.", is_error=True)
    line = settled_line(settled, now, settled.short_title)
    return ToolAnswer(f"Settled, and shown to the owner: {line}. One word is enough; no praise.")


async def _undo(context: ToolContext, which: str) -> ToolAnswer:
    now = context.clock.now()
    answered = await context.store.read(lambda tx: tx.due_items.with_undo())
    answered = [each for each in answered if each.can_undo(now)]
    item = _meant(answered, which, now, "No answer can be taken back any more.")
    assert context.items is not None
    await context.items.take_back(item.key, AGENT)
    return ToolAnswer(f"Open again, as it was, and shown to the owner: {item.short_title}.")


def _settlement(action: str, item: DueItem, until: datetime | None, now: datetime) -> Settlement:
    match action:
        case "done":
            return done(item)
        case "snooze":
            return Settlement(Answer.SNOOZED, until)
        case "not_today":
            return not_today(item, now)
        case _:
            return let_go(item)


def _meant(items: Sequence[DueItem], which: str, now: datetime, none: str) -> DueItem:
    """The one that is meant. Raises `WrongInput` that names them if two fit, or none does."""
    wanted = which.casefold().rstrip(".")
    found = [each for each in items if wanted in (each.key, each.title.casefold().rstrip("."))]
    found = found or [each for each in items if wanted in each.title.casefold()]
    if len(found) == 1:
        return found[0]
    if not items:
        raise WrongInput(none)
    names = ", ".join(
        f"“{each.title}” ({each.key}, due {describe(each.due, now)})" for each in found or items
    )
    raise WrongInput(f"Say which one, by its words or its key: {names}.")


SETTLE_REMINDER = OwnTool(
    "settle_reminder",
    "Answer an open reminder, once the owner has said that it is done, or to put it off.",
    arguments(
        ["item", "action"],
        item=text("its words or its key, as the list of open reminders has them"),
        action=choice("`undo` takes an answer back, for 10 minutes", _ACTIONS),
        until=text("for `snooze`, such as `in 1 hour`"),
    ),
    _settle_reminder,
    where=MAIN | FORK,
    elsewhere="Only the owner settles a reminder, in the conversation or by its buttons.",
    careful=asks("answer a reminder in your name"),
    prompt_line=(
        "`settle_reminder`, `break_down`: answer an open reminder when the owner says so in words; "
        "make small steps of one, or of a task."
    ),
)
