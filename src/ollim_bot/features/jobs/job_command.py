"""Adds, changes, cancels and runs jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ollim_bot.features.jobs import job_listing as views
from ollim_bot.features.jobs.job_arguments import (
    ID,
    MESSAGE,
    JobNoun,
    S,
    cleared,
    fields_given,
    message_given,
)
from ollim_bot.features.jobs.job_listing import job_object, promise
from ollim_bot.kernel.base.errors import BadJob, DuplicateId, NotFound, OllimError, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import clock_time
from ollim_bot.kernel.store.job_folder import MarkdownRepository
from ollim_bot.kernel.store.job_formats import READ_AS_RUN
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.job_fields import BACKGROUND
from ollim_bot.kernel.values.jobs import (
    Job,
    Reminder,
    Routine,
    StoredJob,
    ignores_late,
    job_key,
    told_of_nag,
)
from ollim_bot.kernel.values.tool_patterns import is_open, open_problem
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    ArgumentSpec,
    Given,
    Noun,
    argument,
    print_json,
    small,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import (
    ONLY_THERE,
    Data,
    is_page_only,
    note,
    open_data,
    writable,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.values.initiative import Setter
    from ollim_bot.kernel.values.taint import Taint

_ABOUT_RUN = "run one now, besides its own moments; needs the bot running"
_WAIT_SECONDS = 5.0
_BETWEEN_LOOKS = 0.02


def run_job(
    noun: JobNoun[S], given: Given, caller: Caller, *, wait_seconds: float = _WAIT_SECONDS
) -> None:
    from ollim_bot.kernel.store.run_requests import RequestFolder

    data = open_data(caller)
    if setter(caller, data) is not None:
        from ollim_bot.kernel.values.initiative import NO_RUN

        raise OllimError(NO_RUN)
    job = noun.repository(data).get(noun.id_of(given, data)).item
    if running_pid(data.paths.bot_pid) is None:
        raise OllimError("The bot is not running, and only it can run this. Start it: ollim-bot")
    folder = RequestFolder(data.paths)
    request = folder.put(noun.form.kind, job.spec.id, data.now)
    end = time.monotonic() + wait_seconds
    try:
        while folder.is_waiting(request) and time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
    finally:
        is_withdrawn = folder.withdraw(request)
    if is_withdrawn:
        raise OllimError(
            "The bot did not answer, so nothing was run. If it is just starting or stopping, "
            "try it again in a moment."
        )
    story = f"`ollim-bot runs show {job.spec.id}` tells what comes of it."
    show(f"{noun.name.capitalize()} started: {title(job.spec.title)}. {story}")


def add_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    message = message_given(given)
    if message is None:
        raise WrongInput(f"Say what to do, with -m. Example: {noun.add_example}")
    given_fields = _fields(noun, given, None, data)
    fields = noun.completed({k: v for k, v in given_fields.items() if v is not None}, message)
    needed, moments = {*noun.form.required} - {"id"}, {*noun.form.moments}
    if not fields.keys() >= needed or (moments and not fields.keys() & moments):
        raise WrongInput(f"Say when: {noun.main_flags}. Example: {noun.add_example}")
    _refuse_more_power(fields, (), data, caller)
    by, taint = setter(caller, data), data.standing_taint()
    if by is None and noun.form.kind.has_moments:
        from ollim_bot.kernel.values.wishes import wish_from_words

        usual = data.read(lambda tx: tx.config.get().nag_default)
        message, fields = wish_from_words(
            message, noun.form.kind, fields, nag_default=usual, is_tainted=taint is not None
        )
    # The error of the file format would speak of lines instead of flags.
    if not fields.get("background", noun.form.background_by_default):
        for name in fields:
            if noun.form.rules[name].has(BACKGROUND):
                raise WrongInput(f"{name}: is for background jobs only. Add --background.")
    job = noun.form.made({"id": os.urandom(4).hex(), **fields}, message.strip())
    named = _judged_skills(job.spec.skills, data, caller)
    with writable(data) as data:
        job = _limited(job, by, taint, data)
        _note_skills(job, named, data)
        added = _added(noun.repository(data), job, keep_id="id" in fields)
        if added.item.spec.id != job.spec.id:
            _note_skills(added.item, named, data)
        _tell_added(noun, added, given, caller, data)


def _tell_added(
    noun: JobNoun[S], added: StoredJob[S], given: Given, caller: Caller, data: Data
) -> None:
    job = added.item
    if "json" in given:
        print_json(job_object(noun, added, data.now))
    else:
        show(_news(noun, "set", job, data.now))
        if sentence := told_of_nag(job, given):
            show(sentence)
        show(f"id {job.spec.id}, file {caller.shown(added.path)}")
    _note_quiet(job, data)
    if caller.agent:
        from ollim_bot.kernel.values.initiative import HELD_BACK, may_be_held_back

        if may_be_held_back(job):
            note(HELD_BACK)
    if isinstance(job, Routine | Reminder):
        from ollim_bot.kernel.values.simulation import MOST_ASKED, warnings

        folders = (data.paths.routines, data.paths.reminders)
        # Reading very many others would take long.
        if sum(1 for each in folders if each.is_dir() for _ in each.iterdir()) <= MOST_ASKED:
            others = [other for other in data.scheduled_jobs()[0] if other != job]
            for sentence in warnings(job, others, data.assumptions()):
                note(small(sentence))
    _caution(noun, job, data, caller)
    _note_if_bot_is_stopped(job, data)
    is_first = noun.form.kind.has_moments and is_page_only(data, caller)
    if is_first and len(noun.repository(data).all()) == 1:
        note(ONLY_THERE)


def edit_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    repository, job_id = noun.repository(data), noun.id_of(given, data)
    job = _known(repository, job_id)
    message = message_given(given)
    gone = cleared(given, noun.rules)
    own_zone = job.spec.timezone if job and "timezone" not in gone else None
    changes = gone | _fields(noun, given, own_zone, data)
    if not changes and message is None:
        raise WrongInput(f"Say what to change. Example: {noun.edit_example}")
    _refuse_more_power(changes, job.spec.allowed_tools if job else (), data, caller)
    named = _judged_skills(_newly_named(changes, job), data, caller)
    new_id = changes.get("id")
    if new_id not in (None, job_id):
        with suppress(NotFound):
            _known(repository, str(new_id))
            raise WrongInput(f"id: {new_id} is taken by another file.")
    if caller.agent:
        from ollim_bot.kernel.values.initiative import KEEPS_MARK, NOT_ONES_OWN

        for name, why in (("set-by", NOT_ONES_OWN), ("untrusted", KEEPS_MARK)):
            if name in changes:
                raise WrongInput(f"{name}: {why}.")
    amended = amend(noun, data, "changed", job_id, changes, message, by=caller, named=named)
    _caution(noun, amended, data, caller)


def pause_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    amend(noun, data, "paused", noun.id_of(given, data), {"enabled": False})


def resume_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    amend(noun, data, "resumed", noun.id_of(given, data), {"enabled": None}, by=caller)


def cancel_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    job_id = noun.id_of(given, data)
    job = _known(noun.repository(data), job_id)
    with writable(data) as data:
        path = noun.repository(data).remove(job_id)
        what = title(job.spec.title) if job else caller.shown(path)
        show(f"{noun.name.capitalize()} cancelled: {what}.")


def amend(
    noun: JobNoun[S],
    data: Data,
    done: str,
    job_id: str,
    changes: Mapping[str, object],
    message: str | None = None,
    *,
    by: Caller | None = None,
    named: Sequence[str] = (),
) -> S:
    """Change a job, and print its new promise. `done` is the past participle of the change.

    `by` is the caller that asks for the change, if that has limits. `named` are the skills that the
    agent names with it.
    """
    _known(noun.repository(data), job_id)
    with writable(data) as data:
        body = None if message is None else message.strip()
        approve = None if by is None else _approval(by, named, data)
        job = noun.repository(data).amend(job_id, changes, body, approve)
        show(_news(noun, done, job, data.now))
        if "run-at" in changes:
            _note_quiet(job, data)
        _note_if_bot_is_stopped(job, data)
    return job


def _fields(
    noun: JobNoun[S], given: Given, own_zone: ZoneInfo | None, data: Data
) -> dict[str, object]:
    """The given fields of the job. Moments in words are in its own time zone."""
    zone = ZoneInfo(given["timezone"]) if "timezone" in given else own_zone
    # The hours of a cron line in another zone are not those of the owner's night.
    quiet = None
    if "every" in given and zone is None:
        from ollim_bot.kernel.store.steps import quiet_settings

        quiet = data.read(lambda tx: quiet_settings(tx).hours)
    own = noun.own_fields(given, data.now.astimezone(zone or data.now.tzinfo), quiet)
    return fields_given(given, noun.rules) | own


def _known(repository: MarkdownRepository[S], job_id: str) -> S | None:
    """The job; None if its file is invalid. Raises `NotFound`."""
    try:
        return repository.get(job_id).item
    except BadJob:
        return None


def _refuse_more_power(
    fields: Mapping[str, object], kept: Sequence[str], data: Data, caller: Caller
) -> None:
    """Refuse a tool that the conversation does not have, unless the job had it: `kept`."""
    tools = fields.get("allowed-tools")
    if not isinstance(tools, list) or caller.agent is None:
        return
    beyond = _beyond_main([tool for tool in tools if tool not in kept], data)
    if problems := [f"--allowed-tool: {sentence}" for sentence in beyond]:
        raise WrongInput("\n".join(problems))


def _beyond_main(tools: Sequence[str], data: Data) -> Iterable[str]:
    from ollim_bot.kernel.store.owner_files import PolicyFile
    from ollim_bot.kernel.tools.registry import MAIN_TOOLS
    from ollim_bot.kernel.values.permissions import Pattern, beyond_main

    policy = PolicyFile(data.paths, note).read()
    servers = data.read(lambda tx: tx.tool_servers.get().patterns()) or ()
    allowed = [Pattern.of(text) for text in (*policy.main(MAIN_TOOLS), *servers)]
    return beyond_main(tools, allowed)


def _newly_named(changes: Mapping[str, object], job: Job | None) -> Sequence[str]:
    """The skills that the change adds; all of them if it makes another job of this one."""
    had = job.spec.skills if job else ()
    given = changes.get("skills", had)
    kept = () if changes.keys() & {"id", "chain-parent"} else had
    return [str(name) for name in given if name not in kept] if isinstance(given, Sequence) else ()


def _judged_skills(names: Sequence[str], data: Data, caller: Caller) -> Sequence[str]:
    """The skills that the agent names. Refuse one that is missing, or has more power than it."""
    if not names or caller.agent is None:
        return ()
    from ollim_bot.kernel.store.job_checker import JobFileChecker

    files = JobFileChecker(data.paths)
    beyond = _beyond_main(files.tools_of_skills(names), data)
    if problems := [*files.unusable_skills(names), *beyond]:
        raise WrongInput("\n".join(f"--skill: {sentence}" for sentence in problems))
    return names


def _note_skills(job: Job, named: Sequence[str], data: Data) -> None:
    if not named:
        return
    from ollim_bot.kernel.store.steps import note_agent_skills

    with data.database() as database:
        database.run(lambda tx: note_agent_skills(tx, job_key(job), named))


def _news(noun: JobNoun[S], done: str, job: S, now: datetime) -> str:
    resume = f" It does nothing until `ollim-bot {noun.name} resume {job.spec.id}`."
    news = f"{noun.name.capitalize()} {done}: {promise(noun, job, now)}"
    return news if job.spec.enabled else news + resume


def _caution(noun: JobNoun[S], job: S, data: Data, caller: Caller) -> None:
    for sentence in noun.cautions(job, caller):
        note(sentence)
    if ignores_late(job):
        note(f"late {READ_AS_RUN}.")
    for pattern in filter(is_open, job.spec.allowed_tools):
        known = data.read(lambda tx: tx.tool_servers.get().patterns()) or ()
        note(open_problem(pattern, known))


def _note_quiet(job: S, data: Data) -> None:
    """Say that a reminder comes in the quiet hours, and how to move it to their end."""
    if not isinstance(job, Reminder):
        return
    from ollim_bot.kernel.store.steps import quiet_settings
    from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS, quiet_until

    settings, due = data.read(quiet_settings), job.due(data.now.tzinfo or UTC)
    end = None if settings is None else quiet_until(settings, due)
    if end is not None:
        command = f'ollim-bot reminder edit {job.spec.id} --at "{end:%Y-%m-%d %H:%M}"'
        note(f"it comes {IN_QUIET_HOURS}. `{command}` moves it to {clock_time(end)}.")


def _note_if_bot_is_stopped(job: S, data: Data) -> None:
    if job.spec.enabled and running_pid(data.paths.bot_pid) is None:
        note("the bot is not running, so nothing comes yet.")


def setter(caller: Caller, data: Data) -> Setter | None:
    """The background run that calls; None for a person, and for the agent in the conversation."""
    if caller.agent in (None, CONVERSATION):
        return None
    from ollim_bot.kernel.values.initiative import Setter, origin_of
    from ollim_bot.kernel.values.occurrences import Occurrence

    try:
        run = Occurrence.parse(caller.agent)
    except ValueError:
        raise WrongInput(f"{CALLED_BY} names no run, so nothing was changed.") from None
    from ollim_bot.kernel.store.job_types import JOB_TYPES

    try:
        kind = JobKind(run.kind)
        files = data.repository(data.paths.jobs(kind), JOB_TYPES[kind])
        job: Job = files.get(run.job_id).item
    except (NotFound, BadJob, DuplicateId):
        return Setter(run.id, f"{run.kind}:{run.job_id}", allow_ping=False)
    return Setter(run.id, origin_of(job), job.spec.allow_ping)


def _limited(job: S, by: Setter | None, taint: Taint | None, data: Data) -> S:
    """The new job with the limits of its setter and of what was read, counted.

    Raises `WrongInput` if the setter may not add it.
    """
    if by is None and taint is None:
        return job
    from ollim_bot.kernel.values.initiative import (
        marked,
        objections,
        objections_after_reading,
        set_by,
    )

    if taint is not None and isinstance(job, Reminder):
        job = marked(job, taint)
    if by is not None:
        job = set_by(job, by)
        _refuse(objections(None, job, by))
        _count(by, data)
    if taint is not None:
        _refuse(objections_after_reading(None, job, taint))
        if isinstance(job, Reminder):
            _count(None, data)
    return job


def _approval(
    caller: Caller, named: Sequence[str], data: Data
) -> Callable[[S | None, S], None] | None:
    """A check that raises `WrongInput` if the caller may not make this change."""
    by, taint = setter(caller, data), data.standing_taint()
    if by is None and taint is None and not named:
        return None
    from ollim_bot.kernel.values.initiative import objections, objections_after_reading

    def approve(before: S | None, after: S) -> None:
        if taint is not None:
            _refuse(objections_after_reading(before, after, taint))
        if by is not None:
            if before is None:
                raise WrongInput("A background run cannot mend a job whose file is wrong.")
            _refuse(objections(before, after, by))
            _count(by, data)
        _note_skills(after, named, data)

    return approve


def _refuse(reasons: Iterable[str]) -> None:
    if found := [f"{reason}." for reason in reasons]:
        raise WrongInput("\n".join(found))


def _count(by: Setter | None, data: Data) -> None:
    from ollim_bot.kernel.store.steps import count_in_tainted_turn, count_set

    today = data.now.date()
    with data.database() as database:
        refusal = database.run(
            lambda tx: count_set(tx, by, today) if by else count_in_tainted_turn(tx, today)
        )
    if refusal:
        raise WrongInput(refusal)


def _added(repository: MarkdownRepository[S], job: S, *, keep_id: bool) -> StoredJob[S]:
    """Add the job to the repository, with another id if its own is taken and need not be kept."""
    while True:
        try:
            return StoredJob(job, repository.add(job))
        except DuplicateId:
            if keep_id:
                raise
            job = replace(job, spec=replace(job.spec, id=os.urandom(4).hex()))


def job_command(noun: JobNoun[S]) -> Noun:
    command, plural = Noun(noun.name), noun.form.kind.plural
    job, fields = job_argument(noun), (MESSAGE, *noun.flags, *noun.common, ID)
    clear = argument(
        "--clear",
        metavar="FIELD",
        action="append",
        help="take a field away; repeat it for more",
        completions=lambda *_: map(Completion, noun.rules),
    )
    command.verb(
        f"set a new {noun.name}",
        noun.add_words,
        *fields,
        JSON,
        name="add",
        usage=f"%(prog)s TEXT {noun.main_flags} [...]",
        text_flag="--message",
    )(partial(add_job, noun))
    some_id, some_words = noun.example_id, noun.example_words
    verbs = (
        ("list", views.list_jobs, f"all {plural}, {noun.order}", "", (JSON,)),
        ("show", views.show_job, "everything about one", some_id, (job, JSON)),
        ("edit", edit_job, "change one, or mend its file", noun.edit_words, (job, *fields, clear)),
        ("cancel", cancel_job, "take one away for good", some_words, (job,)),
        ("pause", pause_job, "keep one, but do not run it", some_id, (job,)),
        ("resume", resume_job, "let a paused one run again", some_id, (job,)),
        ("run", run_job, _ABOUT_RUN, "3f2a9c1b", (job,)),
    )
    for name, run, about, example, arguments in verbs:
        usage_of_edit = "%(prog)s NAME [...]" if name == "edit" else None
        declare = command.verb(about, example, *arguments, name=name, usage=usage_of_edit)
        declare(partial(run, noun))
    return command


def job_argument(noun: JobNoun[S]) -> ArgumentSpec:
    return argument(
        "job",
        metavar="NAME",
        help="words of it, its id, or the name of its file",
        completions=partial(job_ids, noun),
    )


def job_ids(noun: JobNoun[S], caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    """The ids of all jobs of this kind, to complete one."""
    for each in noun.repository(open_data(caller)).all():
        yield Completion(each.item.spec.id, title(each.item.spec.title))
