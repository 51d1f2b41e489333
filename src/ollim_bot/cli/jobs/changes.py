"""Verbs that change or run a job."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ollim_bot.cli.data import Data, note, open_data, writable
from ollim_bot.cli.framework import Caller, Given, columns, is_past, plain, print_json, small, title
from ollim_bot.cli.jobs.fields import (
    JobNoun,
    S,
    approval,
    cleared,
    fields_given,
    message_given,
    new_job,
    set_in_background,
    setter,
    shelved,
)
from ollim_bot.domain.jobs import JobSpec, Late, Reminder, ReportMode
from ollim_bot.domain.moments import describe
from ollim_bot.errors import BadJob, NotFound, OllimError, WrongInput
from ollim_bot.ports import ShelfReport, Shelved
from ollim_bot.store.job_shelf import MarkdownShelf
from ollim_bot.store.run_requests import RequestFolder
from ollim_bot.upkeep.instance import running_pid

_REPORTS = {
    ReportMode.ALWAYS: "always",
    ReportMode.ON_PING: "if it pinged",
    ReportMode.FREELY: "if it sees fit",
    ReportMode.BLOCKED: "never",
}
_IF_MISSED = {
    Late.RUN: "it runs late",
    Late.TELL: "it does not run, and you are told",
    Late.SKIP: "it does not run",
}


def listing(noun: JobNoun[S], jobs: Sequence[tuple[S, datetime | None]], now: datetime) -> str:
    """One line for each job."""
    return columns(
        [
            (job.spec.id, _moment(moment, now), title(job.spec.title) + _marks(noun, job))
            for job, moment in jobs
        ]
    )


def promise(noun: JobNoun[S], job: S, now: datetime) -> str:
    return f"{title(job.spec.title)}, {noun.promise(job, now)}."


def page(noun: JobNoun[S], job: S, file: str, now: datetime) -> str:
    """Everything about one job."""
    facts = [
        ("id", job.spec.id),
        *noun.facts(job, now),
        *_common_facts(job, now),
        ("file", file),
    ]
    table = columns([(f"  {name}", plain(fact)) for name, fact in facts])
    return f"{title(job.spec.title)}\n{table}\n\n{plain(job.spec.message)}"


def _moment(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "paused"
    return f"overdue: {describe(moment, now)}" if is_past(moment, now) else describe(moment, now)


def _marks(noun: JobNoun[S], job: S) -> str:
    marks = []
    if job.spec.background != noun.form.background_by_default:
        marks.append("background" if job.spec.background else "foreground")
    if not job.spec.allow_ping:
        marks.append("silent")
    if job.spec.set_by:
        marks.append(f"set by {job.spec.set_by}")
    if isinstance(job, Reminder) and job.chain.max:
        marks.append(f"chain {job.chain.depth + 1}/{job.chain.max + 1}")
    return f"  ({', '.join(marks)})" if marks else ""


def _common_facts(job: S, now: datetime) -> Iterator[tuple[str, str]]:
    spec = job.spec
    if not spec.enabled:
        yield "paused", "it does nothing until it is resumed"
    if spec.background:
        yield from _background_facts(spec)
    else:
        yield "runs", "in the conversation"
    yield "tools", ", ".join(("the usual ones", *spec.allowed_tools))
    yield "skills", ", ".join(spec.skills) or "none"
    yield "time zone", spec.timezone.key if spec.timezone else f"yours ({now.tzinfo})"
    yield "if missed", _if_missed(job)
    if spec.set_by:
        yield "set by", f"{spec.set_by}, by itself: it takes a ping of the budget when it is due"
    if job.must:
        yield "delivery", "it comes whatever happens"
    elif spec.background:
        yield "delivery", "the bot may decide to stay silent"


def _background_facts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    apart = "without the conversation so far" if spec.isolated else "knowing the conversation"
    yield "runs", f"in the background, {apart}"
    yield "model", spec.model or "the usual one"
    yield "thinking", "adaptive" if spec.thinking else "off"
    yield "pings", "allowed" if spec.allow_ping else "none (silent)"
    yield "reports", _REPORTS[spec.update_main_session]


def _if_missed(job: S) -> str:
    if job.spec.late is not None:
        return _IF_MISSED[job.spec.late]
    if isinstance(job, Reminder):
        return _IF_MISSED[Late.RUN]
    return "it runs late if not much time has passed, else you are told"


if TYPE_CHECKING:
    from ollim_bot.ports import Shelved

_WITHOUT_A_CHAIN = {"max-chain": 0, "chain-depth": 0, "chain-parent": None}


def job_object(noun: JobNoun[S], shelved: Shelved[S], now: datetime) -> dict[str, object]:
    job = shelved.item
    own = {**_WITHOUT_A_CHAIN, **noun.form.own_fields(job)}
    fields = {
        name: getattr(job.spec, rule.attribute) if hasattr(job.spec, rule.attribute) else own[name]
        for name, rule in noun.form.rules.items()
    }
    derived = {
        "must": job.must,
        "message": job.spec.message,
        "file": shelved.path,
        "next": noun.next(job, now),
    }
    return fields | derived


def page_object(noun: JobNoun[S], shelved: Shelved[S], now: datetime) -> dict[str, object]:
    """One job with its next three moments."""
    enabled = shelved.item.spec.enabled
    upcoming = list(islice(noun.upcoming(shelved.item, now), 3)) if enabled else []
    return job_object(noun, shelved, now) | {"upcoming": upcoming}


def list_jobs(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    report = noun.shelf(data).report()
    if "json" in given:
        _print_report(noun, report, data.now)
    else:
        _print_list(noun, report, data.now)


def show_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    shelved = noun.shelf(data).get(given["job"])
    if "json" in given:
        print_json(page_object(noun, shelved, data.now))
    else:
        print(page(noun, shelved.item, caller.shown(shelved.path), data.now))


def _print_list(noun: JobNoun[S], report: ShelfReport[S], now: datetime) -> None:
    if report.jobs:
        jobs = [(shelved.item, moment) for shelved, moment in _by_moment(noun, report, now)]
        print(listing(noun, jobs, now), flush=True)
    elif report.problems:
        print(f"No {noun.name} can run: every file has a problem.", flush=True)
    else:
        print(f"No {noun.plural}. Add one: {noun.add_example}", flush=True)
    for problem in report.problems:
        print(plain(problem), file=sys.stderr)
    for warning in report.warnings:
        note(warning)


def _print_report(noun: JobNoun[S], report: ShelfReport[S], now: datetime) -> None:
    jobs = [job_object(noun, shelved, now) for shelved, _ in _by_moment(noun, report, now)]
    print_json(
        {
            noun.plural: jobs,
            "problems": list(report.problems),
            "warnings": list(report.warnings),
        }
    )


def _by_moment(
    noun: JobNoun[S], report: ShelfReport[S], now: datetime
) -> list[tuple[Shelved[S], datetime | None]]:
    """The jobs with their next moments, the soonest first and the paused ones last."""

    def order(entry: tuple[Shelved[S], datetime | None]) -> tuple[bool, float, str]:
        shelved, moment = entry
        return moment is None, moment.timestamp() if moment else 0, shelved.item.spec.id

    return sorted(((shelved, noun.next(shelved.item, now)) for shelved in report.jobs), key=order)


_PATIENCE = 5.0
_BETWEEN_LOOKS = 0.02


def run_job(noun: JobNoun[S], given: Given, caller: Caller, *, patience: float = _PATIENCE) -> None:
    data = open_data(caller)
    if setter(caller, data) is not None:
        from ollim_bot.domain.initiative import NO_RUN

        raise OllimError(NO_RUN)
    job = noun.shelf(data).get(given["job"]).item
    if running_pid(data.paths.bot_pid) is None:
        raise OllimError("The bot is not running, and only it can run this. Start it: ollim-bot")
    if not _is_taken(noun, job.spec.id, data, patience):
        raise OllimError(
            "The bot did not answer, so nothing was run. If it is just starting or stopping, "
            "try it again in a moment."
        )
    story = f"`ollim-bot runs show {job.spec.id}` tells what comes of it."
    print(f"{noun.name.capitalize()} started: {title(job.spec.title)}. {story}", flush=True)


def _is_taken(noun: JobNoun[S], job_id: str, data: Data, patience: float) -> bool:
    """What the bot has not taken in time, it never takes."""
    folder = RequestFolder(data.paths)
    request = folder.put(noun.form.kind, job_id, data.now)
    end = time.monotonic() + patience
    try:
        while folder.is_waiting(request) and time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
    finally:
        is_withdrawn = folder.withdraw(request)
    return not is_withdrawn


if TYPE_CHECKING:
    from ollim_bot.domain.initiative import Setter


def add_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    message = message_given(given)
    if message is None:
        raise WrongInput(f"Say what to do, with -m. Example: {noun.add_example}")
    fields = _fields(noun, given, None, data.now)
    if not fields.keys() >= {*noun.form.required} - {"id"}:
        raise WrongInput(f"Say when: {noun.say_when}. Example: {noun.add_example}")
    _refuse_more_power(fields, (), data, caller)
    job = new_job(noun.form, fields, message)
    by = setter(caller, data)
    with writable(data) as data:
        job = set_in_background(job, by, data)
        added = shelved(noun.shelf(data), job, keep_id="id" in fields)
        if "json" in given:
            print_json(job_object(noun, added, data.now))
        else:
            print(_news(noun, "set", added.item, data.now))
            print(f"id {added.item.spec.id}, file {caller.shown(added.path)}", flush=True)
        _warn(added.item, data)
        _tell_if_asleep(added.item, data)


def edit_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    shelf = noun.shelf(data)
    job = _known(shelf, given["job"])
    message = message_given(given)
    gone = cleared(given, noun.form.rules)
    own_zone = job.spec.timezone if job and "timezone" not in gone else None
    changes = gone | _fields(noun, given, own_zone, data.now)
    if not changes and message is None:
        raise WrongInput(f"Say what to change. Example: {noun.edit_example}")
    _refuse_more_power(changes, job.spec.allowed_tools if job else (), data, caller)
    _refuse_taken_id(shelf, given["job"], changes.get("id"))
    if caller.agent and "set-by" in changes:
        from ollim_bot.domain.initiative import NOT_ONES_OWN

        raise WrongInput(f"set-by: {NOT_ONES_OWN}.")
    by = setter(caller, data)
    amend(noun, data, "changed", given["job"], changes, message, by=by)


def pause_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    amend(noun, open_data(caller), "paused", given["job"], {"enabled": False})


def resume_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    by = setter(caller, data)
    amend(noun, data, "resumed", given["job"], {"enabled": None}, by=by)


def cancel_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    job = _known(noun.shelf(data), given["job"])
    with writable(data) as data:
        path = noun.shelf(data).remove(given["job"])
        what = title(job.spec.title) if job else caller.shown(path)
        print(f"{noun.name.capitalize()} cancelled: {what}.")


def amend(
    noun: JobNoun[S],
    data: Data,
    done: str,
    job_id: str,
    changes: Mapping[str, object],
    message: str | None = None,
    *,
    by: Setter | None = None,
) -> None:
    """Change a job, and repeat what it promises now. `done` says in a word what was done.

    `by` is the background run that wants it, where one does.
    """
    _known(noun.shelf(data), job_id)
    with writable(data) as data:
        body = None if message is None else message.strip()
        approve = approval(by, data)
        job = noun.shelf(data).amend(job_id, changes, body, approve)
        print(_news(noun, done, job, data.now), flush=True)
        _tell_if_asleep(job, data)


def _fields(
    noun: JobNoun[S], given: Given, own_zone: ZoneInfo | None, now: datetime
) -> dict[str, object]:
    """What was said of the job. Moments in words are meant in its own time zone."""
    zone = ZoneInfo(given["timezone"]) if "timezone" in given else own_zone
    when = noun.when_given(given, now.astimezone(zone or now.tzinfo))
    return when | fields_given(given, noun.form.rules)


def _known(shelf: MarkdownShelf[S], job_id: str) -> S | None:
    """None if the file is there, but wrong. Raises `NotFound`."""
    try:
        return shelf.get(job_id).item
    except BadJob:
        return None


def _refuse_more_power(
    fields: Mapping[str, object], kept: Sequence[str], data: Data, caller: Caller
) -> None:
    """What the agent allows a job goes no further than the conversation; `kept` is the owner's."""
    tools = fields.get("allowed-tools")
    if not isinstance(tools, list) or caller.agent is None:
        return
    from ollim_bot.domain.permissions import beyond_main
    from ollim_bot.domain.tool_policy import Pattern
    from ollim_bot.store.policy_file import PolicyFile
    from ollim_bot.tools.registry import MAIN_TOOLS

    policy = PolicyFile(data.paths, note).read()
    allowed = [Pattern.of(text) for text in policy.main(MAIN_TOOLS)]
    beyond = beyond_main([tool for tool in tools if tool not in kept], allowed)
    if problems := [f"--allowed-tool: {sentence}" for sentence in beyond]:
        raise WrongInput("\n".join(problems))


def _refuse_taken_id(shelf: MarkdownShelf[S], job_id: str, new_id: object) -> None:
    if new_id in (None, job_id):
        return
    try:
        _known(shelf, str(new_id))
    except NotFound:
        return
    raise WrongInput(f"id: {new_id} is taken by another file.")


def _news(noun: JobNoun[S], done: str, job: S, now: datetime) -> str:
    resume = f" It does nothing until `ollim-bot {noun.name} resume {job.spec.id}`."
    news = f"{noun.name.capitalize()} {done}: {promise(noun, job, now)}"
    return news if job.spec.enabled else news + resume


def _warn(job: S, data: Data) -> None:
    from ollim_bot.cli.rehearse import warnings_of

    for sentence in warnings_of(job, data):
        note(small(sentence))


def _tell_if_asleep(job: S, data: Data) -> None:
    if job.spec.enabled and running_pid(data.paths.bot_pid) is None:
        note("the bot is not running, so nothing comes yet.")
