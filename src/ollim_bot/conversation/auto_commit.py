"""Commits what the agent writes to the history: `auto: write notes/plan.md`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ollim_bot.domain.about_me import OWNERS_WORDS
from ollim_bot.domain.runs import Run
from ollim_bot.ports import Journal, ToolCall, Toolset

_WRITING = {"Write": "write", "Edit": "edit", "MultiEdit": "edit"}


class AutoCommit:
    """Notes each markdown file that the agent or one of its subagents may have changed."""

    def __init__(self, journal: Journal, root: Path) -> None:
        self._journal = journal
        self._root = root.resolve()

    def of(self, tools: Toolset, run: Callable[[], Run]) -> Toolset:
        """The same tools; a written file is noted when the call has ended, with what it is from."""

        async def after_call(call: ToolCall, result: str) -> None:
            await tools.after_call(call, result)
            if call.tool in _WRITING:
                path = (self._root / str(call.arguments.get("file_path", ""))).resolve()
                self._note(path, _WRITING[call.tool], source_of(run()))

        return replace(tools, after_call=after_call)

    def _note(self, path: Path, verb: str, source: str) -> None:
        if path.suffix == ".md" and path.is_relative_to(self._root):
            self._journal.note(path, f"auto: {verb} {path.relative_to(self._root)}", source)


def source_of(run: Run) -> str:
    """What a file that the run writes now comes from; empty if no owner has just spoken."""
    if run.taint.sources:
        return run.taint.mark
    is_of_job = run.job is not None or bool(run.occurrence)
    return "" if is_of_job or run.policy.kind.is_background else OWNERS_WORDS
