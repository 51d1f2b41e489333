"""The files and folders that the entry of a tool server names, and the pin of its scripts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileReadings,
    OsDisk,
    SeenFile,
    Stamp,
    stamps,
    write_atomically,
)
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.tool_servers import NamedPlaces, ServerSpec, name_problem

_ENDINGS = (
    *(".py", ".pyw", ".pyz", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"),
    *(".sh", ".bash", ".zsh", ".fish", ".rb", ".pl", ".php", ".lua", ".jar", ".wasm", ".exs"),
    *(".r", ".jl", ".ps1", ".tcl", ".kts", ".groovy", ".scala", ".clj"),
)
# The agent writes such texts; no program runs them.
_TEXT_ENDING = ".md"
_LONGEST_PATH = 4096
# A longer script is pinned by its beginning.
_LONGEST_SCRIPT = 64 * 1024 * 1024
_BLOCK = 1024 * 1024


def whole_command(spec: ServerSpec, root: Path) -> list[str]:
    """The command, with whole paths for what it names relative to the data directory."""
    program, *others = spec.command
    if "/" in program:
        program = os.path.join(root, program)

    def whole(word: str) -> str:
        name, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        return f"{name}{equals}{_whole(value, root)}"

    return [program, *map(whole, others)]


def whole_environment(spec: ServerSpec, root: Path) -> dict[str, str]:
    """The variables, with whole paths for what they name relative to the data directory."""

    def whole(value: str) -> str:
        if "://" in value:
            return value
        return os.pathsep.join(_whole(part, root) for part in value.split(os.pathsep))

    return {name: whole(value) for name, value in spec.environment.items()}


def hash_scripts(spec: ServerSpec, root: Path) -> str:
    """Identifies the content of the scripts that the command names; empty if it names none."""
    digest, is_any = hashlib.sha256(), False
    for path in dict.fromkeys(_words(spec, root)):
        if (content := _script_hash(path)) is not None:
            digest.update(content)
            is_any = True
    return digest.hexdigest() if is_any else ""


def named_places(spec: ServerSpec, root: Path) -> NamedPlaces:
    """A script stands for its whole folder, from which it loads other code."""
    files, folders = set(), set()
    values = (part for value in spec.environment.values() for part in value.split(os.pathsep))
    paths = [*_words(spec, root), *(_whole(value, root) for value in values if "/" in value)]
    for path in paths:
        if not os.path.isabs(path) or not _is_below(path, root):
            continue
        if os.path.isdir(path):
            folders.add(path)
            continue
        if _is_script(path):
            folders |= {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
            files.add(path)
        elif not path.lower().endswith(_TEXT_ENDING):
            files.add(path)
    return NamedPlaces(frozenset(files), frozenset(folders))


def _words(spec: ServerSpec, root: Path) -> Iterator[str]:
    """All words of the command that may be paths, also behind `--name=`."""
    if not spec.command:
        return
    program, *others = whole_command(spec, root)
    if "/" in program:
        yield program
    for word in others:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and len(value) <= _LONGEST_PATH and "\0" not in value:
            yield value


def _whole(word: str, root: Path) -> str:
    """A word that means a path from the data directory as a whole path; any other as it is."""
    looks_so = "/" in word or word.startswith(".") or word.lower().endswith(_ENDINGS)
    if not looks_so or os.path.isabs(word) or len(word) > _LONGEST_PATH or "\0" in word:
        return word
    path = os.path.normpath(os.path.join(root, word))
    is_meant = word.startswith(("./", "../")) or os.path.lexists(path)
    return path if is_meant else word


def _is_below(path: str, root: Path) -> bool:
    homes = (str(root), os.path.realpath(root))
    places = (os.path.normpath(path), os.path.realpath(path))
    return any(f"{place}/".startswith(f"{home}/") for home in homes for place in places)


def _is_script(path: str) -> bool:
    if path.lower().endswith(_ENDINGS):
        return True
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def _script_hash(path: str) -> bytes | None:
    if not os.path.isfile(path) or not _is_script(path):
        return None
    digest, left = hashlib.sha256(), _LONGEST_SCRIPT
    try:
        with open(path, "rb") as file:
            while left > 0 and (block := file.read(min(_BLOCK, left))):
                digest.update(block)
                left -= len(block)
    except OSError:
        return None
    return digest.digest()


_SERVERS = "mcpServers"
_EXAMPLE = '{"mcpServers": {"notes": {"command": "notes-server", "args": []}}}'
_OF_PROGRAM = ("command", "args", "env")
_OF_ADDRESS = ("url", "headers")
_KINDS = {"stdio": "command", "http": "url", "streamable-http": "url", "streamableHttp": "url"}
_OTHERS = 0o077


class ServerReading(NamedTuple):
    """The correct servers by name, and a sentence for each wrong entry.

    `is_whole` is False if the file as a whole could not be understood.
    """

    specs: Mapping[str, ServerSpec]
    problems: tuple[str, ...] = ()
    is_whole: bool = True


class ServerFile:
    """Reads the servers again only after the file, or a script that it names, has changed.

    A file that cannot be understood as a whole counts as unchanged; `tell` gets each problem, once
    for each change of the file. `places` are the files and folders that it names in the data
    directory. For one thread.
    """

    def __init__(
        self,
        paths: DataPaths,
        tell: Callable[[str], None] = lambda _: None,
        disk: Disk | None = None,
    ) -> None:
        self._paths = paths
        self._tell = tell
        self.places = NamedPlaces()
        self._files = FileReadings(partial(stamps, [paths.mcp]), lambda _: _read(paths, disk))
        self._known: Mapping[str, SeenFile[ServerReading]] = {}
        self._scripts: Mapping[str, Stamp] = {}
        self._specs: Mapping[str, ServerSpec] = {}

    @property
    def has_changed(self) -> bool:
        """Whether `read` would look into the file again."""
        return not self._files.is_as(self._known) or self._script_stamps() != self._scripts

    def read(self) -> Mapping[str, ServerSpec]:
        """The servers by name. A file that others may read is closed to them."""
        _close(self._paths.mcp)
        found = self._files.look()
        if found is not self._known:
            self._known = found
            reading = ServerReading({})
            for version in found.values():
                reading = version.content
            for problem in reading.problems:
                self._tell(problem)
            if reading.is_whole:
                self._specs = with_scripts(reading.specs, self._paths)
                self._note_scripts()
        elif self._script_stamps() != self._scripts:
            self._specs = with_scripts(self._specs, self._paths)
            self._note_scripts()
        return self._specs

    def _note_scripts(self) -> None:
        self._scripts = self._script_stamps()
        places = (named_places(spec, self._paths.root) for spec in self._specs.values())
        self.places = reduce(NamedPlaces.__or__, places, NamedPlaces())

    def _script_stamps(self) -> Mapping[str, Stamp]:
        """Differs from an earlier one if a file that a command names has changed since."""
        specs = self._specs.values()
        return stamps(Path(word) for spec in specs for word in _words(spec, self._paths.root))


def _close(path: Path) -> None:
    """Close the file to others, if that is possible: its folder is closed to them in any case."""
    with suppress(OSError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & _OTHERS:
            os.chmod(path, mode & ~_OTHERS)


def read_servers(paths: DataPaths, disk: Disk | None = None) -> ServerReading:
    """Read the file as it is now; without one there are no servers."""
    found = _read(paths, disk)
    return found._replace(specs=with_scripts(found.specs, paths))


def _read(paths: DataPaths, disk: Disk | None) -> ServerReading:
    """As `read_servers`, without the pins of the scripts."""
    name = paths.mcp.name
    try:
        text = (disk or OsDisk()).read(paths.mcp, SizeLimit.POLICY).decode("utf-8-sig")
    except FileNotFoundError:
        return ServerReading({})
    except UnsuitableFile as unfit:
        return _unread(f"{name} is {unfit.reason}. Put a file such as {_EXAMPLE} there.")
    except UnicodeDecodeError:
        return _unread(f"{name} is not UTF-8 text. Save it as UTF-8.")
    except OSError as refused:
        return _unread(f"{name} cannot be read: {refused.strerror}.")
    return _servers(name, text)


def with_scripts(specs: Mapping[str, ServerSpec], paths: DataPaths) -> Mapping[str, ServerSpec]:
    """The servers with the pins of their scripts as these are now."""
    return {
        name: replace(spec, script=hash_scripts(spec, paths.root)) for name, spec in specs.items()
    }


def remove_server(paths: DataPaths, name: str) -> bool:
    """Take a server out of the file; False if it is not there. Raises `OllimError`."""
    reading = read_servers(paths)
    if not reading.is_whole:
        raise WrongInput(reading.problems[0])
    if not paths.mcp.exists():
        return False
    content = json.loads(OsDisk().read(paths.mcp, SizeLimit.POLICY).decode("utf-8-sig"))
    if content.get(_SERVERS, {}).pop(name, None) is None:
        return False
    text = json.dumps(content, ensure_ascii=False, indent=2)
    try:
        write_atomically(OsDisk(), paths.mcp, f"{text}\n".encode(), PRIVATE)
    except OSError as refused:
        raise WriteFailed(paths.mcp, f"could not be written: {refused.strerror}.") from refused
    _close(paths.mcp)
    return True


def _unread(problem: str) -> ServerReading:
    return ServerReading({}, (problem,), is_whole=False)


def _servers(name: str, text: str) -> ServerReading:
    if not text.strip():
        return ServerReading({})
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        line = f":{wrong.lineno}" if isinstance(wrong, json.JSONDecodeError) else ""
        return _unread(f"{name}{line}: it is not JSON. Write it like {_EXAMPLE}.")
    entries = content.get(_SERVERS, {}) if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        return _unread(f"{name}:1: it has no `{_SERVERS}` with names. Write it like {_EXAMPLE}.")
    specs = {}
    problems = [
        f"{name}:{_line(text, key)}: `{key}` is not known; it is left out."
        for key in content
        if key != _SERVERS
    ]
    for server, entry in entries.items():
        wrong_parts = [*_wrong(server, entry)]
        where = f"{name}:{_line(text, server)}: {server}"
        problems += [f"{where}: {each}. The server is left out." for each in wrong_parts]
        if not wrong_parts and not entry.get("disabled"):
            specs[server] = _spec(server, entry)
    return ServerReading(specs, tuple(problems))


def _wrong(server: str, entry: object) -> Iterator[str]:
    if problem := name_problem(server):
        yield f"the name {problem}"
    if not isinstance(entry, dict):
        yield 'it takes fields such as `{"command": "notes-server"}` or `{"url": "https://…"}`'
        return
    kind = entry.get("type")
    if kind is not None and kind not in _KINDS:
        yield f"the type {json.dumps(kind)} is not known; it is `stdio` or `http`"
    elif kind is not None and _KINDS[kind] not in entry:
        yield f"a server of the type {kind} needs `{_KINDS[kind]}`"
    elif ("command" in entry) == ("url" in entry):
        yield "it takes either `command`, for a program, or `url`, for an address"
    else:
        yield from _wrong_fields(entry)


def _wrong_fields(entry: Mapping[str, object]) -> Iterator[str]:
    own = _OF_PROGRAM if "command" in entry else _OF_ADDRESS
    for key in entry:
        if key not in (*own, "type", "disabled"):
            close = nearest(key, own)
            hint = f"; `{close}` is meant?" if close else f"; it takes {', '.join(own)}"
            yield f"`{key}` is not known there{hint}"
    for key in ("command", "url"):
        if key in entry and not (_is_plain(entry[key]) and str(entry[key]).strip()):
            yield f"`{key}` takes a text"
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(map(_is_plain, args)):
        yield "`args` takes a list of texts"
    for key in ("env", "headers"):
        if not _is_named_texts(entry.get(key, {})):
            yield f"`{key}` takes texts by their names"
    if isinstance(url := entry.get("url"), str) and not _is_address(url):
        yield "`url` takes an address that begins with https:// or http://"


def _is_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(
        _is_plain(name) and _is_plain(each) and name and "=" not in name
        for name, each in value.items()
    )


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _spec(server: str, entry: Mapping[str, Any]) -> ServerSpec:
    """The server of an entry in which nothing is wrong."""
    command = (entry["command"], *entry.get("args", ())) if "command" in entry else ()
    url, headers = entry.get("url", ""), entry.get("headers", {})
    return ServerSpec(server, command, entry.get("env", {}), url, headers)


def _line(text: str, key: str) -> int:
    """The line on which the key is written."""
    written = re.search(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:", text)
    return text.count("\n", 0, written.start()) + 1 if written else 1
