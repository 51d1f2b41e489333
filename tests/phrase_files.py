"""Tables of phrases in plain text: a phrase a line, and behind each ` => ` what belongs to it.

`[name]` begins a table, and `#` a comment. What plain letters cannot show is a JSON string.
"""

from __future__ import annotations

import json
from pathlib import Path

Row = tuple[str, ...]


def read(path: Path) -> dict[str, list[Row]]:
    """The rows of each table, in order."""
    tables: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in path.read_text().split("\n"):
        if line.startswith("["):
            rows = tables.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            rows.append(tuple(_plain(field) for field in line.split(" => ")))
    return tables


def pairs(rows: list[Row]) -> dict[str, str]:
    return {row[0]: row[1] for row in rows}


def alternatives(answer: str) -> Row:
    """Any of them is right; they are joined by ` | `."""
    return tuple(answer.split(" | ")) if answer else ()


def _plain(field: str) -> str:
    return json.loads(field) if field.startswith('"') else field
