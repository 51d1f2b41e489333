"""Checks what a job or skill file would be, by the rules by which it is read later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.file_changes import OwnersFile
from ollim_bot.domain.job_files import FileReading, JobFile
from ollim_bot.domain.job_files import JobFolder as Folder
from ollim_bot.errors import Unreadable
from ollim_bot.plain_files import Largest
from ollim_bot.ports import Disk
from ollim_bot.storage.documents import frontmatter
from ollim_bot.storage.documents.document import BadDocument, Document
from ollim_bot.storage.files import OsDisk
from ollim_bot.storage.jobs.fields import WrongValue, words
from ollim_bot.storage.jobs.folder import JobFolder
from ollim_bot.storage.jobs.form import FieldProblem, JobFormat
from ollim_bot.storage.jobs.reminders import REMINDERS
from ollim_bot.storage.jobs.routines import ROUTINES
from ollim_bot.storage.jobs.skills import TOOLS, skill_problems
from ollim_bot.storage.jobs.webhooks import WEBHOOKS

_FORMS: Mapping[Folder, JobFormat[Any]] = {
    Folder.ROUTINES: ROUTINES,
    Folder.REMINDERS: REMINDERS,
    Folder.WEBHOOKS: WEBHOOKS,
}


class JobFileChecker:
    """A `JobChecker` of a data directory."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._root = paths.root
        self._disk = disk or OsDisk()
        self._folders = {
            name: JobFolder(paths.root / name, form, self._disk) for name, form in _FORMS.items()
        }

    def text(self, file: OwnersFile) -> str | None:
        return text_at(self._disk, self._root / str(file))

    def read(self, file: JobFile, text: str) -> FileReading:
        try:
            _refuse_bytes(text)
            document = frontmatter.parse(text)
        except BadDocument as bad:
            return FileReading(_sentences(file, [FieldProblem(bad.reason, None, bad.line)]))
        tools, line = _tools(document)
        if file.is_skill:
            problems = tuple(skill_problems(file.name, text, document))
            return FileReading(_sentences(file, problems), None, tools, line)
        reading = _FORMS[file.folder].read(document)
        said = document.fields.get("set-by")
        set_by = "" if said is None else str(said.value)
        return FileReading(_sentences(file, reading.problems), reading.job, tools, line, set_by)

    def others_with(self, file: JobFile, job_id: str) -> Sequence[str]:
        readings = self._folders[file.folder].readings()
        return [
            str(JobFile(file.folder, name))
            for name, reading in readings.items()
            if reading.job_id == job_id and name != file.name
        ]


def text_at(disk: Disk, path: Path) -> str | None:
    """What a file holds, where bytes that are no text stay as they are; None if there is none.

    Raises `Unreadable`.
    """
    try:
        return disk.read(path, Largest.JOB).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise Unreadable(path, f"cannot be read: {refused.strerror}.") from refused


def _refuse_bytes(text: str) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise BadDocument(line, "is not UTF-8 text") from None
    if size > Largest.JOB:
        raise BadDocument(None, f"is larger than {Largest.JOB} bytes")


def _sentences(file: JobFile, problems: Sequence[FieldProblem]) -> tuple[str, ...]:
    return tuple(problem.sentence(str(file)) for problem in problems)


def _tools(document: Document) -> tuple[tuple[str, ...], int | None]:
    field = document.fields.get(TOOLS)
    if field is None:
        return (), None
    try:
        return words(field), field.line
    except WrongValue:
        return (), field.line
