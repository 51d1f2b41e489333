"""A journal that records its notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RecordingJournal:
    """Keeps every note in the order of arrival, duplicates included."""

    notes: list[tuple[Path, str]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def note(self, path: Path, message: str, source: str = "") -> None:
        self.notes.append((path, message))
        self.sources.append(source)

    @property
    def messages(self) -> list[str]:
        return [message for _, message in self.notes]
