"""What the agent may reach on disk, however a path to it is spelled."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.tools import texts
from ollim_bot.tools.ground import Ground, is_within

_UNCLEAR_GLOB = re.compile(r"[!\[\]{}(),\\\s]")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class Reach:
    """`root` is the data directory, where paths begin; `readable` are further folders to read.

    Each answer is a reason to refuse, or None. A path is judged as it is written and as the disk
    resolves it, and must be harmless both ways.
    """

    root: Path
    readable: tuple[Path, ...] = ()

    def to_read(self, path: str) -> str | None:
        return self._judged(path, Ground.of(self.root, self.readable), writing=False)

    def to_write(self, path: str) -> str | None:
        return self._judged(path, Ground.of(self.root), writing=True)

    def to_search(self, where: str, glob: str, *, begins_at_glob: bool) -> str | None:
        """A search reads all that is below a folder and has a name that fits.

        `begins_at_glob`: the search begins in the folder that the glob names.
        """
        if ".." in glob.split("/") or glob.startswith("~"):
            return texts.UNCLEAR_PATH
        folder = os.path.join(where or ".", _folder_of(glob))
        reason = self.to_read(where or ".") or self.to_read(folder)
        if reason:
            return reason
        start = os.path.join(self.root, folder if begins_at_glob else where)
        ending = _ending_of(glob)
        found = Ground.of(self.root, self.readable).protected_files(start)
        finds = any(path.casefold().endswith(ending) for path in found)
        return texts.REACHES_TOO_FAR if finds else None

    def to_name(self, path: str, *, as_a_whole: bool) -> str | None:
        """For a program that may do anything with a path; `as_a_whole`, also with all below it."""
        ground = Ground.of(self.root)
        places = self._places(path)
        for place in places:
            if name := ground.protected_name(place, writing=True):
                return texts.protected(name)
        above = any(is_within(home, place) for home in ground.homes for place in places)
        return texts.REACHES_TOO_FAR if as_a_whole and above else None

    def _judged(self, path: str, ground: Ground, *, writing: bool) -> str | None:
        if not _is_plain(path):
            return texts.UNCLEAR_PATH
        places = self._places(path)
        for place in places:
            if name := ground.protected_name(place, writing=writing):
                return texts.protected(name)
        if not all(map(ground.is_open, places)):
            return texts.outside(path)
        return texts.protected(path) if _is_another_name(places[-1], ground, self.root) else None

    def _places(self, path: str) -> tuple[str, ...]:
        """As written, and where it leads; `..` counts before links are followed, and after."""
        whole = os.path.join(self.root, path)
        written = os.path.normpath(whole)
        return written, os.path.realpath(whole), os.path.realpath(written)


def _is_plain(path: str) -> bool:
    """Whether nobody could read it as another path: the engine trims spaces and knows `~`."""
    odd = any(unicodedata.category(char) == "Cc" for char in path)
    return bool(path) and path == path.strip() and not path.startswith("~") and not odd


def _is_another_name(place: str, ground: Ground, root: Path) -> bool:
    """Whether it is a protected file, which has a second name here."""
    try:
        found = os.stat(place)
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:
        return False
    return any(_is_same(found, path) for path in ground.protected_files(str(root)))


def _is_same(found: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(found, os.stat(path))
    except OSError:
        return False


def _folder_of(glob: str) -> str:
    """The folders that a glob names for sure: those before anything that is not plain."""
    plain = _UNCLEAR_GLOB.split(_WILD.split(glob)[0])[0]
    named = plain.rpartition("/")
    return named[0] or named[1]


def _ending_of(glob: str) -> str:
    """How every name ends that fits; nothing where that is unclear."""
    if _UNCLEAR_GLOB.search(glob):
        return ""
    return _WILD.split(glob)[-1].rpartition("/")[2].casefold()
