"""Reads `.env` files: strict about every line, and never repeating a value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ollim_bot.plain_files import Largest, NotAFile, read_with_status

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$", "`": "`"}

_START = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_ENTRY = re.compile(
    _START.pattern
    + r"""[ \t]*=(?:
        [ \t]* (?: '(?P<literal>[^']*)' | "(?P<escaped>(?:[^"\\]|\\.)*+)" )
        (?: [ \t]+\#[^\n]* | [ \t]* ) (?=\n)
        | (?![ \t]*['"]) (?P<bare>[^\n]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\n)")
_COMMENT = re.compile(r"[ \t]#.*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class EnvProblem(NamedTuple):
    """`line` is 0 if the file as a whole is wrong; `name` is the setting the line is about."""

    line: int
    sentence: str
    name: str | None = None


class _Entry(NamedTuple):
    line: int
    name: str
    value: str


class EnvFile(NamedTuple):
    """What could be understood, the line of each name, and what could not be understood."""

    values: Mapping[str, str] = MappingProxyType({})
    lines: Mapping[str, int] = MappingProxyType({})
    problems: tuple[EnvProblem, ...] = ()
    open_to_others: bool = False
    is_anothers: bool = False


def load_env_file(path: Path) -> EnvFile:
    """The file at `path`; a missing one is empty, an unreadable one is a problem.

    A folder is no such file either: many keep a virtual environment under that name.
    """
    try:
        content, status = read_with_status(path, Largest.SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        return EnvFile()
    except OSError as error:
        if isinstance(error, NotAFile) and path.is_dir():
            return EnvFile()
        reason = f"cannot be read ({error.strerror}). Make it a text file of yours, or move it."
        return EnvFile(problems=(EnvProblem(0, reason),))
    understood = read_env_file(content.decode("utf-8", "surrogateescape"))
    return understood._replace(
        open_to_others=bool(status.st_mode & 0o077),
        is_anothers=status.st_uid not in (0, os.geteuid()),
    )


def read_env_file(text: str) -> EnvFile:
    """Read every right line of `text`; never raises. The first of two equal names counts."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[EnvProblem] = []
    for found in _entries(_lines_of(text)):
        if isinstance(found, EnvProblem):
            problems.append(found)
        elif found.name in lines:
            problems.append(_duplicate(found, lines[found.name]))
        else:
            values[found.name] = found.value
            lines[found.name] = found.line
    return EnvFile(values, lines, tuple(problems))


def _lines_of(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n") + "\n"


def _entries(text: str) -> Iterator[_Entry | EnvProblem]:
    position, line = 0, 1
    while position < len(text):
        match = _NOTHING.match(text, position) or _ENTRY.match(text, position)
        if match is None:
            end = text.index("\n", position)
            yield _diagnosis(text[position:end], line)
        else:
            end = match.end()
            if match.re is _ENTRY:
                yield _entry(match, line)
        line += text.count("\n", position, end + 1)
        position = end + 1


def _entry(match: re.Match[str], line: int) -> _Entry | EnvProblem:
    name = match["name"]
    value = _value(match)
    if value is None:
        reason = (
            "in double quotes a backslash is written twice "
            '(\\\\), or stands before one of n t r " $ `.'
        )
        return EnvProblem(line, f"{name}: {reason}", name)
    if not _is_text(value):
        return EnvProblem(line, f"{name}: is not UTF-8 text. Save the file as UTF-8.", name)
    return _Entry(line, name, value)


def _value(match: re.Match[str]) -> str | None:
    """None if a backslash stands before a character that it cannot stand before."""
    if (bare := match["bare"]) is not None:
        return _COMMENT.sub("", bare).strip(" \t")
    if (literal := match["literal"]) is not None:
        return literal
    escaped = match["escaped"]
    if not set(_ESCAPE.findall(escaped)) <= _ESCAPES.keys():
        return None
    return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], escaped)


def _is_text(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _diagnosis(line_text: str, line: int) -> EnvProblem:
    start = _START.match(line_text)
    name = start["name"] if start else None
    if "=" not in line_text:
        return EnvProblem(line, "has no `=`. Write NAME=value, or # before a comment.", name)
    if start is None or line_text[start.end() :].lstrip(" \t")[:1] != "=":
        reason = "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…"
        return EnvProblem(line, reason, name)
    reason = f'the quotes do not match. Write {name}="value" and nothing after it.'
    return EnvProblem(line, f"{name}: {reason}", name)


def _duplicate(entry: _Entry, first_line: int) -> EnvProblem:
    reason = f"is set twice, in line {first_line} and in line {entry.line}. Keep one of them."
    return EnvProblem(entry.line, f"{entry.name}: {reason}", entry.name)
