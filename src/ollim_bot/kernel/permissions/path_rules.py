"""Which files a tool call touches, and whether the agent may touch them."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import socket
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.values.pasted_addresses import is_public, written_address
from ollim_bot.kernel.values.shared_files import SKILL_FILE, JobFile, JobFolder, ProfileFile
from ollim_bot.kernel.values.tool_servers import NamedPlaces

_STATE = "state"
_SETTINGS = ".env"
_HISTORY = ".git"
# Of a site that keeps repositories; git itself does nothing with it.
_NO_HISTORY = ".github"
_POLICY = "tool-policy.yaml"
# Protected in subfolders too: the engine looks for skills, commands and servers where it works.
_ENGINE = ".claude"
_SERVERS = ".mcp.json"
# The owner's own tool servers, with their keys.
_OWN_SERVERS = "mcp.json"
_SKILL_ORIGINS = ["skills", "skills.lock"]
# The environment of every process can be read there, with its secrets.
_PROCESSES = "/proc"


_OF_JOBS = tuple(JobFolder(kind.plural) for kind in JobKind)
_UNCLEAR_GLOB = re.compile(r"[!\[\]{}(),\\\s]")
_WILD = re.compile(r"[*?]")
_NOWHERE = ("/", "/dev/null")
# No file system allows a longer path.
LONGEST_PATH = 4096
# The engine trims spaces and expands `~`, so such a path can be read in more than one way.
_CLEAR = re.compile(rf"(?!~)(?=\S)[^\0-\x1f\x7f-\x9f]{{1,{LONGEST_PATH}}}(?<=\S)")
# A folder with more entries is refused: checking them takes too long.
MOST_ENTRIES = 20_000
# Each of these is looked through, or compared with all that is protected.
_MOST_FOLDERS = 50
_ANY_OF = re.compile(r"\{[^{}]*,[^{}]*\}")
_GLOB = re.compile(r"[*?\[]")
_MARKED_AS_PATH = ("/", "./", "../")


@dataclass(frozen=True, slots=True)
class PathRules:
    """The open and the protected places, each path as written and with links resolved.

    `homes` is the data directory; `folders` has all open folders. `elsewhere` has protected places
    outside the data directory, each with the name that the agent is told.
    """

    homes: tuple[str, ...]
    folders: tuple[str, ...]
    elsewhere: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, root: Path, readable: Sequence[Path] = ()) -> PathRules:
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
        """The name of the protected place that the path reaches; None if it reaches none."""
        for home in self.homes:
            if is_within(place, home):
                parts = place.removeprefix(home).strip("/").split("/")
                if name := _protected_name([_folded(part) for part in parts], writing=writing):
                    return name
        return next((name for hidden, name in self.elsewhere if is_within(place, hidden)), None)

    def hard_links_to_protected(self, paths: Iterable[str]) -> Iterator[str]:
        """The paths that are hard links to protected files."""
        linked = [(path, file) for path in paths if (file := _linked_file(path)) is not None]
        if linked:
            known = {_linked_file(path) for path in self.all_protected()}
            yield from (path for path, file in linked if file in known)

    def all_protected(self) -> Iterator[str]:
        """Every file that is not read."""
        for path in files_below(self.homes[-1]):
            if self.protected_name(path, writing=False):
                yield path
        for place, _ in self.elsewhere:
            if place != _PROCESSES:
                yield place
                yield from files_below(place)


def files_below(start: str) -> Iterator[str]:
    """All files below a folder; links to folders are not followed, as no search follows them."""
    for folder, _, files in os.walk(os.path.realpath(start)):
        yield from (os.path.join(folder, name) for name in files)


def entries_below(start: str) -> Iterator[str]:
    """All files, folders, and links to either, below a folder."""
    for folder, folders, files in os.walk(os.path.realpath(start)):
        yield from (os.path.join(folder, name) for name in (*folders, *files))


def _linked_file(path: str) -> tuple[int, int] | None:
    """The identity of the file, if it has several names."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    is_linked = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    return (found.st_dev, found.st_ino) if is_linked else None


def is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")


def _folded(part: str) -> str:
    """Normalise a file name for case-insensitive, Unicode-folding file systems."""
    return _united(part).casefold().rstrip(". ")


def _folded_path(place: str) -> str:
    return "/".join(map(_folded, place.split("/")))


