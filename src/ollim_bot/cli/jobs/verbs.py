"""The table of verbs that every kind of scheduled job has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.completions import Completion
from ollim_bot.cli.data import open_data
from ollim_bot.cli.framework import Flags, Verb, json_flag, title
from ollim_bot.cli.jobs import changes, views
from ollim_bot.cli.jobs.fields import ID, MESSAGE, JobNoun, S, add_flags


def job_verbs(noun: JobNoun[S]) -> Mapping[str, Verb]:
    command = f"ollim-bot {noun.name}"
    return {
        "add": Verb(
            f"set a new {noun.name}",
            noun.add_example,
            partial(_add_flags, noun),
            partial(changes.add_job, noun),
        ),
        "list": Verb(
            f"all {noun.plural}, {noun.order}",
            f"{command} list",
            json_flag,
            partial(views.list_jobs, noun),
            needs_words=False,
        ),
        "show": Verb(
            "everything about one",
            f"{command} show {noun.example_id}",
            partial(_show_flags, noun),
            partial(views.show_job, noun),
        ),
        "edit": Verb(
            "change one, or mend its file",
            noun.edit_example,
            partial(_edit_flags, noun),
            partial(changes.edit_job, noun),
        ),
        "cancel": Verb(
            "take one away for good",
            f"{command} cancel {noun.example_words}",
            partial(job_argument, noun),
            partial(changes.cancel_job, noun),
        ),
        "pause": Verb(
            "keep one, but do not run it",
            f"{command} pause {noun.example_id}",
            partial(job_argument, noun),
            partial(changes.pause_job, noun),
        ),
        "resume": Verb(
            "let a paused one run again",
            f"{command} resume {noun.example_id}",
            partial(job_argument, noun),
            partial(changes.resume_job, noun),
        ),
        "run": Verb(
            "run one now, besides its own moments; needs the bot running",
            f"{command} run 3f2a9c1b",
            partial(job_argument, noun),
            partial(changes.run_job, noun),
        ),
    }


def job_argument(noun: JobNoun[S], parser: Flags) -> None:
    parser.add_argument(
        "job",
        metavar="NAME",
        help="words of it, its id, or the name of its file",
        completions=partial(job_ids, noun),
    )


def job_ids(noun: JobNoun[S], caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    """The ids of all jobs of this kind, to complete one."""
    for each in noun.repository(open_data(caller)).all():
        yield Completion(each.item.spec.id, title(each.item.spec.title))


def _add_flags(noun: JobNoun[S], parser: Flags) -> None:
    parser.usage = f"%(prog)s TEXT {noun.main_flags} [...]"
    parser.text_flag = "--message"
    add_flags(parser, MESSAGE, *noun.flags, *noun.common, ID)
    json_flag(parser)


def _show_flags(noun: JobNoun[S], parser: Flags) -> None:
    job_argument(noun, parser)
    json_flag(parser)


def _edit_flags(noun: JobNoun[S], parser: Flags) -> None:
    parser.usage = "%(prog)s NAME [...]"
    job_argument(noun, parser)
    add_flags(parser, MESSAGE, *noun.flags, *noun.common, ID)
    parser.add_argument(
        "--clear",
        metavar="FIELD",
        action="append",
        help="take a field away; repeat it for more",
        completions=lambda *_: map(Completion, noun.rules),
    )
