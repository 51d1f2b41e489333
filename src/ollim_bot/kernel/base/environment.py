"""The environment of the process: time zones, programs, `.env` files, the data directory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.errors import BadSettings
from ollim_bot.kernel.base.moments import zone_hint, zone_named
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import NotAFile, SizeLimit, read_with_status
from ollim_bot.kernel.base.text import PROGRAM, nearest

ETC = Path("/etc")
_FOR_EVERY_PROGRAM = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TERM"),
    *("LANG", "LANGUAGE", "LC_*", "TZ", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
# What leads to the owner's session: its desktop, its bus and its keys.
SESSION = (
    *("XDG_*", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
)
# Each holds one folder or file that Python reads when it starts.
_PYTHON_PLACES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$", "`": "`"}
# Compiled when they are first used: most commands find no `.env`.
_NAME = r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_PIECE = (
    r"(?xs)(?: (?P<blank>[ \t]*(?:\#[^\r\n]*)?) | (?P<entry>"
    + _NAME
    + r"""[ \t]*=(?:
        (?P<space>[ \t]*) (?: '(?P<literal>[^']*)' | "(?P<escaped>(?:[^"\\]|\\.)*+)" )
        (?P<comment>[ \t]+\#[^\r\n]* | [ \t]*)
        | (?![ \t]*['"]) (?P<bare>[^\r\n]*)
    )) | (?P<wrong>[^\r\n]*) ) (?P<end>\r\n|\r|\n|\Z)"""
)
_COMMENT = r"[ \t]#.*"
_LINE_END = r"\r\n|\r"
T = TypeVar("T")
D = TypeVar("D")
_SECRET_SUFFIXES = ("_KEY", "_SECRET", "_TOKEN", "_URL")
# What a `.env` in the folder of the start may set. It may come from a stranger, so it chooses no
# data directory, no address that gets a key, and nothing that listens or opens.
SET_IN_CURRENT_FOLDER = frozenset(
    {
        *("OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_TIMEZONE", "OLLIM_MODEL", "OLLIM_LOG"),
        *("OLLIM_LOG_FORMAT", "OLLIM_WEB_PORT", "DISCORD_TOKEN", "DISCORD_OWNER_ID"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    }
)
_PREFIX = "OLLIM_"
DATABASE_URL = "DATABASE_URL"
_MOST_NAMED = 8
_WRONG_OWNER = "belongs to another account. Make it a file of yours, or start in another folder."
_NOT_ONE_LINE = "[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def system_zone(environ: Mapping[str, str], etc: Path = ETC) -> ZoneInfo | None:
    """The machine's zone: from `TZ`, then `/etc/localtime`, then `/etc/timezone`."""
    zones = map(zone_named, _system_zone_names(environ.get("TZ", "").strip(), etc))
    return next((zone for zone in zones if zone), None)


def _system_zone_names(tz: str, etc: Path) -> Iterator[str]:
    tz = tz.removeprefix(":")
    yield _zone_of_file(tz) if tz.startswith("/") else tz
    yield _zone_of_file(etc / "localtime")
    try:
        yield (etc / "timezone").read_text("utf-8").strip()
    except (OSError, ValueError):
        return


def _zone_of_file(path: str | Path) -> str:
    name = os.path.realpath(path).rpartition("/zoneinfo/")[2]
    return name.removeprefix("posix/").removeprefix("right/")


def child_environment(environ: Mapping[str, str], *more: str) -> dict[str, str]:
    """The environment of another program: what every program may have, and the names in `more`.

    A name that ends in `*` stands for all that begin so. Nothing else is passed on.
    """
    names = frozenset((*_FOR_EVERY_PROGRAM, *more))
    beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
    return {
        name: value
        for name, value in environ.items()
        if name in names or name.startswith(beginnings)
    }


