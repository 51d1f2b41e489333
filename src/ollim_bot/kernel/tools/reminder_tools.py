"""Tools for reminders, for due items and for tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.kernel.base.errors import DuplicateId, NotFound, NotStored, StorageError, WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import (
    clock_time,
    describe,
    describe_with_distance,
    duration_in_words,
    later,
)
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.changes.file_changes import acting
from ollim_bot.kernel.changes.item_answers import AGENT
from ollim_bot.kernel.permissions.careful import Surroundings
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.store.steps import count_in_tainted_turn, count_set, quiet_settings
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.tool_context import (
    FORK,
    MAIN,
    Arguments,
    BackgroundUse,
    OwnTool,
    ToolContext,
    arguments,
    choice,
    flag,
    listed,
    number,
    text,
    whole,
    whole_of,
)
from ollim_bot.kernel.values.agent_caller import LOOKS, MARKED, Does, asks
from ollim_bot.kernel.values.breakdowns import checked_steps
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.due_items import (
    DueItem,
    Settlement,
    done,
    let_go,
    move_button,
    not_today,
    settled_line,
)
from ollim_bot.kernel.values.initiative import (
    HELD_BACK,
    MOST_CHECKS,
    MOST_PER_DAY,
    MOST_PER_RUN,
    SHORTEST_PAUSE,
    Setter,
    marked,
    may_be_held_back,
    may_follow_up,
    objections,
    objections_after_reading,
    set_by,
    setter_of,
    shortest_pause,
)
from ollim_bot.kernel.values.job_fields import FIELDS
from ollim_bot.kernel.values.jobs import Chain, Reminder, StoredJob, named_by_words, told_of_nag
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.phrases.moment import moment_to_keep, parse_moment
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import JobRepository, ToolAnswer, ToolCall
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS, quiet_until
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.simulation import Assumptions, warnings
from ollim_bot.kernel.values.wishes import wish_from_words

_MOST_MINUTES = 10 * 365 * 24 * 60
_NO_CHAIN = "This is not a check of a chain, so there is nothing to follow up. Use `add_reminder`."
_LAST_CHECK = (
    "This was the last check of the chain; no further one can be set. If it matters and is not "
    "resolved, ping the owner now."
)

_BY_ITSELF = (
    "You set it by yourself: it takes a ping of the budget when it is due, and becomes an update "
    "if there is none then."
)
_OFFERED = "The owner has a button that moves it to {}."
_RAISED = "The shortest pause here is {}, so it was raised to that."
_MINUTE = timedelta(minutes=1)
_ASKED = {each.attribute: each.asks for each in FIELDS if each.asks}
_LIMITS = (
    f"In a background run: {MOST_PER_RUN} at most and {MOST_PER_DAY} a day, without `must` and "
    "`foreground`, each for a ping of the budget when it is due. After reading text of others: "
    f"{MOST_PER_RUN} in a turn, without `must`, `nag`, `before`, `kind` and `foreground`. In both: "
    f"{MOST_CHECKS} checks at most, {SHORTEST_PAUSE // _MINUTE} minutes apart."
)


async def _add_reminder(context: ToolContext, given: Arguments) -> ToolAnswer:
    config = await context.store.read(lambda tx: tx.config.get())
    setter = setter_of(context.run)
    words, fields = _fields(given, context.clock.now())
    if setter is None:
        words, fields = wish_from_words(
            words,
            JobKind.REMINDER,
            fields,
            nag_default=config.nag_default,
            is_tainted=bool(context.run.taint.sources),
        )
    reminder = REMINDERS.made({"id": os.urandom(4).hex(), **fields}, words)
    reminder = marked(reminder, context.run.taint)
    if setter is not None:
        reminder = set_by(reminder, setter)
    if refusal := await _refusal(context, reminder, setter):
        return ToolAnswer(refusal, is_error=True)
    # The answer names it; words of others the owner is shown.
    is_told = setter is not None or not reminder.spec.untrusted
    with acting(Changer.AGENT, session=context.run.called_by, is_told=is_told):
        reminder, path = await asyncio.to_thread(_stored, context, reminder)
    when = _when(reminder, context.clock.now())
    budget = await context.poster.budget()
    warned = await asyncio.to_thread(_warnings, context, reminder, budget, config)
    # When the quiet ends that the reminder comes in; None if it comes in none.
    due = reminder.due(context.clock.now().tzinfo or UTC)
    end = await context.store.read(lambda tx: quiet_until(quiet_settings(tx), due))
    where = "" if end is None else f", {IN_QUIET_HOURS}"
    answer = f"Reminder {reminder.spec.id} set: {when}{where}. File: {path}"
    if end is not None and setter is None and await _offer_to_move(context, reminder, when, end):
        answer += f"\n{_OFFERED.format(clock_time(end))}"
    limit = _BY_ITSELF if setter else HELD_BACK if may_be_held_back(reminder) else ""
    told = [answer, told_of_nag(reminder, given), *warned, limit]
    return ToolAnswer("\n".join(filter(None, told)))


async def _refusal(context: ToolContext, reminder: Reminder, setter: Setter | None) -> str:
    """Why the run may not set the reminder; otherwise it is counted, and the result is empty."""
    taint = context.run.taint
    found = (
        objections_after_reading(None, reminder, taint)
        if setter is None
        else objections(None, reminder, setter)
    )
    if refusals := [f"{each}." for each in found]:
        return " ".join(refusals)
    if setter is None and not taint.sources:
        return ""

    def count(tx: Transaction) -> str:
        today = tx.now.date()
        return count_set(tx, setter, today) if setter else count_in_tainted_turn(tx, today)

    return await context.store.transact(count)


async def _offer_to_move(
    context: ToolContext, reminder: Reminder, when: str, end: datetime
) -> bool:
    """Offer it on a card; False if the disk takes none, which leaves the reminder set."""
    title = f"{reminder.spec.short_title}: {when}, {IN_QUIET_HOURS}"
    card = Card(title, buttons=(move_button(reminder.spec.id, end),))
    now = context.clock.now()
    name = numbered_id(now, int.from_bytes(os.urandom(3)))
    message = ChatMessage(name, now, Author.PROGRAM, card.text, card=card)
    try:
        await context.poster.send(message, context.run)
    except NotStored:
        return False
    return True


ADD_REMINDER = OwnTool(
    "add_reminder",
    "Promise something for a moment. Confirm to the owner what this answers. The owner's words "
    "decide about `plain`, `kind` and `nag` where these are left out; `remind me to` is dropped. "
    f"{_LIMITS}",
    arguments(
        ["prompt"],
        prompt=text("what to remind of, in the owner's words, or what to do then"),
        delay_minutes=number("in so many minutes"),
        timer=flag("a timer, with the time left"),
        run_at=text("or when: ISO 8601, or words such as `tomorrow 9am`"),
        description=_ASKED["description"],
        foreground=flag("in the main conversation"),
        max_chain=whole("how many follow-ups it may set", 0),
        **{name: each for name, each in _ASKED.items() if name != "description"},
    ),
    _add_reminder,
    careful=MARKED,
    background=BackgroundUse.DEFAULT_PATTERN,
    prompt_line=(
        "`add_reminder`, `list_reminders`, `cancel_reminder`: reminders, in every kind of run."
    ),
)


async def _list_reminders(context: ToolContext, _: Arguments) -> ToolAnswer:
    report = await asyncio.to_thread(context.repositories.reminders.report)
    now = context.clock.now()
    zone = now.tzinfo or UTC
    # Compare in UTC: Python compares instants of one zone by wall clock.
    waiting = sorted(report.jobs, key=lambda one: one.item.due(zone).astimezone(UTC))
    lines = []
    for job, path in waiting:
        spec, when = job.spec, _when(job, now)
        paused = "" if spec.enabled else "paused"
        by = f"set by {spec.set_by}" if spec.set_by else ""
        line = " · ".join(filter(None, (spec.id, when, paused, by, spec.title)))
        lines.append(f"- {line} ({_relative(context, path)})")
    return ToolAnswer("\n".join([*lines, *report.problems]) or "There are no reminders.")


LIST_REMINDERS = OwnTool(
    "list_reminders",
    "All reminders that wait, the next one first.",
    arguments(),
    _list_reminders,
    careful=LOOKS,
    background=BackgroundUse.DEFAULT_PATTERN,
    changes_something=False,
)


async def _cancel_reminder(context: ToolContext, given: Arguments) -> ToolAnswer:
    words = str(given["reminder_id"]).strip()
    try:
        now, reminders = context.clock.now(), context.repositories.reminders
        found = (await asyncio.to_thread(find_reminder, reminders, words, now)).item
    except NotFound:
        message = f"There is no reminder {words}. `list_reminders` shows them all."
        return ToolAnswer(message, is_error=True)
    except WrongInput as several:
        return ToolAnswer(str(several), is_error=True)
    # Else a run could set and cancel its own to write for nothing.
    is_told = bool(found.spec.set_by) and context.run.policy.kind.is_background
    with acting(Changer.AGENT, session=context.run.called_by, is_told=is_told):
        await asyncio.to_thread(reminders.remove, found.spec.id)
    return ToolAnswer(f"Cancelled: {found.spec.title}.")


def find_reminder(
    repository: JobRepository[Reminder], words: str, now: datetime
) -> StoredJob[Reminder]:
    """The reminder by its id or by its words. Raises `NotFound` or `WrongInput`."""
    try:
        return repository.get(words.strip())
    except NotFound:
        jobs = [each.item for each in repository.all()]
        found = named_by_words(
            words.strip(), jobs, lambda job: describe(job.due(now.tzinfo or UTC), now)
        )
        if found is None:
            raise
        return repository.get(found.spec.id)


CANCEL_REMINDER = OwnTool(
    "cancel_reminder",
    "Take a reminder back.",
    arguments(["reminder_id"], reminder_id=text("its id, or words that only it has")),
    _cancel_reminder,
    careful=asks("cancel a reminder"),
    background=BackgroundUse.DEFAULT_PATTERN,
)


async def _follow_up_chain(context: ToolContext, given: Arguments) -> ToolAnswer:
    job = context.run.job
    if not isinstance(job, Reminder) or job.chain.max == 0:
        return ToolAnswer(_NO_CHAIN, is_error=True)
    if not may_follow_up(job):
        return ToolAnswer(_LAST_CHECK, is_error=True)
    now, shortest = context.clock.now(), shortest_pause(job, context.run.taint)
    asked = _in_minutes(now, given["minutes_from_now"])
    moment = max(asked, later(now, shortest), key=datetime.timestamp)
    chain = Chain(job.chain.max, job.chain.depth + 1, job.chain.parent or job.spec.id)
    follow_up = Reminder(replace(job.spec, id=os.urandom(4).hex()), moment, chain)
    follow_up = marked(follow_up, context.run.taint)
    with acting(Changer.AGENT, session=context.run.called_by, is_told=True):
        follow_up, path = await asyncio.to_thread(_stored, context, follow_up)
        earlier, context.run.follow_up = context.run.follow_up, follow_up.spec.id
        if earlier is not None:
            # The last call of a run counts: the chain has one next check.
            with suppress(NotFound):
                await asyncio.to_thread(context.repositories.reminders.remove, earlier)
    answer = f"Next check set: {_when(follow_up, context.clock.now())}. File: {path}"
    if moment != asked:
        answer += f"\n{_RAISED.format(duration_in_words(shortest))}"
    return ToolAnswer(answer)


FOLLOW_UP_CHAIN = OwnTool(
    "follow_up_chain",
    "Set the next check of this chain. Without it the chain ends with this check.",
    arguments(["minutes_from_now"], minutes_from_now=number("in how many minutes")),
    _follow_up_chain,
    careful=MARKED,
    background=BackgroundUse.NO_PATTERN,
)


def _fields(given: Arguments, now: datetime) -> tuple[str, Mapping[str, object]]:
    """The words, and the fields that the call names. Raises `WrongInput`."""
    words = str(given["prompt"]).strip()
    if not words:
        raise WrongInput("A reminder needs words.")
    asked = {each.name: given.get(each.attribute) for each in FIELDS if each.asks}
    said = {"max-chain": whole_of(given.get("max_chain")), **asked}
    delay, moment = given.get("delay_minutes"), given.get("run_at") or None
    if (delay is None) == (moment is None):
        raise WrongInput("Say when, in one way: `delay_minutes`, or `run_at`.")
    return words, {
        "run-at": (
            moment_to_keep(str(moment), now) if moment is not None else _in_minutes(now, delay)
        ),
        **({"set-at": now} if given.get("timer") is True else {}),
        **({"background": False} if given.get("foreground") is True else {}),
        **{name: value for name, value in said.items() if value or value is False},
    }


def _in_minutes(now: datetime, given: object) -> datetime:
    minutes = float(str(given))
    if not 0 < minutes <= _MOST_MINUTES:
        raise WrongInput("The minutes have to be more than 0, and less than ten years.")
    return later(now, timedelta(minutes=minutes))


def _stored(context: ToolContext, reminder: Reminder) -> tuple[Reminder, str]:
    while True:
        try:
            path = context.repositories.reminders.add(reminder)
        except DuplicateId:
            reminder = replace(reminder, spec=replace(reminder.spec, id=os.urandom(4).hex()))
        else:
            return reminder, _relative(context, path)


def _warnings(
    context: ToolContext, reminder: Reminder, budget: PingBudget, config: RuntimeConfig
) -> Sequence[str]:
    """Warnings about the moment; none if the other jobs cannot be read."""
    repositories, now = context.repositories, context.clock.now()
    with suppress(StorageError):
        others: list[ScheduledJob] = [one.item for one in repositories.routines.all()]
        others += [one.item for one in repositories.reminders.all() if one.item != reminder]
        return warnings(reminder, others, Assumptions(now, now.tzinfo or UTC, budget, config))
    return ()


def _when(reminder: Reminder, now: datetime) -> str:
    return describe_with_distance(reminder.due(now.tzinfo or UTC), now)


def _relative(context: ToolContext, path: object) -> str:
    return str(path).removeprefix(f"{context.root}/")


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


async def _break_down(context: ToolContext, given: Arguments) -> ToolAnswer:
    said = given["steps"]
    steps = checked_steps([str(each) for each in said] if isinstance(said, list) else [])
    assert context.steps is not None
    ref = await context.steps.named(str(given["thing"]).strip())
    with acting(Changer.AGENT, session=context.run.called_by):
        thing = await context.steps.write(ref, steps, context.run.taint.mark, is_by_agent=True)
    shown = f"{counted(len(steps), 'step')} of “{thing.safe_words}” added"
    return ToolAnswer(f"{shown}, and shown to the owner. Do not repeat them.")


def _breaking_down(call: ToolCall, at: Surroundings) -> Does:
    """Steps are parts of what is the owner's, whose button may have asked for them."""
    is_asked = str(call.arguments.get("thing", "")).strip() in at.run.asked_steps
    return MARKED if is_asked else asks("change a task")


BREAK_DOWN = OwnTool(
    "break_down",
    "Make small steps parts of a task or an open reminder.",
    arguments(
        ["thing", "steps"],
        thing=text("its id, key or words"),
        steps=listed("the smallest first", {"type": "string"}),
    ),
    _break_down,
    careful=_breaking_down,
    where=MAIN | FORK,
    elsewhere="Steps are made in the conversation, when the owner wants them.",
)