def _protected_name(parts: Sequence[str], *, writing: bool) -> str | None:
    if parts[0] == _STATE:
        return f"{_STATE}/"
    if _HISTORY in parts:
        return f"{_HISTORY}/"
    if any(part.startswith(_SETTINGS) for part in parts):
        return _SETTINGS
    # Attributes make git run filters, and ignored files are not in the history.
    if writing and any(part.startswith(_HISTORY) and part != _NO_HISTORY for part in parts):
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


def job_files(root: Path, path: str) -> tuple[JobFile, ...]:
    """The job files that writing to the path would change, through links too."""
    found = (file for place in real_places(root, path) for file in _files_at(root, place))
    return tuple(dict.fromkeys(found))


def profile_files(root: Path, path: str) -> tuple[ProfileFile, ...]:
    """The profile files that writing to the path would change, through links too."""
    places = real_places(root, path)
    return tuple(each for each in ProfileFile if any(_is_profile(root, each, at) for at in places))


def real_places(root: Path, path: str) -> tuple[str, ...]:
    whole = os.path.join(root, path)
    # The engine resolves `..` before links, a file system after them.
    places = (os.path.realpath(os.path.normpath(whole)), os.path.realpath(whole))
    return tuple(dict.fromkeys(places))


def _is_profile(root: Path, file: ProfileFile, place: str) -> bool:
    folder, name = os.path.split(place)
    # On a case-insensitive file system this shows only when the file exists.
    is_named_so = name.casefold() == file.casefold() and _is_same_folder(folder, root)
    return is_named_so or _leads_to(os.path.join(root, file), place)


def _files_at(root: Path, place: str) -> Iterator[JobFile]:
    folder, name = os.path.split(place)
    for jobs in _OF_JOBS:
        if _is_job_name(name) and _is_same_folder(folder, root / jobs):
            yield JobFile(jobs, name)
        yield from (JobFile(jobs, each) for each in _other_names(root / jobs, place))
    above, skill = os.path.split(folder)
    if name.casefold() == SKILL_FILE.casefold() and _is_same_folder(above, root / JobFolder.SKILLS):
        yield JobFile(JobFolder.SKILLS, f"{skill}/{name}")
    for each in _listed(root / JobFolder.SKILLS):
        if _leads_to(os.path.join(each.path, SKILL_FILE), place):
            yield JobFile(JobFolder.SKILLS, f"{each.name}/{SKILL_FILE}")


def _is_job_name(name: str) -> bool:
    return name.casefold().endswith(".md") and not name.startswith(".")


