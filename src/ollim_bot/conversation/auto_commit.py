"""Commits what the agent writes to the history: `auto: write notes/plan.md`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from ollim_bot.domain.events import AgentEvent, ToolEnded, ToolStarted
from ollim_bot.ports import Journal

_WRITING = {"Write": "write", "Edit": "edit", "MultiEdit": "edit"}


class AutoCommit:
    """Notes each markdown file that a tool call has changed, when the call has ended."""

    def __init__(self, journal: Journal, root: Path) -> None:
        self._journal = journal
        self._root = root.resolve()

    async def watching(self, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        """Pass the events through, and note the files."""
        begun: dict[str, tuple[Path, str]] = {}
        async for event in events:
            match event:
                case ToolStarted(call_id, tool, arguments) if tool in _WRITING:
                    path = (self._root / str(arguments.get("file_path", ""))).resolve()
                    begun[call_id] = path, _WRITING[tool]
                case ToolEnded(call_id) if call_id in begun:
                    self._note(*begun.pop(call_id))
            yield event

    def _note(self, path: Path, verb: str) -> None:
        if path.suffix == ".md" and path.is_relative_to(self._root):
            self._journal.note(path, f"auto: {verb} {path.relative_to(self._root)}")