def search_path(path: str) -> str:
    """The entries of `path` that do not depend on the current folder."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))


def program_path(name: str, path: str) -> str | None:
    """The path of the program with that name; an absolute path is returned unchanged."""
    if os.path.isabs(name):
        return name
    found = (os.path.join(folder, name) for folder in search_path(path).split(os.pathsep) if folder)
    return next((each for each in found if os.path.isfile(each) and os.access(each, os.X_OK)), None)


def called_program(called: str, executable: str, path: str, cwd: str) -> str:
    """How this program is called in a shell with this `path`, in the folder `cwd`.

    `called` is its own file. For a program that was started as a module of the Python at
    `executable`, the command beside that is meant.
    """
    ours = called
    if Path(called).parts[-2:] == ("ollim_bot", "__main__.py"):
        beside = os.path.join(os.path.dirname(executable), PROGRAM)
        is_below = beside.startswith(cwd + os.sep)
        ours = os.path.relpath(beside, cwd) if is_below else beside
    found = program_path(PROGRAM, path)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(ours)
    return PROGRAM if is_found or os.path.basename(ours) != PROGRAM else ours


def python_places(environ: Mapping[str, str], cwd: str) -> dict[str, str]:
    """Python's path variables, made absolute against the folder `cwd`."""
    places = {
        name: os.path.join(cwd, environ[name]) for name in _PYTHON_PLACES if environ.get(name)
    }
    if "PYTHONPATH" in environ:
        entries = filter(None, environ["PYTHONPATH"].split(os.pathsep))
        places["PYTHONPATH"] = os.pathsep.join(os.path.join(cwd, entry) for entry in entries)
    return places


def own_command() -> list[str]:
    """The command that starts this program anew, without the current folder on Python's path."""
    # -I would leave out where `pip install --user` puts things.
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, "-m", "ollim_bot"]


class EnvProblem(NamedTuple):
    """`line` is 0 if the whole file is wrong; `name` is the setting on the wrong line."""

    line: int
    sentence: str
    name: str | None = None


class EnvPiece(NamedTuple):
    """An entry, a comment or a wrong line, with its line end; all pieces are the whole text.

    `before` and `behind` are the text around the value, which is empty on a wrong line.
    """

    text: str
    line: int
    name: str | None = None
    value: str = ""
    problem: str = ""
    before: str = ""
    behind: str = ""


class EnvFile(NamedTuple):
    """The values that were understood, the line of each name, and a problem for each wrong line."""

    values: Mapping[str, str] = MappingProxyType({})
    lines: Mapping[str, int] = MappingProxyType({})
    problems: tuple[EnvProblem, ...] = ()
    open_to_others: bool = False
    has_other_owner: bool = False


