"""Jobs as JSON, for programs: every field as the file spells it, and what follows from them."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from ollim_bot.cli.jobs.noun import JobNoun, S

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
