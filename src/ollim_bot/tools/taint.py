"""Notes the untrusted text that a run reads, and finds the calls that it may have caused."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.taint import (
    Reading,
    Taint,
    TaintedCall,
    TaintRecord,
    reading_of,
    tainted_call,
    tainted_in_background,
)
from ollim_bot.domain.tool_patterns import WRITING
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, Pattern, relative, text_argument
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.ports import Refusal, ToolCall
from ollim_bot.tools.path_rules import is_within, job_files
from ollim_bot.tools.registry import OWN_TOOLS, TAINTED_CHANGES

_PROFILE = ("IDENTITY.md", "USER.md")
_READ_ARGUMENTS = {"Read": "file_path", "Grep": "path"}
_JOB_FILE = re.compile(
    rf"^(?:[^:\n]*/)?((?:{'|'.join(kind.plural for kind in JobKind)})/[^/:\n]+?\.md)", re.MULTILINE
)
_MARK = re.compile(r"^untrusted[ \t]*:[ \t]*['\"]?([^'\"\n]*\S)", re.MULTILINE)
_MOST_FILES = 200


def reading_in(root: Path, call: ToolCall, result: str, known: TaintRecord) -> Reading | None:
    """The untrusted text in a result; None if there is none. It reads files."""
    if call.tool not in _READ_ARGUMENTS:
        return reading_of(call.tool, call.arguments, result, OWN_TOOLS)
    path = text_argument(call.arguments, _READ_ARGUMENTS[call.tool])
    read = _names(root, path)
    in_jobs = _marks(root, path, result if call.tool == "Grep" else "")
    marks = (*in_jobs, *known.marks_in(result))
    return reading_of(call.tool, call.arguments, result, OWN_TOOLS, read=read, marks=marks)


def refused_in_background(taint: Taint, call: ToolCall, allowed: Sequence[Pattern]) -> str | None:
    """Why a background run with this taint may not make the call; None if it may."""
    found = tainted_in_background(taint, call.tool, call.arguments, allowed, TAINTED_CHANGES)
    return found.refusal if found else None


class TaintGuard:
    """Finds calls of the conversation that need the owner's approval; `taint` gives the current."""

    def __init__(self, root: Path, taint: Callable[[], Taint]) -> None:
        self._root = root
        self._taint = taint

    def __call__(self, call: ToolCall) -> TaintedCall | None:
        taint, changed = self._taint(), self._changed(call)
        return tainted_call(taint, call.tool, call.arguments, changed, TAINTED_CHANGES)

    def _changed(self, call: ToolCall) -> Iterator[str]:
        """Every name below the data directory of the file that the call writes, links followed."""
        if call.tool not in WRITING:
            return
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        yield from _names(self._root, path)
        yield from map(str, job_files(self._root, path))
        real = os.path.realpath(os.path.join(self._root, path))
        yield from (name for name in _PROFILE if os.path.realpath(self._root / name) == real)


async def _refused_as_tainted(_: ToolCall, tainted: TaintedCall) -> Refusal | None:
    return Refusal(tainted.refusal)


@dataclass(frozen=True, slots=True)
class TaintCheck:
    """Which calls need the owner's decision since untrusted text was read.

    `find` is called for every call, in a thread; `decide` for the calls that it finds, whether a
    pattern allows them or not. `count` counts, in a thread, a reminder that such a call sets, and
    returns why it may not. `current` gives the taint of the turn.
    """

    find: Callable[[ToolCall], TaintedCall | None] = lambda _: None
    decide: Callable[[ToolCall, TaintedCall], Awaitable[Refusal | None]] = _refused_as_tainted
    count: Callable[[], str] = lambda: ""
    current: Callable[[], Taint] = Taint


def _names(root: Path, path: str) -> Iterator[str]:
    """The path relative to the data directory, as written and with links followed."""
    real, home = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    yield relative(path, str(root)).removeprefix("./")
    yield relative(path, home).removeprefix("./")
    if is_within(real, home):
        yield os.path.relpath(real, home)


def _marks(root: Path, path: str, result: str) -> Iterator[str]:
    """The `untrusted:` of the job file at the path, and of those that a search result names."""
    named = dict.fromkeys(found[1] for found in _JOB_FILE.finditer(result))
    files = [*map(str, job_files(root, path)), *named][:_MOST_FILES]
    for file in files:
        try:
            text = read_file(root / file, SizeLimit.JOB).decode("utf-8", "replace")
        except OSError:
            continue
        yield from (found[1] for found in _MARK.finditer(text))
