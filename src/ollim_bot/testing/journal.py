"""A journal that only remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RememberingJournal:
    """Keeps every note, the same one twice if it came twice, in the order of arrival."""

    notes: list[tuple[Path, str]] = field(default_factory=list)

    def note(self, path: Path, message: str) -> None:
        self.notes.append((path, message))

    @property
    def messages(self) -> list[str]:
        return [message for _, message in self.notes]
