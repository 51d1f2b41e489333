"""From flags to a new job on its shelf."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ollim_bot.cli.jobs.noun import S
from ollim_bot.errors import DuplicateId, WrongInput
from ollim_bot.ports import Shelved
from ollim_bot.storage.jobs.form import JobFormat
from ollim_bot.storage.jobs.shelf import MarkdownShelf


def new_job(form: JobFormat[S], fields: Mapping[str, object], message: str) -> S:
    """With an id made up, unless `fields` name one. Raises `BadJob` with all that is wrong."""
    _refuse_background_fields(form, fields)
    return form.made({"id": _made_up_id(), **fields}, message.strip())


def shelved(shelf: MarkdownShelf[S], job: S, *, keep_id: bool) -> Shelved[S]:
    """Put the job on the shelf, under another id if its own is taken and need not be kept."""
    while True:
        try:
            return Shelved(job, shelf.add(job))
        except DuplicateId:
            if keep_id:
                raise
            job = replace(job, spec=replace(job.spec, id=_made_up_id()))


def _made_up_id() -> str:
    return os.urandom(4).hex()


def _refuse_background_fields(form: JobFormat[S], fields: Mapping[str, object]) -> None:
    # The file's own complaint would speak of lines, where there are flags.
    if not fields.get("background", form.background_by_default):
        for name in fields:
            if form.rules[name].background_only:
                raise WrongInput(f"{name}: is for background jobs only. Add --background.")