def _is_same_folder(one: str, other: Path) -> bool:
    """Ask the file system, which knows whether case matters; compare names if one is missing."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.casefold() == os.path.realpath(other).casefold()


def _other_names(folder: Path, place: str) -> Iterator[str]:
    """Names in a folder that are symbolic or hard links to a file elsewhere."""
    linked = _linked_file(place)
    for entry in _listed(folder):
        is_candidate = entry.is_symlink() or (linked and entry.inode() == linked[1])
        if is_candidate and _is_job_name(entry.name) and _leads_to(entry.path, place):
            yield entry.name


def _leads_to(path: str, place: str) -> bool:
    if os.path.realpath(path) == place:
        return True
    try:
        return os.path.samefile(path, place)
    except OSError:
        return False


def _listed(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


@dataclass(frozen=True, slots=True)
class PathPolicy:
    """Judges paths: each method returns a reason to refuse, or None.

    `root` is the data directory, where relative paths begin; `readable` are further folders to
    read. A path is judged as written and as resolved, and must be allowed both ways. What a tool
    server may run as code, `servers`, is not written to.
    """

    root: Path
    readable: tuple[Path, ...] = ()
    servers: Callable[[], NamedPlaces] = NamedPlaces

    @property
    def roots(self) -> tuple[str, str]:
        """The data directory as written, and without links, as the engine names it."""
        return str(self.root), os.path.realpath(self.root)

    def to_read(self, path: str) -> str | None:
        return self._problem(path, PathRules.of(self.root, self.readable), writing=False)

    def to_write(self, path: str) -> str | None:
        reason = self._problem(path, PathRules.of(self.root), writing=True)
        return reason or self._server_problem(path)

    def to_search(self, where: str, glob: str, *, begins_at_glob: bool) -> str | None:
        """Judge a search, which reads every file below a folder whose name matches.

        `begins_at_glob` means that the search begins in the folder that the glob names.
        """
        if ".." in glob.split("/") or glob.startswith("~"):
            return texts.UNCLEAR_PATH
        # The folder that a glob surely names: the part before any pattern character.
        plain = _UNCLEAR_GLOB.split(_WILD.split(glob)[0])[0]
        named = plain.rpartition("/")
        folder = os.path.join(where or ".", named[0] or named[1])
        reason = self.to_read(where or ".") or self.to_read(folder)
        if reason:
            return reason
        start = os.path.join(self.root, folder if begins_at_glob else where)
        # The ending of every name that matches; empty if that is unclear.
        if _UNCLEAR_GLOB.search(glob):
            ending = ""
        else:
            ending = _WILD.split(glob)[-1].rpartition("/")[2].casefold()
        fitting = [path for path in files_below(start) if path.casefold().endswith(ending)]
        rules = PathRules.of(self.root, self.readable)
        finds = any(rules.protected_name(path, writing=False) for path in fitting)
        return (
            texts.REACHES_TOO_FAR if finds or any(rules.hard_links_to_protected(fitting)) else None
        )

    def to_name(self, paths: Iterable[str]) -> str | None:
        """Judge a command that may use the paths in any way, or not at all."""
        rules = PathRules.of(self.root)
        leading = [(path, place) for path in paths for place in self._places(path)]
        for _, place in leading:
            if name := rules.protected_name(place, writing=True):
                return texts.protected(name)
        second = next(rules.hard_links_to_protected(place for _, place in leading), None)
        return next((texts.protected(path) for path, place in leading if place == second), None)

    def to_hand_over(self, paths: Iterable[str]) -> str | None:
        """Judge a program that may use a path and everything below it in any way."""
        rules = PathRules.of(self.root)
        reasons = (
            self._handed_over(path, rules, _may_exist) or self._server_problem(path, is_word=True)
            for path in dict.fromkeys(paths)
        )
        return next(filter(None, reasons), None)

    def _server_problem(self, path: str, *, is_word: bool = False) -> str | None:
        """A tool server loads code from its folder; texts that end in `.md` are none.

        Any word of a command could be a path below the data directory itself.
        """
        named = self.servers()
        places = {_folded_path(place) for place in self._places(path)}
        files = {_folded_path(place) for each in named.files for place in self._places(each)}
        if places & files:
            return texts.OF_TOOL_SERVER
        folders = {_folded_path(place) for each in named.folders for place in self._places(each)}
        if is_word:
            folders -= {_folded_path(home) for home in self.roots}
        is_inside = any(is_within(place, folder) for place in places for folder in folders)
        is_text = all(place.endswith(".md") for place in places)
        return texts.OF_TOOL_SERVER if is_inside and not is_text else None

    def to_pass_on(self, paths: Iterable[str]) -> str | None:
        """Judge a tool server, which may begin at any folder and use all that is below a path."""
        # As a program that leaves something out of a path that is too long, before it opens it.
        plain = (os.path.normpath(path) if len(path) > LONGEST_PATH else path for path in paths)
        shortened = [re.sub("^//+", "/", path) for path in plain]
        if any("\0" in path for path in shortened):
            return texts.UNCLEAR_PATH
        given = [path for path in shortened if len(path) <= LONGEST_PATH]
        if sum(path.count("/") for path in given) > MOST_ENTRIES:
            return texts.TOO_MUCH_GIVEN
        meant = [path for path in given if self._may_be_meant(path)]
        globs = [path for path in meant if _names_by_glob(path)]
        folders = [path for path in meant if os.path.isdir(os.path.join(self.root, path))]
        if len(globs) + len(folders) > _MOST_FOLDERS:
            return texts.TOO_MUCH_GIVEN
        rules = PathRules.of(self.root)
        reasons = (self._passed_on(path, rules) for path in meant)
        reason = self.to_name(meant) or next(filter(None, reasons), None)
        if reason is None and globs and self._find_protected(globs, rules):
            return texts.REACHES_TOO_FAR
        return reason

    def _may_be_meant(self, path: str) -> bool:
        """Whether it may be a path; words between spaces that lead nowhere are prose."""
        is_plain = not any(map(str.isspace, os.path.basename(path.rstrip("/"))))
        if is_plain or path.startswith(_MARKED_AS_PATH):
            return True
        return any(map(os.path.lexists, self._places(path)))

    def _passed_on(self, path: str, rules: PathRules) -> str | None:
        plain = os.path.normpath(path)
        if plain == ".." or plain.startswith("../"):
            return texts.outside(path)
        for place in self._places_from_above(path):
            if name := rules.protected_name(place, writing=True):
                return texts.protected(name)
            if _is_above([place], rules):
                return texts.REACHES_TOO_FAR
        return self._handed_over(path, rules, _is_of_this_machine)

    def _places_from_above(self, path: str) -> Iterator[str]:
        """Where a path of several parts leads from a folder that the data directory is in."""
        first, _, others = path.partition("/")
        if others:
            for folder in dict.fromkeys(each for root in self.roots for each in Path(root).parents):
                if os.path.lexists(folder / first):
                    yield from self._places(os.path.join(folder, path))

    def _find_protected(self, globs: Iterable[str], rules: PathRules) -> bool:
        """Whether a pattern fits a protected file, or there are too many to compare."""
        places = {
            (place, home) for glob in globs for place in self._places(glob) for home in rules.homes
        }
        below = {place.removeprefix(home) for place, home in places if is_within(place, home)}
        # Some programs know `{a,b}`, and for some a `*` goes down into folders.
        wanted = (fnmatch.translate(_ANY_OF.sub("*", glob.casefold())) for glob in below)
        looked_for = re.compile("|".join(wanted) or "(?!)")
        home = rules.homes[-1]
        protected = list(islice(rules.all_protected(), MOST_ENTRIES))
        names = (path.removeprefix(home).casefold() for path in protected)
        return len(protected) == MOST_ENTRIES or any(map(looked_for.match, names))

    def _handed_over(
        self, path: str, rules: PathRules, is_place: Callable[[str], bool]
    ) -> str | None:
        places = self._places(path)
        if _is_above(places, rules) or self._exposes_protected(places[-1], rules):
            return texts.REACHES_TOO_FAR
        is_far = any(is_place(place) and not rules.is_open(place) for place in places)
        return texts.outside(path) if is_far else None

    def _exposes_protected(self, folder: str, rules: PathRules) -> bool:
        """Whether a file below the folder is protected, or leads to a protected one."""
        if not is_within(folder, os.path.realpath(self.root)):
            return False
        plain: list[str] = []
        for entry in islice(entries_below(folder), MOST_ENTRIES):
            is_link = os.path.islink(entry)
            if self.to_read(entry) if is_link else rules.protected_name(entry, writing=False):
                return True
            plain.append(entry)
        return len(plain) == MOST_ENTRIES or any(rules.hard_links_to_protected(plain))

    def _problem(self, path: str, rules: PathRules, *, writing: bool) -> str | None:
        if not _CLEAR.fullmatch(path):
            return texts.UNCLEAR_PATH
        places = self._places(path)
        for place in places:
            if name := rules.protected_name(place, writing=writing):
                return texts.protected(name)
        if not all(map(rules.is_open, places)):
            return texts.outside(path)
        return texts.protected(path) if any(rules.hard_links_to_protected(places[-1:])) else None

    def _places(self, path: str) -> tuple[str, ...]:
        """The path as written, and resolved with `..` applied after links and before them."""
        whole = os.path.join(self.root, path)
        written = os.path.normpath(whole)
        return written, os.path.realpath(whole), os.path.realpath(written)


def _may_exist(place: str) -> bool:
    """Whether it exists or could be created; other words are hardly meant as paths."""
    folder = os.path.dirname(place)
    is_place = os.path.lexists(place) or (folder != "/" and os.path.isdir(folder))
    return is_place and place not in _NOWHERE


def _is_of_this_machine(place: str) -> bool:
    """Whether it leads to a folder of this machine; other words are hardly meant as paths."""
    return place not in _NOWHERE and os.path.lexists(f"/{place.strip('/').split('/')[0]}")


def _names_by_glob(path: str) -> bool:
    """Whether it names files by a pattern, and not all files below where a search begins."""
    parts = [part for part in _ANY_OF.sub("?", path).split("/") if part != "."]
    wild = [part for part in parts if _GLOB.search(part)]
    return len(parts) > 1 and bool(wild) and (len(wild) < len(parts) or bool(parts[0].strip("*")))


def _is_above(places: Sequence[str], rules: PathRules) -> bool:
    return any(is_within(home, place) for home in rules.homes for place in places)


# Checking one path takes a tenth of a millisecond.
MOST_PATHS = 2000
_MOST_VALUES = 10_000
_MOST_TEXT = 1_000_000
_DEEPEST = 64
# An address may hold another, and what is encoded may be encoded again.
_MOST_LAYERS = 3

_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]*")
_BETWEEN_PATHS = re.compile(r"[\s=,:@;|&<>()'\"`$]+")
# In one item of a list.
_TWO_WORDS = re.compile(r"[^\s,;|][^\S\r\n]+[^\s,;|]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_WEB = re.compile(r"(?:https?|wss?|ftps?)://|mailto:", re.IGNORECASE)
_ON_THIS_MACHINE = ("", "localhost", "127.0.0.1", "[::1]")
_LINE_ENDS = re.compile(r"[\t\r\n]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# The names of parameters and fields, such as the `state` of a ticket, are no paths.
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_JSON_BEGINS = ("{", "[", '"')
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|$)")
_VARIABLES = {"HOME": "~", "PWD": ".", "OLLIM_DATA_DIR": "."}


class TooMuchToJudge(Exception):
    """The arguments are too long, too deep or too many to be looked through."""


def paths_in_word(word: str) -> Iterator[str]:
    """Every part of a word that may be a path."""
    parts = [word, word[2:] if word.startswith("-") else ""]
    yield from filter(None, [*parts, *_BETWEEN_PATHS.split(_ADDRESS.sub(" ", word))])


def paths_in_arguments(arguments: Mapping[str, object]) -> list[str]:
    """Every path that a text in the arguments may be, at any depth. Raises `TooMuchToJudge`."""
    found: dict[str, None] = {}
    for text in _texts(arguments):
        for path in _paths_in_text(text):
            found[_with_home(path.strip())] = None
            if len(found) > MOST_PATHS:
                raise TooMuchToJudge
    found.pop("", None)
    return list(found)


def _texts(arguments: Mapping[str, object]) -> Iterator[str]:
    """Every text, also a key that is more than a name; of a text that is JSON, those in it."""
    waiting: list[tuple[object, int]] = [(arguments, 0)]
    count = length = 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        length += len(value) if isinstance(value, str) else 0
        if depth > _DEEPEST or count > _MOST_VALUES or length > _MOST_TEXT:
            raise TooMuchToJudge
        inner: Iterable[object] = ()
        if isinstance(value, str):
            inner = _json_in(value)
            if not inner:
                yield value
        elif isinstance(value, Mapping):
            inner = _entries(value.items())
        elif isinstance(value, list | tuple):
            inner = value
        waiting += ((each, depth + 1) for each in inner)


def _entries(pairs: Iterable[tuple[str, object]]) -> list[object]:
    """The values, and the keys that may be paths; of a key that comes twice, both values."""
    found = list(pairs)
    return [*(key for key, _ in found if not _NAME.fullmatch(key)), *(value for _, value in found)]


def _json_in(text: str) -> tuple[object, ...]:
    bare = text.strip(" \t\r\n\ufeff")
    if not bare.startswith(_JSON_BEGINS):
        return ()
    try:
        return (json.loads(bare, object_pairs_hook=_entries, parse_int=str, parse_float=str),)
    except ValueError:
        return ()
    except RecursionError:
        raise TooMuchToJudge from None


def _paths_in_text(text: str) -> Iterator[str]:
    for spelled in _spellings(text):
        words = [word for word in spelled.split() if not _leads_elsewhere(word)]
        if words and not _leads_elsewhere(spelled):
            yield spelled
            yield from _paths_in_address(spelled)
        # Among other words a path is only mentioned.
        if all(map(_looks_like_path, words)) or not _TWO_WORDS.search(spelled):
            yield from (
                part for word in words for part in paths_in_word(word) if _looks_like_path(part)
            )


def _spellings(text: str) -> Iterable[str]:
    """The text as it is, decoded, and as a program reads it that unites look-alikes."""
    spelled = [_SURROGATES.sub("", text)]
    for _ in range(_MOST_LAYERS):
        if "%" in spelled[-1]:
            spelled.append(unquote(spelled[-1]))
    if not text.isascii() and len(text) <= 4 * LONGEST_PATH:
        spelled += [_united(each) for each in spelled]
    return dict.fromkeys(spelled)


def _united(text: str) -> str:
    seen = (char for char in text if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", "".join(seen))


def _leads_elsewhere(text: str) -> bool:
    """Whether it is the address of a page; with `..` in it, a program may open it as a path."""
    return _WEB.match(text) is not None and ".." not in text.split("/")


def _looks_like_path(part: str) -> bool:
    return "/" in part or "." in part or part.startswith("~")


def _paths_in_address(text: str) -> Iterator[str]:
    """The paths of `file:///notes`, `sqlite:///notes.db` and the like; of a web address, none."""
    rest = _LINE_ENDS.sub("", text).strip()
    for _ in range(_MOST_LAYERS):
        address = _SCHEME.match(rest)
        if address is None:
            return
        rest = address[2]
        is_file = address[1].lower() == "file"
        for path in (rest, re.split(r"[?#]", rest, maxsplit=1)[0]):
            paths = _behind_slashes(path, is_file=is_file) if path.startswith("//") else [path]
            yield from (each for each in paths if is_file or _looks_like_path(each))


def _behind_slashes(path: str, *, is_file: bool) -> Iterator[str]:
    """The path behind the host, and the path if what looks like a host is a folder."""
    host, _, behind = path[2:].partition("/")
    yield path.lstrip("/")
    yield behind
    if is_file or host.lower() in _ON_THIS_MACHINE:
        yield f"/{behind}"


def _with_home(path: str) -> str:
    """The path with the `~` or the variable that it begins with replaced."""
    variable = _VARIABLE.match(path)
    if variable and (start := _VARIABLES.get(variable[1] or variable[2])):
        path = start + path[variable.end() :]
    return os.path.expanduser(path) if path.startswith("~") and "\0" not in path else path


Resolver = Callable[[str], Sequence[str]]

_FORM = re.compile(r"https?://[^/?#\\\s]+(?:[/?#][^\\]*)?", re.IGNORECASE)
_NETLOC = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:%]+))(?::\d{1,4}|:[1-6]\d{4})?"
)
# Python's older rules for internationalised names convert these differently than the engine's.
_AMBIGUOUS = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
_HOST = re.compile(r"[a-z0-9._-]+")
_OF_THE_NETWORK = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".intranet")
_LONGEST_LOOKUP = 5.0
_MOST_LOOKUPS = 8
_LOOKUP_SLOTS = threading.BoundedSemaphore(_MOST_LOOKUPS)


class LookupDeferred(Exception):
    """Raised by a resolver to judge an address by its spelling only, for now."""


def look_up(host: str) -> Sequence[str]:
    """Every address of a name, by the system; raises `OSError` if there is none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def resolve(
    host: str, limit: float = _LONGEST_LOOKUP, resolver: Resolver = look_up
) -> Sequence[str]:
    """Look up the name within `limit` seconds.

    Raises `TimeoutError` after them, and the errors of `resolver`.
    """
    # The system's lookup cannot be cancelled: the thread is abandoned, and their number is limited.
    if not _LOOKUP_SLOTS.acquire(timeout=limit):
        raise TimeoutError
    answers: list[Sequence[str] | OSError | ValueError] = []

    def ask() -> None:
        try:
            answers.append(resolver(host))
        except (OSError, ValueError) as refused:
            answers.append(refused)
        finally:
            _LOOKUP_SLOTS.release()

    thread = threading.Thread(target=ask, name="look-up", daemon=True)
    thread.start()
    thread.join(limit)
    if not answers:
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def address_problem(url: str, resolver: Resolver) -> str | None:
    """A reason not to fetch, or None; an unresolvable name is a reason."""
    if not _FORM.fullmatch(url):
        return texts.NO_WEB_ADDRESS
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            return texts.NO_SIGN_IN
        host = _plain_host(parts.netloc)
        is_public = _is_public_host(host, resolver)
    except ValueError:
        return texts.NO_WEB_ADDRESS
    except OSError:
        return texts.unknown_address(host)
    except LookupDeferred:
        return None
    return None if is_public else texts.private_address(host)


def _plain_host(netloc: str) -> str:
    """The host as the engine will read it; raises `ValueError` if that is unclear."""
    form = _NETLOC.fullmatch(netloc)
    if form is None:
        raise ValueError(netloc)
    if form["six"]:
        return form["six"]
    if _AMBIGUOUS.search(form["host"]):
        raise ValueError(netloc)
    plain = form["host"].encode("idna").decode("ascii").lower()
    if not _HOST.fullmatch(plain):
        raise ValueError(netloc)
    return plain.removesuffix(".")


def _is_public_host(host: str, resolver: Resolver) -> bool:
    """Whether all addresses of the host are public. Raises `OSError` if it has none."""
    address = written_address(host)
    if address is not None:
        return is_public(address)
    if "." not in host or host.endswith(_OF_THE_NETWORK):
        return False
    found = resolver(host)
    if not found:
        raise OSError(f"{host} has no address")
    return all(map(is_public, found))
