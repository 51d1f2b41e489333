"""Changes values in the `.env` of the data directory, and leaves all other lines as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ollim_bot.kernel.base.environment import (
    SET_IN_CURRENT_FOLDER,
    env_pieces,
    load_env_file,
    read_env_file,
)
from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, write_atomically
from ollim_bot.kernel.values.ports import Disk

_NEEDS_NO_QUOTES = re.compile(r"[\w./:@%+,=-]+", re.ASCII)
_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "$": "\\$", "`": "\\`", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_BYTE_ORDER_MARK = "\ufeff"

# A value for each name; None, or no text, takes the name out.
EnvChanges = Mapping[str, str | None]


def with_changes(text: str, changes: EnvChanges) -> str:
    """The text of the file after the changes; comments, order and other lines are as before.

    A name that is set twice is set once afterwards; a wrong line with that name is replaced.
    """
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    left, changed = dict(changes), ""
    for piece in env_pieces(text):
        if piece.name is None or piece.name not in changes:
            changed += piece.text
        elif value := left.pop(piece.name, None):
            changed += f"{piece.before}{quoted(value)}{piece.behind}"
    new = _lines(left)
    if new and changed and not changed.endswith(("\n", "\r")):
        changed += "\n"
    changed += new
    before = read_env_file(text).values.items()
    kept = {name: value for name, value in before if name not in changes}
    wanted = kept | {name: value for name, value in changes.items() if value}
    if read_env_file(changed).values == wanted:
        return f"{mark}{changed}"
    # Quotes that an earlier line leaves open end in one of the new lines: these come first.
    while any(piece.name in changes for piece in env_pieces(text)):
        text = "".join(piece.text for piece in env_pieces(text) if piece.name not in changes)
    return f"{mark}{_lines(changes)}{text}"


def _lines(values: EnvChanges) -> str:
    return "".join(f"{name}={quoted(value)}\n" for name, value in values.items() if value)


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


def quoted(value: str) -> str:
    """The value as it is written behind `=`."""
    return value if _NEEDS_NO_QUOTES.fullmatch(value) else f'"{value.translate(_ESCAPED)}"'