def load_env_file(path: Path) -> EnvFile:
    """Read the file at `path`; a missing one is empty, an unreadable one is a problem.

    A folder counts as missing: many people name a virtual environment `.env`.
    """
    try:
        content, status = read_with_status(path, SizeLimit.SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        return EnvFile()
    except OSError as error:
        if isinstance(error, NotAFile) and path.is_dir():
            return EnvFile()
        reason = f"cannot be read ({error.strerror}). Make it a text file of yours, or move it."
        return EnvFile(problems=(EnvProblem(0, reason),))
    understood = read_env_file(content.decode("utf-8", "surrogateescape"))
    return understood._replace(
        open_to_others=bool(status.st_mode & 0o077),
        has_other_owner=status.st_uid not in (0, os.geteuid()),
    )


def read_env_file(text: str) -> EnvFile:
    """Read every correct line of `text`; never raises. The first of two equal names counts."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[EnvProblem] = []
    for _, line, name, value, problem, *_ in env_pieces(text.removeprefix("\ufeff")):
        if name in lines and not problem:
            problem = (
                f"{name}: is set twice, in line {lines[name]} and in line {line}. Keep one of them."
            )
        if problem:
            problems.append(EnvProblem(line, problem, name))
        elif name is not None:
            values[name], lines[name] = value, line
    return EnvFile(values, lines, tuple(problems))


def env_pieces(text: str) -> Iterator[EnvPiece]:
    """The pieces of a text without a byte order mark. Lines are counted from 1."""
    line = 1
    for match in re.finditer(_PIECE, text):
        if match["entry"] is not None:
            yield _entry(match, line)
        elif (wrong := match["wrong"]) is not None:
            name, problem = _diagnosis(wrong)
            yield EnvPiece(match[0], line, name, "", problem, f"{name}=", match["end"])
        else:
            yield EnvPiece(match[0], line)
        line += re.sub(_LINE_END, "\n", match[0]).count("\n")


def _entry(match: re.Match[str], line: int) -> EnvPiece:
    name, problem = match["name"], ""
    if (bare := match["bare"]) is not None:
        comment = re.search(_COMMENT, bare)
        behind = comment[0] if comment else ""
        value = bare[: len(bare) - len(behind)]
        place = match.start("bare") + len(value) - len(value.lstrip(" \t"))
        value = value.strip(" \t")
    else:
        behind = match["comment"].rstrip(" \t")
        place = match.end("space")
        value = re.sub(_LINE_END, "\n", match["literal"] or match["escaped"] or "")
        if match["escaped"]:
            value, problem = _unescaped(value)
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        problem = problem or "is not UTF-8 text. Save the file as UTF-8."
    sentence = f"{name}: {problem}" if problem else ""
    before = match[0][: place - match.start()]
    return EnvPiece(match[0], line, name, value, sentence, before, f"{behind}{match['end']}")


def _unescaped(text: str) -> tuple[str, str]:
    """The text with its escapes resolved, and what is wrong with them."""
    if set(re.findall(r"(?s)\\(.)", text)) <= _ESCAPES.keys():
        return re.sub(r"(?s)\\(.)", lambda escape: _ESCAPES[escape[1]], text), ""
    return "", (
        'in double quotes a backslash is written twice (\\\\), or stands before one of n t r " $ `.'
    )


def _diagnosis(text: str) -> tuple[str | None, str]:
    """The name on a wrong line, and what is wrong."""
    start = re.match(_NAME, text)
    name = start["name"] if start else None
    if "=" not in text:
        return name, "has no `=`. Write NAME=value, or # before a comment."
    if start is None or text[start.end() :].lstrip(" \t")[:1] != "=":
        return name, "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…"
    return name, f'{name}: the quotes do not match. Write {name}="value" and nothing after it.'


class InvalidSetting(Exception):
    """Why a value is wrong, and what would be right. The value itself precedes this text."""


class _Source(NamedTuple):
    """`is_current_folder` marks the `.env` of the folder in which the program was started.

    `ignored` are the names that such a file sets and may not set.
    """

    origin: str
    values: Mapping[str, str]
    lines: Mapping[str, int] = MappingProxyType({})
    is_current_folder: bool = False
    ignored: Collection[str] = ()

    def where(self, name: str) -> str:
        return f"{self.origin}:{self.lines[name]}" if name in self.lines else self.origin


class EnvSources:
    """The environment, then `.env` files, strongest first; collects their problems and warnings.

    With `only`, the sources answer for these names alone and skip a file that can add nothing.
    `proposed` has texts that are read in place of the files at their paths.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        only: Collection[str] = (),
        proposed: Mapping[Path, str] = MappingProxyType({}),
    ) -> None:
        self._proposed = proposed
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._only = only
        self._asked: set[str] = set()
        self._sources = [_Source("environment", environ)]

    def add_file(self, path: Path, *, is_current_folder: bool = False) -> EnvFile:
        """Add the file behind the present sources.

        The file of the current folder must belong to the caller: another account may have left one
        there. Of its settings, only those in `SET_IN_CURRENT_FOLDER` count.
        """
        if self._only and all(map(self.has, self._only)):
            return EnvFile()
        text = self._proposed.get(path)
        file = load_env_file(path) if text is None else read_env_file(text)
        if is_current_folder and file.has_other_owner:
            file = EnvFile(problems=(EnvProblem(0, _WRONG_OWNER),))
        ignored = file.values.keys() - SET_IN_CURRENT_FOLDER if is_current_folder else set()
        values = {name: text for name, text in file.values.items() if name not in ignored}
        self._sources.append(_Source(str(path), values, file.lines, is_current_folder, ignored))
        for line, sentence, name in file.problems:
            is_of_others = is_current_folder and sentence.startswith(f"{name}: ")
            if is_of_others and name not in SET_IN_CURRENT_FOLDER:
                continue
            if not self._only or line == 0 or name in self._only:
                place = f"{path}:{line}" if line else f"{path}"
                self.problems.append(f"{place}: {sentence}")
        if file.open_to_others:
            self.warnings.append(open_file_warning(path))
        return file

    def take(self, name: str, parse: Callable[[str], T], otherwise: D) -> T | D:
        """The value of `name`; `otherwise` if it is not set, or is wrong, which adds a problem."""
        self._asked.add(name)
        source = self._source_of(name)
        if source is None:
            return otherwise
        value = source.values[name].strip()
        try:
            return parse(one_line(value))
        except InvalidSetting as wrong:
            self.add_problem(name, f"{shown_value(name, value)} {wrong}")
            return otherwise

    def has(self, name: str) -> bool:
        return self._source_of(name) is not None

    def taken(self) -> dict[str, tuple[str, str]]:
        """The value of each setting that was asked for and is set, and where it stands."""
        found = ((name, self._source_of(name)) for name in sorted(self._asked))
        return {
            name: (source.values[name].strip(), source.where(name))
            for name, source in found
            if source is not None
        }

    def ending_in(self, endings: tuple[str, ...]) -> dict[str, str]:
        """The values that no setting asked for and whose names have one of the endings.

        A value of more than one line is left out.
        """
        found: dict[str, str] = {}
        for source in self._sources:
            for name, value in source.values.items():
                is_meant = name.upper().endswith(endings) and name not in self._asked
                if is_meant and value.strip():
                    with suppress(InvalidSetting):
                        found.setdefault(name, one_line(value.strip()))
        return found

    def require_same_source(self, address: str, keys: Collection[str]) -> None:
        """Add a problem for each key that another source sets than the address it is sent to."""
        for key, where in self._set_elsewhere(address, keys):
            sentence = f"would have {key}, which stands in {where}, sent there."
            self.add_problem(address, f"{sentence} Right: both in the same place.")

    def forbid_in_current_folder(self, name: str, key: str) -> None:
        """Add a problem if the current folder sets `name` and another source sets `key`."""
        home = self._source_of(name)
        for _, where in self._set_elsewhere(name, [key]):
            if home is not None and home.is_current_folder:
                sentence = f"is about {key}, which stands in {where}. Right: put it there."
                self.add_problem(name, sentence)

    def in_environment(self, name: str) -> bool:
        return self._source_of(name) is self._sources[0]

    def add_problem(self, name: str, sentence: str) -> None:
        source = self._source_of(name)
        where = f"{source.where(name)}: " if source else ""
        self.problems.append(f"{where}{name}: {sentence}")

    def raise_problems(self) -> None:
        if self.problems:
            raise BadSettings(self.problems)

    def unknown(self) -> Iterator[str]:
        """A sentence for each name that no setting has: all with our prefix, and misspelt ones.

        In the environment, where other programs have their names too, those with the prefix only.
        """
        for place, source in enumerate(self._sources):
            for name in sorted({*source.values, *source.ignored} - self._asked):
                if name.startswith(_PREFIX) or (place and self._is_misspelt(name)):
                    near = nearest(name, self._asked)
                    hint = f" Did you mean {near}?" if near else ""
                    yield f"{source.where(name)}: {name}: there is no such setting.{hint}"

    def ignored(self, own_file: Path) -> Iterator[str]:
        """Sentences about what the current folder may not set; `own_file` may set all of it.

        Those about settings name one each; all other names stand in one sentence.
        """
        for source in self._sources:
            for name in sorted(self._asked.intersection(source.ignored)):
                in_file = "" if name == "OLLIM_DATA_DIR" else f"in {own_file}, or "
                yield (
                    f"{source.where(name)}: {name}: is ignored, as this is not the `.env` of the "
                    f"data directory. Right: {in_file}in the environment."
                )
            unknown = () if self._only else set(source.ignored) - self._asked
            others = sorted(name for name in unknown if not self._is_misspelt(name))
            if others:
                more = f" and {len(others) - _MOST_NAMED} more" if others[_MOST_NAMED:] else ""
                named = ", ".join(others[:_MOST_NAMED])
                yield f"{source.origin}: ignored: {named}{more}. Right: in {own_file}."

    def overruled(self) -> Iterator[str]:
        """A sentence for each setting that a stronger source sets to another value."""
        for name in sorted(self._asked):
            setting = [each for each in self._sources if each.values.get(name, "").strip()]
            for weaker in setting[1:]:
                if weaker.values[name].strip() != setting[0].values[name].strip():
                    counts = f"{setting[0].where(name)} sets it to something else, which counts"
                    yield f"{weaker.where(name)}: {name}: {counts}."

    def _is_misspelt(self, name: str) -> bool:
        return name.startswith(_PREFIX) or nearest(name, self._asked) is not None

    def _source_of(self, name: str) -> _Source | None:
        return next((s for s in self._sources if s.values.get(name, "").strip()), None)

    def _set_elsewhere(self, name: str, keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """The keys that are set, and where, if another source sets `name`."""
        home = self._source_of(name)
        for key in keys if home else ():
            if (source := self._source_of(key)) is not None and source is not home:
                yield key, source.where(key)


def open_file_warning(path: Path) -> str:
    return f"{path}: others can read it. Run `chmod 600 {path}`."


def shown_value(name: str, value: str) -> str:
    """The value in a sentence about it, unless it may be secret."""
    return "the value" if name.endswith(_SECRET_SUFFIXES) else repr(value[:60])


def one_line(value: str) -> str:
    """The value itself. Raises `InvalidSetting` unless it is one line without quotes round it."""
    # A joined emoji is not printable either, hence the pattern; it is slow to compile.
    if not value.isprintable() and re.search(_NOT_ONE_LINE, value):
        raise InvalidSetting("is more than one line of UTF-8 text. Right: the value alone.")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        raise InvalidSetting("stands in quotes. Right: the same without them.")
    return value


@dataclass(frozen=True, slots=True)
class Location:
    """Where the data is and which clock counts: all that most commands need.

    `warnings` are sentences about likely mistakes.
    """

    paths: DataPaths
    zone: ZoneInfo
    warnings: tuple[str, ...] = ()


def chosen_zone(paths: DataPaths) -> ZoneInfo | None:
    """The zone that the owner chose while the bot ran; None for that of the settings.

    It is read from the mirror of the configuration, which is faster to open than the database.
    """
    try:
        config, _ = read_with_status(paths.config, SizeLimit.STATE)
    except OSError:
        return None
    found = re.search(rb'"timezone"\s*:\s*"([\w/+-]+)"', config)
    return zone_named(found[1].decode("ascii", "replace")) if found else None


def shared_settings(paths: DataPaths) -> Mapping[str, str]:
    """What counts on every machine of a shared database, before the settings of this one.

    An empty value stands for the default.
    """
    return load_env_file(paths.shared_settings).values


def locate(environ: Mapping[str, str], cwd: Path, *, is_by_settings: bool = False) -> Location:
    """The location, without checking other settings. Raises `BadSettings` if it cannot be found.

    `is_by_settings` leaves out the zone that the owner chose while the bot ran.
    """
    sources = EnvSources(environ, only=("OLLIM_DATA_DIR", "OLLIM_TIMEZONE", DATABASE_URL))
    place = find_location(sources, environ, cwd, ETC)
    sources.raise_problems()
    chosen = None if is_by_settings else chosen_zone(place.paths)
    return Location(place.paths, chosen or place.zone, (*sources.ignored(place.paths.env_file),))


def data_directory(environ: Mapping[str, str], cwd: Path) -> DataPaths | None:
    """The data directory, also if other settings are wrong; None if it is unclear."""
    sources = EnvSources(environ, only=("OLLIM_DATA_DIR",))
    paths = DataPaths(_root(sources, cwd, environ.get("HOME", "")))
    return None if sources.problems else paths


def find_location(
    sources: EnvSources, environ: Mapping[str, str], cwd: Path, etc: Path
) -> Location:
    """The location; its problems are added to `sources`."""
    paths = DataPaths(_root(sources, cwd, environ.get("HOME", "")))
    if os.path.realpath(cwd / ".env") != os.path.realpath(paths.env_file):
        sources.add_file(cwd / ".env", is_current_folder=True)
    own_file = sources.add_file(paths.env_file)
    if own_file.values.get("OLLIM_DATA_DIR"):
        line = own_file.lines["OLLIM_DATA_DIR"]
        sources.problems.append(
            f"{paths.env_file}:{line}: OLLIM_DATA_DIR: cannot be set inside the data directory. "
            "Right: in the environment."
        )
    zone = sources.take("OLLIM_TIMEZONE", read_zone, None) or system_zone(environ, etc)
    if sources.has(DATABASE_URL):
        zone = zone_named(shared_settings(paths).get("OLLIM_TIMEZONE", "")) or zone
    if zone is None:
        sources.warnings.append(
            "OLLIM_TIMEZONE: is not set, and this machine names no time zone, so it is UTC. "
            "Right: the name of yours, such as Europe/Berlin."
        )
    return Location(paths, zone or ZoneInfo("UTC"))


def _root(sources: EnvSources, cwd: Path, home: str) -> Path:
    if not home and not sources.has("OLLIM_DATA_DIR"):
        sources.add_problem("OLLIM_DATA_DIR", "is needed without HOME. Right: /srv/ollim-bot.")
    default = cwd / home / ".ollim-bot"
    return sources.take("OLLIM_DATA_DIR", lambda text: _folder(text, cwd, home), default)


def _folder(text: str, cwd: Path, home: str) -> Path:
    start, slash, rest = text.partition("/")
    if start == "~" and home:
        text = f"{home}{slash}{rest}"
    elif start.startswith("~"):
        raise InvalidSetting("starts with a home that is not known. Right: /srv/ollim-bot.")
    if os.path.isfile(cwd / text):
        raise InvalidSetting("is a file. Right: a folder, such as ~/.ollim-bot.")
    return cwd / text


def read_zone(text: str) -> ZoneInfo:
    """Raises `InvalidSetting`."""
    if zone := zone_named(text):
        return zone
    raise InvalidSetting(f"is not a time zone. {zone_hint(text)}")
