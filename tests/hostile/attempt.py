"""One attempt of a hostile model: a call of a tool, and what others do to the files meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.vault import SPOILED, Vault

from ollim_bot.offline.messages import CallTool

Change = Callable[[Vault], None]


@dataclass(frozen=True)
class Attempt:
    """`before` is done before the gate is asked, `between` after it has answered.

    `needs_patterns`: a program that can do anything is held only by not being allowed.
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

    def call(self, vault: Vault) -> CallTool:
        spelled = {
            name: vault.spelled(value) if isinstance(value, str) else value
            for name, value in self.arguments.items()
        }
        return CallTool(self.tool, spelled)


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
    """Puts a link where a file or a folder stood, as quick as can be."""

    def change(vault: Vault) -> None:
        place = vault.data / name
        link = place.with_name(f".{place.name}.new")
        link.symlink_to(target)
        if place.is_dir() and not place.is_symlink():
            place.rename(place.with_name(f".{place.name}.old"))
        link.replace(place)

    return change


def hard_linked(name: str, target: str) -> Change:
    def change(vault: Vault) -> None:
        (vault.data / name).unlink(missing_ok=True)
        os.link(vault.data / target, vault.data / name)

    return change


def planted(name: str, text: str) -> Change:
    """A file that somebody else wrote."""

    def change(vault: Vault) -> None:
        path: Path = vault.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return change
