"""Jobs in the words of the terminal: a line in a list, a promise, a page about one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.cli.instants import is_past
from ollim_bot.cli.jobs.noun import JobNoun, S
from ollim_bot.cli.wording import columns, plain, title
from ollim_bot.domain.jobs import JobSpec, Late, Reminder, ReportMode
from ollim_bot.domain.moments import describe

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
