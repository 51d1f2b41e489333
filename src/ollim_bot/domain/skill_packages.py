"""Skills from elsewhere: what may be in one, and what the owner is shown before it is added."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ollim_bot.domain.shared_files import SKILL_FILE

MOST_FILES = 200
LARGEST_FILE = 1_000_000
LARGEST_PACKAGE = 5_000_000
_LONGEST_PATH = 200
_DEEPEST = 8

_ODD = re.compile(r'[\\:*?"<>|]')
_ADDRESS = re.compile(r"(?i)\b(?:https?|wss?|ftp)://([a-z0-9.-]+)")
_SCRIPT = re.compile(r"(?i)\.(?:sh|bash|zsh|fish|py|js|mjs|ts|rb|pl|php|ps1|bat|cmd|exe|jar|so)")


@dataclass(frozen=True, slots=True)
class PackedFile:
    data: bytes
    is_executable: bool = False


# By their paths below the folder of the skill.
Files = Mapping[str, PackedFile]


def wrong_name(path: str) -> str:
    """Why a file of this path is not unpacked; empty if it is."""
    parts = path.split("/")
    if len(path) > _LONGEST_PATH or len(parts) > _DEEPEST:
        return "is too long"
    if path.startswith("/") or ".." in parts:
        return "leads out of the folder"
    if any(part in ("", ".") or part != part.strip() or part.endswith(".") for part in parts):
        return "is not a plain name"
    if _ODD.search(path) or not path.isprintable():
        return "has characters that not every disk can store"
    return ""


def collision(paths: Iterable[str]) -> str:
    """Two paths that are one on some disks, as `a and A`; empty if there are none."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        name = _folded(path)
        if name in seen:
            return f"{seen[name]} and {path}"
        seen[name] = path
        for end in (at for at, sign in enumerate(path) if sign == "/"):
            folder = path[:end]
            if folders.setdefault(_folded(folder), folder) != folder:
                return f"{folders[_folded(folder)]} and {folder}"
    both = seen.keys() & folders.keys()
    return f"{seen[min(both)]} and {folders[min(both)]}/" if both else ""


def _folded(path: str) -> str:
    """Normalise a path for case-insensitive, Unicode-folding file systems."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def is_left_out(path: str) -> bool:
    """Whether the file is of another program: hidden, or a by-product of packing."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))


def skill_folders(paths: Iterable[str]) -> list[str]:
    """The folders that hold a skill; the top is empty. A skill at the top is the only one."""
    folders = [path.rpartition("/")[0] for path in paths if path.split("/")[-1] == SKILL_FILE]
    return [""] if "" in folders else sorted(folders)


def below(files: Files, folder: str) -> dict[str, PackedFile]:
    """The files in the folder, by their paths below it."""
    start = f"{folder}/" if folder else ""
    return {path[len(start) :]: one for path, one in files.items() if path.startswith(start)}


def scripts_in(files: Files) -> Sequence[str]:
    return [path for path, one in sorted(files.items()) if _is_script(path, one)]


def _is_script(path: str, one: PackedFile) -> bool:
    has_ending = _SCRIPT.fullmatch(path[path.rfind(".") :]) is not None if "." in path else False
    return one.is_executable or one.data.startswith(b"#!") or has_ending


def addresses_in(files: Files) -> Sequence[str]:
    """The hosts of all addresses that stand in the files."""
    texts = (one.data.decode("utf-8", "replace") for one in files.values())
    return sorted({host.casefold().strip(".") for text in texts for host in _ADDRESS.findall(text)})
