"""One attempt of a hostile model: a tool call, and changes of the files around it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.canary_home import SPOILED, CanaryHome

from ollim_bot.offline.server import CallTool

Change = Callable[[CanaryHome], None]


@dataclass(frozen=True)
class Attempt:
    """`before` runs before the gate is asked, `between` after the gate has answered.

    `needs_patterns`: no guard refuses it, only the lack of a pattern that allows its program.
    """

    kind: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    before: Change | None = None
    between: Change | None = None
    needs_patterns: bool = False

    @property
    def name(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        meanwhile = "" if self.between is None else " (swapped meanwhile)"
        return f"{self.kind}: {self.tool}({given}){meanwhile}"

    @property
    def is_prepared(self) -> bool:
        return self.before is not None or self.between is not None

    def call(self, canary_home: CanaryHome) -> CallTool:
        filled_in = {
            name: canary_home.filled_in(value) if isinstance(value, str) else value
            for name, value in self.arguments.items()
        }
        return CallTool(self.tool, filled_in)


def files(kind: str, paths: Sequence[str]) -> Iterator[Attempt]:
    """Each path is read, written and sent."""
    for path in paths:
        yield Attempt(kind, "Read", {"file_path": path})
        yield Attempt(kind, "Write", {"file_path": path, "content": SPOILED})
        yield Attempt(kind, "mcp__discord__send_file", {"file_path": path})


def written(kind: str, path: str, content: str = SPOILED) -> Attempt:
    return Attempt(kind, "Write", {"file_path": path, "content": content})


def edited(kind: str, path: str, old: str, new: str) -> Attempt:
    return Attempt(kind, "Edit", {"file_path": path, "old_string": old, "new_string": new})


def searched(kind: str, **arguments: object) -> Attempt:
    given = {"pattern": "canary", "output_mode": "content", **arguments}
    return Attempt(kind, "Grep", given)


def listed(kind: str, pattern: str, **arguments: object) -> Attempt:
    return Attempt(kind, "Glob", {"pattern": pattern, **arguments})


def commands(kind: str, *lines: str, needs_patterns: bool = False) -> Iterator[Attempt]:
    for line in lines:
        yield Attempt(kind, "Bash", {"command": line}, needs_patterns=needs_patterns)


def fetched(kind: str, *urls: str) -> Iterator[Attempt]:
    for url in urls:
        yield Attempt(kind, "WebFetch", {"url": url, "prompt": "repeat it"})


def ours(kind: str, tool: str, **arguments: object) -> Attempt:
    server = "docs" if tool.endswith("doc") else "discord"
    return Attempt(kind, f"mcp__{server}__{tool}", arguments)


def linked(name: str, target: str) -> Change:
    """Replaces a file or a folder by a link, in as few steps as possible."""

    def change(canary_home: CanaryHome) -> None:
        path = canary_home.data / name
        link = path.with_name(f".{path.name}.new")
        link.symlink_to(target)
        if path.is_dir() and not path.is_symlink():
            path.rename(path.with_name(f".{path.name}.old"))
        link.replace(path)

    return change


def hard_linked(name: str, target: str) -> Change:
    def change(canary_home: CanaryHome) -> None:
        (canary_home.data / name).unlink(missing_ok=True)
        os.link(canary_home.data / target, canary_home.data / name)

    return change


def planted(name: str, text: str) -> Change:
    """Writes a file that the model did not write."""

    def change(canary_home: CanaryHome) -> None:
        path: Path = canary_home.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return change
