"""What the agent may do to jobs by way of a command, where the owner need not be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, note
from ollim_bot.cli.jobs.noun import S
from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.domain.jobs import JobKind
from ollim_bot.errors import BadJob, DuplicateId, NotFound, WrongInput

# A listing needs none of the rest, and would take half as long again with it.
if TYPE_CHECKING:
    from ollim_bot.domain.initiative import Setter
    from ollim_bot.domain.occurrences import Occurrence
    from ollim_bot.storage.jobs.form import JobFormat


def setter(caller: Caller, data: Data) -> Setter | None:
    """The background run that calls; None for a person, and for the agent in the conversation."""
    if caller.agent in (None, CONVERSATION):
        return None
    from ollim_bot.domain.initiative import Setter
    from ollim_bot.domain.occurrences import Occurrence

    try:
        run = Occurrence.parse(caller.agent)
    except ValueError:
        raise WrongInput(f"{CALLED_BY} names no run, so nothing was changed.") from None
    return Setter(run.id, f"{run.kind}:{run.job_id}", _may_ping(run, data))


def set_in_background(job: S, by: Setter | None, data: Data) -> S:
    """The new job as the caller may set it, counted. Raises `WrongInput` where it may not."""
    if by is None:
        return job
    from ollim_bot.domain.initiative import objections, set_by

    job = set_by(job, by)
    _refuse(objections(None, job, by))
    _count(by, data)
    return job


def approval(by: Setter | None, data: Data) -> Callable[[S | None, S], None] | None:
    """Raises `WrongInput` where the caller may not make the second job of the first."""
    if by is None:
        return None
    from ollim_bot.domain.initiative import objections

    def approve(before: S | None, after: S) -> None:
        if before is None:
            raise WrongInput("A background run cannot mend a job whose file is wrong.")
        _refuse(objections(before, after, by))
        _count(by, data)

    return approve


def _refuse(reasons: Iterable[str]) -> None:
    if found := [f"{reason}." for reason in reasons]:
        raise WrongInput("\n".join(found))


def _count(by: Setter, data: Data) -> None:
    if refusal := data.stores(note).count_set(by, data.now):
        raise WrongInput(refusal)


def _may_ping(run: Occurrence, data: Data) -> bool:
    """As its job's file says; where there is none, it may not."""
    from ollim_bot.storage.jobs.reminders import REMINDERS
    from ollim_bot.storage.jobs.routines import ROUTINES
    from ollim_bot.storage.jobs.webhooks import WEBHOOKS

    forms: dict[JobKind, tuple[Any, JobFormat[Any]]] = {
        JobKind.ROUTINE: (data.paths.routines, ROUTINES),
        JobKind.REMINDER: (data.paths.reminders, REMINDERS),
        JobKind.WEBHOOK: (data.paths.webhooks, WEBHOOKS),
    }
    try:
        return bool(data.shelf(*forms[run.kind]).get(run.job_id).item.spec.allow_ping)
    except (NotFound, BadJob, DuplicateId):
        return False
