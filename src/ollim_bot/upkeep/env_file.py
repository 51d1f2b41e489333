"""Changes values in the `.env` of the data directory, and leaves all other lines as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from pathlib import Path

from ollim_bot.environment import (
    SET_IN_CURRENT_FOLDER,
    EnvSpan,
    env_spans,
    load_env_file,
    read_env_file,
)
from ollim_bot.errors import WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, write_atomically

_NEEDS_NO_QUOTES = re.compile(r"[\w./:@%+,=-]+", re.ASCII)
_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "$": "\\$", "`": "\\`", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BYTE_ORDER_MARK = "\ufeff"

# A value for each name; None, or no text, takes the name out.
EnvChanges = Mapping[str, str | None]


def with_changes(text: str, changes: EnvChanges) -> str:
    """The text of the file after the changes; comments, order and other lines are as before.

    A name that is set twice is set once afterwards; a wrong line with that name is replaced.
    """
    spans = _spans(text, changes)
    known = {span.name for span in spans}
    missing = {name: value for name, value in changes.items() if name not in known}
    changed = _with_new_lines(_with_replaced(text, spans, changes), missing, at_end=True)
    old, new = read_env_file(text).values, read_env_file(changed).values
    kept = {name: value for name, value in old.items() if name not in changes}
    if new == kept | {name: value for name, value in changes.items() if value}:
        return changed
    # Quotes that an earlier line leaves open end in one of the new lines.
    while spans := _spans(text, changes):
        text = _with_replaced(text, spans, dict.fromkeys(changes))
    return _with_new_lines(text, changes, at_end=False)


def _spans(text: str, names: Container[str]) -> list[EnvSpan]:
    return [span for span in env_spans(text) if span.name in names]


def change_env_file(paths: DataPaths, changes: EnvChanges, disk: Disk | None = None) -> None:
    """Make the changes on disk, for the owner's eyes alone (0600). Raises `WriteFailed`.

    The data directory is prepared. A link to a file elsewhere stays a link.
    """
    with FileLock(paths.lock_of(paths.env_file)).held():
        path = Path(os.path.realpath(paths.env_file))
        text = with_changes(env_text(paths), changes)
        try:
            if path.exists():
                os.chmod(path, PRIVATE)
        except OSError as refused:
            raise WriteFailed(path, f"cannot be closed to others: {refused.strerror}.") from refused
        data = text.encode("utf-8", "surrogateescape")
        write_atomically(disk or OsDisk(), path, data, PRIVATE)


def env_text(paths: DataPaths) -> str:
    """The text of the file; empty if there is none. Raises `WriteFailed` if it cannot be read."""
    try:
        content = OsDisk().read(paths.env_file, SizeLimit.SETTINGS)
    except FileNotFoundError:
        return ""
    except OSError as refused:
        reason = f"cannot be read: {refused.strerror}. Make it a text file of yours, or move it."
        raise WriteFailed(paths.env_file, reason) from refused
    return content.decode("utf-8", "surrogateescape")


def stronger_place(
    name: str, environ: Mapping[str, str], beside: Path, paths: DataPaths
) -> str | None:
    """The place of a value that overrides the data directory's; None if there is none.

    `beside` is the `.env` of the current folder.
    """
    if environ.get(name, "").strip():
        return "the environment"
    is_own = os.path.realpath(beside) == os.path.realpath(paths.env_file)
    may_count = name in SET_IN_CURRENT_FOLDER and not is_own
    if may_count and load_env_file(beside).values.get(name, "").strip():
        return str(beside)
    return None


def _with_replaced(text: str, spans: list[EnvSpan], changes: EnvChanges) -> str:
    lines = _LINE.findall(text)
    marked = text.startswith(_BYTE_ORDER_MARK)
    seen: set[str] = set()
    for span in spans:
        value = changes[span.name] if span.name not in seen else None
        line = lines[span.last - 1]
        end = line[len(line.rstrip("\r\n")) :]
        new = f"{span.before}{quoted(value)}{span.behind}{end}" if value else ""
        lines[span.first - 1 : span.last] = [new, *[""] * (span.last - span.first)]
        seen.add(span.name)
    changed = "".join(lines)
    is_unmarked = marked and not changed.startswith(_BYTE_ORDER_MARK)
    return f"{_BYTE_ORDER_MARK}{changed}" if is_unmarked else changed


def _with_new_lines(text: str, values: EnvChanges, *, at_end: bool) -> str:
    new = "".join(f"{name}={quoted(value)}\n" for name, value in values.items() if value)
    if not new:
        return text
    if not at_end:
        mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        return f"{mark}{new}{text.removeprefix(mark)}"
    has_end = text.removeprefix(_BYTE_ORDER_MARK) == "" or text.endswith(("\n", "\r"))
    return f"{text}{new}" if has_end else f"{text}\n{new}"


def quoted(value: str) -> str:
    """The value as it is written behind `=`."""
    return value if _NEEDS_NO_QUOTES.fullmatch(value) else f'"{value.translate(_ESCAPED)}"'
