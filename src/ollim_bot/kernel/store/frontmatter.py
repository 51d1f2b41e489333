"""Markdown documents with fields on top: parsing, writing, and editing in place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.kernel.store.document import (
    FIRST_LINE,
    BadDocument,
    Document,
    Field,
    field_name,
    implicit_type,
    inline,
    scalar,
)

_LINE = re.compile(
    r"""(?P<key>[a-z][a-z0-9_-]*):[ ]+
        (?: "(?P<quoted>[\w !#$%&'()*+,./:;<=>?@^`{|}~\[\]-]*)"
          | (?P<bare>[^\W_](?:[\w./()'+*,;=@-]|:(?=\S)|[ ]+(?=[\w./()'+*,;=@-]))*)
        )[ ]*""",
    re.VERBOSE,
)
_IGNORED = re.compile(r"[ ]*(?:#[\w !\"#$%&'()*+,./:;<=>?@^`{|}~\[\]-]*)?")
_LONGEST = 500


def plain_fields(head: str) -> Mapping[str, Field] | None:
    """The fields by their hyphenated names; None if only the YAML library can read them."""
    fields: dict[str, Field] = {}
    for number, line in enumerate(head.split("\n"), FIRST_LINE):
        if not line:
            continue
        found = _LINE.fullmatch(line.removesuffix("\r"))
        if found is None:
            if _IGNORED.fullmatch(line.removesuffix("\r")):
                continue
            return None
        key, quoted, bare = found.groups()
        name = field_name(key)
        value = _value(quoted, bare, number)
        if value is None or name in fields:
            return None
        fields[name] = value
    return fields


def _value(quoted: str | None, bare: str | None, line: int) -> Field | None:
    text = quoted if bare is None else bare
    if text is None or len(text) > _LONGEST:
        return None
    kind = "str" if bare is None else implicit_type(bare)
    try:
        return Field(scalar(kind, text), line, text)
    except ValueError:
        return None


if TYPE_CHECKING:
    from ollim_bot.kernel.store.yaml_fields import FieldSpan

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


class CannotEdit(Exception):
    """The field cannot be changed without a change to something else."""


def parse(text: str) -> Document:
    """Parse a document. Raises `BadDocument` if it cannot be read as a whole."""
    start, end, body_start = _split(text)
    fields = plain_fields(text[start:end])
    if fields is None:
        # Import late: most documents are plain, and the library is slow to import.
        from ollim_bot.kernel.store.yaml_fields import yaml_fields

        fields = yaml_fields(text[start:end])
    return Document(fields, text[body_start:].strip())


def render(fields: Mapping[str, object], body: str) -> str:
    """Write a new document, with the fields in the given order."""
    lines = [f"{key}: {inline(value)}\n" for key, value in fields.items()]
    return f"---\n{''.join(lines)}---\n{body}\n"


def edited(text: str, changes: Mapping[str, object], body: str | None = None) -> str:
    """`text` with some fields changed (None removes one) and, if given, another body.

    Every other character stays as it is. Raises `CannotEdit` if that is not possible, and
    `BadDocument` if `text` is not a document.
    """
    for key, value in changes.items():
        written = value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        text = _with_field(text, key, written)
    return text if body is None else _with_body(text, body)


def _split(text: str) -> tuple[int, int, int]:
    """Where the fields begin and end, and where the body begins."""
    opening = _OPENING.match(text)
    if opening is None:
        raise BadDocument(1, "the first line must be --- alone")
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise BadDocument(1, "the --- that ends the fields is missing")
    return opening.end(), closing.start(), closing.end()


def _with_field(text: str, key: str, value: object) -> str:
    start, end, _ = _split(text)
    # Import late, as in `parse`.
    from ollim_bot.kernel.store.yaml_fields import yaml_place

    place = yaml_place(text[start:end], key)
    if place is not None:
        head = _changed(text[start:end], place, value)
    elif value is not None:
        head = f"{text[start:end]}{key}: {inline(value)}{_newline(text)}"
    else:
        return text
    result = f"{text[:start]}{head}{text[end:]}"
    # Read the result back: exactly this key changed, or nothing is written.
    try:
        was, now = parse(text), parse(result)
    except BadDocument as error:
        raise CannotEdit(f"{key} cannot be changed here ({error.reason})") from None
    expected = {name: field.value for name, field in was.fields.items()}
    expected.pop(key, None)
    if value is not None:
        expected[key] = value
    found = {name: field.value for name, field in now.fields.items()}
    if found != expected or was.body != now.body:
        raise CannotEdit(f"{key} cannot be changed here without changing more")
    return result


def _changed(head: str, place: FieldSpan, value: object) -> str:
    """The head with another value for the field, or for None without its lines."""
    if value is None:
        first = head.rfind("\n", 0, place.key_start) + 1
        return head[:first] + head[head.index("\n", place.value_end) + 1 :]
    space = "" if head[place.value_start - 1].isspace() else " "
    return f"{head[: place.value_start]}{space}{inline(value)}{head[place.value_end :]}"


def _with_body(text: str, body: str) -> str:
    _, _, body_start = _split(text)
    newline = _newline(text)
    head = text[:body_start]
    lines = re.split(r"\r\n|\n", body)
    return f"{head if head.endswith(chr(10)) else head + newline}{newline.join(lines)}{newline}"


def _newline(text: str) -> str:
    return "\r\n" if text[: text.index("\n")].endswith("\r") else "\n"
