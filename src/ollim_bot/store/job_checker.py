"""Checks job files before they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from ollim_bot.domain.shared_files import FileReading, JobFile, SharedFile
from ollim_bot.domain.shared_files import JobFolder as Folder
from ollim_bot.errors import Unreadable
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk
from ollim_bot.store import frontmatter
from ollim_bot.store.document import FIRST_LINE, BadDocument, Document, Field
from ollim_bot.store.files import OsDisk
from ollim_bot.store.job_folder import FolderWatch
from ollim_bot.store.job_formats import (
    REMINDERS,
    WEBHOOKS,
    FieldProblem,
    JobFormat,
    WrongValue,
    one_line,
    words,
)
from ollim_bot.store.routine_format import ROUTINES

TOOLS = "allowed-tools"
_OURS = ("name", "description", TOOLS)
# Fields for people only, without an effect.
_FOR_PEOPLE = ("license", "version", "metadata", "compatibility")
# A field, a continuation, a comment or an empty line, for which every YAML reader agrees.
_PLAIN_LINE = re.compile(r"[A-Za-z_-]+:(?:\s.*)?|(?:\s|- |#).*|")


def skill_problems(name: str, text: str, document: Document) -> Iterator[FieldProblem]:
    """All problems of the skill `name`, whose `document` was read from `text`.

    The engine reads the file in its own way and acts on further fields: `hooks`, for example, would
    run commands without asking the owner. So an unknown field is a problem.
    """
    folder = PurePosixPath(name).parent.name
    for required in ("name", "description"):
        if required not in document.fields:
            yield FieldProblem("is missing", required)
    for field_name, field in document.fields.items():
        reason = _wrong(field_name, field, folder)
        if reason:
            yield FieldProblem(reason, field_name, field.line)
    yield from _unclear_lines(text, {field.line for field in document.fields.values()})


def _unclear_lines(text: str, lines_of_fields: set[int]) -> Iterator[FieldProblem]:
    """Lines that another reader could take for a field, or for the end of all fields."""
    head = takewhile(lambda line: line.rstrip() != "---", text.split("\n")[1:])
    for number, line in enumerate(head, FIRST_LINE):
        may_be_field = line[:1].isalpha() and number not in lines_of_fields
        if may_be_field or "---" in line or not _PLAIN_LINE.fullmatch(line.rstrip("\r")):
            yield FieldProblem("each field stands in one plain line of its own", None, number)


def _wrong(name: str, field: Field, folder: str) -> str:
    if name in _FOR_PEOPLE:
        return ""
    if name not in _OURS:
        return f"is not a field of a skill; it takes {', '.join(_OURS)}"
    try:
        value = words(field) if name == TOOLS else one_line(field)
    except WrongValue as wrong:
        return str(wrong)
    if not value and name != TOOLS:
        return "is empty; say in one line what the skill is for"
    return f"must be the name of its folder, {folder}" if name == "name" and value != folder else ""


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
            name: FolderWatch(paths.root / name, form, self._disk) for name, form in _FORMS.items()
        }

    def text(self, file: SharedFile) -> str | None:
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
        set_by, untrusted = _said(document, "set-by"), _said(document, "untrusted")
        sentences = _sentences(file, reading.problems)
        return FileReading(sentences, reading.job, tools, line, set_by, untrusted)

    def others_with(self, file: JobFile, job_id: str) -> Sequence[str]:
        readings = self._folders[file.folder].readings()
        return [
            str(JobFile(file.folder, name))
            for name, reading in readings.items()
            if reading.job_id == job_id and name != file.name
        ]


def text_at(disk: Disk, path: Path) -> str | None:
    """The content of a file, with undecodable bytes preserved; None if there is no file.

    Raises `Unreadable`.
    """
    try:
        return disk.read(path, SizeLimit.JOB).decode("utf-8", "surrogateescape")
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
    if size > SizeLimit.JOB:
        raise BadDocument(None, f"is larger than {SizeLimit.JOB} bytes")


def _sentences(file: JobFile, problems: Sequence[FieldProblem]) -> tuple[str, ...]:
    return tuple(problem.sentence(str(file)) for problem in problems)


def _said(document: Document, name: str) -> str:
    field = document.fields.get(name)
    return "" if field is None else str(field.value)


def _tools(document: Document) -> tuple[tuple[str, ...], int | None]:
    field = document.fields.get(TOOLS)
    if field is None:
        return (), None
    try:
        return words(field), field.line
    except WrongValue:
        return (), field.line
