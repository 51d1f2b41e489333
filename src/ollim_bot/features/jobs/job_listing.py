"""Lists and shows jobs, in words and in JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from ollim_bot.features.jobs.job_arguments import JobNoun, S
from ollim_bot.kernel.base.moments import duration_in_words
from ollim_bot.kernel.base.text import FROM_UNTRUSTED
from ollim_bot.kernel.values.job_fields import written_value
from ollim_bot.kernel.values.jobs import (
    ItemKind,
    JobSpec,
    Late,
    Reminder,
    ReportMode,
    StoredJob,
    list_order,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, columns, is_past, plain, print_json, title
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import note, open_data

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


_OWN_DEFAULTS = {
    "max-chain": 0,
    "chain-depth": 0,
    "chain-parent": None,
    "set-at": None,
    "quiet": True,
}


def listing(
    noun: JobNoun[S],
    jobs: Sequence[tuple[S, datetime | None]],
    now: datetime,
    *,
    for_agent: bool = False,
) -> str:
    """One line for each job."""
    rows = []
    for job, moment in jobs:
        overdue = "overdue: " if moment is not None and is_past(moment, now) else ""
        name = _name(job.spec, for_agent=for_agent) + _marks(noun, job)
        rows.append((job.spec.id, overdue + noun.when(job, moment, now), name))
    return columns(rows)


def _name(spec: JobSpec, *, for_agent: bool) -> str:
    """The title; for the owner with the words of an untrusted job, which are marked."""
    is_marked = spec.untrusted and not for_agent
    if is_marked:
        return f"{title(spec.words)} {FROM_UNTRUSTED}"
    return title(spec.title if spec.untrusted else spec.words)


def promise(noun: JobNoun[S], job: S, now: datetime) -> str:
    return f"{title(job.spec.title)}, {noun.promise(job, now)}."


def page(noun: JobNoun[S], job: S, file: str, now: datetime, *, for_agent: bool = False) -> str:
    """Everything about one job."""
    facts = [("id", job.spec.id), *noun.facts(job, now), *_common_facts(job, now), ("file", file)]
    table = columns([(f"  {name}", plain(fact)) for name, fact in facts])
    heading = _name(job.spec, for_agent=for_agent)
    return f"{heading}\n{table}\n\n{plain(job.spec.message)}"


def _marks(noun: JobNoun[S], job: S) -> str:
    marks = []
    if job.spec.background != noun.form.background_by_default:
        marks.append("background" if job.spec.background else "foreground")
    if not job.spec.allow_ping:
        marks.append("silent")
    if job.spec.set_by:
        marks.append(f"set by {job.spec.set_by}")
    if job.spec.plain and not job.must and not isinstance(job, Reminder):
        marks.append("plain")
    if job.spec.kind:
        marks.append(job.spec.kind)
    if job.spec.nag:
        marks.append(f"nag {job.spec.nag}")
    if job.is_plain and not job.kind.has_moments:
        marks.append("plain")
    if job.chain.max:
        marks.append(f"chain {job.chain.depth + 1}/{job.chain.max + 1}")
    return f"  ({', '.join(marks)})" if marks else ""


def _common_facts(job: S, now: datetime) -> Iterator[tuple[str, str]]:
    spec = job.spec
    if not spec.enabled:
        yield "paused", "it waits until you resume it"
    if spec.plain:
        where = ", below its description" if spec.said[0] else ""
        yield "sent", f"as written{where}, no model involved"
    elif not job.is_plain:
        if spec.background:
            yield from _background_facts(spec)
        else:
            yield "runs", "in the conversation"
        yield "tools", ", ".join(("the usual ones", *spec.allowed_tools))
        yield "skills", ", ".join(spec.skills) or "none"
    if job.kind.has_moments:
        yield from _moment_facts(spec)
        yield "time zone", spec.timezone.key if spec.timezone else f"yours ({now.tzinfo})"
        yield "if missed", _if_missed(job)
    if spec.set_by:
        yield "set by", f"{spec.set_by}, by itself: it takes a ping of the budget when it is due"
    if job.must:
        yield "delivery", "it comes whatever happens"
    elif spec.background and not spec.plain and job.kind.has_moments:
        yield "delivery", "the bot may decide to stay silent"
    if spec.untrusted:
        yield "untrusted", f"set after reading: {spec.untrusted}"


def _moment_facts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """How it reaches the owner, as far as that is unusual."""
    if spec.before:
        yield "heads-up", f"{', '.join(map(duration_in_words, spec.before))} before"
    if spec.kind is ItemKind.DOSE:
        yield "kind", "a dose, answered with Taken or Skipped"
    if spec.nag:
        yield "again", spec.nag.in_words
    if spec.first_step:
        yield "first step", spec.first_step


def _background_facts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    apart = "without the conversation so far" if spec.isolated else "knowing the conversation"
    yield "runs", f"in the background, {apart}"
    yield "model", spec.model or "the usual one"
    yield "thinking", "adaptive" if spec.thinking else "off"
    yield "pings", "allowed" if spec.allow_ping else "none (silent)"
    yield "reports", _REPORTS[spec.update_main_session]


def _if_missed(job: S) -> str:
    if job.must:
        return "it comes, however late"
    if job.spec.late is not None:
        return _IF_MISSED[job.spec.late]
    if isinstance(job, Reminder):
        return _IF_MISSED[Late.RUN]
    return "it runs late if it is not very late, else you are told"


def job_object(noun: JobNoun[S], stored: StoredJob[S], now: datetime) -> dict[str, object]:
    job = stored.item
    own = {**_OWN_DEFAULTS, **noun.form.own_fields(job)}
    fields = {
        name: written_value(getattr(job.spec, rule.attribute, own.get(name)))
        for name, rule in noun.rules.items()
    }
    about: dict[str, object] = {"message": job.spec.message, "file": stored.path}
    if not job.kind.has_moments:
        return fields | about
    return fields | {"must": job.must} | about | {"next": noun.next(job, now)}


def list_jobs(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    """The jobs with their next moments, the soonest first and the paused ones last."""
    data = open_data(caller)
    report = noun.repository(data).report()
    found = [(stored, noun.next(stored.item, data.now)) for stored in report.jobs]
    found.sort(key=lambda each: list_order(each[0].item, each[1]))
    if "json" in given:
        jobs = [job_object(noun, _as_seen(stored, caller), data.now) for stored, _ in found]
        problems = {"problems": [*report.problems], "warnings": [*report.warnings]}
        print_json({noun.form.kind.plural: jobs, **problems})
        return
    if found:
        lines = [(stored.item, moment) for stored, moment in found]
        show(listing(noun, lines, data.now, for_agent=caller.agent is not None))
    elif report.problems:
        show(f"No {noun.name} can run: every file has a problem.")
    else:
        show(f"No {noun.form.kind.plural}. Add one: {noun.add_example}")
    for problem in report.problems:
        show(plain(problem), "  ", stream=sys.stderr)
    for warning in report.warnings:
        note(warning)


def show_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    stored = _as_seen(noun.repository(data).get(noun.id_of(given, data)), caller)
    if "json" in given:
        shown, job = job_object(noun, stored, data.now), stored.item
        if job.kind.has_moments:
            coming = islice(noun.upcoming(job, data.now), 3) if job.spec.enabled else ()
            shown["upcoming"] = [*coming]
        print_json(shown)
    else:
        for_agent, file = caller.agent is not None, caller.shown(stored.path)
        show(page(noun, stored.item, file, data.now, for_agent=for_agent))


def _as_seen(stored: StoredJob[S], caller: Caller) -> StoredJob[S]:
    """The job; if the agent calls and the job is untrusted, its words are inside a fence only."""
    job = stored.item
    if not caller.agent or not job.spec.untrusted:
        return stored
    from ollim_bot.kernel.prompts.prompt_context import task

    spec = job.spec
    about = {"description": spec.description, "first step": spec.first_step}
    lines = [f"{name}: {words}" for name, words in about.items() if words]
    message = task("\n".join([*lines, spec.message]), spec.untrusted)
    hidden = replace(spec, message=message, description="", first_step="")
    # The name of the file may be made of untrusted words.
    return StoredJob(replace(job, spec=hidden), stored.path.parent)
