"""The owner's files that are no jobs: looked at only to see whether somebody has edited them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

from ollim_bot.data_paths import DataPaths

_Fingerprint = tuple[int, int, int]


class SharedFiles:
    """The profile, the policy and the skills."""

    def __init__(self, paths: DataPaths) -> None:
        self._single = (paths.identity, paths.user, paths.tool_policy)
        self._skills = paths.skills
        self._known: dict[Path, _Fingerprint] | None = None

    def touched(self) -> Set[Path]:
        """What was written or removed since it was asked last; nothing at the first time."""
        known, found = self._known, dict(self._found())
        self._known = found
        if known is None or known == found:
            return frozenset()
        return {path for path in known.keys() | found.keys() if known.get(path) != found.get(path)}

    def _found(self) -> Iterator[tuple[Path, _Fingerprint]]:
        for path in self._single:
            with suppress(OSError):
                yield path, _fingerprint(os.stat(path))
        for skill in _listed(self._skills):
            for entry in _listed(Path(skill.path)):
                with suppress(OSError):
                    if entry.name.endswith(".md") and entry.is_file():
                        yield Path(entry.path), _fingerprint(entry.stat())


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _fingerprint(status: os.stat_result) -> _Fingerprint:
    return status.st_mtime_ns, status.st_size, status.st_ino
