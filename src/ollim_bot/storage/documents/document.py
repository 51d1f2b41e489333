"""A document as it is read: its fields, each with its line, and its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# The line of a file at which its fields begin, below the opening `---`.
FIRST_LINE = 2


class BadDocument(Exception):
    """`line` counts from 1 in the whole file; None where the whole file is meant."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Field(NamedTuple):
    """`value` is made of plain Python values; `text` is a scalar as it was written."""

    value: object
    line: int
    text: str | None


class Document(NamedTuple):
    """Keys are hyphenated, however they were written; `body` is stripped."""

    fields: Mapping[str, Field]
    body: str


def field_name(key: str) -> str:
    return key.replace("_", "-")
