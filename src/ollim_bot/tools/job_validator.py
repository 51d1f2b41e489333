"""The guard of job and skill files: what the agent writes there has to be right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ollim_bot.agent import ToolCall
from ollim_bot.domain.file_changes import OwnersFile
from ollim_bot.domain.job_files import FileReading, JobFile
from ollim_bot.domain.pattern_cover import beyond_main
from ollim_bot.domain.shell_words import shell_words
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, Pattern, text_argument
from ollim_bot.errors import StorageError
from ollim_bot.tools.file_edits import UnclearEdit, written
from ollim_bot.tools.job_places import job_files

_WRITING = frozenset({"Write", "Edit", "MultiEdit"})
_FLAG = "--allowed-tool"
_NOT_DONE = "Nothing was changed. Mend this and try it again:"
_LONE_RETURN = re.compile(r"\r(?!\n)")


class JobChecker(Protocol):
    """Knows the rules by which job and skill files are read."""

    def text(self, file: OwnersFile) -> str | None:
        """What the file holds now; None if there is none. Raises `Unreadable`."""

    def read(self, file: JobFile, text: str) -> FileReading:
        """What `text` would be in that file. Changes nothing."""

    def others_with(self, file: JobFile, job_id: str) -> Sequence[str]:
        """Other files of that folder that have the id."""


class JobValidator:
    """Gives a reason to refuse a call, or None; asked after `state_dir_guard`, in a thread.

    `allowed` is what the main session may use now: what the agent allows a job goes no further. A
    pattern that stands in the file already stays as it is, whoever allowed it.
    """

    def __init__(
        self, root: Path, checker: JobChecker, allowed: Callable[[], Sequence[Pattern]]
    ) -> None:
        self._root = root
        self._checker = checker
        self._allowed = allowed

    def __call__(self, call: ToolCall) -> str | None:
        found = [*(self._of_command(call) if call.tool == "Bash" else self._of_files(call))]
        return "\n".join([_NOT_DONE, *found]) if found else None

    def _of_files(self, call: ToolCall) -> Iterator[str]:
        path = call.arguments.get(FILE_ARGUMENTS.get(call.tool, ""))
        if call.tool not in _WRITING or not isinstance(path, str):
            return
        for file in job_files(self._root, path):
            try:
                yield from self._wrong(file, call)
            except UnclearEdit as unclear:
                yield str(unclear)
            except StorageError as unreadable:
                yield str(unreadable)

    def _wrong(self, file: JobFile, call: ToolCall) -> Iterator[str]:
        before = self._checker.text(file)
        text = written(str(file), before, call.tool, call.arguments)
        was = FileReading() if before is None else self._checker.read(file, before)
        will_be = self._checker.read(file, text)
        yield from will_be.problems
        if lone := _LONE_RETURN.search(text):
            line = text.count("\n", 0, lone.start()) + 1
            yield f"{file}:{line}: a carriage return stands in it; lines end with a line feed"
        yield from self._doubled(file, was, will_be)
        added = [each for each in will_be.tools if each not in was.tools]
        where = str(file) if will_be.tools_line is None else f"{file}:{will_be.tools_line}"
        yield from (f"{where}: allowed-tools: {each}" for each in self._beyond(added))

    def _doubled(self, file: JobFile, was: FileReading, will_be: FileReading) -> Iterator[str]:
        if will_be.job is None or (was.job and was.job.spec.id == will_be.job.spec.id):
            return
        job_id = will_be.job.spec.id
        for other in self._checker.others_with(file, job_id):
            yield (
                f"{file}: id: {job_id} is that of {other} already. Give it another id, or edit "
                "that file."
            )

    def _of_command(self, call: ToolCall) -> Iterator[str]:
        """What is allowed by way of a command goes no further either."""
        words = shell_words(text_argument(call.arguments, "command")) or ()
        joined = (word.removeprefix(f"{_FLAG}=") for word in words if word.startswith(f"{_FLAG}="))
        apart = (words[at] for at, word in enumerate(words[:-1], 1) if word == _FLAG)
        yield from (f"{_FLAG}: {each}" for each in self._beyond([*joined, *apart]))

    def _beyond(self, patterns: Sequence[str]) -> Iterator[str]:
        return beyond_main(patterns, self._allowed() if patterns else ())
