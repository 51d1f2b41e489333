"""Which calls need the owner's word in a turn that has read untrusted text, by where they lead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ollim_bot.agent import ToolCall
from ollim_bot.domain.taint import Taint, TaintedCall, tainted_call
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, WRITING, relative, text_argument
from ollim_bot.tools.ground import is_within
from ollim_bot.tools.job_places import job_files

_PROFILE = ("IDENTITY.md", "USER.md")


class TaintGuard:
    """`taint` is what the turn that runs now has read; None where that was the owner's words."""

    def __init__(self, root: Path, taint: Callable[[], Taint | None]) -> None:
        self._root = root
        self._taint = taint

    def __call__(self, call: ToolCall) -> TaintedCall | None:
        taint = self._taint()
        if taint is None:
            return None
        return tainted_call(taint, call.tool, call.arguments, self._changed(call))

    def _changed(self, call: ToolCall) -> Iterator[str]:
        """Every name below the data directory of what a tool would write, links followed."""
        if call.tool not in WRITING:
            return
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        whole = os.path.join(self._root, path)
        real, home = os.path.realpath(whole), os.path.realpath(self._root)
        yield relative(path, str(self._root)).removeprefix("./")
        yield relative(path, home).removeprefix("./")
        if is_within(real, home):
            yield os.path.relpath(real, home)
        yield from map(str, job_files(self._root, path))
        yield from (name for name in _PROFILE if os.path.realpath(self._root / name) == real)
