"""The ground that paths stand on: what is open, and what in it is protected."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_STATE = "state"
_SETTINGS = ".env"
_HISTORY = ".git"
_POLICY = "tool-policy.yaml"
# Also in folders below: the engine looks for skills, commands and servers wherever it works.
_ENGINE = ".claude"
_SERVERS = ".mcp.json"
# The owner's own tool servers, with their keys.
_OWN_SERVERS = "mcp.json"
_SKILL_ORIGINS = ["skills", "skills.lock"]
# Where the environment of every process can be read, with the secrets in it.
_PROCESSES = "/proc"


@dataclass(frozen=True, slots=True)
class Ground:
    """All paths as they are written, and again as links resolve them.

    `homes` is the data directory, and `folders` is all that is open. `elsewhere` are protected
    places that lie outside of it, each with the name that the agent is told.
    """

    homes: tuple[str, ...]
    folders: tuple[str, ...]
    elsewhere: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, root: Path, readable: Sequence[Path] = ()) -> Ground:
        homes = (str(root), os.path.realpath(root))
        further = (place for path in readable for place in (str(path), os.path.realpath(path)))
        elsewhere = (
            (os.path.realpath(root / _STATE), f"{_STATE}/"),
            (os.path.realpath(root / _SETTINGS), _SETTINGS),
            (_PROCESSES, _PROCESSES),
        )
        return cls(homes, (*homes, *further), elsewhere)

    def is_open(self, place: str) -> bool:
        return any(is_within(place, folder) for folder in self.folders)

    def protected_name(self, place: str, *, writing: bool) -> str | None:
        """What it is that must not be reached there; None if nothing is."""
        for home in self.homes:
            if is_within(place, home):
                parts = place.removeprefix(home).strip("/").split("/")
                if name := _protected_name([_plain(part) for part in parts], writing=writing):
                    return name
        return next((name for hidden, name in self.elsewhere if is_within(place, hidden)), None)

    def second_names(self, paths: Iterable[str]) -> Iterator[str]:
        """Those of the paths that are protected files under another name."""
        linked = [(path, file) for path in paths if (file := _linked_file(path)) is not None]
        if linked:
            known = {_linked_file(path) for path in self._all_protected()}
            yield from (path for path, file in linked if file in known)

    def _all_protected(self) -> Iterator[str]:
        for path in files_below(self.homes[-1]):
            if self.protected_name(path, writing=False):
                yield path
        for place, _ in self.elsewhere:
            if place != _PROCESSES:
                yield place
                yield from files_below(place)


def files_below(start: str) -> Iterator[str]:
    """Links to folders are not followed, as no search follows them."""
    for folder, _, files in os.walk(os.path.realpath(start)):
        yield from (os.path.join(folder, name) for name in files)


def things_below(start: str) -> Iterator[str]:
    """Files and folders, and links to either."""
    for folder, folders, files in os.walk(os.path.realpath(start)):
        yield from (os.path.join(folder, name) for name in (*folders, *files))


def _linked_file(path: str) -> tuple[int, int] | None:
    """What a path leads to, if that is a file that has several names."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    is_linked = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    return (found.st_dev, found.st_ino) if is_linked else None


def is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")


def _plain(part: str) -> str:
    """A name as a disk may take it that knows no capitals and no forms of letters."""
    seen = (char for char in part if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", "".join(seen)).casefold().rstrip(". ")


def _protected_name(parts: Sequence[str], *, writing: bool) -> str | None:
    if parts[0] == _STATE:
        return f"{_STATE}/"
    if _HISTORY in parts:
        return f"{_HISTORY}/"
    if any(part.startswith(_SETTINGS) for part in parts):
        return _SETTINGS
    # Attributes have git run filters, and what is ignored is not in the history.
    if writing and any(part.startswith(_HISTORY) for part in parts):
        return f"{_HISTORY}*"
    if writing and any(part.startswith(_ENGINE) for part in parts):
        return f"{_ENGINE}/"
    if writing and _SERVERS in parts:
        return _SERVERS
    if parts == [_OWN_SERVERS]:
        return _OWN_SERVERS
    if writing and parts == _SKILL_ORIGINS:
        return "/".join(_SKILL_ORIGINS)
    return _POLICY if writing and parts == [_POLICY] else None
