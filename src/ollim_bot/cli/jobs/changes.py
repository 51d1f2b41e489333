"""Adding, changing and cancelling jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, note, open_data, writable
from ollim_bot.cli.jobs import flags, initiative
from ollim_bot.cli.jobs.json import job_object
from ollim_bot.cli.jobs.making import new_job, shelved
from ollim_bot.cli.jobs.noun import JobNoun, S
from ollim_bot.cli.jobs.words import promise
from ollim_bot.cli.json_output import print_json
from ollim_bot.cli.verbs import Given
from ollim_bot.cli.wording import small, title
from ollim_bot.errors import BadJob, NotFound, WrongInput
from ollim_bot.storage.jobs.shelf import MarkdownShelf
from ollim_bot.upkeep.instance import running_pid

if TYPE_CHECKING:
    from ollim_bot.domain.initiative import Setter


def add_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    message = flags.message_given(given)
    if message is None:
        raise WrongInput(f"Say what to do, with -m. Example: {noun.add_example}")
    fields = _fields(noun, given, None, data.now)
    if not fields.keys() >= {*noun.form.required} - {"id"}:
        raise WrongInput(f"Say when: {noun.say_when}. Example: {noun.add_example}")
    _refuse_more_power(fields, (), data, caller)
    job = new_job(noun.form, fields, message)
    by = initiative.setter(caller, data)
    with writable(data) as data:
        job = initiative.set_in_background(job, by, data)
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
    message = flags.message_given(given)
    gone = flags.cleared(given, noun.form.rules)
    own_zone = job.spec.timezone if job and "timezone" not in gone else None
    changes = gone | _fields(noun, given, own_zone, data.now)
    if not changes and message is None:
        raise WrongInput(f"Say what to change. Example: {noun.edit_example}")
    _refuse_more_power(changes, job.spec.allowed_tools if job else (), data, caller)
    _refuse_taken_id(shelf, given["job"], changes.get("id"))
    if caller.agent and "set-by" in changes:
        from ollim_bot.domain.initiative import NOT_ONES_OWN

        raise WrongInput(f"set-by: {NOT_ONES_OWN}.")
    by = initiative.setter(caller, data)
    amend(noun, data, "changed", given["job"], changes, message, by=by)


def pause_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    amend(noun, open_data(caller), "paused", given["job"], {"enabled": False})


def resume_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    by = initiative.setter(caller, data)
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
        approve = initiative.approval(by, data)
        job = noun.shelf(data).amend(job_id, changes, body, approve)
        print(_news(noun, done, job, data.now), flush=True)
        _tell_if_asleep(job, data)


def _fields(
    noun: JobNoun[S], given: Given, own_zone: ZoneInfo | None, now: datetime
) -> dict[str, object]:
    """What was said of the job. Moments in words are meant in its own time zone."""
    zone = ZoneInfo(given["timezone"]) if "timezone" in given else own_zone
    when = noun.when_given(given, now.astimezone(zone or now.tzinfo))
    return when | flags.fields_given(given, noun.form.rules)


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
    from ollim_bot.domain.pattern_cover import beyond_main
    from ollim_bot.domain.tool_policy import Pattern
    from ollim_bot.storage.policy_file import PolicyFile

    allowed = [Pattern.of(text) for text in PolicyFile(data.paths, note).read().main]
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
