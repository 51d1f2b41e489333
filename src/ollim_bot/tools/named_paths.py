"""Finds every path that a word of a command, or an argument of a tool server, may name."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from ollim_bot.tools.path_rules import LONGEST_PATH

# Checking one path takes a tenth of a millisecond.
MOST_PATHS = 2000
_MOST_VALUES = 10_000
_MOST_TEXT = 1_000_000
_DEEPEST = 64
# An address may hold another, and what is encoded may be encoded again.
_MOST_LAYERS = 3

_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]*")
_BETWEEN_PATHS = re.compile(r"[\s=,:@;|&<>()'\"`$]+")
_BETWEEN_ITEMS = re.compile(r"[,;|\r\n]")
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
        if all(map(_looks_like_path, words)) or _is_list(spelled):
            yield from (
                part for word in words for part in paths_in_word(word) if _looks_like_path(part)
            )


def _is_list(text: str) -> bool:
    """Whether it is one word, or single words between commas or line ends."""
    return all(len(part.split(maxsplit=1)) < 2 for part in _BETWEEN_ITEMS.split(text))


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
