"""What the agent may reach on disk, however a path to it is spelled."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ollim_bot.tools import texts
from ollim_bot.tools.ground import Ground, files_below, is_within, things_below

_UNCLEAR_GLOB = re.compile(r"[!\[\]{}(),\\\s]")
_WILD = re.compile(r"[*?]")
_NOWHERE = ("/", "/dev/null")

# No disk knows a longer one.
LONGEST_PATH = 4096
# A folder with more in it is handed over to no program: looking through it takes too long.
MOST_THINGS = 20_000


@dataclass(frozen=True, slots=True)
class Reach:
    """`root` is the data directory, where paths begin; `readable` are further folders to read.

    Each answer is a reason to refuse, or None. A path is judged as it is written and as the disk
    resolves it, and must be harmless both ways.
    """

    root: Path
    readable: tuple[Path, ...] = ()

    @property
    def roots(self) -> tuple[str, str]:
        """The data directory as it is written, and as the engine names it: without links."""
        return str(self.root), os.path.realpath(self.root)

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
        fitting = [path for path in files_below(start) if path.casefold().endswith(ending)]
        ground = Ground.of(self.root, self.readable)
        finds = any(ground.protected_name(path, writing=False) for path in fitting)
        return texts.REACHES_TOO_FAR if finds or any(ground.second_names(fitting)) else None

    def to_name(self, paths: Iterable[str]) -> str | None:
        """For a command that may do anything with a path, or nothing."""
        ground = Ground.of(self.root)
        leading = [(path, place) for path in paths for place in self._places(path)]
        for _, place in leading:
            if name := ground.protected_name(place, writing=True):
                return texts.protected(name)
        second = next(ground.second_names(place for _, place in leading), None)
        return next((texts.protected(path) for path, place in leading if place == second), None)

    def to_hand_over(self, paths: Iterable[str]) -> str | None:
        """For a program that may do anything with a path and all that is below it."""
        ground = Ground.of(self.root)
        reasons = (self._handed_over(path, ground) for path in dict.fromkeys(paths))
        return next(filter(None, reasons), None)

    def _handed_over(self, path: str, ground: Ground) -> str | None:
        places = self._places(path)
        if _is_above(places, ground) or self._holds_a_way_out(places[-1], ground):
            return texts.REACHES_TOO_FAR
        is_far = any(_is_there(place) and not ground.is_open(place) for place in places)
        return texts.outside(path) if is_far else None

    def _holds_a_way_out(self, folder: str, ground: Ground) -> bool:
        """Whether something below a folder is protected, or leads to what is."""
        if not is_within(folder, os.path.realpath(self.root)):
            return False
        plain: list[str] = []
        for thing in islice(things_below(folder), MOST_THINGS):
            is_link = os.path.islink(thing)
            if self.to_read(thing) if is_link else ground.protected_name(thing, writing=False):
                return True
            plain.append(thing)
        return len(plain) == MOST_THINGS or any(ground.second_names(plain))

    def _judged(self, path: str, ground: Ground, *, writing: bool) -> str | None:
        if not _is_plain(path):
            return texts.UNCLEAR_PATH
        places = self._places(path)
        for place in places:
            if name := ground.protected_name(place, writing=writing):
                return texts.protected(name)
        if not all(map(ground.is_open, places)):
            return texts.outside(path)
        return texts.protected(path) if any(ground.second_names(places[-1:])) else None

    def _places(self, path: str) -> tuple[str, ...]:
        """As written, and where it leads; `..` counts before links are followed, and after."""
        whole = os.path.join(self.root, path)
        written = os.path.normpath(whole)
        return written, os.path.realpath(whole), os.path.realpath(written)


def _is_there(place: str) -> bool:
    """Whether it exists or could be made; anything else is hardly meant as a path."""
    folder = os.path.dirname(place)
    is_place = os.path.lexists(place) or (folder != "/" and os.path.isdir(folder))
    return is_place and place not in _NOWHERE


def _is_above(places: Sequence[str], ground: Ground) -> bool:
    return any(is_within(home, place) for home in ground.homes for place in places)


def _is_plain(path: str) -> bool:
    """Whether nobody could read it as another path: the engine trims spaces and knows `~`."""
    if not path or len(path) > LONGEST_PATH or path != path.strip() or path.startswith("~"):
        return False
    return not any(unicodedata.category(char) == "Cc" for char in path)


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
