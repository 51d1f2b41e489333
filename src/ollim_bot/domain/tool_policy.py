"""Which tool calls a pattern allows: `Tool`, `Tool(argument glob)`, `mcp__server__*`.

A pattern allows a call only if it certainly covers all of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ollim_bot.domain.globs import covers, fits, fits_words
from ollim_bot.domain.shell_words import LONGEST_COMMAND, shell_words
from ollim_bot.domain.tool_patterns import parts_of, problems
from ollim_bot.errors import WrongInput

# The argument that a pattern is compared with: a path, or the glob of a search.
FILE_ARGUMENTS: Mapping[str, str] = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
SEARCH_ARGUMENTS: Mapping[str, str] = {"Glob": "pattern", "Grep": "glob"}

WORD_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "Skill": ("skill", "args"),
    "Agent": ("subagent_type",),
    "Task": ("subagent_type",),
    "WebSearch": ("query",),
}

# The servers of the program itself; every other server is the owner's.
OWN_SERVERS = frozenset({"discord", "docs"})

_FULL_NAME = r"mcp__(?P<server>.+?)__.+"
_PLAIN_HOST = r"https?://[A-Za-z0-9.:\[\]-]+(?:/|$)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """`argument` is None if the pattern allows every call of the tool."""

    tool: str
    argument: str | None = None

    @classmethod
    @lru_cache(maxsize=512)
    def of(cls, text: str) -> Pattern:
        """Raises `WrongInput` with all errors of the text."""
        if errors := problems(text).errors:
            raise WrongInput("\n".join(errors))
        return cls(*parts_of(text))

    def __str__(self) -> str:
        return self.tool if self.argument is None else f"{self.tool}({self.argument})"

    def names(self, tool: str) -> bool:
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool == self.tool


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What the owner allows in addition to the defaults; `background_instead` replaces them."""

    main_more: tuple[str, ...] = ()
    background_more: tuple[str, ...] = ()
    background_instead: tuple[str, ...] | None = None

    def main(self, defaults: tuple[str, ...]) -> tuple[str, ...]:
        return (*defaults, *self.main_more)

    def background(self, defaults: tuple[str, ...]) -> tuple[str, ...]:
        usual = defaults if self.background_instead is None else self.background_instead
        return (*usual, *self.background_more)


def server_of(tool: str) -> str | None:
    """The owner's server that `mcp__server__tool` belongs to; None for every other tool."""
    name = re.fullmatch(_FULL_NAME, tool)
    return None if name is None or name["server"] in OWN_SERVERS else name["server"]


def matches(pattern: Pattern, tool: str, arguments: Mapping[str, object], root: str) -> bool:
    """Whether a pattern allows a call; `root` is the folder that `./` stands for."""
    if not pattern.names(tool):
        return False
    if tool == "Bash":
        return _allows_command(pattern.argument or "", text_argument(arguments, "command"))
    if pattern.argument is None:
        return True
    return _allows_argument(pattern.argument, tool, arguments, root)


def _allows_argument(wanted: str, tool: str, arguments: Mapping[str, object], root: str) -> bool:
    if tool in FILE_ARGUMENTS:
        path = text_argument(arguments, FILE_ARGUMENTS[tool])
        return fits(from_root(wanted), relative(path, root))
    if tool in SEARCH_ARGUMENTS:
        return covers(from_root(wanted), searched(tool, arguments, root))
    if tool in WORD_ARGUMENTS:
        text = " ".join(text_argument(arguments, name) for name in WORD_ARGUMENTS[tool])
        return len(text) <= LONGEST_COMMAND and fits_words(wanted.split(), text.split())
    url = text_argument(arguments, "url") if tool == "WebFetch" else ""
    # A pattern for `b.example` must not match `https://a.example?.b.example/`.
    host = re.match(_PLAIN_HOST, url)
    if host is None:
        return False
    # An address without a path is the top page of its site.
    return fits(wanted, url) or (host[0] == url and fits(wanted, f"{url}/"))


def _allows_command(wanted: str, command: str) -> bool:
    words = shell_words(command) or ()
    return bool(words) and fits_words(wanted.split(), words)


def relative(path: str, root: str) -> str:
    """The path as patterns write it: `./notes/a.md` below the root, else absolute."""
    whole = "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")
    if whole == root:
        return "."
    inside = whole.removeprefix(f"{root.rstrip('/')}/")
    return whole if inside == whole else f"./{inside}"


def searched(tool: str, arguments: Mapping[str, object], root: str) -> str:
    """The glob of all files that a search may read; empty if that is unclear."""
    glob = text_argument(arguments, SEARCH_ARGUMENTS[tool])
    if ".." in glob.split("/"):
        return ""
    if tool == "Grep" and glob and "/" not in glob:
        # A name without a folder matches in all folders.
        glob = f"**/{glob}"
    where = posixpath.join(root, text_argument(arguments, "path"))
    return relative(posixpath.join(where, glob), root)


def from_root(glob: str) -> str:
    return glob if glob.startswith(("/", "./")) else f"./{glob}"


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """The argument if it is a text, else empty."""
    value = arguments.get(name, "")
    return value if isinstance(value, str) else ""
