"""The verbs that every kind of scheduled job has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.completions import Completion
from ollim_bot.cli.data import open_data
from ollim_bot.cli.framework import JSON, ArgumentSpec, Noun, argument, title
from ollim_bot.cli.jobs import changes, views
from ollim_bot.cli.jobs.fields import ID, MESSAGE, JobNoun, S


def job_command(noun: JobNoun[S]) -> Noun:
    verb = (command := Noun(noun.name)).verb
    job, fields = job_argument(noun), (MESSAGE, *noun.flags, *noun.common, ID)
    clear = argument(
        "--clear",
        metavar="FIELD",
        action="append",
        help="take a field away; repeat it for more",
        completions=lambda *_: map(Completion, noun.rules),
    )
    verb(
        f"set a new {noun.name}",
        noun.add_words,
        *fields,
        JSON,
        name="add",
        usage=f"%(prog)s TEXT {noun.main_flags} [...]",
        text_flag="--message",
    )(partial(changes.add_job, noun))
    verb(f"all {noun.plural}, {noun.order}", "", JSON, name="list")(partial(views.list_jobs, noun))
    verb("everything about one", noun.example_id, job, JSON, name="show")(
        partial(views.show_job, noun)
    )
    verb(
        "change one, or mend its file",
        noun.edit_words,
        job,
        *fields,
        clear,
        name="edit",
        usage="%(prog)s NAME [...]",
    )(partial(changes.edit_job, noun))
    verb("take one away for good", noun.example_words, job, name="cancel")(
        partial(changes.cancel_job, noun)
    )
    verb("keep one, but do not run it", noun.example_id, job, name="pause")(
        partial(changes.pause_job, noun)
    )
    verb("let a paused one run again", noun.example_id, job, name="resume")(
        partial(changes.resume_job, noun)
    )
    verb(
        "run one now, besides its own moments; needs the bot running",
        "3f2a9c1b",
        job,
        name="run",
    )(partial(changes.run_job, noun))
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
