"""The files and folders that the entry of a tool server names, and the pin of its scripts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ollim_bot.domain.tool_servers import NamedPlaces, ServerSpec

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
    return [program, *(_whole_word(word, root) for word in others)]


def whole_environment(spec: ServerSpec, root: Path) -> dict[str, str]:
    """The variables, with whole paths for what they name relative to the data directory."""
    return {name: _whole_list(value, root) for name, value in spec.environment.items()}


def hash_scripts(spec: ServerSpec, root: Path) -> str:
    """Identifies the content of the scripts that the command names; empty if it names none."""
    digest, is_any = hashlib.sha256(), False
    for path in dict.fromkeys(_words(spec, root)):
        if (content := _script_hash(path)) is not None:
            digest.update(content)
            is_any = True
    return digest.hexdigest() if is_any else ""


def fingerprint_scripts(spec: ServerSpec, root: Path) -> tuple[tuple[int, int, int], ...]:
    """Differs after any file that the command names has changed."""
    found = (_status(path) for path in dict.fromkeys(_words(spec, root)))
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found if each)


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


def _whole_word(word: str, root: Path) -> str:
    if word.startswith("-"):
        name, equals, value = word.partition("=")
        return f"{name}{equals}{_whole(value, root)}" if equals else word
    return _whole(word, root)


def _whole_list(value: str, root: Path) -> str:
    if "://" in value:
        return value
    return os.pathsep.join(_whole(part, root) for part in value.split(os.pathsep))


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


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


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
