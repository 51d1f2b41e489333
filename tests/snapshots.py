"""Copies of folders that many tests start with: made once, kept in memory, written often."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Entry:
    """`content` is the text of a file, the target of a link, or None for a folder."""

    relative: Path
    mode: int
    content: bytes | Path | None


class Snapshot:
    """The content of a folder, without its time stamps."""

    def __init__(self, root: Path) -> None:
        found = [root, *sorted(root.rglob("*"))]
        self._entries = [
            _Entry(path.relative_to(root), stat.S_IMODE(path.lstat().st_mode), _content(path))
            for path in found
        ]

    def write(self, root: Path) -> None:
        """Make a new folder with the same content."""
        root.parent.mkdir(parents=True, exist_ok=True)
        for entry in self._entries:
            path = root / entry.relative
            if isinstance(entry.content, Path):
                path.symlink_to(entry.content)
                continue
            if entry.content is None:
                path.mkdir()
            else:
                path.write_bytes(entry.content)
            path.chmod(entry.mode)


def _content(path: Path) -> bytes | Path | None:
    if path.is_symlink():
        return path.readlink()
    return None if path.is_dir() else path.read_bytes()
