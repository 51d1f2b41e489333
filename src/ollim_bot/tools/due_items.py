"""The tool that answers a due item in the owner's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ollim_bot.domain.due_items import Answer, DueItem
from ollim_bot.domain.item_cards import settled_line
from ollim_bot.domain.phrases import parse_moment
from ollim_bot.errors import WrongInput
from ollim_bot.ports import ToolAnswer
from ollim_bot.store.item_answers import AGENT
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.declaration import FORK, MAIN, Arguments, OwnTool, arguments, choice, text

_ANSWERS: Mapping[str, Answer] = {
    "done": Answer.DONE,
    "taken": Answer.TAKEN,
    "not_taken": Answer.NOT_TAKEN,
    "snoozed": Answer.SNOOZED,
    "moved": Answer.MOVED,
    "let_go": Answer.LET_GO,
}
_PUTS_OFF = (Answer.SNOOZED, Answer.MOVED)


async def _settle_reminder(context: ToolContext, given: Arguments) -> ToolAnswer:
    answer, now = _ANSWERS[str(given["answer"])], context.clock.now()
    until = _until(answer, str(given.get("until") or ""), now)
    waiting = await context.store.read(lambda tx: tx.due_items.open())
    item = _meant(waiting, str(given["which"]).strip())
    assert context.items is not None
    settled = await context.items.answer(item.key, _fitting(answer, item), AGENT, until)
    if settled is None:
        return ToolAnswer(f"“{item.title}” has its answer already.", is_error=True)
    line = settled_line(settled, now, settled.short_title)
    return ToolAnswer(f"Settled, and shown to the owner: {line}. One word is enough; no praise.")


def _until(answer: Answer, words: str, now: datetime) -> datetime | None:
    if answer not in _PUTS_OFF:
        return None
    if not words:
        raise WrongInput("Say until when, such as `in 1 hour` or `tomorrow 9am`.")
    return parse_moment(words, now)


def _meant(waiting: Sequence[DueItem], which: str) -> DueItem:
    wanted = which.casefold().rstrip(".")
    found = [each for each in waiting if wanted in (each.key, each.title.casefold().rstrip("."))]
    found = found or [each for each in waiting if wanted in each.title.casefold()]
    if len(found) == 1:
        return found[0]
    if not waiting:
        raise WrongInput("No reminder waits for an answer.")
    names = ", ".join(f"“{each.title}” ({each.key})" for each in found or waiting)
    raise WrongInput(f"Say which one, by its words or its key: {names}.")


def _fitting(answer: Answer, item: DueItem) -> Answer:
    """A dose is taken or not taken; anything else is done or let go."""
    if item.is_dose:
        return {Answer.DONE: Answer.TAKEN, Answer.LET_GO: Answer.NOT_TAKEN}.get(answer, answer)
    return {Answer.TAKEN: Answer.DONE, Answer.NOT_TAKEN: Answer.LET_GO}.get(answer, answer)


SETTLE_REMINDER = OwnTool(
    "settle_reminder",
    "Answer an open reminder, once the owner has said that it is done, or to put it off.",
    arguments(
        ["which", "answer"],
        which=text("its words or its key, as the list of open reminders has them"),
        answer=choice("what the owner said of it", list(_ANSWERS)),
        until=text("for `snoozed` and `moved`: the moment, such as `in 1 hour`, `tomorrow 9am`"),
    ),
    _settle_reminder,
    where=MAIN | FORK,
    elsewhere="Only the owner settles a reminder, in the conversation or by its buttons.",
    if_tainted="answer a reminder in your name",
    prompt_line=(
        "`settle_reminder`: answers a reminder that is open, when the owner says so in words."
    ),
)
