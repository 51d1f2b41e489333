"""Tools that add, list, cancel and follow up reminders."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.initiative import MOST_PER_DAY, MOST_PER_RUN, objections, set_by, setter_of
from ollim_bot.domain.jobs import Chain, JobSpec, Reminder
from ollim_bot.domain.moments import describe_with_distance, later
from ollim_bot.domain.phrases import parse_moment
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.rehearsal import Circumstances, warnings
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.errors import DuplicateId, NotFound, StorageError, WrongInput
from ollim_bot.tools.context import ToolContext, arguments, flag, number, text, whole, whole_of

_MOST_MINUTES = 10 * 365 * 24 * 60
_ONE_MOMENT = "Say when, in one way: `delay_minutes`, or `run_at`."
_NO_CHAIN = "This is not a check of a chain, so there is nothing to follow up. Use `add_reminder`."
_LAST_CHECK = (
    "This was the last check of the chain; no further one can be set. If it matters and is not "
    "resolved, ping the owner now."
)

_BY_ITSELF = (
    "You set it by yourself: it takes a ping of the budget when it is due, and becomes an update "
    "if there is none then."
)
_LIMITS = (
    f"In a background run: {MOST_PER_RUN} at most and {MOST_PER_DAY} a day, without `must` and "
    "`foreground`, each for a ping of the budget when it is due."
)


def add_reminder(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        reminder = Reminder(_spec(given), _moment(given, bench.clock.now()), _chain(given))
        setter = setter_of(bench.run)
        if setter is not None:
            reminder = set_by(reminder, setter)
            refusals = [f"{each}." for each in objections(None, reminder, setter)]
            refusal = " ".join(refusals) or await asyncio.to_thread(
                bench.stores.count_set, setter, bench.clock.now()
            )
            if refusal:
                return ToolAnswer(refusal, is_error=True)
        reminder, path = await asyncio.to_thread(_shelved, bench, reminder)
        when = _when(reminder, bench.clock.now())
        budget = await bench.poster.budget()
        warned = await asyncio.to_thread(_warnings, bench, reminder, budget)
        answer = f"Reminder {reminder.spec.id} set: {when}. File: {path}"
        return ToolAnswer("\n".join([answer, *warned, *([_BY_ITSELF] if setter else [])]))

    return Tool(
        "add_reminder",
        f"Promise something for a moment. Confirm to the owner what this answers. {_LIMITS}",
        arguments(
            ["prompt"],
            prompt=text("what to remind of or to do then, in full"),
            delay_minutes=number("in how many minutes"),
            run_at=text("or at which moment: ISO 8601, or words such as `tomorrow 9am`"),
            description=text("one line for lists"),
            foreground=flag("true: in the main conversation, not in the background"),
            max_chain=whole("how many follow-up checks it may set itself", 0),
            must=flag("whether it is delivered whatever happens"),
        ),
        run,
    )


def list_reminders(bench: ToolContext) -> Tool:
    async def run(_: Mapping[str, object]) -> ToolAnswer:
        report = await asyncio.to_thread(bench.stores.reminders.report)
        now = bench.clock.now()
        zone = now.tzinfo or UTC
        # In UTC: two instants of one zone are compared as its clocks show them.
        waiting = sorted(report.jobs, key=lambda one: one.item.due(zone).astimezone(UTC))
        lines = [f"- {_line(one.item, now)} ({_relative(bench, one.path)})" for one in waiting]
        return ToolAnswer("\n".join([*lines, *report.problems]) or "There are no reminders.")

    return Tool("list_reminders", "All reminders that wait, the next one first.", arguments(), run)


def cancel_reminder(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        reminder_id = str(given["reminder_id"]).strip()
        try:
            found = await asyncio.to_thread(bench.stores.reminders.get, reminder_id)
        except NotFound:
            message = f"There is no reminder {reminder_id}. `list_reminders` shows them all."
            return ToolAnswer(message, is_error=True)
        await asyncio.to_thread(bench.stores.reminders.remove, reminder_id)
        return ToolAnswer(f"Cancelled: {found.item.spec.title}.")

    return Tool(
        "cancel_reminder",
        "Take a reminder back.",
        arguments(["reminder_id"], reminder_id=text("as `list_reminders` shows it")),
        run,
    )


def follow_up_chain(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        job = bench.run.job
        if not isinstance(job, Reminder) or job.chain.max == 0:
            return ToolAnswer(_NO_CHAIN, is_error=True)
        if not job.chain.may_follow_up:
            return ToolAnswer(_LAST_CHECK, is_error=True)
        follow_up = _follow_up(job, _in_minutes(bench.clock.now(), given["minutes_from_now"]))
        follow_up, path = await asyncio.to_thread(_shelved, bench, follow_up)
        earlier, bench.run.follow_up = bench.run.follow_up, follow_up.spec.id
        if earlier is not None:
            await asyncio.to_thread(_forget, bench, earlier)
        return ToolAnswer(f"Next check set: {_when(follow_up, bench.clock.now())}. File: {path}")

    return Tool(
        "follow_up_chain",
        "Set the next check of this chain. Without it the chain ends with this check.",
        arguments(["minutes_from_now"], minutes_from_now=number("in how many minutes")),
        run,
    )


def _spec(given: Mapping[str, object]) -> JobSpec:
    words = str(given["prompt"]).strip()
    if not words:
        raise WrongInput("A reminder needs words.")
    must = given.get("must")
    return JobSpec(
        id=os.urandom(4).hex(),
        message=words,
        description=" ".join(str(given.get("description") or "").split()),
        background=given.get("foreground") is not True,
        must=must if isinstance(must, bool) else None,
    )


def _chain(given: Mapping[str, object]) -> Chain:
    return Chain(whole_of(given.get("max_chain")) or 0)


def _moment(given: Mapping[str, object], now: datetime) -> datetime:
    delay, moment = given.get("delay_minutes"), given.get("run_at") or None
    if (delay is None) == (moment is None):
        raise WrongInput(_ONE_MOMENT)
    if moment is not None:
        return parse_moment(str(moment), now)
    return _in_minutes(now, delay)


def _in_minutes(now: datetime, given: object) -> datetime:
    minutes = float(str(given))
    if not 0 < minutes <= _MOST_MINUTES:
        raise WrongInput("The minutes have to be more than 0, and less than ten years.")
    return later(now, timedelta(minutes=minutes))


def _shelved(bench: ToolContext, reminder: Reminder) -> tuple[Reminder, str]:
    while True:
        try:
            path = bench.stores.reminders.add(reminder)
        except DuplicateId:
            reminder = replace(reminder, spec=replace(reminder.spec, id=os.urandom(4).hex()))
        else:
            return reminder, _relative(bench, path)


def _warnings(bench: ToolContext, reminder: Reminder, budget: PingBudget) -> Sequence[str]:
    """What the owner may want to know about the moment; the reminder stands without it."""
    stores, now = bench.stores, bench.clock.now()
    try:
        others: list[ScheduledJob] = [one.item for one in stores.routines.all()]
        others += [one.item for one in stores.reminders.all() if one.item != reminder]
        at = Circumstances(now, now.tzinfo or UTC, budget, stores.config.read())
    except StorageError:
        return ()
    return warnings(reminder, others, at)


def _follow_up(job: Reminder, moment: datetime) -> Reminder:
    chain = Chain(job.chain.max, job.chain.depth + 1, job.chain.parent or job.spec.id)
    return Reminder(replace(job.spec, id=os.urandom(4).hex()), moment, chain)


def _forget(bench: ToolContext, earlier: str) -> None:
    """A second call in the same run takes the place of the first, unless that is gone already."""
    with suppress(NotFound):
        bench.stores.reminders.remove(earlier)


def _line(reminder: Reminder, now: datetime) -> str:
    spec = reminder.spec
    paused = [] if spec.enabled else ["paused"]
    by = [f"set by {spec.set_by}"] if spec.set_by else []
    return " · ".join([spec.id, _when(reminder, now), *paused, *by, spec.title])


def _when(reminder: Reminder, now: datetime) -> str:
    return describe_with_distance(reminder.due(now.tzinfo or UTC), now)


def _relative(bench: ToolContext, path: object) -> str:
    return str(path).removeprefix(f"{bench.root}/")
