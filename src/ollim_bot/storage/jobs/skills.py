"""Skills as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import PurePosixPath

from ollim_bot.storage.documents.document import FIRST_LINE, Document, Field
from ollim_bot.storage.jobs.fields import WrongValue, one_line, words
from ollim_bot.storage.jobs.form import FieldProblem

TOOLS = "allowed-tools"
_OURS = ("name", "description", TOOLS)
# For people only: nobody acts on them.
_FOR_PEOPLE = ("license", "version", "metadata", "compatibility")
# A field, more of the one above, a comment or nothing: what every reader of YAML takes for it.
_PLAIN_LINE = re.compile(r"[A-Za-z_-]+:(?:\s.*)?|(?:\s|- |#).*|")


def skill_problems(name: str, text: str, document: Document) -> Iterator[FieldProblem]:
    """All that is wrong with the skill `mail/SKILL.md`, which `document` was read from `text`.

    The engine reads the file too, in its own way, and acts on further fields: `hooks`, for one,
    would run commands that nobody is asked about. So a field that is not known here is wrong.
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
